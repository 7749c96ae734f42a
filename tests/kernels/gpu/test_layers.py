"""Layers of message passing on GPUs do what PyTorch does: emulated where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.functional.sparse import build_pattern
from legs.functional.sparse import spmm as reference_spmm
from legs.kernels.gpu import stacked
from tests.models.test_gnn import by_pyg, example, networks


def assert_close(actual, expected, tolerance):
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        assert (a.cpu() - b.cpu()).abs().max() <= tolerance * b.abs().max().clamp_min(1).cpu()


@pytest.mark.parametrize("channels", [1, 6, 64])
def test_product_of_stacked_states(channels, gpu, launched):
    torch.manual_seed(0)
    row, col = torch.randint(0, 9, (2, 40))
    pattern, _ = build_pattern(row[row != 4], col[row != 4], 9, 9)
    values = torch.randn(len(pattern.row), dtype=torch.float64)
    x = torch.randn(9, channels, 3, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(3, 9, channels, dtype=torch.float64)
    outputs = []
    for product, place in ((reference_spmm, "cpu"), (stacked.spmm, gpu)):
        there = type(pattern)(*(t.to(place) if torch.is_tensor(t) else t for t in pattern))
        function = vmap(lambda z: product(there, values.to(place), z), in_dims=2)  # noqa: B023
        out = function(x.to(place))
        (grad,) = torch.autograd.grad(out, x, cotangent.to(place), create_graph=True)
        outputs.append([out.detach(), grad.detach()])
    assert_close(*outputs, 1e-12)
    assert launched == ["spmm", "spmm"]


@pytest.mark.parametrize("name", ["gcn", "graphsage", "gat", "gin"])
def test_stacked_networks_equal_pyg(name, gpu, launched):
    stack, inputs = networks(name, hidden_channels=8), example(weighted=True)
    stack[0].forward = stack[0].embed
    parameters, buffers = stack_module_state(stack)
    state = {key: p.detach().to(gpu).requires_grad_() for key, p in parameters.items()}
    buffers = {key: b.to(gpu) for key, b in buffers.items()}
    there = tuple(t.to(gpu) if torch.is_tensor(t) else t for t in inputs)
    out = vmap(lambda p, b: functional_call(stack[0], (p, b), there))(state, buffers)
    gradients = torch.autograd.grad(out.sin().sum(), list(state.values()), allow_unused=True)
    for number, network in enumerate(stack):
        expected = by_pyg(network, *inputs)
        own = torch.autograd.grad(
            expected.sin().sum(), list(network.parameters()), allow_unused=True
        )
        pairs = [(a[number], b) for a, b in zip(gradients, own, strict=True) if b is not None]
        assert_close([out[number].detach()], [expected.detach()], 1e-10)
        assert_close(*zip(*pairs, strict=True), 1e-10)
    assert "spmm" in launched
