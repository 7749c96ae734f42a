"""Edges in compressed rows; one graph of a batch, and the walk on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.functional.diffusion import BASE
from legs.kernels.cpu.jit import entry, inlined, inner
from legs.kernels.cpu.simd import at, len_of, load, multiply_add, put, store
from legs.kernels.cpu.workspace import UNROLL

# What sorted_rows returns: a sound batch, one that may be directed or have bad weights, and one
# that kernels must not read.
VALID, SUSPECT, INVALID = 0, 1, 2
_NONE = np.empty(0, np.float32)
# Of the walk, as numbers that keep the type of those they are multiplied with.
STAY, MOVE = np.float32(BASE), np.float32(1 - BASE)
TOLERANCE = 1e-5  # of weights of the two directions, as legs.functional.check_undirected


def flat(tensor: Tensor) -> NDArray[Any]:
    """A flat array of a tensor's elements, copied only if necessary."""
    return array_of(tensor).reshape(-1)


def array_of(tensor: Tensor) -> NDArray[Any]:
    """A contiguous array of a tensor's elements, copied only if necessary."""
    return np.ascontiguousarray(tensor.detach().numpy())


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
    rowptr, col, ptr = (torch.empty(size, dtype=torch.int64) for size in sizes)
    value = None if weight is None else torch.empty_like(weight)
    status, made = INVALID, (rowptr, col, value, ptr)
    readable = edge_index.shape == (2, edges) and edge_index.dtype is torch.int64
    readable = readable and (weight is None or weight.shape == (edges,))
    if readable and (batch is None or (batch.shape, batch.dtype) == ((nodes,), torch.int64)):
        source, target = array_of(edge_index)
        weights, values = (_NONE if t is None else array_of(t) for t in (weight, value))
        numbers = np.zeros(nodes, np.int64) if batch is None else array_of(batch)
        rows = (rowptr.numpy(), col.numpy(), values, ptr.numpy())
        columns = (source, target, weights, numbers)
        status = _sort_edges(columns, rows, check_weights, check_symmetry)
    return status, made


@entry
def _sort_edges(edges: Any, rows: Any, check_weights: bool, check_symmetry: bool) -> int:
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
def _is_symmetric(rowptr: Any, colptr: Any, col: Any, value: Any) -> bool:
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


@inlined
def weight_at(weights: Any, place: int, one: Any) -> Any:
    """A weight; one if there are none."""
    return one if weights is None else at(weights, place)


@inlined
def times(weights: Any, place: int, value: Any) -> Any:
    """A value times a weight."""
    return value if weights is None else value * at(weights, place)


@inlined
def add_times(weights: Any, place: int, value: Any, total: Any) -> Any:
    """``total`` plus a vector times a weight."""
    return total + value if weights is None else multiply_add(at(weights, place), value, total)


@inner
def node_share(counts: Any, first: int, n: int) -> Any:
    """The share of one node in means over a graph of ``n`` nodes."""
    if counts is None:
        return 1.0 / n
    total = 0.0
    for i in range(first, first + n):
        total += at(counts, i)
    return 1.0 / max(total, 1.0)


@inner
def load_graph(inputs: Any, first: int, n: int, lanes: int, space: Any) -> None:
    """Copies the rows from ``first`` on of a batch: those of one entry or none, of two, three, …"""
    rowptr, order, place = inputs.rowptr, space.order, space.place
    near, data = space.near, space.data
    one = data.dtype.type(1)
    starts = np.zeros(5, np.int64)
    for i in range(first, first + n):
        put(place, i - first, min(max(at(rowptr, i + 1) - at(rowptr, i), 1), 4))
        put(starts, at(place, i - first), at(starts, at(place, i - first)) + 1)
    for length in range(1, 5):
        starts[length] += starts[length - 1]
    for i in range(n):
        k = at(starts, at(place, i) - 1)
        put(starts, at(place, i) - 1, k + 1)
        put(place, i, k)
        put(order, k, i)
    for i in range(n, n + UNROLL):
        put(order, i, at(order, n - 1))
    entries = 0
    for i in range(n):
        put(space.start, i, entries)
        total = one - one
        row = first + at(order, i)
        for e in range(at(rowptr, row), at(rowptr, row + 1)):
            w = weight_at(inputs.weight, e, one)
            put(near, entries, at(place, at(inputs.col, e) - first) * lanes)
            _keep(space.weights, space.edge_weight + entries, w)
            total += w
            entries += 1
        if total == 0:
            put(near, entries, i * lanes)
            _keep(space.weights, space.edge_weight + entries, one)
            entries += 1
            total = one
        _keep(space.counts, space.node_count + i, weight_at(inputs.counts, row, one))
        put(data, space.degree + i, total)
        put(data, space.inverse + i, one / total)
    put(space.start, n, entries)


@inlined
def _keep(weights: Any, place: int, weight: Any) -> None:
    if weights is not None:
        put(weights, place, weight)


@inner
def energy_weights(n: int, lanes: int, space: Any) -> None:
    r"""How much a square :math:`x_j^2` counts in the energy: :math:`1 + \sum_i \rho_i A_{ij}`.

    See :func:`legs.functional.signal_energy`; its two sums can be exchanged, and what is left
    depends on no signal. By rows it is :math:`1 + d_j^{-1} \sum_i W_{ji} \rho_i`, for weights are
    symmetric. Merged nodes of multiplicities :math:`n_i` have as many edges counted from either
    end, :math:`n_i W_{ij} = n_j W_{ji}`: the sum by rows stays, and counts :math:`n_j` times.
    """
    data, one = space.data, space.data.dtype.type(1)
    for turn in range(2):
        source = space.ping if turn else space.inverse
        for i in range(n):
            total = one - one
            for e in range(at(space.start, i), at(space.start, i + 1)):
                weight = weight_at(space.weights, space.edge_weight + e, one)
                total += at(data, source + at(space.near, e) // lanes) * weight
            if turn:
                total = one + at(data, space.inverse + i) * total
                total = times(space.counts, space.node_count + i, total)
            put(data, (space.energy_weight if turn else space.ping) + i, total)


@inlined
def row_sum(zero: Any, source: int, space: Any, i: int) -> Any:
    r""":math:`\sum_j W_{ij} v_j`."""
    near, data, weights, weight = space.near, space.data, space.weights, space.edge_weight
    e, end = at(space.start, i), at(space.start, i + 1)
    # Most rows of a molecule are short: written out, three entries take half the time of a loop.
    total = times(weights, weight + e, load(zero, data, source + at(near, e)))
    if end > e + 1:
        value = load(zero, data, source + at(near, e + 1))
        total = add_times(weights, weight + e + 1, value, total)
        if end > e + 2:
            value = load(zero, data, source + at(near, e + 2))
            total = add_times(weights, weight + e + 2, value, total)
            for k in range(e + 3, end):
                value = load(zero, data, source + at(near, k))
                total = add_times(weights, weight + k, value, total)
    return total


@inlined
def row_difference(zero: Any, source: int, space: Any, i: int) -> Any:
    r""":math:`\sum_j W_{ij} (v_i - v_j)`: exactly zero where all ``v`` are equal."""
    here, total = load(zero, space.data, source + i * len_of(zero)), zero
    for e in range(at(space.start, i), at(space.start, i + 1)):
        value = here - load(zero, space.data, source + at(space.near, e))
        total = add_times(space.weights, space.edge_weight + e, value, total)
    return total


@inner
def walk(zero: Any, steps: int, n: int, signal: int, space: Any) -> None:
    r"""States :math:`D^{-1} P^s (I - P) u` for :math:`s < \mathrm{steps}`, ``[steps, n, lanes]``.

    They are divided by the degrees: then a step needs the weights alone. ``signal`` is overwritten.
    """
    data, inverse, lanes = space.data, space.inverse, len_of(zero)
    for i in range(n):
        place = signal + i * lanes
        store(load(zero, data, place) * at(data, inverse + i), data, place)
    for i in range(n):
        total = row_difference(zero, signal, space, i) * (at(data, inverse + i) * MOVE)
        store(total, data, space.states + i * lanes)
    for s in range(1, steps):
        now = space.states + s * n * lanes
        before = now - n * lanes
        for i in range(n):
            total = row_sum(zero, before, space, i) * (at(data, inverse + i) * MOVE)
            here = load(zero, data, before + i * lanes)
            store(multiply_add(STAY, here, total), data, now + i * lanes)
