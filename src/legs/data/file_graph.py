"""A graph as its file tells it, and as arrays with both directions of every edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from legs.data.errors import DataError

_Array: TypeAlias = np.ndarray[Any, Any]


class FileGraph(NamedTuple):
    """A graph with every edge once."""

    nodes: list[dict[str, Any]]  # attributes of each node
    source: _Array  # [edges] int64
    target: _Array  # [edges] int64
    weight: _Array | None  # [edges] float64
    directed: bool


def build(
    nodes: list[dict[str, Any]], triples: Sequence[tuple[int, int, Any]], *, directed: bool
) -> FileGraph:
    """A graph from edges ``(node, node, weight)``; weights of ``None`` are 1."""
    ends = np.array([triple[:2] for triple in triples], dtype=np.int64).reshape(-1, 2)
    given = [triple[2] for triple in triples]
    weight = None
    if any(w is not None for w in given):
        weight = np.array([1.0 if w is None else float(w) for w in given])
    return FileGraph(nodes, ends[:, 0], ends[:, 1], weight, directed)


def merge(graph: FileGraph) -> FileGraph:
    """One edge for every edge named twice; if the directions differ in weight, a directed graph."""
    size, weight = len(graph.nodes), graph.weight
    _, first, place = np.unique(
        graph.source * size + graph.target, return_index=True, return_inverse=True
    )
    if weight is not None:
        differ = np.flatnonzero(weight[first][place] != weight)
        if differ.size and not np.isnan(weight).any():
            edge = int(differ[0])
            raise DataError(f"edge {edge + 1} is listed before with another weight")
    once = graph._replace(
        source=graph.source[first],
        target=graph.target[first],
        weight=None if weight is None else weight[first],
    )
    if graph.directed:
        return once
    low, high = np.minimum(once.source, once.target), np.maximum(once.source, once.target)
    _, first, place = np.unique(low * size + high, return_index=True, return_inverse=True)
    if once.weight is not None and (once.weight[first][place] != once.weight).any():
        return once._replace(directed=True)
    return once._replace(
        source=once.source[first],
        target=once.target[first],
        weight=None if once.weight is None else once.weight[first],
    )


def both_directions(graph: FileGraph, *, symmetrize: bool) -> tuple[_Array, _Array | None]:
    """Edges ``[2, edges]`` in both directions and their weights ``[edges]``.

    A directed graph whose arcs all have an equal counterpart is an undirected one. Any other is
    refused, or becomes one with an edge wherever there is an arc, of the larger weight of the two
    directions.

    Raises:
        DataError: directed, and ``symmetrize`` is false.
    """
    source, target, weight = graph.source, graph.target, graph.weight
    if not graph.directed:
        once = source != target  # a loop is its own reverse
        edges = np.stack(
            [np.concatenate([source, target[once]]), np.concatenate([target, source[once]])]
        )
        return edges, None if weight is None else np.concatenate([weight, weight[once]])
    size = len(graph.nodes)
    ones = np.ones(len(source)) if weight is None else weight
    arcs, place = np.unique(source * size + target, return_inverse=True)
    there = np.bincount(place, ones, minlength=len(arcs))  # parallel arcs add up
    reverse = arcs % size * size + arcs // size
    found = np.minimum(np.searchsorted(arcs, reverse), max(len(arcs) - 1, 0))
    back = np.where(arcs[found] == reverse, there[found], 0.0) if len(arcs) else there
    if not symmetrize and not np.allclose(there, back, rtol=1e-5, atol=0):
        raise DataError(
            "a directed graph; choose directed='symmetrize' to take every arc as an undirected "
            "edge (of the larger weight, where there are two)"
        )
    larger = np.concatenate([np.maximum(there, back), np.maximum(there, back)])
    pairs, first = np.unique(np.concatenate([arcs, reverse]), return_index=True)
    both = larger[first]
    return np.stack([pairs // size, pairs % size]), None if (both == 1).all() else both
