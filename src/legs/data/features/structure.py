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
# Words of all sets searched together: about what fits in a core's cache.
WORDS_AT_ONCE = 1 << 17
# A larger graph is searched from some of its nodes at a time, so that memory stays bounded.
MOST_WORDS = 1 << 22
# Neighbour lists are walked column by column while a column has at least so many words.
LONG_COLUMN = 512


class SimpleGraphs(NamedTuple):
    """Some graphs of a set, numbered from 0, without self-loops and parallel edges."""

    graphs: slice
    nodes: slice
    ptr: Array
    rowptr: Array
    col: Array


def simple_graphs(ptr: Array, rowptr: Array, col: Array) -> Iterator[SimpleGraphs]:
    """The graphs in runs of bounded size, self-loops and parallel edges dropped."""
    ptr, rowptr, col = (np.asarray(a) for a in (ptr, rowptr, col))
    edges, graphs, start = rowptr[ptr], len(ptr) - 1, 0
    while start < graphs:
        stop = int(np.searchsorted(edges, edges[start] + EDGES_AT_ONCE, side="right")) - 1
        stop = max(stop, start + 1)
        a, b = int(ptr[start]), int(ptr[stop])
        row = np.repeat(np.arange(b - a), np.diff(rowptr[a : b + 1]))
        near = col[rowptr[a] : rowptr[b]].astype(np.int64) - a
        same_row = row[1:] == row[:-1]
        if (near[1:] < near[:-1])[same_row].any():
            near = near[np.lexsort((near, row))]
        keep = row != near
        keep[1:] &= ~(same_row & (near[1:] == near[:-1]))
        new_rowptr = _offsets(keep)[rowptr[a : b + 1] - rowptr[a]]
        new_ptr = ptr[start : stop + 1] - a
        yield SimpleGraphs(slice(start, stop), slice(a, b), new_ptr, new_rowptr, near[keep])
        start = stop


def degree(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Number of distinct neighbours of every node, ``[nodes]`` int64."""
    out = np.zeros(len(rowptr) - 1, dtype=np.int64)
    for run in simple_graphs(ptr, rowptr, col):
        out[run.nodes] = np.diff(run.rowptr)
    return out


def eccentricity(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Largest hop distance from every node within its connected component, ``[nodes]`` int32."""
    out = np.zeros(len(rowptr) - 1, dtype=np.int32)
    for run in simple_graphs(ptr, rowptr, col):
        out[run.nodes] = _longest_distances(run.ptr, run.rowptr, run.col)
    return out


def clustering_coefficient(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Share of the pairs of neighbours that are joined, ``[nodes]`` float64; 0 below two."""
    out = np.zeros(len(rowptr) - 1)
    for run in simple_graphs(ptr, rowptr, col):
        neighbours = np.diff(run.rowptr)
        pairs = neighbours * (neighbours - 1) / 2
        np.divide(_triangles(run.rowptr, run.col), pairs, out=out[run.nodes], where=pairs > 0)
    return out


def is_connected(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Whether every graph is connected, ``[graphs]`` bool; one without nodes is not."""
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


def _longest_distances(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Eccentricity of every node of simple graphs, ``[nodes]`` int32.

    Every node has a set of the nodes it can reach, as bits, which grows step by step by those of
    its neighbours. Graphs are searched together that need as many words for a set.
    """
    out = np.zeros(len(rowptr) - 1, dtype=np.int32)
    # Leaves of the same node have the same eccentricity: all but one are left out. In trees of
    # replies most nodes are such leaves.
    leaf = np.flatnonzero(np.diff(rowptr) == 1)
    parent = col[rowptr[leaf]]
    one_leaf = np.zeros(len(out), dtype=np.int64)
    one_leaf[parent] = leaf
    is_twin = one_leaf[parent] != leaf
    twins, models = leaf[is_twin], one_leaf[parent[is_twin]]
    keep = np.ones(len(out), dtype=bool)
    keep[twins] = False

    sizes = np.diff(_offsets(keep)[ptr])
    words = -(-sizes // 64)
    order = np.argsort(words, kind="stable")
    nodes, _ = _ranges(ptr[:-1][order], np.diff(ptr)[order])
    nodes = nodes[keep[nodes]]
    number = np.full(len(keep), -1)
    number[nodes] = np.arange(len(nodes))
    edges, starts = _ranges(rowptr[nodes], np.diff(rowptr)[nodes])
    near = number[col[edges]]
    rowptr, col = _offsets(near >= 0)[starts], near[near >= 0]
    ptr, words = _offsets(sizes[order]), words[order]

    total = _offsets(words * np.diff(ptr))
    start = int(np.searchsorted(words, 0, side="right"))  # those without nodes are done
    while start < len(words):
        equal = int(np.searchsorted(words, words[start], side="right"))
        fits = int(np.searchsorted(total, total[start] + WORDS_AT_ONCE, side="right")) - 1
        stop = max(min(equal, fits), start + 1)
        a, b = ptr[start], ptr[stop]
        first, last = rowptr[a], rowptr[b]
        run = ptr[start : stop + 1] - a, rowptr[a : b + 1] - first, col[first:last] - a
        out[nodes[a:b]] = _search(*run, int(words[start]))
        start = stop
    # Two leaves of one node are two steps apart, even if nothing else is.
    out[models] = np.maximum(out[models], 2)
    out[twins] = out[models]
    return out


def _search(ptr: Array, rowptr: Array, col: Array, words: int) -> Array:
    size = len(rowptr) - 1
    local = np.arange(size) - np.repeat(ptr[:-1], np.diff(ptr))
    width = words if size * words <= MOST_WORDS else max(1, MOST_WORDS // size)
    out = np.zeros(size, dtype=np.int32)
    for first in range(0, words, width):
        here = np.flatnonzero((local >> 6 >= first) & (local >> 6 < first + width))
        sets = np.zeros((size, min(width, words - first)), dtype=np.uint64)
        bit = (local[here] & 63).astype(np.uint64)
        sets[here, (local[here] >> 6) - first] = np.uint64(1) << bit
        np.maximum(out, _spread(sets, rowptr, col, everything=width == words), out=out)
    return out


def _spread(sets: Array, rowptr: Array, col: Array, *, everything: bool) -> Array:
    """The last step in which each node's set grows; with ``everything``, of all sources."""
    when = np.zeros(len(sets), dtype=np.int32)
    neighbours = np.diff(rowptr)
    active = np.argsort(-neighbours, kind="stable")[: np.count_nonzero(neighbours)]
    columns, rest = _columns(active, rowptr, col, sets.shape[1])
    step = 0
    while active.size:
        step += 1
        own = sets.take(active, axis=0)
        joined = own.copy()
        for column in columns:
            joined[: len(column)] |= sets.take(column, axis=0)
        if rest is not None:
            others, starts = rest
            joined[: len(starts)] |= np.bitwise_or.reduceat(sets.take(others, axis=0), starts)
        grown = (joined != own).any(axis=1)
        sets[active] = joined
        when[active[grown]] = step
        count = np.count_nonzero(grown)
        if count == 0:
            break
        # With all sources in the sets, one that has not grown once never will.
        if everything and count < 0.8 * len(active):
            active = active[grown]
            columns, rest = _columns(active, rowptr, col, sets.shape[1])
    return when


def _columns(
    nodes: Array, rowptr: Array, col: Array, words: int
) -> tuple[list[Array], tuple[Array, Array] | None]:
    """First, second, third … neighbours of ``nodes``, which come by falling degree.

    Where few nodes have so many (hubs), their other neighbours, hub after hub, and the offsets.
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
    offsets = _offsets(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


def _offsets(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)])
