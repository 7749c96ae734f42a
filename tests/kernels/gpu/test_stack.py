"""Kernels for stacks of models do what PyTorch does: on a GPU if there is one, else emulated."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from legs.kernels.gpu import launch
from legs.nn import GraphBatchNorm
from legs.training.stacked.adam import StackedAdam
from legs.training.stacked.padded import FilledBatches
from tests.training.made import made_data

GPU = torch.cuda.is_available()
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
DTYPES = [torch.float64, torch.float32]


@pytest.fixture
def device(gpu):
    """Where the kernels are."""
    return gpu


@pytest.fixture
def launched(monkeypatch):
    """Names of the kernels that were launched."""
    names, run = [], launch.run

    def record(part, name, *args, **constants):
        names.append(name)
        run(part, name, *args, **constants)

    monkeypatch.setattr(launch, "run", record)
    return names


@pytest.fixture
def use(monkeypatch):
    """Within a block, kernels (``"auto"``) or PyTorch (``"reference"``)."""

    @contextmanager
    def choose(choice):
        with monkeypatch.context() as patched:
            if choice == "reference":
                patched.setattr(launch, "applies", lambda x: False)
            yield

    return choose


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("same", [False, True])
def test_batch_norm(same, dtype, device, launched, use):
    """37 channels in two tiles; models with none, one and many graphs under their masks."""
    models, graphs, channels = 4, 11, 37
    stack = norms(models, channels, dtype)
    masks = torch.rand(models, graphs) < 0.6
    masks[0], masks[1] = False, torch.arange(graphs) == 3
    x = 3 + torch.randn(*(() if same else (models,)), graphs, channels, dtype=dtype)
    cotangent = torch.randn(models, channels, graphs, dtype=dtype).to(device).mT
    found = []
    for choice in ("reference", "auto"):
        parameters, buffers = stack_module_state(stack)
        rows = torch.cat([p.detach() for p in parameters.values()], dim=1).to(device)
        own = [part.detach().requires_grad_() for part in rows.split(channels, dim=1)]
        assert own[0].stride(0) == 2 * channels
        mine = x.to(device).requires_grad_()
        averages = {k: b.detach().clone().to(device) for k, b in buffers.items()}

        def run(weight, bias, averages, mask, x):
            state = {"weight": weight, "bias": bias, **averages}
            return functional_call(stack[0], state, (x, mask))

        over = (0, 0, 0, 0, None if same else 0)
        with use(choice):
            out = vmap(run, in_dims=over)(*own, averages, masks.to(device), mine)
            grads = torch.autograd.grad(out, [*own, mine], cotangent)
        found.append([out, *grads, *averages.values()])
        assert launched == ([] if choice == "reference" else ["norm_forward", "norm_backward"])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_batch_norm_of_one_model_and_without_gradients_of_features(device, launched, use):
    (ours,), (theirs,) = norms(1, 5, torch.float64), norms(1, 5, torch.float64)
    x = torch.randn(8, 5, dtype=torch.float64).to(device)
    grads = []
    for norm, choice in ((ours, "auto"), (theirs, "reference")):
        norm.to(device)
        with use(choice):
            grads.append(torch.autograd.grad(norm(x).square().sum(), list(norm.parameters())))
    assert launched == ["norm_forward", "norm_backward"]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_batch_norm_has_no_second_derivatives(device):
    (norm,) = norms(1, 5, torch.float64)
    norm.to(device)
    x = torch.randn(8, 5, dtype=torch.float64).to(device).requires_grad_()
    (grad,) = torch.autograd.grad(norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam(dtype, device, launched, use):
    """More than a block of numbers, models at rest, and models that are let go."""
    shapes = {"a": (3, 40, 31), "b": (3, 3), "c": (3,)}
    torch.manual_seed(0)
    start = {name: torch.randn(shape, dtype=dtype).to(device) for name, shape in shapes.items()}
    lr = torch.tensor([1e-3, 1e-2, 1e-1], dtype=dtype).to(device)
    active = torch.tensor([[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=torch.bool).to(device)
    found = []
    for choice in ("reference", "auto"):
        with use(choice):
            adam = StackedAdam(start, lr, weight_decay=0.01)
            for number, moving in enumerate(active):
                if number == 2:
                    kept = torch.tensor([0, 2]).to(device)
                    adam.keep(kept)
                moving = moving if number < 2 else moving[kept]
                parts = adam.parameters.values()
                adam.step(sum((part - 1).square().sum() for part in parts), moving)
        found.append([*adam.parameters.values(), adam.first_moments, adam.second_moments])
    assert launched == ["adam"] * 4
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gathered_batches(weighted, dtype, device, launched, use):
    data = made_data(weighted=weighted).to(torch.device(device))
    data = data.with_x(data.x.to(dtype), data.feature_names)
    filled = FilledBatches(data, graphs=8)
    for chosen in ([5, 0, 17, 30, 2, 9, 58, 59], [5, 0, 17], [4]):
        index, valid = torch.zeros(2, filled.slots, dtype=torch.long, device=device)
        index[: len(chosen)], valid[: len(chosen)] = torch.tensor(chosen, device=device), 1
        index[len(chosen) :] = 7  # whatever was there before
        found = filled.gather(index, valid.bool())
        with use("reference"):
            expected = filled.gather(index, valid.bool())
        for a, b in zip(found, expected, strict=True):
            assert a is b is None or a == b if not isinstance(a, torch.Tensor) else a.equal(b)
    assert launched == ["gather"] * 3
