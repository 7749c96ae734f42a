"""The theorems of the paper, in float64; the gradient formulas are in ``test_gradients``."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor

from legs import Scattering
from tests import reference as ref
from tests.properties.banks import bank_of, linear_module, with_theta
from tests.strategies import (
    Batch,
    Graph,
    batches,
    from_pairs,
    graphs,
    permutations,
    permuted,
    signals,
    star_pairs,
)

LAZINESS = st.sampled_from([0.5, 0.55, 0.7, 0.95])
increasing_scales = st.sets(st.integers(1, 32), min_size=1, max_size=6).map(sorted)
check = settings(max_examples=60, deadline=None)

# Row 1 leads at t = 7 and row 2 at t = 8, so they are sorted by their leading ones; but half of
# row 2 sits at t = 1, where f_2 overtakes f_1.
EXPANSIVE = [
    [-9.0, -9.0, -9.0, -9.0, -9.0, -9.0, 0.0, -9.0],
    [0.0, -9.0, -9.0, -9.0, -9.0, -9.0, -9.0, 0.25],
]


# Helpers


def squared_norm(graph: Graph | Batch, x: Tensor) -> Tensor:
    """Sum of x_i^2 / d_i for every channel; a node of zero degree has degree 1."""
    weights = ref.dense_weights(graph.num_nodes, graph.edge_index, graph.edge_weight)
    degree = torch.from_numpy(ref.close_isolated(weights)[1])
    return (x**2 / degree[:, None]).sum(dim=0)


def frame_sum(graph: Graph, bank: list[Tensor]) -> Tensor:
    return torch.stack([squared_norm(graph, part) for part in bank]).sum(dim=0)


def paper_constant(scales: list[int]) -> tuple[float, float]:
    """C = min over [0, 1] of xi^(2 t_J) + (1 - xi^(t_1))^2, and where it is attained."""

    def value(xi: float) -> float:
        return xi ** (2 * scales[-1]) + (1 - xi ** scales[0]) ** 2

    grid = np.linspace(0, 1, 2001)
    start = int(np.argmin(value(grid)))
    around = (grid[max(start - 1, 0)], grid[min(start + 1, 2000)])
    found = minimize_scalar(value, bounds=around, method="bounded", options={"xatol": 1e-12})
    return float(found.fun), float(found.x)


def random_theta(seed: int) -> Tensor:
    """Logits of several shapes and magnitudes, from nearly flat to nearly one-hot."""
    rng = np.random.default_rng(seed)
    shape = [(1, 1), (1, 4), (2, 3), (3, 8), (4, 16), (5, 16), (6, 9), (5, 32)][seed % 8]
    return torch.from_numpy(rng.normal(size=shape) * (0.1, 1.0, 3.0, 10.0, 50.0)[seed % 5])


# 1. Frame


def assert_frame(graph: Graph, x: Tensor, scales: list[int], laziness: float) -> None:
    module = linear_module(x.shape[1], scales=scales, laziness=laziness)
    total = frame_sum(graph, bank_of(module, graph, x))
    norm = squared_norm(graph, x)
    assert (total <= norm * (1 + 1e-12)).all()
    assert (total >= paper_constant(scales)[0] * norm * (1 - 1e-9)).all()


@check
@given(data=st.data(), graph=graphs(), scales=increasing_scales, laziness=LAZINESS)
def test_frame(data: st.DataObject, graph: Graph, scales: list[int], laziness: float) -> None:
    """Theorem 1 in the weighted norm."""
    assert_frame(graph, data.draw(signals(graph.num_nodes, 3)), scales, laziness)


def test_frame_all_increasing_scales() -> None:
    """Theorem 1 for every set of scales up to 6, on an eigenbasis of an irregular graph."""
    graph = from_pairs(7, [*star_pairs(5), (1, 2), (4, 5), (5, 5)], [1, 2, 0.5, 3, 1, 4, 0.3])
    weights = ref.dense_weights(7, graph.edge_index, graph.edge_weight)
    walk = ref.lazy_walk(weights, 0.5)
    eigenvectors = torch.from_numpy(np.linalg.eig(walk)[1].real.copy())
    some = range(1, 7)
    for scales in chain.from_iterable(combinations(some, count) for count in some):
        assert_frame(graph, eigenvectors, list(scales), 0.5)


@pytest.mark.parametrize("scale", [1, 2, 4, 9])
def test_frame_constant_is_attained(scale: int) -> None:
    """With one scale C cannot be improved: two nodes with loops have any eigenvalue in [0, 1]."""
    constant, xi = paper_constant([scale])
    graph = from_pairs(2, [(0, 0), (1, 1), (0, 1)], [xi, xi, 1 - xi])
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    # P has 1/2 + (2 xi - 1)/2 = xi for the antisymmetric signal
    total = frame_sum(graph, bank_of(linear_module(scales=[scale]), graph, x))
    assert total.item() == pytest.approx(constant * squared_norm(graph, x).item(), rel=1e-9)


def assert_bounds_exact(rows: np.ndarray, alpha: float, lower: float, upper: float) -> None:
    """No point of a fine grid leaves the bounds, and some point comes close to each of them."""
    grid = np.linspace(2 * alpha - 1, 1, 20001)
    values = ref.frame_function(rows, grid)
    assert lower <= values.min() + 1e-12
    assert upper >= values.max() - 1e-12
    # the frame function is smooth: the grid misses an extremum by at most curvature * step^2 / 8
    curvature = np.abs(np.diff(values, 2)).max()
    assert lower == pytest.approx(values.min(), abs=2 * curvature + 1e-12)
    assert upper == pytest.approx(values.max(), abs=2 * curvature + 1e-12)
    # The lower bound of a learned bank
    smooth = ref.polynomials(rows, grid)
    assert lower >= (smooth[-1] ** 2 + (1 - smooth[0]) ** 2).min() - 2 * curvature - 1e-12


@pytest.mark.parametrize("laziness", [0.5, 0.7])
@pytest.mark.parametrize("ordering", ["ordered", "softmax"])
def test_frame_bounds_learned(ordering: str, laziness: float) -> None:
    """``frame_bounds`` is the extent of the frame function over the spectrum [2 alpha - 1, 1]."""
    for seed in range(40):
        module = with_theta(random_theta(seed), ordering=ordering, laziness=laziness)
        rows = module.scale_weights().detach().numpy()
        np.testing.assert_allclose(
            rows, ref.learned_rows(random_theta(seed).numpy(), ordering), atol=1e-13
        )
        lower, upper = module.frame_bounds()
        assert_bounds_exact(rows, laziness, float(lower), float(upper))


@pytest.mark.parametrize("laziness", [0.5, 0.7])
@pytest.mark.parametrize(
    "scales", [[1], [3], [1, 2, 4, 8, 16], [2, 3, 11], [5, 6, 7], [1, 64, 300]]
)
def test_frame_bounds_fixed(scales: list[int], laziness: float) -> None:
    """The same for fixed scales; at laziness 1/2 the bound is at least the paper's C."""
    lower, upper = linear_module(scales=scales, laziness=laziness).frame_bounds()
    assert_bounds_exact(ref.one_hot_rows(scales), laziness, float(lower), float(upper))
    assert float(upper) == pytest.approx(1, abs=1e-12)
    assert float(lower) >= paper_constant(scales)[0] - 1e-9


def test_frame_bounds_per_channel() -> None:
    """Per-channel laziness has bounds per channel, each over its own spectrum."""
    module = with_theta(random_theta(3), channels=3, learn_laziness="channel")
    with torch.no_grad():
        module.walk.raw_laziness.copy_(torch.tensor([-3.0, 0.0, 2.0]))
    lower, upper = (torch.as_tensor(bound).detach() for bound in module.frame_bounds())
    assert lower.shape == upper.shape == (3,)
    rows = module.scale_weights().detach().numpy()
    alphas = 0.5 + 0.5 * torch.tensor([-3.0, 0.0, 2.0], dtype=torch.float64).sigmoid()
    for alpha, low, high in zip(alphas.tolist(), lower.tolist(), upper.tolist(), strict=True):
        assert_bounds_exact(rows, alpha, low, high)


# 2. Permutation


@check
@given(data=st.data(), graph=graphs(), options=st.sampled_from(["ordered", "softmax", "dyadic"]))
def test_permutation(data: st.DataObject, graph: Graph, options: str) -> None:
    """Theorem 2: renumbering permutes node features and leaves graph features."""
    chosen = {"scales": "dyadic"} if options == "dyadic" else {"ordering": options}
    x = data.draw(signals(graph.num_nodes, 2))
    order = data.draw(permutations(graph.num_nodes))
    other = permuted(graph, order, data.draw(permutations(graph.edge_index.shape[1])))
    for aggr in (None, "moments", "sum"):
        module = Scattering(2, path_policy="all", lowpass=True, aggr=aggr, **chosen).double()
        with torch.no_grad():
            here = module(x, graph.edge_index, graph.edge_weight)
            there = module(x[order], other.edge_index, other.edge_weight)
        here = here[order] if aggr is None else here
        assert ((here - there).abs() <= 1e-10 * here.abs().clamp(min=1)).all()


@check
@given(data=st.data(), batch=batches())
def test_permutation_of_a_batch(data: st.DataObject, batch: Batch) -> None:
    """The same when graphs change places in their batch and nodes within their graph."""
    x = data.draw(signals(batch.num_nodes, 2))
    place = data.draw(permutations(batch.num_graphs))
    order = data.draw(permutations(batch.num_nodes))
    order = order[place[batch.batch[order]].argsort(stable=True)]
    other = permuted(Graph(*batch[:3]), order)
    module = Scattering(2, lowpass=True).double()
    with torch.no_grad():
        here = module(x, batch.edge_index, batch.edge_weight, batch.batch, batch.num_graphs)
        there = module(
            x[order],
            other.edge_index,
            other.edge_weight,
            place[batch.batch[order]],
            batch.num_graphs,
        )[place]
    assert ((here - there).abs() <= 1e-10 * here.abs().clamp(min=1)).all()


# 3. Non-expansive


def test_ordered_rows_never_expand() -> None:
    """Theorem 3 for 1,000 random Theta: the upper frame bound is 1, by the module and by a grid."""
    grid = np.linspace(0, 1, 501)
    for seed in range(1000):
        module = with_theta(random_theta(seed), ordering="ordered")
        rows = module.scale_weights().detach().numpy()
        assert (np.diff(np.cumsum(rows, axis=1), axis=0) <= 1e-14).all()
        assert ref.frame_function(rows, grid).max() <= 1 + 1e-12
        assert float(module.frame_bounds()[1]) <= 1 + 1e-12


def test_leading_ones_in_order_can_expand() -> None:
    """The paper's ordering by leading ones does not suffice, on the spectrum and on a
    graph that has the eigenvalue."""
    theta = torch.tensor(EXPANSIVE, dtype=torch.float64)
    assert theta.argmax(dim=1).tolist() == [6, 7]
    expansive = with_theta(theta, ordering="softmax")
    assert float(expansive.frame_bounds()[1]) > 1.08
    assert float(with_theta(theta, ordering="ordered").frame_bounds()[1]) <= 1 + 1e-12
    xi = 0.55
    graph = from_pairs(2, [(0, 0), (1, 1), (0, 1)], [xi, xi, 1 - xi])
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    with torch.no_grad():
        ratio = frame_sum(graph, bank_of(expansive, graph, x)) / squared_norm(graph, x)
    assert ratio.item() > 1.08


@check
@given(data=st.data(), graph=graphs(), seed=st.integers(0, 999), laziness=LAZINESS)
def test_first_layer_does_not_expand(
    data: st.DataObject, graph: Graph, seed: int, laziness: float
) -> None:
    """Theorem 3 on graphs: distances between signals do not grow, moduli taken or not."""
    x, y = (data.draw(signals(graph.num_nodes, 2)) for _ in range(2))
    module = with_theta(random_theta(seed), channels=2, laziness=laziness)
    with torch.no_grad():
        first, second = bank_of(module, graph, x), bank_of(module, graph, y)
    norm = squared_norm(graph, x - y) * (1 + 1e-12)
    pairs = list(zip(first, second, strict=True))
    assert (frame_sum(graph, [a - b for a, b in pairs]) <= norm).all()
    moduli = [a.abs() - b.abs() for a, b in pairs[:-1]] + [pairs[-1][0] - pairs[-1][1]]
    assert (frame_sum(graph, moduli) <= norm).all()
