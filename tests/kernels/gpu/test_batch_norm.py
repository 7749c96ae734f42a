"""Batch norm for stacks of models: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.kernels.gpu import stacked
from legs.nn import GraphBatchNorm

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def norms(count, channels, dtype):
    """Batch norms with weights and averages of their own, that lie apart from one another."""
    torch.manual_seed(0)
    found = []
    for _ in range(count):
        norm = GraphBatchNorm(channels).to(dtype)
        with torch.no_grad():
            for tensor in (norm.weight, norm.bias, norm.running_mean):
                tensor.normal_()
            norm.running_var.uniform_(0.5, 2)
        found.append(norm)
    return found


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("rows", [11, 40])
@pytest.mark.parametrize("same", [False, True])
def test_batch_norm(same, rows, relu, dtype, gpu, launched, use, monkeypatch):
    """37 channels in two tiles; models with none, one and many rows under their masks."""
    monkeypatch.setattr(stacked, "FEW_ROWS", 20)
    monkeypatch.setattr(stacked, "PARTS", 3)
    models, graphs, channels = 4, rows, 37
    stack = norms(models, channels, dtype)
    masks = torch.rand(models, graphs) < 0.6
    masks[0], masks[1] = False, torch.arange(graphs) == 3
    x = 3 + torch.randn(*(() if same else (models,)), graphs, channels, dtype=dtype)
    cotangent = torch.randn(models, channels, graphs, dtype=dtype).to(gpu).mT
    found = []
    for choice in ("reference", "auto"):
        parameters, buffers = stack_module_state(stack)
        rows = torch.cat([p.detach() for p in parameters.values()], dim=1).to(gpu)
        own = [part.detach().requires_grad_() for part in rows.split(channels, dim=1)]
        assert own[0].stride(0) == 2 * channels
        mine = x.to(gpu).requires_grad_()
        averages = {k: b.detach().clone().to(gpu) for k, b in buffers.items()}

        def run(weight, bias, averages, mask, x):
            state = {"weight": weight, "bias": bias, **averages}
            return functional_call(stack[0], state, (x, mask, relu))

        over = (0, 0, 0, 0, None if same else 0)
        with use(choice):
            out = vmap(run, in_dims=over)(*own, averages, masks.to(gpu), mine)
            grads = torch.autograd.grad(out, [*own, mine], cotangent)
        found.append([out, *grads, *averages.values()])
        times = 0 if choice == "reference" else 1 if graphs == 11 else 2
        assert launched == ["norm_forward"] * times + ["norm_backward"] * times
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_batch_norm_of_one_model_and_without_gradients_of_features(gpu, launched, use):
    (ours,), (theirs,) = norms(1, 5, torch.float64), norms(1, 5, torch.float64)
    x = torch.randn(8, 5, dtype=torch.float64).to(gpu)
    grads = []
    for norm, choice in ((ours, "auto"), (theirs, "reference")):
        norm.to(gpu)
        with use(choice):
            grads.append(torch.autograd.grad(norm(x).square().sum(), list(norm.parameters())))
    assert launched == ["norm_forward", "norm_backward"]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_batch_norm_has_no_second_derivatives(gpu):
    (norm,) = norms(1, 5, torch.float64)
    norm.to(gpu)
    x = torch.randn(8, 5, dtype=torch.float64).to(gpu).requires_grad_()
    (grad,) = torch.autograd.grad(norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()
