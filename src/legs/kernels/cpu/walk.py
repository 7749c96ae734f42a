"""One graph of a batch, loaded into buffers that stay in cache, and the lazy walk on it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from legs.functional.diffusion import BASE
from legs.kernels.cpu.graph import array_of
from legs.kernels.cpu.jit import entry, inlined, inner
from legs.kernels.cpu.simd import at, len_of, load, multiply_add, put, store

# As numbers that keep the type of those they are multiplied with.
STAY, MOVE = np.float32(BASE), np.float32(1 - BASE)
ALIGNMENT = 64  # bytes, a cache line


class Graphs(NamedTuple):
    """A batch as arrays."""

    rowptr: Any  # [nodes + 1]
    col: Any  # [edges]
    weight: Any  # [edges], or None for ones
    ptr: Any  # [graphs + 1]
    counts: Any  # [nodes] multiplicities, or None for ones


class Workspace(NamedTuple):
    """Buffers for one graph: arrays, then where all others begin in ``data``.

    Nodes are kept in an order of their own, short rows first: then branches on the length of a row
    are predictable. A node of degree zero is its own neighbour. The sizes of a lane, unit and block
    are explained in :mod:`legs.kernels.cpu.scattering`.
    """

    order: Any  # [n] the node in each place
    place: Any  # [n] the place of each node
    start: Any  # [n + 1] where the entries of a row begin
    near: Any  # [entries] the place of a neighbour, times the length of a state
    data: Any
    weights: Any  # data, or None without edge weights
    counts: Any  # data, or None without multiplicities
    weight: int  # [entries]
    multiplicity: int  # [n]
    degree: int  # [n]
    inverse: int  # [n] of the degree
    states: int  # [steps, n, lanes], diffused
    second: int  # [n, children, lanes] second order of a block, then its gradient
    x: int = 0  # [n, channels]
    powers: int = 0  # [n, steps, channels] walk powers of x
    energy: int = 0  # [n] weights of squares, see energy_weights
    flip: int = 0  # [row] -1 for wavelets, 1 for the signal
    root: int = 0  # [lanes] square roots of the energy of the block's signals
    moments: int = 0  # [4, size], or their gradients
    mean: int = 0  # [group, row] of the first order
    first: int = 0  # [group, n, row] first order, then its gradient
    signal: int = 0  # [n, lanes] the parents, then their gradients
    ping: int = 0  # [2, n, lanes] of the backward recurrence, or scratch
    bank: int = 0  # [blocks, steps, size] filters
    grad: int = 0  # their gradients


def make_graphs(*tensors: Tensor | None) -> Graphs:
    """The arrays of ``rowptr``, ``col``, ``weight``, ``ptr`` and multiplicities."""
    return Graphs(*[None if tensor is None else array_of(tensor) for tensor in tensors])


def make_workspace(
    graphs: Graphs, begin: int, end: int, dtype: Any, sizes: Callable[[int], dict[str, int]]
) -> Workspace:
    """Buffers for the largest of the graphs ``begin`` to ``end``.

    ``sizes`` returns those of the kernel's own buffers, given a number of nodes.
    """
    nodes, entries = _largest(graphs.ptr, graphs.rowptr, begin, end)
    lengths = {
        "weight": entries,
        "multiplicity": nodes,
        "degree": nodes,
        "inverse": nodes,
        **sizes(nodes),
    }
    *starts, total = accumulate((-(-length // 16) * 16 for length in lengths.values()), initial=0)
    memory: NDArray[Any] = np.empty(total + ALIGNMENT // dtype.itemsize, dtype)
    skip = -memory.ctypes.data % ALIGNMENT // dtype.itemsize
    data = memory[skip : skip + total]
    fields: dict[str, Any] = dict(zip(lengths, starts, strict=True))
    for name, size in (("order", nodes), ("place", nodes), ("start", nodes + 1), ("near", entries)):
        fields[name] = np.empty(size, np.int32)
    weights = None if graphs.weight is None else data
    counts = None if graphs.counts is None else data
    return Workspace(data=data, weights=weights, counts=counts, **fields)


@entry
def _largest(ptr, rowptr, begin, end):
    """Nodes and entries of the largest graph; a node may get an entry more."""
    nodes, entries = 1, 1
    for g in range(begin, end):
        size = ptr[g + 1] - ptr[g]
        nodes = max(nodes, size)
        entries = max(entries, rowptr[ptr[g + 1]] - rowptr[ptr[g]] + size)
    return nodes, entries


@inlined
def times(weights, place, value):
    """A value times a weight, if there are any."""
    return value if weights is None else value * at(weights, place)


@inlined
def add_times(weights, place, value, total):
    """``total`` plus a vector times a weight."""
    return total + value if weights is None else multiply_add(at(weights, place), value, total)


@inlined
def _put_if(weights, place, weight):
    if weights is not None:
        put(weights, place, weight)


@inner
def load_graph(graphs, g, length, space):
    """Copies the rows of a graph: those of one entry or none, of two, three, …

    ``length`` is that of a state. Returns the first node and the number of nodes.
    """
    rowptr, order, place, near, data = (
        graphs.rowptr,
        space.order,
        space.place,
        space.near,
        space.data,
    )
    first = graphs.ptr[g]
    n = graphs.ptr[g + 1] - first
    one, starts = data.dtype.type(1), np.zeros(5, np.int64)
    for i in range(n):
        row = first + i
        put(place, i, min(max(at(rowptr, row + 1) - at(rowptr, row), 1), 4))
        put(starts, at(place, i), at(starts, at(place, i)) + 1)
    for k in range(1, 5):
        starts[k] += starts[k - 1]
    for i in range(n):
        k = at(starts, at(place, i) - 1)
        put(starts, at(place, i) - 1, k + 1)
        put(place, i, k)
        put(order, k, i)
    entries = 0
    for i in range(n):
        put(space.start, i, entries)
        total, row = one - one, first + at(order, i)
        for e in range(at(rowptr, row), at(rowptr, row + 1)):
            weight = times(graphs.weight, e, one)
            put(near, entries, at(place, at(graphs.col, e) - first) * length)
            _put_if(space.weights, space.weight + entries, weight)
            total += weight
            entries += 1
        if total == 0:
            put(near, entries, i * length)
            _put_if(space.weights, space.weight + entries, one)
            entries += 1
            total = one
        _put_if(space.counts, space.multiplicity + i, times(graphs.counts, row, one))
        put(data, space.degree + i, total)
        put(data, space.inverse + i, one / total)
    put(space.start, n, entries)
    return first, n


@inlined
def row_sum(zero, source, space, i):
    r""":math:`\sum_j W_{ij} v_j`."""
    near, data, weights, weight = space.near, space.data, space.weights, space.weight
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
def step(zero, source, space, i, start):
    """``start`` plus :math:`(P v)_i`, for a lazy walk on states divided by the degrees."""
    moved = row_sum(zero, source, space, i)
    total = multiply_add(STAY, load(zero, space.data, source + i * len_of(zero)), start)
    return multiply_add(at(space.data, space.inverse + i) * MOVE, moved, total)


@inlined
def difference(zero, source, space, i):
    r""":math:`((I - P) v)_i`: exactly zero where all ``v`` are equal."""
    value, total = load(zero, space.data, source + i * len_of(zero)), zero
    for e in range(at(space.start, i), at(space.start, i + 1)):
        change = value - load(zero, space.data, source + at(space.near, e))
        total = add_times(space.weights, space.weight + e, change, total)
    return total * (at(space.data, space.inverse + i) * MOVE)


@inner
def walk(zero, steps, n, source, target, space):
    r"""States :math:`P^s (I - P) v` for :math:`s < \mathrm{steps}`, ``[steps, n, lanes]``."""
    lanes, data = len_of(zero), space.data
    for i in range(n if steps else 0):
        store(difference(zero, source, space, i), data, target + i * lanes)
    for s in range(1, steps):
        now = target + s * n * lanes
        for i in range(n):
            value = step(zero, now - n * lanes, space, i, zero)
            store(value, data, now + i * lanes)
