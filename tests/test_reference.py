"""The reference against itself: matrix powers and the identities between filters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference as ref
from tests.strategies import Graph, batches, from_pairs, graphs, path_pairs, star_pairs

ALPHAS = st.sampled_from([0.5, 0.7, 0.95])
quick = settings(max_examples=50, deadline=None)


def weights_of(graph: Graph) -> np.ndarray:
    return ref.dense_weights(graph.num_nodes, graph.edge_index, graph.edge_weight)


def random_rows(seed: int, ordering: str = "ordered") -> np.ndarray:
    return ref.learned_rows(np.random.default_rng(seed).normal(size=(3, 8)) * 2, ordering)


@quick
@given(graphs(), ALPHAS, st.integers(0, 999))
def test_filters_are_matrix_polynomials(graph: Graph, alpha: float, seed: int) -> None:
    """Eigenvalue functions equal sums of matrix powers; P is stochastic; filters sum to I."""
    weights, rows = weights_of(graph), random_rows(seed)
    walk = ref.lazy_walk(weights, alpha)
    np.testing.assert_allclose(walk.sum(axis=0), 1, rtol=1e-12)
    powers = np.stack([np.linalg.matrix_power(walk, t) for t in range(1, 9)])
    smooth = np.einsum("jt,tab->jab", rows, powers)
    bank = ref.filters(weights, rows, alpha)
    np.testing.assert_allclose(bank.sum(axis=0), np.eye(graph.num_nodes), atol=1e-12)
    np.testing.assert_allclose(bank[-1], smooth[-1], atol=1e-12)
    np.testing.assert_allclose(bank[0], np.eye(graph.num_nodes) - smooth[0], atol=1e-12)
    np.testing.assert_allclose(bank[1:-1], smooth[:-1] - smooth[1:], atol=1e-12)


@quick
@given(graphs(), ALPHAS, st.integers(0, 999))
def test_summation_by_parts(graph: Graph, alpha: float, seed: int) -> None:
    """Psi_j = sum_t (c_j(t) - c_(j+1)(t)) P^t (I - P), t = 0..m-1."""
    weights, rows = weights_of(graph), random_rows(seed)
    walk = ref.lazy_walk(weights, alpha)
    cumulative = np.hstack([np.zeros((3, 1)), np.cumsum(rows, axis=1)[:, :-1]])
    cumulative = np.vstack([np.ones((1, 8)), cumulative])
    step = cumulative[:-1] - cumulative[1:]
    assert (step >= -1e-15).all()
    powers = np.stack([np.linalg.matrix_power(walk, t) for t in range(8)])
    wavelets = np.einsum("jt,tab->jab", step, powers) @ (np.eye(graph.num_nodes) - walk)
    np.testing.assert_allclose(ref.filters(weights, rows, alpha)[:-1], wavelets, atol=1e-12)


def test_rows_are_distributions_in_order() -> None:
    """Ordered rows have decreasing cumulative sums, softmax rows increasing peaks."""
    for seed in range(50):
        ordered, sorted_rows = random_rows(seed), random_rows(seed, "softmax")
        for rows in (ordered, sorted_rows):
            assert (rows >= 0).all()
            np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
        assert (np.diff(np.cumsum(ordered, axis=1), axis=0) <= 1e-15).all()
        assert (np.diff(sorted_rows.argmax(axis=1)) >= 0).all()


def test_zero_degree_keeps_its_value_and_loops_count_once() -> None:
    """By hand: a loop of weight 2 beside an edge of weight 3, and a lonely node."""
    weights = weights_of(from_pairs(3, [(0, 0), (0, 1)], [2.0, 3.0]))
    np.testing.assert_array_equal(weights, [[2, 3, 0], [3, 0, 0], [0, 0, 0]])
    walk = ref.lazy_walk(weights, 0.5)
    np.testing.assert_allclose(walk, [[0.7, 0.5, 0], [0.3, 0.5, 0], [0, 0, 1]])


def test_paths_by_hand() -> None:
    """Order, then lexicographic; low-passed ones after all others."""
    assert ref.path_list(2, 2, "increasing", True) == [
        *[(), (0,), (1,), (0, 1)],
        *[(2,), (0, 2), (1, 2), (0, 1, 2)],
    ]
    assert ref.path_list(2, 2, "all", False) == [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert ref.path_list(2, 3, "increasing", False)[-1] == (0, 1)


def test_features_by_hand() -> None:
    """On a path of two nodes, where P = 1/2 everywhere."""
    weights = weights_of(from_pairs(2, path_pairs(2)))
    x = np.array([[3.0], [-1.0]])
    paths = ref.path_list(1, 1, "all", True)
    node = ref.node_features(weights, x, ref.one_hot_rows([1]), 0.5, paths)[:, :, 0]
    # x, Psi x = x - 1, Phi x = 1, Phi |Psi x| = 2
    np.testing.assert_allclose(node, [[3, 2, 1, 2], [-1, -2, 1, 2]], atol=1e-14)
    sums = ref.aggregate(node[:, :, None], weights, x, paths, "sum", 2).ravel()
    np.testing.assert_allclose(sums, [4, 10, 4, 8, 2, 2, 4, 8], atol=1e-13)
    moments = ref.aggregate(node[:, :, None], weights, x, paths, "normalized", 4).ravel()
    np.testing.assert_allclose(moments[:4], [1, 4, 0, -2], atol=1e-13)
    np.testing.assert_allclose(moments[4:8], [2, 0, 0, 0], atol=1e-13)


@pytest.mark.parametrize("kind", ["normalized", "mean", "sum"])
@quick
@given(batch=batches(max_graphs=3, max_nodes=5))
def test_batches_are_graph_by_graph(kind: str, batch) -> None:
    """Graphs of a batch do not see one another: the dense filters of the union agree."""
    weights = ref.dense_weights(batch.num_nodes, batch.edge_index, batch.edge_weight)
    x = np.random.default_rng(0).normal(size=(batch.num_nodes, 2))
    owner, rows = batch.batch.numpy(), ref.one_hot_rows([1, 3])
    paths = ref.path_list(2, 2, "all", True)
    node = ref.graph_features(weights, x, owner, rows, [0.5, 0.7], paths, None)
    whole = ref.node_features(weights, x, rows, [0.5, 0.7], paths)
    np.testing.assert_allclose(node, whole.reshape(batch.num_nodes, -1), atol=1e-12)
    graph = ref.graph_features(weights, x, owner, rows, [0.5, 0.7], paths, kind, 3)
    assert graph.shape == (batch.num_graphs, len(paths) * 2 * 3)
    assert np.isfinite(graph).all()


def test_star_is_not_regular() -> None:
    """A constant signal on a star is moved by P: the degree of the sender divides."""
    walk = ref.lazy_walk(weights_of(from_pairs(4, star_pairs(4))), 0.5)
    np.testing.assert_allclose(walk @ np.ones(4), [2, 2 / 3, 2 / 3, 2 / 3])
