"""One graph of a batch, loaded into buffers that stay in cache, and the lazy walk on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from legs.functional.diffusion import BASE
from legs.kernels.cpu.graph import array_of
from legs.kernels.cpu.jit import inlined, inner
from legs.kernels.cpu.simd import at, len_of, load, multiply_add, pointer, put, store, value_if

# As numbers that keep the type of those they are multiplied with.
STAY, MOVE = np.float32(BASE), np.float32(1 - BASE)
ALIGNMENT = 64  # bytes, a cache line
UNROLL = 8  # independent sums, or nodes, at a time


class Graphs(NamedTuple):
    """A batch as arrays."""

    rowptr: Any  # [nodes + 1]
    col: Any  # [edges]
    weight: Any  # [edges], or None for ones
    ptr: Any  # [graphs + 1]
    counts: Any  # [nodes] multiplicities, or None for ones


class Rows(NamedTuple):
    """The rows of one graph: pointers, then where all others begin in ``data``.

    Nodes are kept in an order of their own, short rows first: rows of equal length take a loop
    without branches. A node of degree zero is its own neighbour. A row of one entry has it twice,
    and moves half as much by each: it shares a loop with rows of two.
    """

    order: Any  # [n] the node in each place
    place: Any  # [n] the place of each node
    start: Any  # [n + 1] where the entries of a row begin
    ends: Any  # [3] where rows of two, three and more entries end
    near: Any  # [entries] the place of a neighbour, times the length of a state
    data: Any
    weights: Any  # data, or None without edge weights
    counts: Any  # data, or None without multiplicities
    one: Any  # of the type of data
    weight: int  # [entries]
    multiplicity: int  # [n]
    degree: int  # [n]
    inverse: int  # [n] of the degree
    move: int  # [n] the share of a step that moves along an entry of weight 1


def make_graphs(*tensors: Tensor | None) -> Graphs:
    """The arrays of ``rowptr``, ``col``, ``weight``, ``ptr`` and multiplicities."""
    return Graphs(*[None if tensor is None else array_of(tensor) for tensor in tensors])


@inlined
def rounded(size):
    """The size of a buffer of whole cache lines."""
    return (size + 15) // 16 * 16


@inner
def allocate(graphs, begin, end, like, each, fixed):
    """Memory for the largest of some graphs: arrays, which have to stay in use; its rows; where the
    kernel's own buffers begin, ``each`` elements per node and ``fixed`` ones; and its nodes.
    """
    rowptr, ptr, weight, counts = graphs.rowptr, graphs.ptr, graphs.weight, graphs.counts
    nodes, entries = 1, 1  # a row gets up to two entries more
    for g in range(begin, end):
        first, last = at(ptr, g), at(ptr, g + 1)
        nodes = max(nodes, last - first)
        entries = max(entries, at(rowptr, last) - at(rowptr, first) + 2 * (last - first))
    size, own = rounded(nodes + UNROLL), rounded(entries)
    after = own + 4 * size
    count = after + nodes * each + fixed + ALIGNMENT // like.itemsize
    memory, indices = np.empty(count, like.dtype), np.empty(4 * size + own, np.int32)
    data = pointer(memory, -memory.ctypes.data % ALIGNMENT // like.itemsize)
    order, place, start = indices, pointer(indices, size), pointer(indices, 2 * size)
    ends, near = pointer(indices, 3 * size), pointer(indices, 4 * size)
    optional = value_if(weight, data), value_if(counts, data), like.dtype.type(1)
    places = 0, own, own + size, own + 2 * size, own + 3 * size
    rows = Rows(pointer(order, 0), place, start, ends, near, data, *optional, *places)
    return (memory, indices), rows, after, nodes


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
    """Copies the rows of a graph: those of up to two entries, of three, and of more.

    ``length`` is that of a state. Returns the first node and the number of nodes.
    """
    rowptr, order, place, near = graphs.rowptr, space.order, space.place, space.near
    data, ends, one, first = space.data, space.ends, space.one, at(graphs.ptr, g)
    n = at(graphs.ptr, g + 1) - first
    twos, threes = 0, 0
    for row in range(first, first + n):
        size = at(rowptr, row + 1) - at(rowptr, row)
        twos, threes = twos + (size < 3), threes + (size < 4)
    put(ends, 0, 0)
    put(ends, 1, twos)
    put(ends, 2, threes)
    for i in range(n):
        size = at(rowptr, first + i + 1) - at(rowptr, first + i)
        kind = min(max(size, 2), 4) - 2
        k = at(ends, kind)
        put(ends, kind, k + 1)
        put(place, i, k)
        put(order, k, i)
    entries = 0
    for i in range(n):
        begin, total, row = entries, one - one, first + at(order, i)
        put(space.start, i, begin)
        for e in range(at(rowptr, row), at(rowptr, row + 1)):
            weight = times(graphs.weight, e, one)
            put(near, entries, at(place, at(graphs.col, e) - first) * length)
            _put_if(space.weights, space.weight + entries, weight)
            total += weight
            entries += 1
        if total == 0:  # its first entry, if there are any
            put(near, begin, i * length)
            _put_if(space.weights, space.weight + begin, one)
            entries, total = max(entries, begin + 1), one
        inverse, move = one / total, MOVE / total
        if entries == begin + 1:
            put(near, entries, at(near, begin))
            _put_if(space.weights, space.weight + entries, total)
            entries, move = entries + 1, move * MOVE
        _put_if(space.counts, space.multiplicity + i, times(graphs.counts, row, one))
        put(data, space.degree + i, total)
        put(data, space.inverse + i, inverse)
        put(data, space.move + i, move)
    put(space.start, n, entries)
    return first, n


@inlined
def scale_places(space, n, before, after):
    """Changes the length of a state."""
    for e in range(at(space.start, n)):
        put(space.near, e, at(space.near, e) // before * after)


@inlined
def _steps(zero, begin, end, length, data, source, target, space, add):
    """:func:`step` of rows ``begin`` to ``end``, all of ``length`` entries; 0 for any length."""
    near, weights, weight, lanes = space.near, space.weights, space.weight, len_of(zero)
    e = np.int64(at(space.start, begin))
    for i in range(begin, end):
        stop = e + length if length else np.int64(at(space.start, i + 1))
        total = times(weights, weight + e, load(zero, data, source + at(near, e)))
        for k in range(e + 1, stop):
            value = load(zero, data, source + at(near, k))
            total = add_times(weights, weight + k, value, total)
        e = stop
        here = load(zero, data, target + i * lanes) if add else zero
        here = multiply_add(STAY, load(zero, data, source + i * lanes), here)
        here = multiply_add(at(space.data, space.move + i), total, here)
        store(here, data, target + i * lanes)


@inlined
def step(zero, n, data, source, target, space, add):
    """Writes :math:`P v`, for a lazy walk on states divided by the degrees; or adds it.

    ``data`` is the array of the states, the workspace's or another.
    """
    # Most rows of a molecule are short: a loop of their own takes half the time.
    two, three = np.int64(at(space.ends, 0)), np.int64(at(space.ends, 1))
    _steps(zero, 0, two, 2, data, source, target, space, add)
    _steps(zero, two, three, 3, data, source, target, space, add)
    _steps(zero, three, n, 0, data, source, target, space, add)


@inlined
def difference(zero, data, source, space, i):
    r""":math:`((I - P) v)_i`: exactly zero where all ``v`` are equal."""
    value, total = load(zero, data, source + i * len_of(zero)), zero
    for e in range(at(space.start, i), at(space.start, i + 1)):
        change = value - load(zero, data, source + at(space.near, e))
        total = add_times(space.weights, space.weight + e, change, total)
    return total * at(space.data, space.move + i)


@inner
def walk(zero, steps, n, data, source, target, space):
    r"""States :math:`P^s (I - P) v` for :math:`s < \mathrm{steps}`, ``[steps, n, lanes]``."""
    lanes = len_of(zero)
    for i in range(n if steps else 0):
        store(difference(zero, data, source, space, i), data, target + i * lanes)
    for s in range(1, steps):
        now = target + s * n * lanes
        step(zero, n, data, now - n * lanes, now, space, False)
