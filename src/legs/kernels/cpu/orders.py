r"""First and second order of scattering on one graph, and their gradients.

First order: a node has one vector per unit, a *row*, of the unit's wavelets and the signal itself
in the lane after them. Second order: the lanes of a block are diffused together, and all children
of a lane are computed at once, as a vector with one part per child; those that are no path have
zero filters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legs.kernels.cpu.graph import MOVE, STAY, add_times, row_sum, times, walk
from legs.kernels.cpu.jit import inlined, inner, merged
from legs.kernels.cpu.moments import MIN_ENERGY, PIECE, centred_means, gradient_at, magnitude
from legs.kernels.cpu.simd import (
    absolute,
    at,
    fold_product,
    gather,
    len_of,
    load,
    multiply_add,
    put,
    resize,
    store,
    with_sign_of,
    zeros,
)
from legs.kernels.cpu.workspace import UNROLL


@inner
def diffuse_signals(shape: Any, x: Any, first: int, n: int, space: Any) -> None:
    """Walk powers ``[n, steps, channels]`` of the graph that begins with node ``first``."""
    lanes, steps, channels, data = shape.lanes, shape.steps, shape.channels, space.data
    zero = zeros(data, shape.lanes, 1)
    # The last block of channels comes first: it is written as if it were whole, and the one before
    # overwrites what it has too much.
    for begin in range((channels - 1) // lanes * lanes, -1, -lanes):
        data[space.signal : space.signal + n * lanes] = 0
        for i in range(n):
            for c in range(begin, min(channels, begin + lanes)):
                value = at(x, (first + at(space.order, i)) * channels + c)
                put(data, space.signal + i * lanes + c - begin, value)
        walk(zero, steps, n, space.signal, space)
        for node in range(n):
            i = at(space.place, node)
            place = space.powers + node * steps * channels + begin
            for s in range(steps):
                state = load(zero, data, space.states + (s * n + i) * lanes)
                store(state * at(data, space.degree + i), data, place + s * channels)


@inlined
def _apply_first(shape: Any, x: Any, graph: Any, c: int, bank: int, z: int, space: Any) -> Any:
    """Writes the rows ``[n, row]`` of channel ``c``; returns mean magnitudes and energies.

    Up to seven rows more than there are nodes may be written.
    """
    channels, lanes, order, data, n = shape.channels, shape.row, space.order, space.data, graph.n
    zero, node = zeros(data, shape.row, 1), shape.steps * shape.channels
    for i in range(0, n, UNROLL):
        rows = zeros(data, shape.row, UNROLL)
        for s in range(shape.steps):
            power = gather(rows, graph.powers, graph.source + s * channels + c, order, i, node)
            rows = multiply_add(power, load(zero, data, bank + s * lanes), rows)
        store(rows, data, z + i * lanes)
    flip = load(zero, data, space.flip)
    last = (flip + 1.0) * 0.5
    mean, energy = zero, zero
    for begin in range(0, n, PIECE):
        part, part_energy = zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = load(zero, data, z + i * lanes)
            signal = at(x, (graph.first + at(order, i)) * channels + c)
            value = multiply_add(signal, last, value)
            store(value, data, z + i * lanes)
            part = add_times(space.counts, space.node_count + i, magnitude(value, flip), part)
            weight = at(data, space.energy_weight + i)
            part_energy = multiply_add(weight, value * value, part_energy)
        mean, energy = mean + part, energy + part_energy
    return mean * graph.share, energy * graph.share


@merged
def first_order(shape: Any, x: Any, graph: Any, low: int, high: int, space: Any) -> None:
    """Rows, means and energies of the units ``low`` to ``high``, and the signals of the parents."""
    lanes, row, data, n = shape.lanes, shape.row, space.data, graph.n
    line, few = zeros(data, shape.row, 1), zeros(data, shape.parents, 1)
    filled = (high - low) * shape.parents
    if filled % lanes:
        empty = space.signal + filled // lanes * n * lanes
        data[empty : empty + n * lanes] = 0
    for u in range(low, high):
        k = u - low
        z = space.first + k * n * row
        bank = u * shape.padded_steps * row
        mean, energy = _apply_first(shape, x, graph, u % shape.channels, bank, z, space)
        store(mean, data, space.mean + k * row)
        store(energy, data, space.moments)
        data[space.root + k] = np.sqrt(data[space.moments + shape.scales] + MIN_ENERGY)
        if shape.together:
            place = _parent_place(shape, n, k, 0, space)
            for i in range(n):
                value = absolute(resize(few, load(line, data, z + i * row)))
                store(value, data, place + i * lanes)
        else:
            for parent in range(shape.parents):
                place = _parent_place(shape, n, k, parent, space)
                for i in range(n):
                    put(data, place + i * lanes, abs(at(data, z + i * row + parent)))


@inlined
def _parent_place(shape: Any, n: int, k: int, parent: int, space: Any) -> Any:
    """Where a parent of a group's unit ``k`` begins in ``signal``, ``[blocks, n, lanes]``."""
    lane = k * shape.parents + parent
    return space.signal + lane // shape.lanes * n * shape.lanes + lane % shape.lanes


@merged
def first_moments(shape: Any, graph: Any, k: int, space: Any) -> Any:
    """Mean, centred powers and root of the energy of a group's unit ``k``."""
    line = zeros(space.data, shape.row, 1)
    flip = load(line, space.data, space.flip)
    mean = load(line, space.data, space.mean + k * shape.row)
    root = line + space.data[space.root + k]
    z = space.first + k * graph.n * shape.row
    return mean, centred_means(space, z, graph.n, graph.share, mean, flip, 1.0 / root), root


@merged
def gradient_first(
    shape: Any, graph: Any, u: int, k: int, mean: Any, cubic: Any, space: Any
) -> None:
    """Adds to the gradient of the bank of unit ``u``, which is unit ``k`` of its group.

    ``mean`` and ``cubic``: see :func:`~legs.kernels.cpu.moments.gradient_at`.
    """
    data, lanes, steps, channels, n = space.data, shape.row, shape.steps, shape.channels, graph.n
    line, extra = zeros(data, shape.row, 1), space.second  # not needed any more
    flip, z = load(line, data, space.flip), space.first + k * n * lanes
    few = zeros(data, shape.parents, 1)
    if shape.together:
        place = _parent_place(shape, n, k, 0, space)
        for i in range(n):
            value = resize(line, load(few, data, place + i * shape.lanes))
            store(value, data, extra + i * lanes)
    else:
        data[extra : extra + n * lanes] = 0
        for parent in range(shape.parents):
            place = _parent_place(shape, n, k, parent, space)
            for i in range(n):
                put(data, extra + i * lanes + parent, at(data, place + i * shape.lanes))
    for i in range(n):
        value = load(line, data, z + i * lanes)
        slope = gradient_at(value, mean, flip, cubic) + load(line, data, extra + i * lanes)
        store(with_sign_of(slope, value), data, z + i * lanes)
    for begin in range(0, n, PIECE):
        for s in range(0, steps, UNROLL):
            sums = zeros(data, shape.row, UNROLL)
            for i in range(begin, min(n, begin + PIECE)):
                slope = times(space.counts, space.node_count + i, load(line, data, z + i * lanes))
                here = graph.source + at(space.order, i) * steps * channels + u % channels
                power = gather(sums, graph.powers, here, space.step, s, channels)
                sums = multiply_add(power, slope, sums)
            place = space.grad + (u * shape.padded_steps + s) * lanes
            store(load(sums, data, place) + sums, data, place)


@inlined
def _apply_second(zero: Any, wide: Any, steps: int, graph: Any, bank: int, space: Any) -> Any:
    """Writes the children ``[n, children, lanes]`` of a block; returns their mean magnitudes."""
    lanes, width, data, n = len_of(zero), len_of(wide), space.data, graph.n
    mean = wide
    for begin in range(0, n, PIECE):
        end, part = min(n, begin + PIECE), wide
        for i in range(begin, end, 2):  # two nodes share the filters they load
            one, two, j = wide, wide, min(i + 1, end - 1)
            for s in range(steps):
                filters, states = load(wide, data, bank + s * width), space.states + s * n * lanes
                one = multiply_add(load(zero, data, states + i * lanes), filters, one)
                two = multiply_add(load(zero, data, states + j * lanes), filters, two)
            one, two = one * at(data, space.degree + i), two * at(data, space.degree + j)
            store(one, data, space.second + i * width)
            store(two, data, space.second + j * width)
            part = add_times(space.counts, space.node_count + i, absolute(one), part)
            if j > i:
                part = add_times(space.counts, space.node_count + j, absolute(two), part)
        mean = mean + part
    return mean * graph.share


@merged
def second_order(shape: Any, graph: Any, units: int, block: int, bank: int, space: Any) -> Any:
    """Children of a group's block: mean magnitudes, centred powers, roots of the energy.

    ``units`` are in the group; the block's filters ``[steps, children, lanes]`` begin at ``bank``.
    """
    data, lanes, n = space.data, shape.lanes, graph.n
    zero, wide = zeros(data, shape.lanes, 1), zeros(data, shape.lanes, shape.parents)
    walk(zero, shape.steps, n, space.signal + block * n * lanes, space)
    mean = _apply_second(zero, wide, shape.steps, graph, bank, space)
    for lane in range(lanes):
        k = min((block * lanes + lane) // shape.parents, units - 1)
        data[space.root_lanes + lane] = data[space.root + k]
    root, flip = wide + load(zero, data, space.root_lanes), wide - 1.0
    centred = centred_means(space, space.second, n, graph.share, mean, flip, 1.0 / root)
    return mean, centred, root


@inner
def gradient_second(
    shape: Any, n: int, mean: Any, cubic: Any, bank: int, signal: int, space: Any
) -> None:
    r"""From the gradient of the moments to those of the bank and, over ``signal``, of the parents.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0`. Adds to the gradient of the bank.
    """
    data, z, steps = space.data, space.second, shape.steps
    zero, wide = zeros(data, shape.lanes, 1), zeros(data, shape.lanes, shape.parents)
    lanes, width = len_of(zero), len_of(wide)
    inverse, size, flip = space.inverse, n * lanes, wide - 1.0
    for i in range(n):
        value = load(wide, data, z + i * width)
        slope = with_sign_of(gradient_at(value, mean, flip, cubic), value)
        store(slope * at(data, space.degree + i), data, z + i * width)
    for s in range(steps - 1, -1, -1):
        filters = load(wide, data, bank + s * width)
        now = space.ping + (s & 1) * size
        before = space.ping + size - (s & 1) * size
        whole = wide
        for begin in range(0, n, PIECE):
            part = wide
            for i in range(begin, min(n, begin + PIECE)):
                slope = load(wide, data, z + i * width)
                state = load(zero, data, space.states + s * size + i * lanes)
                part = multiply_add(times(space.counts, space.node_count + i, state), slope, part)
                total = fold_product(zero, filters, slope) * at(data, inverse + i)
                if s < steps - 1:
                    total = multiply_add(STAY, load(zero, data, before + i * lanes), total)
                    moved = row_sum(zero, before, space, i)
                    total = multiply_add(at(data, inverse + i) * MOVE, moved, total)
                store(total, data, now + i * lanes)
            whole = whole + part
        place = bank + space.grad + s * width
        store(load(wide, data, place) + whole, data, place)
    for i in range(n):
        moved = row_sum(zero, space.ping, space, i) * (at(data, inverse + i) * MOVE)
        here = load(zero, data, space.ping + i * lanes) * MOVE
        store(here - moved, data, signal + i * lanes)
