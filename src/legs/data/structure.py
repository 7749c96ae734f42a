"""What follows from the edges alone: degree, eccentricity, clustering, diameter. All exact.

Every function takes graphs as one block-diagonal matrix, as :class:`legs.data.GraphDataset` keeps
them: node offsets ``ptr`` of the graphs, ``[graphs + 1]``; offsets ``rowptr`` of the nodes' rows,
``[nodes + 1]``; neighbours ``col`` as node numbers of the whole set, ``[edges]``. Both directions
of every edge are listed. Self-loops and parallel edges are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from legs.data.reach import longest_distances

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
