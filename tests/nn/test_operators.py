"""Operators, nonlinearities and scales against dense matrices in float64."""

from __future__ import annotations

import copy
from itertools import combinations, pairwise, product

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs import LEGSNet, Moments, Scattering, load
from legs.functional import (
    check_operator,
    cumulative_of_scales,
    graph_operator,
    infogain_scales,
    scattering,
)
from legs.nn import FCN, WaveletConv
from tests.strategies import batches, graphs

OPERATORS = ("walk", "row", "symmetric", "heat", "directed", "own")
NONLINEARITIES = {"abs": "abs", "relu-pair": "relu-pair", "none": "none", "square": torch.square}


class Neighborhood:
    """An operator of one's own: half of the symmetric one, as a dense matrix."""

    spectrum = (0.25, 0.75)

    def __init__(self, edge_index, edge_weight, num_nodes, dtype):
        weight = None if edge_weight is None else edge_weight.numpy()
        matrix = dense_operator("symmetric", edge_index.numpy(), weight, num_nodes)[0]
        self.matrix = torch.from_numpy(matrix / 2 + np.eye(num_nodes) / 4).to(dtype)
        self.metric = torch.ones(num_nodes, dtype=dtype)

    def apply(self, x):
        return torch.einsum("ij,j...->i...", self.matrix, x)

    adjoint = apply


def dense_operator(name, edge_index, edge_weight, nodes, laziness=0.5):
    """P and the weights of its inner product, from their definitions."""
    weight = np.zeros((nodes, nodes))  # [target, source]
    values = np.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
    np.add.at(weight, (edge_index[1], edge_index[0]), values)
    symmetric = (weight + weight.T) / 2
    degree = symmetric.sum(0)
    for part in (weight, symmetric):
        part[degree == 0, degree == 0] = 1
    degree = np.where(degree > 0, degree, 1)
    one, root = np.eye(nodes), np.sqrt(degree)
    normal = symmetric / root / root[:, None]
    if name == "heat":
        return scipy.linalg.expm(normal - one), np.ones(nodes)
    if name == "own":
        return ((normal + one) / 2 / 2 + one / 4), np.ones(nodes)
    with np.errstate(invalid="ignore"):
        skew = np.nan_to_num((weight - weight.T) / (weight + weight.T))
    walk, metric = {
        "walk": (symmetric / degree, 1 / degree),
        "row": (symmetric / degree[:, None], degree),
        "symmetric": (normal, np.ones(nodes)),
        "directed": (normal * np.exp(0.5j * np.pi * skew), np.ones(nodes)),
    }[name]
    return laziness * one + (1 - laziness) * walk, metric


def dense_bank(matrix, times):
    """I - P^t1, …, P^tJ; powers between integers interpolate."""

    def power(t):
        n = int(np.floor(t))
        low = np.linalg.matrix_power(matrix, n)
        return low + (t - n) * (low @ matrix - low)

    smooth = [np.eye(len(matrix)), *(power(t) for t in times)]
    return np.stack([*(a - b for a, b in pairwise(smooth)), smooth[-1]])


def parts_of(name, band):
    """What a nonlinearity makes of a band, a list of signals."""
    if name == "abs":
        return [np.abs(band)]
    if name == "square":
        return [band**2]
    real = [band.real, band.imag] if np.iscomplexobj(band) else [band]
    if name == "none":
        return real
    return [np.maximum(sign * part, 0) for part in real for sign in (1, -1)]


def dense_scattering(name, bank, x, order):
    """All increasing paths up to ``order`` of one signal, in the order of the definition."""
    wavelets, level, out = bank[:-1], [((), x)], [x]
    for _ in range(order):
        following = []
        for path, signal in level:
            for j in range(path[-1] + 1 if path else 0, len(wavelets)):
                parts = parts_of(name, wavelets[j] @ signal)
                following += [((*path, j), part) for part in parts]
        level = following
        out += [signal for _, signal in level]
    return np.stack(out)


def directed_graph(seed=0, nodes=9):
    rng = np.random.default_rng(seed)
    some = np.triu(rng.random((nodes, nodes)) < 0.4, 1) | np.tril(
        rng.random((nodes, nodes)) < 0.3, -1
    )
    some[-1] = some[:, -1] = False  # a node without neighbors
    edge_index = torch.from_numpy(np.stack(some.nonzero()))
    return edge_index, torch.from_numpy(rng.uniform(0.2, 2, edge_index.shape[1]))


def undirected_graph(seed=0, nodes=9):
    edge_index, weight = directed_graph(seed, nodes)
    full = torch.zeros(nodes, nodes, dtype=torch.float64)
    full[edge_index[0], edge_index[1]] = weight
    full = full + full.T
    full[2, 2] = 0.7  # a loop
    edge_index = full.nonzero().T
    return edge_index, full[edge_index[0], edge_index[1]]


def graph_for(name):
    return directed_graph() if name == "directed" else undirected_graph()


def option(name):
    return Neighborhood if name == "own" else name


def module_for(name, channels=2, **options):
    options = {"scales": [1, 2.3, 5], **options}
    return Scattering(channels, operator=option(name), **options).double()


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_is_its_definition(name):
    edge_index, weight = graph_for(name)
    expected, metric = dense_operator(name, edge_index.numpy(), weight.numpy(), 9)
    operator = graph_operator(option(name), edge_index, weight, 9)
    one = torch.eye(9, dtype=torch.float64)
    np.testing.assert_allclose(operator.apply(one).numpy(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(operator.metric.numpy(), metric, rtol=1e-12)
    # P* = M^-1 P^H M, which is P.
    adjoint = expected.conj().T * metric / metric[:, None]
    np.testing.assert_allclose(operator.adjoint(one).numpy(), adjoint, rtol=0, atol=1e-10)
    eigenvalues = np.linalg.eigvals(expected)
    lower, upper = operator.spectrum
    assert lower - 1e-9 <= eigenvalues.real.min() and eigenvalues.real.max() <= upper + 1e-9
    check_operator(operator, torch.randn(9, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("nonlinearity", NONLINEARITIES)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_scattering_is_its_definition(name, nonlinearity, order):
    if name == "directed" and nonlinearity == "square":
        pytest.skip("complex squares: see test_functions_must_be_real")
    edge_index, weight = graph_for(name)
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.manual_seed(1))
    options = {"order": order, "aggr": None, "nonlinearity": NONLINEARITIES[nonlinearity]}
    module = module_for(name, flatten=False, **options)
    out = module(x, edge_index, weight)
    matrix, _ = dense_operator(name, edge_index.numpy(), weight.numpy(), 9)
    bank = dense_bank(matrix, [1, 2.3, 5])
    for channel in range(2):
        expected = dense_scattering(nonlinearity, bank, x[:, channel].numpy(), order)
        actual = out[..., channel].T
        if nonlinearity == "abs":  # node features keep their signs
            actual = torch.cat([actual[:1], actual[1:].abs()])
        np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-10)
    assert module.out_channels == out[0].numel() == module_for(name, **options).out_channels


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("nonlinearity", ["abs", "relu-pair", "none"])
def test_moments_and_lowpass_are_those_of_the_definition(name, nonlinearity):
    edge_index, weight = graph_for(name)
    x = torch.rand(9, 1, dtype=torch.float64, generator=torch.manual_seed(2))
    options = {"order": 2, "nonlinearity": nonlinearity, "lowpass": True}
    module = module_for(name, 1, aggr=Moments("mean", 2), flatten=False, **options)
    out = module(x, edge_index, weight)[0, :, 0]
    matrix, _ = dense_operator(name, edge_index.numpy(), weight.numpy(), 9)
    bank = dense_bank(matrix, [1, 2.3, 5])
    signals = dense_scattering(nonlinearity, bank, x[:, 0].numpy(), 2)
    low = "abs" if nonlinearity == "abs" else "none"
    signals = np.stack([*signals, *(p for s in signals for p in parts_of(low, bank[-1] @ s))])
    expected = np.stack([np.abs(signals).mean(1), (signals**2).mean(1)], axis=1)
    np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=1e-10)
    usual = module_for(name, 1, **options)(x, edge_index, weight).view(-1, 4)
    moments = [np.mean, np.var, scipy.stats.skew, scipy.stats.kurtosis]
    for moment, column in zip(moments, usual.T, strict=True):
        varied = signals.var(1) > 1e-4
        np.testing.assert_allclose(
            column.numpy()[varied], moment(signals, axis=1)[varied], rtol=0, atol=1e-10
        )


def test_functions_must_be_real():
    edge_index, weight = directed_graph()
    module = module_for("directed", nonlinearity=torch.square)
    with pytest.raises(ValueError, match="must return a real tensor"):
        module(torch.rand(9, 2, dtype=torch.float64), edge_index, weight)
    module = module_for("directed", nonlinearity=torch.abs)
    out = module(torch.ones(9, 2, dtype=torch.float64), edge_index, weight)
    same = module_for("directed")(torch.ones(9, 2, dtype=torch.float64), edge_index, weight)
    torch.testing.assert_close(out, same)


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=20, deadline=None)
@given(graph=graphs(), learned=st.booleans(), seed=st.integers(0, 9))
def test_frame_inequality(graph, name, learned, seed):
    n, edge_index, weight = graph
    rng = torch.manual_seed(seed)
    if name == "directed" and edge_index.shape[1]:  # any edges will do
        keep = torch.rand(edge_index.shape[1], generator=rng) < 0.6
        edge_index, weight = edge_index[:, keep], None if weight is None else weight[keep]
    options = {"scales": "learned"} if learned else {}
    module = module_for(name, 1, **options)
    if learned:
        module.selection.theta.data += torch.randn(5, 16, generator=rng, dtype=torch.float64)
    x = torch.randn(n, 3, dtype=torch.float64, generator=rng)
    bands = module.bank(x, edge_index, weight)
    metric = graph_operator(option(name), edge_index, weight, n, torch.float64).metric
    energy = (metric.view(-1, 1, 1) * bands.abs() ** 2).sum((0, 1))
    size = (metric.unsqueeze(-1) * x**2).sum(0)
    lower, upper = module.frame_bounds()
    slack = 1e-10 * size
    assert (energy >= lower * size - slack).all() and (energy <= upper * size + slack).all()
    assert float(upper) <= 1 + 1e-12 and float(lower) > 0


def test_frame_bounds_are_reached():
    """The bounds are those of the extreme eigenvalues, so a two-node graph is at both ends."""
    edge_index = torch.tensor([[0, 1], [1, 0]])
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    for name in ("walk", "row", "symmetric", "heat"):
        module = module_for(name, 1)
        bands = module.bank(x, edge_index)
        end = torch.tensor([module_spectrum(name)], dtype=torch.float64)
        gain = (module.responses(end) ** 2).sum()
        torch.testing.assert_close((bands**2).sum() / 2, gain, rtol=0, atol=1e-12)


def module_spectrum(name):
    return np.exp(-2.0) if name == "heat" else 0.0


# The table of docs/guarantee.md.


def star(x):
    """The bands of a star's signal, six leaves around node 0, for each operator that takes it."""
    leaves = torch.arange(1, 7)
    edge_index = torch.stack([torch.zeros_like(leaves), leaves])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    x = torch.as_tensor(x, dtype=torch.float64).view(7, 1)
    return {name: module_for(name, 1).bank(x, edge_index)[..., 0] for name in OPERATORS}


def test_guarantees_of_mass_and_constants():
    ones, leaves = star([1] * 7), star([0] + [1] * 6)
    torch.testing.assert_close(leaves["walk"].sum(0), torch.tensor([0, 0, 0, 6.0]).double())
    assert float(ones["row"][:, :-1].abs().max()) < 1e-15
    for name in ("row", "symmetric", "heat"):
        assert float(leaves[name][:, -1].sum()) != pytest.approx(6, abs=0.1)
    for name in ("walk", "symmetric", "heat"):
        assert float(ones[name][:, :-1].abs().max()) > 0.1


def test_guarantees_of_the_plain_norm():
    hub, leaves = star([1] + [0] * 6), star([0] + [1] * 6)
    assert float((leaves["walk"] ** 2).sum()) > 6 + 1
    assert float((hub["row"] ** 2).sum()) > 1 + 0.3
    for name in ("symmetric", "heat", "directed"):
        assert float((hub[name].abs() ** 2).sum()) <= 1 + 1e-12
        assert float((leaves[name].abs() ** 2).sum()) <= 6 + 1e-12


def test_guarantees_of_direction():
    edge_index, weight = directed_graph()
    x = torch.randn(9, 2, dtype=torch.float64)
    one, turned = (
        module_for("directed")(x, edges, weight) for edges in (edge_index, edge_index.flip(0))
    )
    torch.testing.assert_close(one, turned, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_guarantees_of_heat(dtype):
    edge_index, weight = undirected_graph()
    expected, _ = dense_operator("heat", edge_index.numpy(), weight.numpy(), 9)
    operator = graph_operator("heat", edge_index, weight, 9, dtype)
    error = operator.apply(torch.eye(9, dtype=dtype)).double().numpy() - expected
    assert np.linalg.norm(error, 2) < 20 * torch.finfo(dtype).eps
    assert operator.spectrum == (np.exp(-2), 1)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("nonlinearity", ["abs", "relu-pair", "none"])
def test_guarantees_of_the_cascade(name, nonlinearity):
    edge_index, weight = graph_for(name)
    x, y = torch.randn(2, 9, 2, dtype=torch.float64, generator=torch.manual_seed(11))
    options = {"nonlinearity": nonlinearity, "path_policy": "all", "aggr": None, "flatten": False}
    module = module_for(name, **options)
    metric = graph_operator(option(name), edge_index, weight, 9, torch.float64).metric
    difference = module(x, edge_index, weight) - module(y, edge_index, weight)
    energy = (metric.view(-1, 1, 1) * difference**2).sum((0, 2))
    orders = [len(column.path) for column in module.columns()[::2]]
    for order in (1, 2):
        own = torch.tensor([k == order for k in orders])
        assert float(energy[own].sum()) <= float(energy[0])


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_inverse(name, dtype):
    edge_index, weight = graph_for(name)
    x = torch.randn(9, 2, dtype=dtype, generator=torch.manual_seed(3))
    module = module_for(name).to(dtype)
    lower, upper = module.frame_bounds()
    assert float((upper / lower).sqrt()) < 20  # the condition number
    again = module.inverse(module.bank(x, edge_index, weight), edge_index, weight)
    tolerance = 1e-8 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(again, x, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPERATORS)
def test_inverse_of_perturbed_bands_is_the_pseudo_inverse(name):
    edge_index, weight = graph_for(name)
    matrix, metric = dense_operator(name, edge_index.numpy(), weight.numpy(), 9)
    bank = dense_bank(matrix, [1, 2.3, 5])
    rng = np.random.default_rng(4)
    bands = np.einsum("bij,jc->ibc", bank, rng.normal(size=(9, 2)))
    bands = bands + 0.2 * rng.normal(size=bands.shape)
    root = np.sqrt(metric)  # in which the weighted problem is an ordinary one
    system = (root[:, None] * bank).reshape(-1, 9)
    sides = (root[:, None] * bands.transpose(1, 0, 2)).reshape(-1, 2)
    if np.iscomplexobj(bank):  # real signals
        system = np.concatenate([system.real, system.imag])
        sides = np.concatenate([sides.real, sides.imag])
    expected = np.linalg.pinv(system) @ sides
    actual = module_for(name).inverse(torch.from_numpy(bands), edge_index, weight)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", OPERATORS)
def test_relu_pair_keeps_energy(name):
    edge_index, weight = graph_for(name)
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.manual_seed(5))
    module = module_for(name, nonlinearity="relu-pair", order=1, aggr=None, flatten=False)
    bands = module.bank(x, edge_index, weight)[:, :-1]
    parts = module(x, edge_index, weight)[:, 1:]
    energy = (parts**2).unflatten(1, (3, -1)).sum(2)
    torch.testing.assert_close(energy, bands.abs() ** 2, rtol=0, atol=1e-12)
    assert (parts >= 0).all()


def test_walk_is_the_lazy_walk_with_half_and_dyadic_differences():
    """P = (I + W D^-1)/2, Psi_0 = I - P, Psi_j = P^(2^(j-1)) - P^(2^j), |.| between, to order 2."""
    edge_index, weight = undirected_graph(7)
    x = torch.randn(9, 1, dtype=torch.float64, generator=torch.manual_seed(6))
    adjacency = torch.zeros(9, 9, dtype=torch.float64)
    adjacency[edge_index[1], edge_index[0]] = weight
    adjacency[8, 8] = 1  # the node without neighbors
    walk = (torch.eye(9, dtype=torch.float64) + adjacency / adjacency.sum(0)) / 2
    powers = [torch.linalg.matrix_power(walk, 2**j) for j in range(5)]
    wavelets = [torch.eye(9, dtype=torch.float64) - walk]
    wavelets += [powers[j - 1] - powers[j] for j in range(1, 5)]
    first = [wavelet @ x for wavelet in wavelets]
    pairs = combinations(range(5), 2)
    second = [wavelets[k] @ first[j].abs() for j, k in pairs]
    expected = torch.stack([x, *first, *second], dim=1)
    out = Scattering(1, scales="dyadic", aggr=None, flatten=False).double()(x, edge_index, weight)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)


def test_directed_is_symmetric_where_edges_are_and_sees_direction_elsewhere():
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.manual_seed(8))
    edge_index, weight = undirected_graph()
    same = [module_for(name)(x, edge_index, weight) for name in ("directed", "symmetric")]
    torch.testing.assert_close(*same, rtol=0, atol=1e-10)
    edge_index, weight = directed_graph()
    turned = edge_index.clone()
    turned[:, 0] = edge_index[:, 0].flip(0)
    one, other = (module_for("directed")(x, edges, weight) for edges in (edge_index, turned))
    assert float((one - other).abs().max()) > 1e-3
    with pytest.raises(ValueError, match="edge_index is directed"):
        module_for("heat")(x, edge_index, weight)


@pytest.mark.parametrize("name", OPERATORS)
def test_batches_and_gradients(name):
    """Graphs of a batch are computed as alone; gradients of signals and scales are right."""
    first, second = graph_for(name), undirected_graph(3)
    x = torch.randn(18, 2, dtype=torch.float64, generator=torch.manual_seed(9))
    edge_index = torch.cat([first[0], second[0] + 9], dim=1)
    weight, batch = torch.cat([first[1], second[1]]), torch.arange(18) // 9
    module = module_for(name, scales="learned", num_scales=2, steps=3)
    both = module(x, edge_index, weight, batch)
    alone = [module(x[:9], *first), module(x[9:], *second)]
    torch.testing.assert_close(both, torch.cat(alone), rtol=0, atol=1e-10)
    plain = module_for(name, scales="learned", num_scales=2, steps=3, aggr=None, backend="auto")

    def run(x, theta):
        parameters = {"selection.theta": theta}
        return torch.func.functional_call(plain, parameters, (x, *first))

    signal = x[:9].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (signal, plain.selection.theta))


@pytest.mark.parametrize("operator", ["row", "symmetric"])
def test_fused_bank_is_the_reference(operator):
    pytest.importorskip("numba")
    torch.manual_seed(0)
    edge_index, weight = undirected_graph(1, 40)
    x = torch.randn(40, 3, dtype=torch.float64)
    for options in ({}, {"lowpass": True, "nonlinearity": "relu-pair"}, {"laziness": 0.8}):
        out = [
            module_for(operator, 3, backend=backend, **options)(x, edge_index, weight)
            for backend in ("fused", "reference")
        ]
        torch.testing.assert_close(*out, rtol=0, atol=1e-10)
    for other in ("heat", Neighborhood):
        with pytest.raises(ValueError, match="no compiled kernels"):
            Scattering(3, operator=other, backend="fused")(x.float(), edge_index, weight)


# Wavelet convolutions.


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("nonlinearity", ["abs", "relu-pair", "none"])
def test_wavelet_conv_is_its_definition(name, nonlinearity):
    edge_index, weight = graph_for(name)
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.manual_seed(10))
    options = {"scales": [1, 2.7], "operator": option(name), "nonlinearity": nonlinearity}
    conv = WaveletConv(2, 4, mixing="full", **options).double()
    out = conv(x, edge_index, weight)
    matrix, _ = dense_operator(name, edge_index.numpy(), weight.numpy(), 9)
    bank = dense_bank(matrix, [1, 2.7])
    parts = []
    each = [parts_of(nonlinearity, wavelet @ x.numpy()) for wavelet in bank[:-1]]
    parts += [part for same in zip(*each, strict=True) for part in same]
    low = bank[-1] @ x.numpy()
    is_modulus = nonlinearity == "abs" and np.iscomplexobj(low)
    parts += parts_of("abs" if is_modulus else "none", low)
    stacked = torch.from_numpy(np.stack([x.numpy(), *parts], axis=1)).flatten(1)
    torch.testing.assert_close(out, conv.lin(stacked), rtol=0, atol=1e-10)


# Scales.


def test_times_between_integers_interpolate_and_keep_the_bound():
    cumulative = cumulative_of_scales([1.5, 1.75, 3.25], 4, torch.float64)
    assert (cumulative[:-1] >= cumulative[1:]).all()
    module = Scattering(1, scales=[1.5, 1.75, 3.25])
    torch.testing.assert_close(module.expected_scales(), torch.tensor([1.5, 1.75, 3.25]))
    assert module.selection.steps == 4 and float(module.frame_bounds()[1]) <= 1 + 1e-12


def dense_information(x, walk, steps):
    states = [walk @ x]
    for _ in range(steps - 1):
        states.append(walk @ states[-1])
    states = [state / state.sum() for state in states]
    return [float(scipy.stats.entropy(state, states[-1])) for state in states]


@settings(max_examples=20, deadline=None)
@given(batches(max_graphs=3))
def test_infogain_scales_share_the_information(batch):
    x = torch.rand(batch.num_nodes, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    weight = None if batch.edge_weight is None else batch.edge_weight.double()
    operator = graph_operator("walk", batch.edge_index, weight, batch.num_nodes, torch.float64)
    times = infogain_scales(x, operator, 4, 12, batch.batch, batch.num_graphs)
    assert times.shape == (3, 4) and (times.diff(dim=1) > 0).all()
    assert (times[:, 0] == 1).all() and (times[:, -1] == 12).all()
    one = torch.eye(batch.num_nodes, dtype=torch.float64)
    walk = operator.apply(one).numpy()
    for channel in range(2):
        curves = []
        for g in range(batch.num_graphs):
            own = (batch.batch == g).numpy()
            curves.append(dense_information(x[own, channel].numpy(), walk[own][:, own], 12))
        curve = np.mean(curves, axis=0)
        if curve[0] < 1e-6:
            continue
        at = np.interp(times[channel].numpy(), np.arange(1, 13), curve) / curve[0]
        np.testing.assert_allclose(at, [1, 2 / 3, 1 / 3, 0], atol=1e-6)


def test_infogain_scales_where_nothing_is_lost():
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(1)])
    operator = graph_operator("walk", torch.cat([ring, ring.flip(0)], dim=1), None, 6)
    for x in (torch.full((6, 1), 0.1), torch.zeros(6, 1)):
        times = infogain_scales(x, operator, 4, 16)
        torch.testing.assert_close(times[0], torch.tensor([1.0, 6, 11, 16]).double())
    with pytest.raises(ValueError, match="between 2 and steps=3"):
        infogain_scales(torch.ones(6, 1), operator, 4, 3)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
@pytest.mark.parametrize("operator", ["row", "heat", "directed"])
def test_compiled_and_mapped(operator):
    edge_index, weight = undirected_graph()
    x = torch.rand(9, 2, dtype=torch.float64)
    module = module_for(operator, nonlinearity="relu-pair", validate=False)
    many = torch.func.vmap(lambda x: module(x, edge_index, weight))(torch.stack([x, 2 * x]))
    expected = module(x, edge_index, weight)
    torch.testing.assert_close(many[0], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(many[1], module(2 * x, edge_index, weight), rtol=0, atol=1e-10)
    if operator != "directed":  # the compiler knows no complex numbers
        compiled = torch.compile(module, backend="aot_eager")
        torch.testing.assert_close(compiled(x, edge_index, weight), expected, rtol=0, atol=1e-10)


def test_infogain_modules():
    edge_index, weight = undirected_graph()
    x = torch.rand(9, 2, generator=torch.manual_seed(0))
    module = Scattering(2, scales="infogain", num_scales=4, steps=8)
    with pytest.raises(RuntimeError, match="call fit_scales"):
        module(x, edge_index, weight)
    columns = module.columns()
    assert module.fit_scales(x, edge_index, weight) is module and module.columns() == columns
    assert module(x, edge_index, weight).shape == (1, module.out_channels)
    with pytest.raises(ValueError, match="not fixed"):
        Scattering(2).fit_scales(x, edge_index, weight)
    # One set for each channel: each as a module of its own computes it.
    module = module.double().fit_scales(x.double(), edge_index, weight, per_channel=True)
    assert module.selection.fixed.shape == (2, 4, 8)
    assert module.selection.fixed.dtype == torch.float64
    both = copy.deepcopy(module)(x.double(), edge_index, weight).view(-1, 2, 4)
    lower, _ = module.frame_bounds()
    for c, times in enumerate(module.selection.initial):
        one = Scattering(1, scales=times, steps=8).double()
        alone = one(x[:, c : c + 1].double(), edge_index, weight).view(-1, 4)
        torch.testing.assert_close(both[:, c], alone, rtol=0, atol=1e-10)
        torch.testing.assert_close(lower[c], one.frame_bounds()[0])
        torch.testing.assert_close(
            module.matrices(edge_index, weight)[c], one.matrices(edge_index, weight)
        )
    bands = module.bank(x.double(), edge_index, weight)
    again = module.inverse(bands, edge_index, weight)
    torch.testing.assert_close(again, x.double(), rtol=0, atol=1e-8)
    for backend in ("reference", "fused"):
        if backend == "fused":
            pytest.importorskip("numba")
        module.backend = backend
        out = module(x.double(), edge_index, weight).view(-1, 2, 4)
        torch.testing.assert_close(out, both, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("operator", ["row", "heat"])
def test_scales_of_each_channel_in_wavelet_convs(operator, backend):
    if backend == "fused":
        pytest.importorskip("numba")
        if operator == "heat":
            pytest.skip("it has no kernels")
    edge_index, weight = undirected_graph()
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.manual_seed(12))
    options = {"operator": operator, "backend": backend}
    both = WaveletConv(2, 4, scales=[[1, 2.3], [2, 5]], **options).double()
    out = both.convolve(x, both.prepared(x, edge_index, weight), edge_index)
    for c, times in enumerate([[1, 2.3], [2, 5]]):
        one = WaveletConv(1, 4, scales=times, **options).double()
        one.band_weight.data = both.band_weight.data[:, c : c + 1]
        signal = x[:, c : c + 1]
        alone = one.convolve(signal, one.prepared(signal, edge_index, weight), edge_index)
        torch.testing.assert_close(out[:, c : c + 1], alone, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="scales for 2 channels"):
        Scattering(3, scales=[[1, 2.3], [2, 5]])


# Operators of one's own, saving, names.


def test_operators_of_ones_own():
    edge_index, weight = undirected_graph()
    fixed = Neighborhood(edge_index, weight, 9, torch.float64)
    x = torch.rand(9, 2, dtype=torch.float64)
    expected = module_for("own")(x, edge_index, weight)
    module = Scattering(2, scales=[1, 2.3, 5], operator=fixed)
    torch.testing.assert_close(module(x, edge_index), expected)
    with pytest.raises(ValueError, match="metric has 9 entries for 8 nodes"):
        graph_operator(fixed, edge_index, None, 8)
    module = Scattering(2, operator=lambda *graph: Neighborhood(*graph))
    with pytest.raises(ValueError, match="frame bounds need"):
        module.frame_bounds()
    with pytest.raises(ValueError, match="cannot be saved"):
        module.describe()
    for change, message in (
        ({"spectrum": (0.5, 0.75)}, "spectrum"),
        ({"spectrum": (0.25, 0.7)}, "spectrum"),
        ({"adjoint": lambda x: 2 * x}, "not its adjoint"),
        ({"metric": torch.arange(1.0, 10).double()}, "not its adjoint"),
    ):
        wrong = copy.copy(fixed)
        vars(wrong).update(change)
        with pytest.raises(ValueError, match=message):
            check_operator(wrong, x)


def test_saved_and_loaded(tmp_path):
    edge_index, weight = undirected_graph()
    x = torch.rand(9, 2, generator=torch.manual_seed(0))
    options = {"scales": "infogain", "operator": "heat", "nonlinearity": "relu-pair"}
    scattering_ = Scattering(2, **options).fit_scales(x, edge_index, weight, per_channel=True)
    model = LEGSNet(scattering_, FCN(scattering_.out_channels, 2)).eval()
    assert model.power_steps is None and not model.takes_multiplicity
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").eval()
    torch.testing.assert_close(again(x, edge_index, weight), model(x, edge_index, weight))


def test_names_of_columns():
    def names(**options):
        module = Scattering(1, num_scales=2, aggr=None, **options)
        return [column.name for column in module.columns()]

    pair = names(nonlinearity="relu-pair", lowpass=True)
    assert pair[:6] == ["x0", "x0.psi0+", "x0.psi0-", "x0.psi1+", "x0.psi1-", "x0.psi0+.psi1+"]
    assert pair[-1] == "x0.psi0-.psi1-.phi" and len(pair) == 18 and len(set(pair)) == 18
    none = names(nonlinearity="none", operator="directed", order=1, lowpass=True)
    assert none[1:3] == ["x0.psi0re", "x0.psi0im"] and none[5:7] == ["x0.phire", "x0.phiim"]
    column = Scattering(1, nonlinearity="relu-pair").columns()[-1]
    assert column.path == (3, 4) and column.name == "x0.psi3-.psi4-.kurtosis"


def test_functional_scattering_takes_operators():
    edge_index, weight = undirected_graph()
    x = torch.rand(9, 2, dtype=torch.float64)
    bank = cumulative_of_scales([1, 2.3, 5], 5, torch.float64)
    for name, policy in product(("row", "heat"), ("increasing", "all")):
        operator = graph_operator(name, edge_index, weight, 9)
        out = scattering(x, operator, None, bank, policy=policy, nonlinearity="relu-pair")
        options = {"aggr": None, "flatten": False, "nonlinearity": "relu-pair"}
        module = module_for(name, path_policy=policy, **options)
        torch.testing.assert_close(out, module(x, edge_index, weight), rtol=0, atol=1e-10)
