"""Scattering as a module: interface, errors, and everything PyTorch expects of a module."""

import copy
import itertools

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap
from torch_geometric.data import Batch, Data
from torch_geometric.nn.aggr import (
    AttentionalAggregation,
    LSTMAggregation,
    MultiAggregation,
    SoftmaxAggregation,
)

from legs import Moments, Scattering
from legs import functional as fn
from tests.backends import prefer
from tests.graphs import path_graph, random_graph, ring


def example(channels=2, dtype=torch.float32, seed=0):
    """Three graphs in one batch, weighted, the last one a single node."""
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(9, generator), path_graph(6), Data(edge_index=torch.empty(2, 0).long())]
    for graph, size in zip(graphs, (9, 6, 1), strict=True):
        graph.x = torch.randn(size, channels, generator=generator, dtype=dtype)
        graph.num_nodes = size
        half = torch.rand(graph.num_edges, generator=generator, dtype=dtype) + 0.5
        i, j = graph.edge_index
        lower, upper = torch.minimum(i, j), torch.maximum(i, j)
        _, same = torch.unique(lower * size + upper, return_inverse=True)
        graph.edge_weight = half[same] if graph.num_edges else half
    return Batch.from_data_list(graphs)


def run(module, data, **changes):
    given = {
        "x": data.x,
        "edge_index": data.edge_index,
        "edge_weight": data.edge_weight,
        "batch": data.batch,
        "batch_size": data.num_graphs,
    }
    return module(**{**given, **changes})


def test_repr():
    assert repr(Scattering(2)) == (
        "Scattering(2, ScaleSelection(scales=learned, num_scales=5, steps=16, ordering=ordered), "
        "order=2, path_policy=increasing, lowpass=False, LazyWalk(laziness=0.5, learn=False), "
        "aggr=Moments(normalized, order=4))"
    )


@pytest.mark.parametrize("aggr", ["moments", "mean", "max", Moments("sum", 2), None])
@pytest.mark.parametrize("lowpass", [False, True])
@pytest.mark.parametrize("path_policy", ["increasing", "all"])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_columns(order, path_policy, lowpass, aggr):
    options = {"order": order, "path_policy": path_policy, "lowpass": lowpass, "aggr": aggr}
    module = Scattering(2, num_scales=3, **options)
    data = example()
    out = run(module, data)
    columns = module.columns()
    assert out.shape == (16 if aggr is None else 3, module.out_channels)
    assert len(columns) == module.out_channels
    assert len({c.name for c in columns}) == len(columns)
    assert columns == module.columns()
    if path_policy == "increasing":
        for column in columns:
            assert all(a < b for a, b in itertools.pairwise(column.path))


def test_columns_hold_what_they_say():
    """Change one channel: exactly the columns of that channel change."""
    module, data = Scattering(3, lowpass=True, validate=False), example(channels=3)
    before = run(module, data)
    x = data.x.clone()
    x[:, 1] *= 1.5
    changed = (run(module, data, x=x) != before).any(0)
    channels = {c.channel for c, moved in zip(module.columns(), changed, strict=True) if moved}
    assert channels == {1}


@pytest.mark.parametrize("lowpass", [False, True])
def test_order_beyond_the_longest_increasing_path(lowpass):
    module = Scattering(2, num_scales=2, order=5, lowpass=lowpass)
    assert run(module, example()).shape == (3, module.out_channels)
    shorter = Scattering(2, num_scales=2, order=2, lowpass=lowpass)
    with prefer("reference"):  # the fused kernels know order two only
        assert torch.equal(run(module, example()), run(shorter, example()))


def test_column_names():
    names = [c.name for c in Scattering(1, num_scales=2, lowpass=True, aggr="mean").columns()]
    assert names == [
        "x0.mean",
        "x0.psi0.mean",
        "x0.psi1.mean",
        "x0.psi0.psi1.mean",
        "x0.phi.mean",
        "x0.psi0.phi.mean",
        "x0.psi1.phi.mean",
        "x0.psi0.psi1.phi.mean",
    ]
    assert Scattering(1, aggr=None).columns()[1].name == "x0.psi0"


@pytest.mark.parametrize(
    "aggr",
    [
        SoftmaxAggregation(learn=True),
        MultiAggregation(["mean", "max", "std"]),
        AttentionalAggregation(torch.nn.Linear(32, 1)),
        LSTMAggregation(32, 7),
    ],
    ids=lambda aggr: type(aggr).__name__,
)
def test_any_pyg_aggregation(aggr):
    module, data = Scattering(2, aggr=aggr), example()
    out = run(module, data)
    assert out.shape == (3, module.out_channels)
    out.sum().backward()
    assert module.selection.theta.grad.isfinite().all()


def test_multi_aggregation_columns_match_single_ones():
    data = example()
    both = Scattering(2, aggr=MultiAggregation(["mean", "max"]))
    single = torch.cat([run(Scattering(2, aggr=a), data) for a in ("mean", "max")], dim=1)
    assert torch.equal(run(both, data), single)
    assert [c.moment for c in both.columns()] == ["mean"] * 32 + ["max"] * 32


def test_batch_equals_single_graphs():
    module, data = Scattering(2, lowpass=True).double(), example(dtype=torch.float64)
    alone = [module(g.x, g.edge_index, g.edge_weight) for g in data.to_data_list()]
    torch.testing.assert_close(run(module, data), torch.cat(alone), rtol=0, atol=1e-12)


def test_graph_without_nodes_gives_zeros():
    module, data = Scattering(2), example()
    out = run(module, data, batch_size=5)
    assert out.shape == (5, 128)
    assert (out[3:] == 0).all()


# Fits PyTorch.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scales": "dyadic"},
        {"learn_laziness": True},
        {"learn_laziness": "channel", "lowpass": True},
        {"ordering": "softmax", "num_scales": 3},
        {"aggr": SoftmaxAggregation(learn=True)},
    ],
    ids=str,
)
def test_state_dict_and_deepcopy(options):
    module, data = Scattering(2, **options), example()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    fresh = Scattering(2, **options)
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(run(fresh, data), run(module, data))
    assert torch.equal(run(copy.deepcopy(module), data), run(module, data))
    fresh.reset_parameters()
    assert torch.equal(run(fresh, data), run(Scattering(2, **options), data))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    module, data = Scattering(2, learn_laziness="channel"), example()
    expected = run(module, data)
    out = run(module.to(dtype), data, x=data.x.to(dtype), edge_weight=data.edge_weight.to(dtype))
    assert out.dtype == dtype
    assert out.isfinite().all()
    coarse = 1e-4 if dtype == torch.float64 else 0.1
    torch.testing.assert_close(out.float(), expected, rtol=coarse, atol=coarse)


def test_parameters_and_signals_may_differ_in_dtype():
    data = example(dtype=torch.float64)
    assert run(Scattering(2, learn_laziness="channel"), data).dtype == torch.float64


def test_autocast_does_not_touch_the_sums():
    module, data = Scattering(2), example()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = run(module, data)
    assert torch.equal(inside, run(module, data))


def test_device_moves_everything():
    module = Scattering(2, scales="dyadic", learn_laziness=True).to("meta")
    assert {t.device.type for t in [*module.parameters(), *module.buffers()]} == {"meta"}


OPTIONS = [
    {},
    {"ordering": "softmax"},
    {"learn_laziness": "channel", "lowpass": True},
    {"aggr": Moments("sum", 3)},
    {"aggr": None, "learn_laziness": True},
    {"scales": "dyadic", "aggr": "mean"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_compiles_without_graph_breaks(options):
    torch._dynamo.reset()
    module, data = Scattering(2, **options), example()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(compiled, data), run(module, data))
    weight = data.edge_weight.clone().requires_grad_()
    inputs = [*module.parameters(), weight]
    expected = torch.autograd.grad(run(module, data, edge_weight=weight).sum(), inputs)
    found = torch.autograd.grad(run(compiled, data, edge_weight=weight).sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_vmap_over_parameters(options):
    """Three models at once, values and gradients, against one after another."""
    data = example(dtype=torch.float64)
    models = [Scattering(2, validate=False, **options).double() for _ in range(3)]
    for seed, model in enumerate(models):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data += 0.3 * noise
    parameters, buffers = stack_module_state(models)

    def loss(parameters, buffers):
        return (
            run(lambda **given: functional_call(models[0], (parameters, buffers), (), given), data)
            .square()
            .mean()
        )

    single = torch.stack([run(model, data).square().mean() for model in models])
    if not parameters:
        assert options.get("scales") == "dyadic"
        return
    torch.testing.assert_close(vmap(loss)(parameters, buffers), single)
    found = vmap(grad(loss))(parameters, buffers)
    for i, model in enumerate(models):
        expected = torch.autograd.grad(single[i], list(model.parameters()), retain_graph=True)
        for (name, _), value in zip(model.named_parameters(), expected, strict=True):
            torch.testing.assert_close(found[name][i], value)


def test_vmap_over_edge_weights():
    module, data = Scattering(2, validate=False).double(), example(dtype=torch.float64)
    weights = data.edge_weight * torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    weights[1] = weights[1] ** 2
    together = vmap(lambda w: run(module, data, edge_weight=w))(weights)
    for found, weight in zip(together, weights, strict=True):
        torch.testing.assert_close(found, run(module, data, edge_weight=weight))


@pytest.mark.parametrize("options", [o for o in OPTIONS if o.get("scales") != "dyadic"], ids=str)
def test_gradcheck(options):
    """In signals, undirected weights, logits and laziness, away from ties."""
    data = example(dtype=torch.float64)
    module = Scattering(2, num_scales=3, steps=5, validate=False, **options).double()
    for parameter in module.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    i, j = data.edge_index
    _, undirected = torch.unique(
        torch.minimum(i, j) * data.num_nodes + torch.maximum(i, j), return_inverse=True
    )
    weights = torch.rand(int(undirected.max()) + 1, dtype=torch.float64) + 0.5
    names = [name for name, _ in module.named_parameters()]

    def f(x, weights, *parameters):
        given = {"x": x, "edge_weight": weights[undirected]}
        return run(
            lambda **kw: functional_call(module, dict(zip(names, parameters, strict=True)), (), kw),
            data,
            **given,
        )

    inputs = [data.x, weights, *(p.detach() for p in module.parameters())]
    assert torch.autograd.gradcheck(f, [t.clone().requires_grad_() for t in inputs], atol=1e-6)


def test_second_derivatives():
    module = Scattering(1, num_scales=2, steps=3, validate=False).double()
    graph = path_graph(4)
    x = torch.randn(4, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: module(x, graph.edge_index), (x,), atol=1e-5)


@pytest.mark.parametrize("laziness", [0.8, [0.6, 0.9]], ids=str)
def test_all_lazy_walks_share_powers(laziness):
    """Lazy diffusions, and their gradients in the laziness, are mixtures of walk powers."""
    data = example(dtype=torch.float64)
    walk = fn.random_walk(data.edge_index, data.edge_weight, 16)
    powers = fn.walk_powers(data.x, walk, 7)
    assert powers.shape == (16, 7, 2)
    laziness = torch.tensor(laziness, dtype=torch.float64, requires_grad=True)
    mixture = fn.lazy_mixture(fn.beyond_base(laziness), 7).expand(2, 7, 7)
    found = torch.einsum("cts,nsc->tnc", mixture, powers)
    expected = fn.diffusions(fn.high_pass(data.x, walk, laziness), walk, laziness, 7)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(out.square().sum(), laziness) for out in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_powers_change_nothing():
    data, module = example(), Scattering(2)
    walk = fn.random_walk(data.edge_index, data.edge_weight, 16)
    powers = fn.walk_powers(data.x, walk, 16)
    assert torch.equal(run(module, data, powers=powers), run(module, data))


# Learned scales and the guarantee.


def test_starts_near_fixed():
    learned, fixed = Scattering(2), Scattering(2, scales="dyadic")
    assert (learned.expected_scales() - fixed.expected_scales()).abs().max() < 0.5
    assert learned.harden().selection.initial == (1, 2, 4, 8, 16)


def test_training_keeps_the_bound():
    """Large random steps on Θ and laziness: the upper bound stays at one at every step."""
    module, data = Scattering(2, learn_laziness="channel").double(), example(dtype=torch.float64)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.3)
    target = torch.randn(3, module.out_channels, dtype=torch.float64)
    for _ in range(40):
        optimizer.zero_grad()
        (run(module, data) - target).square().mean().backward()
        optimizer.step()
        lower, upper = module.frame_bounds()
        assert lower.shape == upper.shape == (2,)
        assert (upper <= 1 + 1e-12).all()
        assert (lower > 0).all()
        assert (module.walk.laziness > 0.5).all()
    assert (module.expected_scales() - Scattering(2).expected_scales()).abs().max() > 0.5


def test_harden_is_a_copy_with_one_hot_rows():
    module = Scattering(2, learn_laziness=True).double()
    module.selection.theta.data = torch.randn_like(module.selection.theta)
    before = module.scale_weights().clone()
    hard = module.harden()
    assert torch.equal(module.scale_weights(), before)
    weights = hard.scale_weights()
    assert weights.dtype == torch.float64
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.argmax(1).diff() > 0).all()
    assert torch.equal(hard.walk.raw_laziness, module.walk.raw_laziness)
    assert hard.out_channels == module.out_channels


def test_fixed_scales_in_more_steps_change_nothing():
    data = example()
    a = run(Scattering(2, scales=[1, 3, 4]), data)
    b = run(Scattering(2, scales=[1, 3, 4], steps=9), data)
    torch.testing.assert_close(a, b)


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_channels": 0}, "in_channels must be at least 1"),
        ({"scales": [1, 1, 2]}, "scales must be at least 1 and strictly increasing"),
        ({"scales": [0, 1]}, "scales must be at least 1 and strictly increasing"),
        ({"scales": [1, 1e308]}, "scales must be at most 1,000,000"),
        ({"scales": [1, 10**400]}, "scales must be at most 1,000,000"),
        ({"scales": [0.5, 2]}, "scales must be at least 1 and strictly increasing"),
        ({"scales": [1, float("nan")]}, "scales must be a non-empty list of numbers"),
        ({"scales": []}, "scales must be a non-empty list of numbers"),
        ({"scales": "linear"}, 'scales must be "learned", "dyadic", "infogain" or increasing num'),
        ({"operator": "laplacian"}, "operator must be one of walk, row"),
        ({"operator": "heat", "laziness": 0.7}, "laziness is that of walks"),
        ({"nonlinearity": "tanh"}, "nonlinearity must be"),
        ({"flatten": False, "aggr": "mean"}, "flatten=False needs moments"),
        ({"in_channels": -1, "learn_laziness": "channel"}, "in_channels must be given"),
        ({"scales": [1, 8], "steps": 4}, "steps must be at least the largest scale"),
        ({"scales": "dyadic", "steps": 4}, "steps must be at least the largest scale"),
        ({"num_scales": 20, "steps": 16}, "num_scales must be between 1 and steps"),
        ({"num_scales": 0}, "num_scales must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"order": -1}, "order must not be negative"),
        ({"path_policy": "some"}, 'path_policy must be "increasing" or "all"'),
        ({"ordering": "none"}, 'ordering must be "ordered" or "softmax"'),
        ({"laziness": 0.4}, "laziness must be at least 0.5"),
        ({"laziness": 1.0}, "laziness must be at least 0.5 and below 1"),
        ({"laziness": 0.3, "learn_laziness": True}, "laziness must be at least 0.5"),
        ({"learn_laziness": "node"}, "learn_laziness must be"),
        ({"aggr": AttentionalAggregation(torch.nn.Linear(3, 1))}, "does not take the 32 columns"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Scattering(**{"in_channels": 2, **options})


def _set(tensor, index, value):
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {"x": d.x[:, :1]}, r"x must have shape \[nodes, 2\]"),
        (lambda d: {"x": d.x.long()}, "x must be floating point"),
        (lambda d: {"x": d.x[:0], "batch": d.batch[:0]}, "empty batch"),
        (lambda d: {"edge_index": d.edge_index + 9}, "edge_index names node 23"),
        (lambda d: {"edge_index": _set(d.edge_index, (0, 0), -1)}, "edge_index names node -1"),
        (lambda d: {"edge_index": d.edge_index.int()}, "edge_index must hold 64-bit integers"),
        (lambda d: {"edge_index": d.edge_index[0]}, r"edge_index must have shape \[2, edges\]"),
        (lambda d: {"edge_weight": d.edge_weight[1:]}, "edge_weight must have shape"),
        (lambda d: {"edge_weight": _set(d.edge_weight, 3, -1.0)}, "edge 3 .* has weight -1"),
        (lambda d: {"edge_weight": _set(d.edge_weight, 2, torch.nan)}, "edge 2 .* has weight nan"),
        (lambda d: {"edge_weight": _set(d.edge_weight, 2, torch.inf)}, "edge 2 .* has weight inf"),
        (lambda d: {"edge_weight": _set(d.edge_weight, 2, 9.0)}, "directed.*to_undirected"),
        (
            lambda d: {"edge_index": d.edge_index[:, 1:], "edge_weight": None},
            "directed.*to_undirected",
        ),
        (lambda d: {"batch": d.batch[1:]}, r"batch must have shape \[16\]"),
        (lambda d: {"batch": d.batch.flip(0)}, "batch must be sorted"),
        (lambda d: {"batch": d.batch.int()}, "batch must hold 64-bit integers"),
        (lambda d: {"batch": d.batch - 1}, "batch must not be negative"),
        (lambda d: {"batch_size": 2}, "batch names graph 2, but batch_size is 2"),
        (lambda d: {"batch": torch.arange(16), "batch_size": 16}, "check the offsets"),
    ],
)
def test_bad_input(change, message):
    data = example()
    with pytest.raises(ValueError, match=message):
        run(Scattering(2), data, **change(data))


def test_parallel_edges_and_loops_add_up():
    """Two parallel edges are one of their summed weight."""
    edges = torch.tensor([[0, 1, 0, 1, 1, 2, 2], [1, 0, 1, 0, 2, 1, 2]])
    weight = torch.tensor([1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 0.5])
    merged = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    x, module = torch.randn(3, 1, dtype=torch.float64), Scattering(1)
    summed = torch.tensor([3.0, 3.0, 1.0, 1.0, 0.5])
    torch.testing.assert_close(module(x, edges, weight), module(x, merged, summed))


def test_ring_of_constants_is_silent():
    graph = ring(49)
    out = Scattering(1)(torch.full((49, 1), 0.1), graph.edge_index)
    silent = [i for i, c in enumerate(Scattering(1).columns()) if c.path]
    assert (out[0, silent] == 0).all()


def test_old_names_warn_and_work():
    with pytest.warns(DeprecationWarning, match="use path_policy="):
        module = Scattering(1, num_scales=2, paths="all")
    assert module.path_policy == "all"
    with pytest.warns(DeprecationWarning, match="use append_graph_size="):
        module = Scattering(1, size=True)
    assert module.append_graph_size
    with pytest.warns(DeprecationWarning, match=r"use columns\(\)"):
        assert module.paths() == module.columns()
    x, edge_index = torch.rand(3, 1), ring(3).edge_index
    with pytest.warns(DeprecationWarning, match="use the module itself"):
        assert torch.equal(module.scatter(x, edge_index), module(x, edge_index))


def test_lowpass_is_true_or_false():
    """Descriptions of models may hold anything, such as an empty list."""
    module = Scattering(1, lowpass=[], aggr=None)
    assert module.lowpass is False
    assert module(torch.rand(2, 1), torch.tensor([[0, 1], [1, 0]])).isfinite().all()
