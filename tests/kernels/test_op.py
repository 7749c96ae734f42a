"""The fused operator as one function, and the choice of a backend."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

from legs import functional as fn
from legs import kernels
from legs.kernels import cpu, op
from legs.kernels.csr import make_batch
from legs.nn import Moments, Scattering
from tests.graphs import path_graph, random_graph

pytest.importorskip("numba")

from legs.kernels.cpu import scattering


def example():
    first, second = random_graph(9, torch.Generator().manual_seed(2)), path_graph(5)
    edge_index = torch.cat([first.edge_index, second.edge_index + 9], dim=1)
    batch = torch.tensor([0] * 9 + [1] * 5)
    x = torch.rand(14, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return x, edge_index, batch


@pytest.mark.long
def test_gradient_by_differences():
    x, edge_index, batch = example()
    graphs = make_batch(x, edge_index, None, batch, 2)
    cumulative = fn.select_scales(fn.initial_logits([1, 2, 4], 5).double())
    filters = op.mixed_filters(cumulative, 0.6, 2).detach().contiguous().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: op.scattering_moments(graphs, f), filters, atol=1e-4)


def test_signals_of_another_dtype_than_the_scales():
    x, edge_index, batch = example()
    module = Scattering(2)  # float32
    with torch.no_grad():
        module.selection.theta += torch.rand(5, 16, generator=torch.Generator().manual_seed(4))
    found = []
    for module.backend in ("reference", "fused"):
        out = module(x, edge_index, batch=batch)
        found.append([out, *torch.autograd.grad(out.square().sum(), module.selection.theta)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6 if a.dtype == torch.float32 else 1e-9, atol=1e-9)


@pytest.mark.parametrize("laziness", [0.5, 0.6])
def test_maps_over_models_forward_and_backward(laziness):
    x, edge_index, batch = example()
    options = {"num_scales": 3, "steps": 5, "laziness": laziness}
    modules = [Scattering(2, backend="fused", **options).double() for _ in range(3)]
    for number, module in enumerate(modules):
        with torch.no_grad():
            module.selection.theta += 0.3 * torch.randn(
                3, 5, generator=torch.Generator().manual_seed(number), dtype=torch.float64
            )
    parameters, _ = stack_module_state(modules)

    def loss(parameters):
        out = functional_call(modules[0], parameters, (x, edge_index, None, batch, 2))
        return out.square().sum()

    inside = vmap(grad(loss))(parameters)["selection.theta"]
    total = vmap(loss)(parameters).sum()
    (outside,) = torch.autograd.grad(total, parameters["selection.theta"])
    modules[0].backend = "reference"
    expected = [
        torch.autograd.grad(loss({"selection.theta": m.selection.theta}), m.parameters())[0]
        for m in modules
    ]
    torch.testing.assert_close(inside, torch.stack(expected), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(outside, torch.stack(expected), rtol=1e-9, atol=1e-9)


def test_graphs_of_their_own_for_every_model_are_refused():
    x, edge_index, batch = example()
    filters = torch.rand(2, 3, 5, dtype=torch.float64)
    graphs = make_batch(x, edge_index, None, batch, 2)

    def run(x):
        return op.scattering_moments(graphs._replace(x=x), filters)

    with pytest.raises(RuntimeError, match="same for all models"):
        vmap(run)(torch.stack([x, x]))


def test_second_derivatives_say_where_they_are():
    graph = random_graph(8, torch.Generator().manual_seed(1))
    module = Scattering(2, backend="fused")  # as in other tests: compiling kernels takes long
    out = module(torch.rand(8, 2), graph.edge_index).square().sum()
    (first,) = torch.autograd.grad(out, module.selection.theta, create_graph=True)
    with pytest.raises(RuntimeError, match="reference"):
        first.sum().backward()


def test_auto_depends_on_sizes_and_types():
    many, few = torch.rand(5000, 2), torch.rand(10, 2)
    assert op.use_fused("auto", many, num_graphs=100)
    assert not op.use_fused("auto", few, num_graphs=2)
    assert not op.use_fused("auto", torch.rand(2_000_000, 1))
    assert not op.use_fused("auto", many.half(), num_graphs=100)
    assert not op.use_fused("auto", many, torch.ones(3, requires_grad=True), 100)
    assert not op.use_fused("reference", many, num_graphs=100)
    assert op.use_fused("fused", few)


def test_merged_nodes_are_computed_as_all_would_be():
    x = torch.rand(10, 2)
    assert not op.use_fused("auto", x, multiplicity=torch.full((10,), 50.0))
    assert op.use_fused("auto", x, multiplicity=torch.full((10,), 100.0))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": 1},
        {"lowpass": True, "learn_laziness": "channel"},
        {"aggr": None, "laziness": 0.7},
        {"aggr": "mean", "path_policy": "all", "num_scales": 3},
        {"aggr": Moments("sum"), "order": 3},
        {"num_scales": 1, "steps": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_in_signals(options, weighted):
    x, edge_index, batch = example()
    weight = torch.rand(len(x), len(x)).double() + 0.1
    weight = (weight + weight.T)[edge_index[0], edge_index[1]] if weighted else None
    results = []
    for backend in ("reference", "fused"):
        torch.manual_seed(0)
        module, signals = Scattering(2, backend=backend, **options).double(), x.clone()
        out = module(signals.requires_grad_(), edge_index, weight, batch)
        inputs = [signals, *module.parameters()]
        grads = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in grads), inputs)
        results.append([out, *grads, *second])
    for reference, fused in zip(*results, strict=True):
        torch.testing.assert_close(
            fused, reference, rtol=1e-7, atol=1e-8 * float(reference.detach().abs().max())
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e-3])
@pytest.mark.parametrize("limit", [0, scattering.MAX_RECORD])
def test_fused_gradients_in_signals(weighted, spread, limit, monkeypatch):
    monkeypatch.setattr(scattering, "MAX_RECORD", limit)  # recomputed in backward, or recorded
    x, edge_index, batch = example()
    x = 1 + spread * (x - 1)  # nearly constant: variances near their floor, which is the energy's
    weight = torch.rand(len(x), len(x), generator=torch.Generator().manual_seed(5)).double() + 0.1
    weight = (weight + weight.T)[edge_index[0], edge_index[1]] if weighted else None
    results = []
    for backend in ("reference", "fused"):
        module, signals = Scattering(2, backend=backend).double(), x.clone().requires_grad_()
        out = module(signals, edge_index, weight, batch)
        slopes = torch.randn(out.shape, generator=torch.Generator().manual_seed(6)).double()
        for keep in (True, False):  # a second time, without the record
            inputs = (signals, module.selection.theta)
            grads = torch.autograd.grad(out, inputs, slopes, retain_graph=keep)
            results.append([out, *grads])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * float(b.detach().abs().max()))


def test_signals_changed_before_backward_are_an_error():
    x, edge_index, batch = example()
    module = Scattering(2, backend="fused").double()
    out = module(x, edge_index, batch=batch).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        out.backward()


def test_signals_may_be_mapped_over():
    x, edge_index, batch = example()
    module = Scattering(2, backend="fused").double()
    many = torch.stack([x, 2 * x + 1])
    out = vmap(lambda x: module(x, edge_index, batch=batch, batch_size=2))(many)
    single = [module(one, edge_index, batch=batch) for one in many]
    torch.testing.assert_close(out, torch.stack(single))


def test_fused_says_why_it_is_not_possible(monkeypatch):
    x, edge_index, _ = example()
    module = Scattering(2, backend="fused").double()
    weight = torch.ones(edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match='"fused" is not possible: edge_weight needs a gradient'):
        module(x, edge_index, weight)
    with pytest.raises(ValueError, match="more than 16 bands"):
        Scattering(2, num_scales=17, steps=20, order=1, backend="fused").double()(x, edge_index)
    with pytest.raises(ValueError, match="merged nodes"):
        other = Scattering(2, order=1, backend="fused").double()
        other(x, edge_index, multiplicity=torch.ones(len(x)))
    monkeypatch.setattr(cpu, "available", lambda: False)
    with pytest.raises(ValueError, match=r"numba is not installed \(pip install torch-legs"):
        module(x, edge_index)
    with pytest.raises(ValueError, match='"auto", "reference" or "fused"; got \'fast\''):
        Scattering(2, backend="fast")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"laziness": 0.7, "learn_laziness": "channel"},
        {"scales": "dyadic", "path_policy": "all", "num_scales": 3},
        {"ordering": "softmax"},
        {"aggr": Moments(order=2)},
    ],
    ids=str,
)
def test_backends_agree(options):
    graph = random_graph(12, torch.Generator().manual_seed(0))
    x = torch.rand(12, 2, dtype=torch.float64)
    module = Scattering(2, **options).double()
    parameters = [p for p in module.parameters() if p.requires_grad]
    found = []
    for module.backend in ("reference", "fused"):
        out = module(x, graph.edge_index)
        cotangent = torch.linspace(-1, 1, out.numel(), dtype=x.dtype).view_as(out)
        grads = torch.autograd.grad(out, parameters, cotangent) if parameters else []
        found.append([out, *grads])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_use_is_deprecated_and_still_works():
    many, few = torch.rand(5000, 2), torch.rand(10, 2)
    with pytest.warns(DeprecationWarning, match="pass backend= to Scattering"):
        choice = kernels.use("fused")
    with choice:
        assert op.use_fused("auto", few)
        assert not op.use_fused("auto", few.half())  # no error: the module did not ask for it
        assert not op.use_fused("reference", few)
        with pytest.warns(DeprecationWarning), kernels.use("reference"):
            assert not op.use_fused("auto", many, num_graphs=100)
            assert op.use_fused("fused", many, num_graphs=100)
    assert not op.use_fused("auto", few)
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="must be"):
        kernels.use("fast")
