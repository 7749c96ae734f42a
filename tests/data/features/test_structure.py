"""Structural features against networkx, on drawn, built and real graphs."""

from __future__ import annotations

import io
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from legs.data.features import structure
from legs.data.features.structure import (
    clustering_coefficient,
    degree,
    eccentricity,
    is_connected,
)
from tests.strategies import Batch, batches

SETS = (
    *("DD", "ENZYMES", "MUTAG", "NCI1", "NCI109", "PROTEINS", "PTC_MR", "COLLAB"),
    *("IMDB-BINARY", "IMDB-MULTI", "REDDIT-BINARY", "REDDIT-MULTI-5K", "REDDIT-MULTI-12K"),
)
CSR = tuple[Any, Any, Any]


def to_csr(ptr: Any, source: Any, target: Any) -> CSR:
    order = np.lexsort((source, target))
    rowptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=ptr[-1]))])
    return np.asarray(ptr), rowptr, np.asarray(source, dtype=np.int32)[order]


def gather(graphs: list[nx.Graph]) -> CSR:
    ptr = np.cumsum([0, *(len(graph) for graph in graphs)])
    joined = nx.disjoint_union_all(graphs)
    ends = np.array(joined.edges(), dtype=np.int64).reshape(-1, 2).T
    return to_csr(ptr, *np.concatenate([ends, ends[::-1]], axis=1))


def to_networkx(csr: CSR) -> list[nx.Graph]:
    ptr, rowptr, col = csr
    graphs = []
    for a, b in pairwise(ptr):
        graph = nx.empty_graph(b - a)
        graph.add_edges_from(
            (i - a, int(j) - a)
            for i in range(a, b)
            for j in col[rowptr[i] : rowptr[i + 1]]
            if i != j
        )
        graphs.append(graph)
    return graphs


def check_against_networkx(csr: CSR) -> None:
    graphs = to_networkx(csr)
    distance, triangles = eccentricity(*csr), clustering_coefficient(*csr)
    whole, neighbours = is_connected(*csr), degree(*csr)
    for i, (graph, start) in enumerate(zip(graphs, csr[0], strict=False)):
        nodes = range(len(graph))
        # nx.eccentricity refuses disconnected graphs; this is what it does for each node.
        expected = {v: max(nx.single_source_shortest_path_length(graph, v).values()) for v in nodes}
        rows = slice(start, start + len(graph))
        assert distance[rows].tolist() == [expected[v] for v in nodes]
        clustering = nx.clustering(graph)
        np.testing.assert_allclose(
            triangles[rows], [clustering[v] for v in nodes], rtol=1e-15, atol=0
        )
        assert neighbours[rows].tolist() == [graph.degree[v] for v in nodes]
        assert whole[i] == (len(graph) > 0 and nx.is_connected(graph))


def many_graphs() -> list[nx.Graph]:
    """Sets of one and of several words; hubs, twin leaves, pieces, dense and long graphs."""
    rng = np.random.default_rng(0)
    sizes = enumerate(rng.integers(2, 300, 25))
    graphs = [nx.gnp_random_graph(int(n), 2 / n, seed=i) for i, n in sizes]
    graphs += [nx.barabasi_albert_graph(n, m, seed=n) for n, m in ((65, 1), (200, 1), (300, 3))]
    graphs += [nx.star_graph(n) for n in (1, 2, 63, 64, 200)]
    graphs += [nx.path_graph(n) for n in (1, 2, 3, 64, 65, 130)]
    graphs += [nx.complete_graph(n) for n in (3, 64, 70)]
    graphs += [nx.full_rary_tree(9, 180), nx.caveman_graph(5, 20), nx.grid_2d_graph(5, 30)]
    graphs += [nx.empty_graph(3), nx.disjoint_union(nx.star_graph(5), nx.path_graph(2))]
    return [graphs[i] for i in rng.permutation(len(graphs))]


@settings(max_examples=100, deadline=None)
@given(batches())
def test_drawn_graphs_agree_with_networkx(batch: Batch) -> None:
    sizes = np.bincount(batch.batch.numpy(), minlength=batch.num_graphs)
    check_against_networkx(to_csr(np.cumsum([0, *sizes]), *batch.edge_index.numpy()))


def test_many_graphs_agree_with_networkx() -> None:
    check_against_networkx(gather(many_graphs()))


@pytest.mark.parametrize(
    ("where", "limit", "value"),
    [
        (structure, "EDGES_AT_ONCE", 300),
        (structure, "WORDS_AT_ONCE", 200),
        (structure, "MOST_WORDS", 500),  # large graphs in several searches
    ],
)
def test_limits_change_nothing(
    monkeypatch: pytest.MonkeyPatch, where: Any, limit: str, value: int
) -> None:
    csr = gather(many_graphs())
    before = eccentricity(*csr), clustering_coefficient(*csr), is_connected(*csr)
    monkeypatch.setattr(where, limit, value)
    after = eccentricity(*csr), clustering_coefficient(*csr), is_connected(*csr)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_order_and_number_of_equal_neighbours_do_not_matter() -> None:
    ptr, rowptr, col = gather(many_graphs())
    rng = np.random.default_rng(1)
    twice = [np.repeat(col[a:b], 2) for a, b in pairwise(rowptr)]
    for row in twice:
        rng.shuffle(row)
    for function in (eccentricity, clustering_coefficient, degree):
        found = function(ptr, 2 * rowptr, np.concatenate(twice))
        np.testing.assert_array_equal(found, function(ptr, rowptr, col))


def test_graphs_without_nodes_and_no_graphs() -> None:
    check_against_networkx((np.array([0, 0, 2, 2]), np.array([0, 1, 2]), np.array([1, 0])))
    nothing = (np.array([0]), np.array([0]), np.array([], dtype=np.int32))
    for function in (eccentricity, clustering_coefficient, degree, is_connected):
        assert function(*nothing).shape == (0,)


def test_tensors_are_taken_too() -> None:
    ptr, rowptr, col = (torch.from_numpy(a) for a in gather([nx.path_graph(3)]))
    assert eccentricity(ptr, rowptr, col).tolist() == [2, 1, 2]


def draw_real_graphs(archive: Path, count: int, rng: np.random.Generator) -> CSR:
    """Some graphs of up to 600 nodes, as networkx is slow, from the first 4 MB of the edges."""
    name = archive.stem
    with zipfile.ZipFile(archive) as files:
        owner = np.array(files.read(f"{name}/{name}_graph_indicator.txt").split(), dtype=int) - 1
        with files.open(f"{name}/{name}_A.txt") as member:
            text = member.read(4_000_000)
    text = text[: text.rindex(b"\n")]
    edges = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.int64).T - 1
    # Edges come graph by graph, so only the last graph can be cut off.
    graph = owner[edges[0]]
    assert (np.diff(graph) >= 0).all()
    fits = np.flatnonzero(np.bincount(owner)[: graph[-1]] <= 600)
    chosen = np.sort(rng.choice(fits, size=min(count, len(fits)), replace=False))
    inside = np.isin(owner, chosen)
    number = np.cumsum(inside) - 1
    ptr = np.cumsum([0, *np.bincount(owner[inside])[chosen]])
    source, target = number[edges[:, inside[edges[0]]]]
    return to_csr(ptr, source, target)


@pytest.mark.long
def test_300_real_graphs_agree_with_networkx(legs_data: Path) -> None:
    rng = np.random.default_rng(0)
    total = 0
    for name in SETS:
        csr = draw_real_graphs(legs_data / "tu" / f"{name}.zip", 24, rng)
        check_against_networkx(csr)
        total += len(csr[0]) - 1
    assert total >= 300
