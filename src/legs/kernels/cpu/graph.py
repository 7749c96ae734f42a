"""Edges sorted into compressed rows, and checked on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.kernels.cpu.jit import entry, inner
from legs.kernels.cpu.simd import at, put

# What sorted_rows returns: a sound batch, one that may be directed or have bad weights, and one
# that kernels must not read.
VALID, SUSPECT, INVALID = 0, 1, 2
_NONE = np.empty(0, np.float32)
TOLERANCE = 1e-5  # of weights of the two directions, as legs.functional.check_undirected


def flat(tensor: Tensor) -> NDArray[Any]:
    """A flat array of a tensor's elements, copied only if necessary."""
    return array_of(tensor).reshape(-1)


def array_of(tensor: Tensor) -> NDArray[Any]:
    """A contiguous array of a tensor's elements, copied only if necessary."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return np.ascontiguousarray(plain.numpy())


def sorted_rows(
    edge_index: Tensor,
    weight: Tensor | None,
    batch: Tensor | None,
    nodes: int,
    graphs: int,
    check_weights: bool,
    check_symmetry: bool,
) -> tuple[int, tuple[Tensor, Tensor, Tensor | None, Tensor]]:
    """Sorts edges by target and source, and checks them on the way; indices in any case.

    Returns:
        A status; and ``rowptr``, ``col``, ``weight`` and ``ptr`` of a
        :class:`~legs.kernels.csr.Batch`.
    """
    edges = edge_index.shape[-1]
    sizes = (nodes + 1, edges, max(graphs, 0) + 1)
    rowptr, col, ptr = (np.empty(size, np.int64) for size in sizes)
    weights = _NONE if weight is None else array_of(weight)
    values, status = np.empty_like(weights), INVALID
    readable = edge_index.shape == (2, edges) and edge_index.dtype is torch.int64
    readable = readable and (weight is None or weight.shape == (edges,))
    if readable and (batch is None or (batch.shape, batch.dtype) == ((nodes,), torch.int64)):
        source, target = array_of(edge_index)
        numbers = np.zeros(nodes, np.int64) if batch is None else array_of(batch)
        columns, rows = (source, target, weights, numbers), (rowptr, col, values, ptr)
        status = _sort_edges(columns, rows, check_weights, check_symmetry)
    first, second, last = (torch.from_numpy(array) for array in (rowptr, col, ptr))
    return status, (first, second, None if weight is None else torch.from_numpy(values), last)


@entry
def _sort_edges(edges, rows, check_weights, check_symmetry):
    """Writes ``rowptr``, ``col``, ``value`` and ``ptr``, the ``rows``; returns a status."""
    (source, target, weight, batch), (rowptr, col, value, ptr) = edges, rows
    nodes, graphs, number, valid = rowptr.size - 1, ptr.size - 1, 0, True
    ptr[0] = 0
    for i in range(nodes):
        g = at(batch, i)
        if g < number or g >= graphs:
            return INVALID
        while number < g:
            number += 1
            put(ptr, number, i)
    ptr[number + 1 :] = nodes
    rowptr[:], colptr = 0, np.zeros(nodes + 1, np.int64)
    for e in range(target.size):
        i, j = at(target, e), at(source, e)
        if i < 0 or i >= nodes or j < 0 or j >= nodes or at(batch, i) != at(batch, j):
            return INVALID
        put(rowptr, i + 1, at(rowptr, i + 1) + 1)
        put(colptr, j + 1, at(colptr, j + 1) + 1)
    for i in range(nodes):
        rowptr[i + 1] += rowptr[i]
        colptr[i + 1] += colptr[i]
    # Sorted by source first, and then by target: columns are in order within a row.
    row, values, place = np.empty_like(col), np.empty_like(value), colptr.copy()
    for e in range(target.size):
        k = at(place, at(source, e))
        put(place, at(source, e), k + 1)
        put(row, k, at(target, e))
        if weight.size:
            put(values, k, at(weight, e))
    place[:] = rowptr
    for j in range(nodes):
        for e in range(at(colptr, j), at(colptr, j + 1)):
            k = at(place, at(row, e))
            put(place, at(row, e), k + 1)
            put(col, k, j)
            if weight.size:
                put(value, k, at(values, e))
    for e in range(weight.size if check_weights else 0):
        valid &= 0 <= at(weight, e) < np.inf
    if check_symmetry:
        valid &= _is_symmetric(rowptr, colptr, col, value)
    return VALID if valid else SUSPECT


@inner
def _is_symmetric(rowptr, colptr, col, value):
    """Whether every entry has its reverse, of equal weight; parallel edges are not summed up."""
    symmetric = True
    for i in range(rowptr.size):
        symmetric &= at(rowptr, i) == at(colptr, i)
    for i in range(rowptr.size - 1 if symmetric else 0):
        for e in range(at(rowptr, i), at(rowptr, i + 1)):
            k = at(colptr, at(col, e))  # the next entry of the neighbor's row
            put(colptr, at(col, e), k + 1)
            symmetric &= at(col, k) == i
            if value.size:
                a, b = at(value, e), at(value, k)
                symmetric &= abs(a - b) <= TOLERANCE * max(a, b)
    return symmetric
