"""Node features that follow from the edges alone: degree, eccentricity, clustering. All exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

Array: TypeAlias = np.ndarray[Any, Any]

# Graphs are taken in runs of about so many edges: that bounds memory, whatever the data set.
EDGES_AT_ONCE = 2_000_000


class SimpleGraphs(NamedTuple):
    """Some graphs of a set, numbered from 0, without self-loops and parallel edges."""

    graphs: slice
    nodes: slice
    ptr: Array
    rowptr: Array
    col: Array


def simple_graphs(ptr: Array, rowptr: Array, col: Array) -> Iterator[SimpleGraphs]:
    """The graphs in runs of bounded size, self-loops and parallel edges dropped.

    >>> ptr, rowptr, col = np.array([0, 2]), np.array([0, 3, 5]), np.array([0, 1, 1, 0, 0])
    >>> [run.col.tolist() for run in simple_graphs(ptr, rowptr, col)]
    [[1, 0]]
    """
    ptr, rowptr, col = (np.asarray(a) for a in (ptr, rowptr, col))
    edges, graphs, start = rowptr[ptr], len(ptr) - 1, 0
    while start < graphs:
        stop = int(np.searchsorted(edges, edges[start] + EDGES_AT_ONCE, side="right")) - 1
        stop = max(stop, start + 1)
        a, b = int(ptr[start]), int(ptr[stop])
        row = np.repeat(np.arange(b - a), np.diff(rowptr[a : b + 1]))
        near = col[rowptr[a] : rowptr[b]].astype(np.int64) - a
        again = row[1:] == row[:-1]
        if (near[1:] < near[:-1])[again].any():
            near = near[np.lexsort((near, row))]
        keep = row != near
        keep[1:] &= ~(again & (near[1:] == near[:-1]))
        kept = np.concatenate([[0], np.cumsum(keep)])
        yield SimpleGraphs(
            slice(start, stop),
            slice(a, b),
            ptr[start : stop + 1] - a,
            kept[rowptr[a : b + 1] - rowptr[a]],
            near[keep],
        )
        start = stop


def degree(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Number of distinct neighbours of every node, ``[nodes]`` int64.

    >>> degree(np.array([0, 3]), np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]))
    array([1, 2, 1])
    """
    out = np.zeros(len(rowptr) - 1, dtype=np.int64)
    for run in simple_graphs(ptr, rowptr, col):
        out[run.nodes] = np.diff(run.rowptr)
    return out


def eccentricity(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Largest hop distance from every node within its connected component, ``[nodes]`` int32.

    An isolated node has eccentricity 0.

    >>> eccentricity(np.array([0, 3]), np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]))
    array([2, 1, 2], dtype=int32)
    """
    out = np.zeros(len(rowptr) - 1, dtype=np.int32)
    for run in simple_graphs(ptr, rowptr, col):
        out[run.nodes] = longest_distances(run.ptr, run.rowptr, run.col)
    return out


def clustering_coefficient(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Share of the pairs of neighbours that are joined, ``[nodes]`` float64; 0 below two.

    >>> triangle = np.array([0, 3]), np.array([0, 2, 4, 6]), np.array([1, 2, 0, 2, 0, 1])
    >>> clustering_coefficient(*triangle)
    array([1., 1., 1.])
    """
    out = np.zeros(len(rowptr) - 1)
    for run in simple_graphs(ptr, rowptr, col):
        neighbours = np.diff(run.rowptr)
        pairs = neighbours * (neighbours - 1) / 2
        np.divide(_triangles(run.rowptr, run.col), pairs, out=out[run.nodes], where=pairs > 0)
    return out


def diameter(ptr: Array, rowptr: Array, col: Array, eccentricities: Array | None = None) -> Array:
    """Largest eccentricity of every graph, ``[graphs]`` int32; within components if disconnected.

    Args:
        ptr, rowptr, col: the graphs.
        eccentricities: of all nodes, where they are known already.

    >>> diameter(np.array([0, 3, 4]), np.array([0, 1, 3, 4, 4]), np.array([1, 0, 2, 1]))
    array([2, 0], dtype=int32)
    """
    ptr = np.asarray(ptr)
    found = eccentricity(ptr, rowptr, col) if eccentricities is None else eccentricities
    out = np.zeros(len(ptr) - 1, dtype=np.int32)
    filled = np.flatnonzero(np.diff(ptr))  # reduceat does not know empty runs
    if filled.size:
        out[filled] = np.maximum.reduceat(found, ptr[filled])
    return out


def is_connected(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Whether every graph is connected, ``[graphs]`` bool; one without nodes is not.

    >>> is_connected(np.array([0, 2, 4]), np.array([0, 1, 2, 2, 2]), np.array([1, 0]))
    array([ True, False])
    """
    ptr = np.asarray(ptr)
    out = np.zeros(len(ptr) - 1, dtype=bool)
    for run in simple_graphs(ptr, rowptr, col):
        size = len(run.rowptr) - 1
        links = np.ones(len(run.col), dtype=np.int8)
        matrix = sparse.csr_array((links, run.col, run.rowptr), shape=(size, size))
        _, component = connected_components(matrix, directed=False)
        _, first = np.unique(component, return_index=True)
        owner = np.searchsorted(run.ptr, first, side="right") - 1
        out[run.graphs] = np.bincount(owner, minlength=len(run.ptr) - 1) == 1
    return out


def _triangles(rowptr: Array, col: Array) -> Array:
    """Number of triangles through every node.

    Edges point from the end with fewer neighbours to the other, so that even the hubs of large
    graphs have short rows; a triangle is then u → v → w and u → w.
    """
    size = len(rowptr) - 1
    row = np.repeat(np.arange(size), np.diff(rowptr))
    rank = np.empty(size, dtype=np.int64)
    rank[np.argsort(np.diff(rowptr), kind="stable")] = np.arange(size)
    up = rank[row] < rank[col]
    links = np.ones(np.count_nonzero(up), dtype=np.int64)
    arrows = sparse.csr_array((links, (row[up], col[up])), shape=(size, size))
    at_u = (arrows @ arrows).multiply(arrows)  # (u, w): how many v
    at_v_and_w = (arrows.T.tocsr() @ arrows).multiply(arrows)  # (v, w): how many u
    return np.asarray(at_u.sum(axis=1) + at_v_and_w.sum(axis=1) + at_v_and_w.sum(axis=0))


# Words of all sets searched together: about what fits in a core's cache.
WORDS_AT_ONCE = 1 << 17
# A larger graph is searched from some of its nodes at a time, so that memory stays bounded.
MOST_WORDS = 1 << 22
# Neighbour lists are walked column by column while a column has at least so many words.
LONG_COLUMN = 512


def longest_distances(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Eccentricity of every node within its component, ``[nodes]`` int32.

    Args:
        ptr, rowptr, col: undirected graphs, see :mod:`legs.data.features.structure`; int64.

    >>> longest_distances(np.array([0, 3]), np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]))
    array([2, 1, 2], dtype=int32)
    """
    out = np.zeros(len(rowptr) - 1, dtype=np.int32)
    twins, likeness = _twin_leaves(rowptr, col)
    keep = np.ones(len(out), dtype=bool)
    keep[twins] = False
    small = _sort_by_words(ptr, rowptr, col, keep)
    for start, stop in _runs(small):
        a, b = small.ptr[start], small.ptr[stop]
        first, last = small.rowptr[a], small.rowptr[b]
        out[small.nodes[a:b]] = _search(
            small.ptr[start : stop + 1] - a,
            small.rowptr[a : b + 1] - first,
            small.col[first:last] - a,
            int(small.words[start]),
        )
    # Two leaves of one node are two steps apart, even if nothing else is.
    out[likeness] = np.maximum(out[likeness], 2)
    out[twins] = out[likeness]
    return out


class _Sorted(NamedTuple):
    ptr: Array
    rowptr: Array
    col: Array
    nodes: Array  # [nodes here], their former numbers
    words: Array  # [graphs], words of a set


def _twin_leaves(rowptr: Array, col: Array) -> tuple[Array, Array]:
    """Leaves that hang on the same node as another leaf, and that other leaf.

    They have the same eccentricity. In trees of replies most nodes are such leaves.
    """
    leaf = np.flatnonzero(np.diff(rowptr) == 1)
    parent = col[rowptr[leaf]]
    chosen = np.zeros(len(rowptr) - 1, dtype=np.int64)
    chosen[parent] = leaf
    twin = chosen[parent] != leaf
    return leaf[twin], chosen[parent[twin]]


def _sort_by_words(ptr: Array, rowptr: Array, col: Array, keep: Array) -> _Sorted:
    """The subgraphs of the nodes to keep, those with small sets first."""
    sizes = np.diff(np.concatenate([[0], np.cumsum(keep)])[ptr])
    words = -(-sizes // 64)
    order = np.argsort(words, kind="stable")
    nodes, _ = _ranges(ptr[:-1][order], np.diff(ptr)[order])
    nodes = nodes[keep[nodes]]
    number = np.full(len(keep), -1)
    number[nodes] = np.arange(len(nodes))
    edges, offsets = _ranges(rowptr[nodes], np.diff(rowptr)[nodes])
    near = number[col[edges]]
    inside = near >= 0
    kept = np.concatenate([[0], np.cumsum(inside)])
    new_ptr = np.concatenate([[0], np.cumsum(sizes[order])])
    return _Sorted(new_ptr, kept[offsets], near[inside], nodes, words[order])


def _runs(graphs: _Sorted) -> Iterator[tuple[int, int]]:
    """Runs of graphs, first and one past the last, to be searched together."""
    total = np.concatenate([[0], np.cumsum(graphs.words * np.diff(graphs.ptr))])
    start = int(np.searchsorted(graphs.words, 0, side="right"))  # those without nodes are done
    while start < len(graphs.words):
        alike = int(np.searchsorted(graphs.words, graphs.words[start], side="right"))
        fits = int(np.searchsorted(total, total[start] + WORDS_AT_ONCE, side="right")) - 1
        stop = max(min(alike, fits), start + 1)
        yield start, stop
        start = stop


def _search(ptr: Array, rowptr: Array, col: Array, words: int) -> Array:
    size = len(rowptr) - 1
    local = np.arange(size) - np.repeat(ptr[:-1], np.diff(ptr))
    width = words if size * words <= MOST_WORDS else max(1, MOST_WORDS // size)
    out = np.zeros(size, dtype=np.int32)
    for first in range(0, words, width):
        here = np.flatnonzero((local >> 6 >= first) & (local >> 6 < first + width))
        known = np.zeros((size, min(width, words - first)), dtype=np.uint64)
        known[here, (local[here] >> 6) - first] = np.uint64(1) << (local[here] & 63).astype(
            np.uint64
        )
        np.maximum(out, _spread(known, rowptr, col, everything=width == words), out=out)
    return out


def _spread(known: Array, rowptr: Array, col: Array, *, everything: bool) -> Array:
    """The last step in which each node's set grows.

    With all sources in the sets (``everything``), one that has not grown once never will, and its
    node needs no more steps; with some of the sources it may.
    """
    when = np.zeros(len(known), dtype=np.int32)
    neighbours = np.diff(rowptr)
    active = np.argsort(-neighbours, kind="stable")[: np.count_nonzero(neighbours)]
    columns, rest = _columns(active, rowptr, col, known.shape[1])
    step = 0
    while active.size:
        step += 1
        own = known.take(active, axis=0)
        joined = own.copy()
        for column in columns:
            joined[: len(column)] |= known.take(column, axis=0)
        if rest is not None:
            others, starts = rest
            joined[: len(starts)] |= np.bitwise_or.reduceat(known.take(others, axis=0), starts)
        grown = (joined != own).any(axis=1)
        known[active] = joined
        when[active[grown]] = step
        count = np.count_nonzero(grown)
        if count == 0:
            break
        if everything and count < 0.8 * len(active):
            active = active[grown]
            columns, rest = _columns(active, rowptr, col, known.shape[1])
    return when


def _columns(
    nodes: Array, rowptr: Array, col: Array, words: int
) -> tuple[list[Array], tuple[Array, Array] | None]:
    """Neighbours of ``nodes``, which come by falling degree, in a form that is quick to join.

    First, second, third … neighbours of all nodes that have so many: each a list for the first so
    many nodes. Where few are left (hubs), their remaining neighbours one hub after another, and
    the offsets of the hubs.
    """
    begin, count = rowptr[nodes], rowptr[nodes + 1] - rowptr[nodes]
    most = int(count[0]) if len(count) else 0
    having = len(count) - np.searchsorted(count[::-1], np.arange(most), side="right")
    full = max(1, int(np.count_nonzero(having * words >= LONG_COLUMN)))
    columns = [col[begin[:n] + k] for k, n in enumerate(having[:full].tolist())]
    if full >= most:
        return columns, None
    hubs = having[full]
    others, offsets = _ranges(begin[:hubs] + full, count[:hubs] - full)
    return columns, (col[others], offsets[:-1])


def _ranges(starts: Array, lengths: Array) -> tuple[Array, Array]:
    """The numbers ``starts[i], …, starts[i] + lengths[i] - 1`` one after another; their offsets."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets
