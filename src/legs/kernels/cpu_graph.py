"""One graph of a batch, as the kernels walk on it.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legs.kernels.cpu_jit import inlined, inner
from legs.kernels.cpu_vectors import at, len_of, load, multiply_add, put, store
from legs.kernels.cpu_weights import (
    add_weighted,
    keep_weight,
    room_for_weights,
    times_weight,
    weight_at,
)


class Graph(NamedTuple):
    """The rows of one graph, the short ones first. A node of degree zero is its own neighbour.

    Rows of equal length in a row let the processor guess right where the next one ends. All
    floating-point numbers of a kernel are in one array, ``work``; the others say where.
    """

    order: Any  # [n] which of the batch's rows, counted from the graph's first, is in which place
    place: Any  # [n] and in which place each is
    start: Any  # [n + 1] where the entries of a node begin
    near: Any  # [entries] where a neighbour's numbers begin in a state of some lanes a node
    weights: Any  # the work array, or None without weights
    work: Any
    link: int  # [entries] weights
    degree: int  # [n]
    inverse: int  # [n] of the degree
    move: int  # [n] the same times the share of the walk that moves
    rest: Any  # the share that stays, the walk's laziness
    copies: Any  # the work array, or None if every node stands for itself
    times: int  # [n] how many nodes each stands for


@inner
def make_graph(arrays: Any, work: Any, room: Any, nodes: int, entries: int) -> Any:
    """Buffers for graphs of up to so many nodes and entries."""
    return Graph(
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes + 1, np.int32),
        np.empty(entries + nodes, np.int32),
        room_for_weights(arrays.weight, work),
        work,
        room.link,
        room.degree,
        room.inverse,
        room.move,
        work.dtype.type(arrays.laziness),
        room_for_weights(arrays.copies, work),
        room.times,
    )


@inlined
def _bits(rowptr: Any, row: int) -> Any:
    """Where rows of this length are counted: sixteen bits each for one, two, three, and more."""
    length = at(rowptr, row + 1) - at(rowptr, row)
    return np.uint64(16 * (min(max(length, 1), 4) - 1))


@inner
def sort_rows(rowptr: Any, first: int, n: int, graph: Any) -> None:
    """Puts rows of one entry (or none) first, then those of two, of three, of more."""
    if n >= 2**16:
        for i in range(n):
            put(graph.place, i, i)
            put(graph.order, i, i)
        return
    # Four counters in one register: in memory, each addition would wait for the one before.
    one, low = np.uint64(1), np.uint64(2**16 - 1)
    counts = np.uint64(0)
    for i in range(n):
        counts += one << _bits(rowptr, first + i)
    nexts = counts << np.uint64(16)
    nexts += nexts << np.uint64(16)
    nexts += (counts << np.uint64(16)) << np.uint64(32)
    for i in range(n):
        bits = _bits(rowptr, first + i)
        place = (nexts >> bits) & low
        nexts += one << bits
        put(graph.place, i, place)
        put(graph.order, np.intp(place), i)


@inner
def take_graph(
    rowptr: Any, col: Any, weight: Any, copies: Any, first: int, n: int, lanes: int, graph: Any
) -> bool:
    """Copies the rows from ``first`` on of a batch. Says whether their edges stay among them."""
    near, work = graph.near, graph.work
    one = work.dtype.type(1)
    sort_rows(rowptr, first, n, graph)
    entries, stays = 0, True
    for i in range(n):
        put(graph.start, i, entries)
        total = one - one
        row = first + at(graph.order, i)
        for e in range(at(rowptr, row), at(rowptr, row + 1)):
            j = at(col, e) - first
            if j < 0 or j >= n:
                stays = False
                j = 0
            w = weight_at(weight, e, one)
            put(near, entries, at(graph.place, j) * lanes)
            keep_weight(graph.weights, graph.link + entries, w)
            total += w
            entries += 1
        if total == 0:
            put(near, entries, i * lanes)
            keep_weight(graph.weights, graph.link + entries, one)
            entries += 1
            total = one
        keep_weight(graph.copies, graph.times + i, weight_at(copies, row, one))
        put(work, graph.degree + i, total)
        put(work, graph.inverse + i, one / total)
        put(work, graph.move + i, (one - graph.rest) / total)
    put(graph.start, n, entries)
    return stays


@inlined
def reach_of(graph: Any, n: int, lanes: int, reach: int, spare: int) -> None:
    r"""How often the energy counts a square :math:`x_j^2`, namely :math:`1 + \sum_i \rho_i A_{ij}`.

    See :func:`legs.functional.signal_energy`; its two sums can be exchanged, and what is left
    depends on no signal. By rows it is :math:`1 + d_j^{-1} \sum_i W_{ji} \rho_i`, for weights are
    symmetric. Where nodes stand for :math:`n_i`, edges are counted the same from both their ends,
    :math:`n_i W_{ij} = n_j W_{ji}`: the sum by rows stays, and counts :math:`n_j` times.
    """
    work = graph.work
    for i in range(n):
        put(work, spare + i, _row_sum_of_numbers(graph.inverse, lanes, graph, i))
    for i in range(n):
        total = _row_sum_of_numbers(spare, lanes, graph, i)
        once = 1 + at(work, graph.inverse + i) * total
        put(work, reach + i, times_weight(graph.copies, graph.times + i, once))


@inlined
def _row_sum_of_numbers(source: int, lanes: int, graph: Any, i: int) -> Any:
    e, end = at(graph.start, i), at(graph.start, i + 1)
    total = _number(source, lanes, graph, e)
    if end > e + 1:
        total += _number(source, lanes, graph, e + 1)
        if end > e + 2:
            total += _number(source, lanes, graph, e + 2)
            for k in range(e + 3, end):
                total += _number(source, lanes, graph, k)
    return total


@inlined
def _number(source: int, lanes: int, graph: Any, e: int) -> Any:
    value = at(graph.work, source + at(graph.near, e) // lanes)
    return value * weight_at(graph.weights, graph.link + e, graph.work.dtype.type(1))


@inlined
def row_sum(zero: Any, source: int, graph: Any, i: int) -> Any:
    r""":math:`\sum_j W_{ij} v_j`."""
    near, work, weights, link = graph.near, graph.work, graph.weights, graph.link
    e, end = at(graph.start, i), at(graph.start, i + 1)
    # Most rows of a molecule are short: written out, three entries take half the time of a loop.
    total = times_weight(weights, link + e, load(zero, work, source + at(near, e)))
    if end > e + 1:
        value = load(zero, work, source + at(near, e + 1))
        total = add_weighted(weights, link + e + 1, value, total)
        if end > e + 2:
            value = load(zero, work, source + at(near, e + 2))
            total = add_weighted(weights, link + e + 2, value, total)
            for k in range(e + 3, end):
                value = load(zero, work, source + at(near, k))
                total = add_weighted(weights, link + k, value, total)
    return total


@inlined
def row_difference(zero: Any, source: int, graph: Any, i: int) -> Any:
    r""":math:`\sum_j W_{ij} (v_i - v_j)`: exactly zero where all ``v`` are equal."""
    here = load(zero, graph.work, source + i * len_of(zero))
    total = zero
    for e in range(at(graph.start, i), at(graph.start, i + 1)):
        value = here - load(zero, graph.work, source + at(graph.near, e))
        total = add_weighted(graph.weights, graph.link + e, value, total)
    return total


@inner
def walk(zero: Any, steps: int, graph: Any, n: int, signal: int, states: int) -> None:
    r"""States :math:`D^{-1} P^s (I - P) u` for :math:`s < \mathrm{steps}`, ``[steps, n, lanes]``.

    They are divided by the degrees: then a step needs the weights alone. ``signal`` is overwritten.
    """
    work, inverse, move, lanes = graph.work, graph.inverse, graph.move, len_of(zero)
    for i in range(n):
        place = signal + i * lanes
        store(load(zero, work, place) * at(work, inverse + i), work, place)
    for i in range(n):
        total = row_difference(zero, signal, graph, i)
        store(total * at(work, move + i), work, states + i * lanes)
    for s in range(1, steps):
        now = states + s * n * lanes
        before = now - n * lanes
        for i in range(n):
            total = row_sum(zero, before, graph, i) * at(work, move + i)
            here = load(zero, work, before + i * lanes)
            store(multiply_add(graph.rest, here, total), work, now + i * lanes)
