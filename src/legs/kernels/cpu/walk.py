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
    """The rows of one graph, as pointers.

    Nodes are kept in an order of their own, short rows first: rows of equal length take a loop
    without branches. A node of degree zero is its own neighbour. A row of one entry has it twice,
    and moves half as much by each: it shares a loop with rows of two.
    """

    order: Any  # [n] the node in each place
    place: Any  # [n] the place of each node
    start: Any  # [n + 1] where the entries of a row begin
    ends: Any  # [3] where rows of two, three and more entries end
    near: Any  # [entries] the place of a neighbour, times the length of a state
    weight: Any  # [entries], or None without edge weights
    count: Any  # [n] multiplicities, or None for ones
    degree: Any  # [n]
    inverse: Any  # [n] of the degree
    move: Any  # [n] the share of a step that moves along an entry of weight 1


def make_graphs(*tensors: Tensor | None) -> Graphs:
    """The arrays of ``rowptr``, ``col``, ``weight``, ``ptr`` and multiplicities."""
    return Graphs(*[None if tensor is None else array_of(tensor) for tensor in tensors])


@inlined
def rounded(size):
    """The size of a buffer of whole cache lines."""
    return (size + 15) // 16 * 16


@inner
def allocate(graphs, begin, end, like, each, fixed):
    """Memory for the largest of some graphs: arrays, which have to stay in use; its rows; the
    kernel's own buffer, of ``each`` elements per node and ``fixed`` ones; and its nodes.
    """
    rowptr, ptr, nodes, entries = graphs.rowptr, graphs.ptr, 1, 1
    for g in range(begin, end):
        first, last = at(ptr, g), at(ptr, g + 1)
        nodes = max(nodes, last - first)  # a row gets up to two entries more
        entries = max(entries, at(rowptr, last) - at(rowptr, first) + 2 * (last - first))
    size, own = rounded(nodes + UNROLL), rounded(entries)
    count = own + 4 * size + nodes * each + fixed + ALIGNMENT // like.itemsize
    memory, indices = np.empty(count, like.dtype), np.empty(4 * size + own, np.int32)
    data = pointer(memory, -memory.ctypes.data % ALIGNMENT // like.itemsize)
    rows = Rows(
        pointer(indices, 0),
        pointer(indices, size),
        pointer(indices, 2 * size),
        pointer(indices, 3 * size),
        pointer(indices, 4 * size),
        value_if(graphs.weight, data),
        value_if(graphs.counts, pointer(data, own)),
        pointer(data, own + size),
        pointer(data, own + 2 * size),
        pointer(data, own + 3 * size),
    )
    return (memory, indices), rows, pointer(data, own + 4 * size), nodes


@inlined
def times(factors, k, value):
    """A value times one of the factors, if there are any."""
    return value if factors is None else value * at(factors, k)


@inlined
def add_times(factors, k, value, total):
    """``total`` plus a vector times one of the factors."""
    return total + value if factors is None else multiply_add(at(factors, k), value, total)


@inlined
def _put_if(factors, k, factor):
    if factors is not None:
        put(factors, k, factor)


@inner
def load_graph(graphs, g, length, rows):
    """Copies the rows of a graph: those of up to two entries, of three, and of more.

    ``length`` is that of a state. Returns the first node and the number of nodes.
    """
    rowptr, near, ends, first = graphs.rowptr, rows.near, rows.ends, at(graphs.ptr, g)
    n, twos, threes = at(graphs.ptr, g + 1) - first, 0, 0
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
        put(rows.place, i, k)
        put(rows.order, k, i)
    entries = 0
    for i in range(n):
        begin, total, row = entries, 0.0, first + at(rows.order, i)
        put(rows.start, i, begin)
        for e in range(at(rowptr, row), at(rowptr, row + 1)):
            weight = times(graphs.weight, e, 1.0)
            put(near, entries, at(rows.place, at(graphs.col, e) - first) * length)
            _put_if(rows.weight, entries, weight)
            total += weight
            entries += 1
        if total == 0:  # its first entry, if there are any
            put(near, begin, i * length)
            _put_if(rows.weight, begin, 1.0)
            entries, total = max(entries, begin + 1), 1.0
        move = MOVE / total
        if entries == begin + 1:
            put(near, entries, at(near, begin))
            _put_if(rows.weight, entries, total)
            entries, move = entries + 1, move * MOVE
        _put_if(rows.count, i, times(graphs.counts, row, 1.0))
        put(rows.degree, i, total)
        put(rows.inverse, i, 1 / total)
        put(rows.move, i, move)
    put(rows.start, n, entries)
    return first, n


@inlined
def scale_places(rows, n, before, after):
    """Changes the length of a state."""
    for e in range(at(rows.start, n)):
        put(rows.near, e, at(rows.near, e) // before * after)


@inlined
def _steps(zero, begin, end, length, source, target, rows, add):
    """:func:`step` of rows ``begin`` to ``end``, all of ``length`` entries; 0 for any length."""
    lanes, e = len_of(zero), np.int64(at(rows.start, begin))
    for i in range(begin, end):
        stop = e + length if length else np.int64(at(rows.start, i + 1))
        total = times(rows.weight, e, load(zero, source, at(rows.near, e)))
        for k in range(e + 1, stop):
            total = add_times(rows.weight, k, load(zero, source, at(rows.near, k)), total)
        e = stop
        here = load(zero, target, i * lanes) if add else zero
        here = multiply_add(STAY, load(zero, source, i * lanes), here)
        store(multiply_add(at(rows.move, i), total, here), target, i * lanes)


@inlined
def step(zero, n, source, target, rows, add):
    """Writes :math:`P v`, for a lazy walk on states divided by the degrees; or adds it."""
    # Most rows of a molecule are short: a loop of their own takes half the time.
    two, three = np.int64(at(rows.ends, 0)), np.int64(at(rows.ends, 1))
    _steps(zero, 0, two, 2, source, target, rows, add)
    _steps(zero, two, three, 3, source, target, rows, add)
    _steps(zero, three, n, 0, source, target, rows, add)


@inlined
def difference(zero, source, rows, i):
    r""":math:`((I - P) v)_i`: exactly zero where all ``v`` are equal."""
    value, total = load(zero, source, i * len_of(zero)), zero
    for e in range(at(rows.start, i), at(rows.start, i + 1)):
        change = value - load(zero, source, at(rows.near, e))
        total = add_times(rows.weight, e, change, total)
    return total * at(rows.move, i)


@inner
def walk(zero, steps, n, source, states, rows):
    r"""States :math:`P^s (I - P) v` for :math:`s < \mathrm{steps}`, ``[steps, n, lanes]``."""
    size = n * len_of(zero)
    for i in range(n if steps else 0):
        store(difference(zero, source, rows, i), states, i * len_of(zero))
    for s in range(1, steps):
        before = pointer(states, (s - 1) * size)
        step(zero, n, before, pointer(before, size), rows, False)
