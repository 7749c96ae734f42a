"""Node features that follow from the edges alone: degree, eccentricity, clustering. All exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class _Run(NamedTuple):
    """Some graphs of a set, without self-loops and parallel edges."""

    graphs: slice
    nodes: slice
    ptr: Array  # node offsets, from 0
    links: Any  # sparse matrix of bool, neighbours sorted


def _runs(ptr: Array, rowptr: Array, col: Array) -> Iterator[_Run]:
    ptr, rowptr, col = (np.asarray(a) for a in (ptr, rowptr, col))
    edges, start = rowptr[ptr], 0
    while start < len(ptr) - 1:
        stop = int(np.searchsorted(edges, edges[start] + EDGES_AT_ONCE, side="right")) - 1
        stop = max(stop, start + 1)
        a, b = int(ptr[start]), int(ptr[stop])
        near, offsets = col[edges[start] : edges[stop]] - a, rowptr[a : b + 1] - rowptr[a]
        ones = np.ones(len(near), dtype=bool)  # sums of ones stay ones
        links = sparse.csr_array((ones, near, offsets), shape=(b - a, b - a))
        links.sum_duplicates()
        links.data = _rows(links) != links.indices
        links.eliminate_zeros()
        yield _Run(slice(start, stop), slice(a, b), ptr[start : stop + 1] - a, links)
        start = stop


def degree(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Number of distinct neighbours of every node, ``[nodes]`` int64."""
    return _of_nodes(ptr, rowptr, col, np.int64, lambda run: np.diff(run.links.indptr))


def eccentricity(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Largest hop distance from every node within its connected component, ``[nodes]`` int32."""
    return _of_nodes(ptr, rowptr, col, np.int32, _longest_distances)


def clustering_coefficient(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Share of the pairs of neighbours that are joined, ``[nodes]`` float64; 0 below two."""
    return _of_nodes(ptr, rowptr, col, np.float64, _clustering)


def _of_nodes(
    ptr: Array, rowptr: Array, col: Array, dtype: Any, values: Callable[[_Run], Array]
) -> Array:
    out = np.zeros(len(rowptr) - 1, dtype=dtype)
    for run in _runs(ptr, rowptr, col):
        out[run.nodes] = values(run)
    return out


def is_connected(ptr: Array, rowptr: Array, col: Array) -> Array:
    """Whether every graph is connected, ``[graphs]`` bool; one without nodes is not."""
    out = np.zeros(len(ptr) - 1, dtype=bool)
    for run in _runs(ptr, rowptr, col):
        _, component = connected_components(run.links, directed=False)
        _, first = np.unique(component, return_index=True)
        owner = np.searchsorted(run.ptr, first, side="right") - 1
        out[run.graphs] = np.bincount(owner, minlength=len(run.ptr) - 1) == 1
    return out


def _clustering(run: _Run) -> Array:
    """Counts the triangles through every node.

    Edges point from the end with fewer neighbours to the other, so that even the hubs of large
    graphs have short rows; a triangle is then u → v → w and u → w.
    """
    links = run.links
    neighbours = np.diff(links.indptr).astype(np.int64)
    rank = np.argsort(np.argsort(neighbours, kind="stable"))
    row, col = _rows(links), links.indices
    up = rank[row] < rank[col]
    ones = np.ones(np.count_nonzero(up), dtype=np.int64)
    arrows = sparse.csr_array((ones, (row[up], col[up])), shape=links.shape)
    at_u = (arrows @ arrows).multiply(arrows)  # (u, w): how many v
    at_v_and_w = (arrows.T.tocsr() @ arrows).multiply(arrows)  # (v, w): how many u
    triangles = at_u.sum(axis=1) + at_v_and_w.sum(axis=1) + at_v_and_w.sum(axis=0)
    pairs = neighbours * (neighbours - 1) / 2
    return np.asarray(np.divide(triangles, pairs, out=np.zeros(len(pairs)), where=pairs > 0))


def _longest_distances(run: _Run) -> Array:
    """Eccentricity of every node; graphs that need as many words for a set are searched together.

    Every node has a set of the nodes it can reach, as bits, which grows step by step by those of
    its neighbours.
    """
    out = np.zeros(run.links.shape[0], dtype=np.int32)
    words = -(-np.diff(run.ptr) // 64)
    order = np.argsort(words, kind="stable")
    words = words[order]
    start = int(np.searchsorted(words, 1))  # graphs without nodes are done
    while start < len(words):
        width = int(words[start])
        equal = int(np.searchsorted(words, width, side="right"))
        stop = min(equal, start + max(1, WORDS_AT_ONCE // (64 * width * width)))
        graphs = order[start:stop]
        sizes = np.diff(run.ptr)[graphs]
        ends = np.cumsum(sizes)
        number = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        nodes = np.repeat(run.ptr[graphs], sizes) + number
        out[nodes] = _search(number, run.links[nodes][:, nodes], width)
        start = stop
    return out


def _search(number: Array, links: Any, words: int) -> Array:
    """Eccentricity of nodes by their number in their graph, with sets of so many ``words``."""
    word, bit = number >> 6, np.uint64(1) << (number & 63).astype(np.uint64)
    width = min(words, max(1, MOST_WORDS // max(links.nnz, 1)))
    out = np.zeros(len(number), dtype=np.int32)
    for first in range(0, words, width):
        sources = np.flatnonzero((word >= first) & (word < first + width))
        sets = np.zeros((min(width, words - first), len(number)), dtype=np.uint64)
        sets[word[sources] - first, sources] = bit[sources]
        np.maximum(out, _last_steps(sets, links), out=out)
    return out


def _last_steps(sets: Array, links: Any) -> Array:
    """The last step in which each node's set grows."""
    when = np.zeros(sets.shape[1], dtype=np.int32)
    nodes = np.flatnonzero(np.diff(links.indptr))  # that have neighbours
    starts, step, grown = links.indptr[nodes], 0, np.array([nodes.size > 0])
    while grown.any():
        step += 1
        own = sets[:, nodes]
        joined = own | np.bitwise_or.reduceat(sets[:, links.indices], starts, axis=1)
        grown = (joined != own).any(axis=0)
        when[nodes[grown]] = step
        sets[:, nodes] = joined
    return when


def _rows(links: Any) -> Array:
    """The row of every entry of a sparse matrix."""
    return np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
