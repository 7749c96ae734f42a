"""Layers of message passing on GPUs do what PyTorch does: emulated where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from legs.functional.sparse import build_pattern
from legs.functional.sparse import spmm as reference_spmm
from legs.kernels.gpu import dense, launch, spmm
from legs.models import create
from tests.models.test_gnn import by_pyg, example, networks

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
DTYPES = [torch.float64, torch.float32]


@pytest.fixture
def launched(monkeypatch):
    """Names of the kernels that were launched."""
    names, run = [], launch.run

    def record(part, name, *args, **constants):
        names.append(name)
        run(part, name, *args, **constants)

    monkeypatch.setattr(launch, "run", record)
    return names


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
    for product, place in ((reference_spmm, "cpu"), (spmm.spmm, gpu)):
        there = type(pattern)(*(t.to(place) if torch.is_tensor(t) else t for t in pattern))
        function = vmap(lambda z: product(there, values.to(place), z), in_dims=2)  # noqa: B023
        out = function(x.to(place))
        (grad,) = torch.autograd.grad(out, x, cotangent.to(place), create_graph=True)
        outputs.append([out.detach(), grad.detach()])
    assert_close(*outputs, 1e-12)
    assert launched == ["spmm", "spmm"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "channels"), [(1, 64), (37, 5), (200, 40)])
def test_norm_relu(rows, channels, dtype, gpu, launched, monkeypatch):
    """Rows that are constant but for a bias, and more rows than warps."""
    monkeypatch.setattr(dense, "BLOCKS", 12)
    torch.manual_seed(0)
    shapes = [(3, rows, channels), *[(3, channels)] * 3]
    tensors = [torch.randn(shape, dtype=dtype, device=gpu).requires_grad_() for shape in shapes]
    with torch.no_grad():
        tensors[0][0, 0] = 1e3

    def plain(x, bias, weight, shift):
        return F.layer_norm(x + bias, weight.shape, weight, shift, 1e-5).relu()

    outputs = []
    for function in (plain, lambda *args: dense.norm_relu(*args, 1e-5)):
        out = vmap(function)(*tensors)
        cotangent = torch.linspace(-1, 1, out.numel(), dtype=dtype, device=gpu).view_as(out)
        outputs.append([out.detach(), *torch.autograd.grad(out, tensors, cotangent)])
    assert_close(*outputs, 10 * TOLERANCE[dtype])
    assert launched == ["norm_relu_forward", "norm_relu_backward"]


def test_norm_relu_keeps_nan(gpu):
    x = torch.randn(4, 8, device=gpu)
    x[2, 3] = torch.nan
    ones = torch.ones(8, device=gpu)
    rows = dense.norm_relu(x, ones, ones, ones, 1e-5).isnan().all(1)
    assert rows.tolist() == [False, False, True, False]


@pytest.mark.parametrize("name", ["gcn", "graphsage", "gat", "gin"])
@pytest.mark.parametrize("parts", [1, 4])
def test_stacked_networks_equal_pyg(name, parts, gpu, launched, monkeypatch):
    """Nodes are padded to a multiple of the parts that rows are cut into."""
    monkeypatch.setattr(dense, "PARTS", parts)
    monkeypatch.setattr(dense, "PART_ROWS", 2)
    stack, inputs = networks(name, hidden_channels=8), example(weighted=True)
    assert len(inputs[0]) % 4
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
    expected = {"norm_relu_forward", "norm_relu_backward", "spmm"}
    if name == "gat":
        expected |= {"attention_forward", "attention_backward"}
    assert set(launched) == expected


def test_attention_over_many_neighbors(gpu, launched):
    """A hub whose neighbors are more than a warp has lanes, in single precision."""
    network = create("gat", 2, 3, num_layers=1, hidden_channels=16)
    hub = torch.arange(1, 80)
    edge_index = torch.cat([torch.stack([hub, 0 * hub]), torch.stack([0 * hub, hub])], 1)
    x = torch.randn(80, 2)
    expected = by_pyg(network, x, edge_index)
    out = network.to(gpu).embed(x.to(gpu), edge_index.to(gpu))
    assert_close([out.detach()], [expected.detach()], 1e-5)
    assert launched == ["attention_forward", "spmm"]
