"""What the loops over graphs have in common, forward and backward.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legs.kernels.cpu_banks import pack_banks
from legs.kernels.cpu_first import apply_first
from legs.kernels.cpu_graph import make_graph, reach_of, take_graph, walk
from legs.kernels.cpu_jit import merged
from legs.kernels.cpu_moments import LEAST_ENERGY, centred_means
from legs.kernels.cpu_room import largest, make_room, make_work
from legs.kernels.cpu_second import apply_second
from legs.kernels.cpu_vectors import absolute, at, fill, load, put, repeat, resize, store, zeros


class Arrays(NamedTuple):
    """The graphs of a batch, their signals and the filters, flat."""

    x: Any  # [nodes, channels]
    powers: Any  # [nodes, steps, channels], or anything of the same type
    given: bool  # whether the powers are
    rowptr: Any  # [nodes + 1]
    col: Any  # [entries]
    weight: Any  # [entries], or None for ones
    ptr: Any  # [graphs + 1]
    filters: Any  # [units, scales, steps]
    laziness: float  # of the walk in whose powers the filters are written
    copies: Any  # [nodes], or None for ones


@merged
def prepare(shape: Any, size: Any, arrays: Any, begin: int, end: int, backward: bool) -> Any:
    """Buffers for the graphs ``begin`` to ``end`` with the filters; and what is wrong with them."""
    trouble, nodes, entries = largest(arrays, begin, end)
    room = make_room(size, nodes, entries, arrays.given, backward)
    work = make_work(arrays.x, room.total)
    work[room.flip : room.flip + shape.row] = -1
    work[room.flip + shape.scales] = 1
    pack_banks(size, arrays.filters, work, room.bank_first, room.bank_second)
    work[room.found_first : room.total] = 0
    graph = make_graph(arrays, work, room, nodes, entries)
    return trouble, room, work, graph


@merged
def load_graph(shape: Any, arrays: Any, g: int, graph: Any, room: Any) -> Any:
    """Takes a graph: where its walk powers are, and whether its edges stay within it."""
    lanes, steps, channels = shape.lanes, shape.steps, shape.channels
    work, x = graph.work, arrays.x
    first, n = arrays.ptr[g], arrays.ptr[g + 1] - arrays.ptr[g]
    rowptr, col, weight, copies = arrays.rowptr, arrays.col, arrays.weight, arrays.copies
    stays = take_graph(rowptr, col, weight, copies, first, n, lanes, graph)
    reach_of(graph, n, lanes, room.reach, room.spare)
    if arrays.given:
        powers, source = arrays.powers, first * steps * channels
    else:
        powers, source = work, room.powers
        zero = zeros(work, shape.lanes, 1)
        # Blocks of channels, the last one first: it is written as if it were whole, and the next
        # one is written over what it has too much.
        for begin in range((channels - 1) // lanes * lanes, -1, -lanes):
            work[room.signal : room.signal + n * lanes] = 0
            for i in range(n):
                for c in range(begin, min(channels, begin + lanes)):
                    value = at(x, (first + at(graph.order, i)) * channels + c)
                    put(work, room.signal + i * lanes + c - begin, value)
            walk(zero, steps, graph, n, room.signal, room.states)
            for j in range(n):
                i = at(graph.place, j)
                degree = at(work, graph.degree + i)
                place = source + j * steps * channels + begin
                for s in range(steps):
                    value = load(zero, work, room.states + (s * n + i) * lanes) * degree
                    store(value, work, place + s * channels)
    return stays, powers, source


@merged
def first_order(
    shape: Any,
    size: Any,
    arrays: Any,
    g: int,
    group: int,
    powers: Any,
    source: int,
    share: float,
    graph: Any,
    room: Any,
) -> None:
    """Rows, means and energies of the units of a group, and the signals of their parents."""
    channels, steps, lanes, row = shape.channels, shape.steps, shape.lanes, shape.row
    work = graph.work
    line, few = zeros(work, shape.row, 1), zeros(work, shape.children, 1)
    first, n = arrays.ptr[g], arrays.ptr[g + 1] - arrays.ptr[g]
    flip = load(line, work, room.flip)
    low = group * size.group
    high = min(size.units, low + size.group)
    filled = (high - low) * size.parents
    if filled % lanes:
        empty = room.signal + filled // lanes * n * lanes
        work[empty : empty + n * lanes] = 0
    for u in range(low, high):
        c = u % channels
        z = room.z_first + (u - low) * n * row
        bank = room.bank_first + u * steps * row
        x_at = first * channels + c
        mean, energy = apply_first(
            steps,
            channels,
            powers,
            source + c,
            graph,
            n,
            share,
            arrays.x,
            x_at,
            flip,
            work,
            room.reach,
            bank,
            z,
        )
        store(mean, work, room.mean + (u - low) * row)
        store(energy, work, room.moments)
        work[room.root + u - low] = np.sqrt(work[room.moments + shape.scales] + LEAST_ENERGY)
        lane = (u - low) * size.parents
        if size.together:
            place = room.signal + lane // lanes * n * lanes + lane % lanes
            for i in range(n):
                value = absolute(resize(few, load(line, work, z + i * row)))
                store(value, work, place + i * lanes)
        else:
            for parent in range(size.parents):
                place = room.signal + (lane + parent) // lanes * n * lanes + (lane + parent) % lanes
                for i in range(n):
                    work[place + i * lanes] = abs(at(work, z + i * row + parent))


@merged
def second_order(
    shape: Any, size: Any, n: int, share: float, group: int, block: int, graph: Any, room: Any
) -> Any:
    """Children of a block: their mean magnitudes, centred powers, and roots of their energy."""
    work, lanes, children = graph.work, shape.lanes, shape.children
    zero, wide = zeros(work, shape.lanes, 1), zeros(work, shape.lanes, shape.children)
    walk(zero, shape.steps, graph, n, room.signal + block * n * lanes, room.states)
    bank = room.bank_second + (group * size.blocks + block) * shape.steps * children * lanes
    z, states = room.z_second, room.states
    mean = apply_second(zero, wide, shape.steps, graph, n, share, states, bank, z)
    last = min(size.group, size.units - group * size.group) - 1
    for lane in range(lanes):
        k = min((block * lanes + lane) // children, last)
        work[room.root_lanes + lane] = work[room.root + k]
    root = repeat(wide, load(zero, work, room.root_lanes))
    flip, unit = fill(wide, -1.0), 1.0 / root
    powers = centred_means(work, z, n, share, graph.copies, graph.times, mean, flip, unit)
    return mean, powers, root


@merged
def extra_gradient(shape: Any, size: Any, n: int, k: int, work: Any, room: Any) -> None:
    """Copies what the parents of a group's unit ``k`` get from their children to ``[n, row]``."""
    line, few = zeros(work, shape.row, 1), zeros(work, shape.children, 1)
    lanes, row, lane = shape.lanes, shape.row, k * size.parents
    if size.together:
        place = room.signal + lane // lanes * n * lanes + lane % lanes
        for i in range(n):
            value = resize(line, load(few, work, place + i * lanes))
            store(value, work, room.extra + i * row)
    else:
        work[room.extra : room.extra + n * row] = 0
        for parent in range(size.parents):
            place = room.signal + (lane + parent) // lanes * n * lanes + (lane + parent) % lanes
            for i in range(n):
                work[room.extra + i * row + parent] = at(work, place + i * lanes)
