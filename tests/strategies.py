"""Graphs and signals to test on: builders of named families and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

Pairs = list[tuple[int, int]]


class Graph(NamedTuple):
    """An undirected graph: both directions of every edge are listed, a self-loop once."""

    num_nodes: int
    edge_index: Tensor
    edge_weight: Tensor | None


class Batch(NamedTuple):
    """Several graphs one after the other, with the graph every node belongs to."""

    num_nodes: int
    edge_index: Tensor
    edge_weight: Tensor | None
    batch: Tensor
    num_graphs: int


# Families of graphs as pairs of nodes


def path_pairs(n: int) -> Pairs:
    """0 - 1 - ... - (n-1)."""
    return [(i, i + 1) for i in range(n - 1)]


def star_pairs(n: int) -> Pairs:
    """Node 0 joined to all others."""
    return [(0, i) for i in range(1, n)]


def circulant_pairs(n: int, jumps: Sequence[int]) -> Pairs:
    """Node i joined to i + jump for every jump (modulo n): regular."""
    return sorted({tuple(sorted((i, (i + jump) % n))) for i in range(n) for jump in jumps})


def ring_pairs(n: int) -> Pairs:
    """A cycle (n >= 3)."""
    return circulant_pairs(n, [1])


def complete_pairs(n: int) -> Pairs:
    """All pairs."""
    return list(combinations(range(n), 2))


def from_pairs(n: int, pairs: Pairs, weights: Sequence[float] | None = None) -> Graph:
    """The graph of undirected edges ``pairs``; a repeated pair is a parallel edge."""
    listed = [(a, b, k) for k, (a, b) in enumerate(pairs)]
    listed += [(b, a, k) for k, (a, b) in enumerate(pairs) if a != b]
    table = torch.tensor(listed, dtype=torch.int64).reshape(-1, 3)
    edge_weight = None
    if weights is not None:
        edge_weight = torch.tensor(list(weights), dtype=torch.float64)[table[:, 2]]
    return Graph(n, table[:, :2].t().contiguous(), edge_weight)


# Changes that leave the graph the same


def permuted(graph: Graph, order: Tensor, edges: Tensor | None = None) -> Graph:
    """The same graph with node ``order[k]`` renamed k, its edges listed in the order ``edges``."""
    rank = torch.empty_like(order)
    rank[order] = torch.arange(graph.num_nodes)
    edges = torch.arange(graph.edge_index.shape[1]) if edges is None else edges
    weight = None if graph.edge_weight is None else graph.edge_weight[edges]
    return Graph(graph.num_nodes, rank[graph.edge_index[:, edges]], weight)


def collate(graphs: Sequence[Graph]) -> Batch:
    """Graphs concatenated with offsets; weights only where every graph has them."""
    sizes = torch.tensor([graph.num_nodes for graph in graphs])
    offsets = (sizes.cumsum(0) - sizes).tolist()
    index = [graph.edge_index + offset for graph, offset in zip(graphs, offsets, strict=True)]
    weights = [graph.edge_weight for graph in graphs if graph.edge_weight is not None]
    return Batch(
        int(sizes.sum()),
        torch.cat(index, dim=1),
        torch.cat(weights) if len(weights) == len(graphs) else None,
        torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        len(graphs),
    )


RANDOM_FAMILIES = ("random", "tree", "path", "star", "ring", "circulant", "complete")


def random_graph(
    rng: np.random.Generator, families: Sequence[str] = RANDOM_FAMILIES, max_nodes: int = 40
) -> Graph:
    """One graph of one of the families, a third of them weighted; for long loops."""
    family = str(rng.choice(families))
    n = int(rng.integers(3 if family in ("ring", "circulant") else 1, max_nodes + 1))
    builders: dict[str, Callable[[], Pairs]] = {
        "random": lambda: [pair for pair in complete_pairs(n) if rng.random() < min(1.0, 3 / n)],
        "tree": lambda: [(int(rng.integers(i)), i) for i in range(1, n)],
        "path": lambda: path_pairs(n),
        "star": lambda: star_pairs(n),
        "ring": lambda: ring_pairs(n),
        "circulant": lambda: circulant_pairs(n, range(1, 1 + min(n // 2, 2))),
        "complete": lambda: complete_pairs(n),
    }
    pairs = builders[family]()
    weighted = rng.random() < 1 / 3
    return from_pairs(n, pairs, rng.uniform(0.1, 10, len(pairs)).tolist() if weighted else None)


# Strategies

FAMILIES = ("random", "path", "star", "ring", "circulant", "complete", "one node")


@st.composite
def pairs_of_family(draw: st.DrawFn, max_nodes: int) -> tuple[int, Pairs]:
    """Number of nodes and edges of one connected family, or of a random edge set."""
    family = draw(st.sampled_from(FAMILIES))
    if family == "one node":
        return 1, []
    n = draw(st.integers(3 if family in ("ring", "circulant") else 2, max_nodes))
    if family == "random":
        possible = complete_pairs(n)
        return n, draw(st.lists(st.sampled_from(possible), unique=True, max_size=2 * n))
    if family == "circulant":
        jumps = st.sets(st.integers(1, n // 2), min_size=1, max_size=3)
        return n, circulant_pairs(n, sorted(draw(jumps)))
    builders = {
        "path": path_pairs,
        "star": star_pairs,
        "ring": ring_pairs,
        "complete": complete_pairs,
    }
    return n, builders[family](n)


@st.composite
def graphs(
    draw: st.DrawFn, max_nodes: int = 9, weighted: bool | None = None, plain: bool = False
) -> Graph:
    """An undirected graph; unless ``plain``, perhaps disconnected, with isolated nodes, self-loops
    and parallel edges."""
    n, pairs = draw(pairs_of_family(max_nodes))
    if not plain and draw(st.booleans()):
        if draw(st.booleans()):  # a second component
            more, others = draw(pairs_of_family(max_nodes))
            pairs = pairs + [(a + n, b + n) for a, b in others]
            n += more
        n += draw(st.integers(0, 2))  # isolated nodes
        loops = draw(st.lists(st.integers(0, n - 1), max_size=2))
        parallel = draw(st.lists(st.sampled_from(pairs), max_size=3)) if pairs else []
        pairs = pairs + [(a, a) for a in loops] + parallel
    weights = None
    if draw(st.booleans()) if weighted is None else weighted:
        weight = st.floats(0.125, 8, width=32)
        weights = draw(st.lists(weight, min_size=len(pairs), max_size=len(pairs)))
    graph = from_pairs(n, pairs, weights)
    return permuted(graph, draw(permutations(n)), draw(permutations(graph.edge_index.shape[1])))


@st.composite
def batches(
    draw: st.DrawFn, max_graphs: int = 4, max_nodes: int = 7, weighted: bool | None = None
) -> Batch:
    """One to ``max_graphs`` graphs, all weighted or none."""
    weighted = draw(st.booleans()) if weighted is None else weighted
    one = graphs(max_nodes=max_nodes, weighted=weighted)
    return collate(draw(st.lists(one, min_size=1, max_size=max_graphs)))


def permutations(n: int) -> st.SearchStrategy[Tensor]:
    """A permutation of 0..n-1."""

    def shuffle(seed: int) -> Tensor:
        return torch.from_numpy(np.random.default_rng(seed).permutation(n))

    return st.just(torch.arange(n)) | st.integers(0, 2**32 - 1).map(shuffle)


@st.composite
def signals(draw: st.DrawFn, num_nodes: int, channels: int) -> Tensor:
    """A float64 signal [num_nodes, channels], each channel random, constant, one-hot or shifted."""
    columns = []
    for _ in range(channels):
        kind = draw(st.sampled_from(["random", "constant", "one-hot", "shifted"]))
        if kind == "constant":
            columns.append(torch.full((num_nodes,), draw(st.sampled_from([1.0, -3.0, 0.1, 0.0]))))
        elif kind == "one-hot":
            node = draw(st.integers(0, num_nodes - 1))
            columns.append(torch.eye(num_nodes)[node])
        else:
            rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
            offset = 5.0 if kind == "shifted" else 0.0
            columns.append(torch.from_numpy(rng.normal(offset, 1.0, num_nodes)))
    return torch.stack([column.double() for column in columns], dim=1)
