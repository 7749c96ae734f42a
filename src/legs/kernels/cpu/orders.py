r"""First and second order of scattering on one graph, and their gradients.

First order: a node has one vector per unit, a *row*, of the unit's wavelets and the signal itself
in the lane after them. Second order: the lanes of a block are diffused together, and all children
of a lane are computed at once, as a vector with one part per child; those that are no path have
zero filters.

Moments are as in :func:`legs.functional.moments`, but in units of the signal: with
:math:`\kappa^{-2} = e + 10^{-24}` for the energy :math:`e`, the floor of the variance of
:math:`\kappa z` is :math:`10^{-6}`, and no power of a small signal leaves the range of float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legs.functional.moments import ABSOLUTE_FLOOR, RELATIVE_FLOOR
from legs.kernels.cpu.jit import inlined, inner, merged
from legs.kernels.cpu.simd import (
    absolute,
    at,
    fold_product,
    len_of,
    load,
    load_rows,
    maximum,
    minimum,
    multiply_add,
    put,
    square_root,
    store,
    store_rows,
    with_sign_of,
    zeros,
)
from legs.kernels.cpu.walk import UNROLL, add_times, difference, step, times, walk

MIN_ENERGY = ABSOLUTE_FLOOR / RELATIVE_FLOOR
# Sums run over pieces of this many nodes: a long sum in float32 would lose its last digits.
PIECE = 256


class Workspace(NamedTuple):
    """Where the buffers for one graph begin in ``data``.

    The sizes of a lane, unit and block are explained in :mod:`legs.kernels.cpu.scattering`.
    """

    rows: Any
    data: Any
    states: int  # [steps, n, lanes], diffused
    signal: int  # [n, lanes] the parents, then their gradients; or scratch
    x: int  # [n, channels]
    energy: int  # [n] weights of squares, see energy_weights
    flip: int  # [2, row] -1 for wavelets, 1 for the signal; 1 for parents, 0 for others
    moments: int  # [4, size], or their gradients
    bank: int  # [blocks, steps, size] filters
    grad: int  # their gradients


class Record(NamedTuple):
    """What forward leaves for backward of one block on one graph: where it begins in ``data``.

    The power of channel c and step s at node i is at ``powers + c // width * apart + c % width + i
    * node + s * step``, divided by the degree.
    """

    data: Any
    powers: int  # walk powers of x
    apart: int
    node: int
    step: int
    first: int  # [group, n, row] first order, then its gradient; up to seven rows more are written
    second: int  # [n, children, lanes] second order, then its gradient
    means: int  # [4, size] of |z|, and of the centred powers in units of the signal
    root: int  # [lanes] square roots of the energy of the block's signals


@inner
def load_signals(shape, x, powers, given, first, n, space, record):
    """Copies the signals and walk powers of a graph; or, if they are not given, computes them."""
    width, channels, data, rows = shape.width, shape.channels, space.data, space.rows
    zero, piece = zeros(data, shape.width, 1), zeros(data, shape.steps, 1)
    for i in range(n):
        node = first + at(rows.order, i)
        for c in range(channels):
            put(data, space.x + i * channels + c, at(x, node * channels + c))
            if given:
                value = load(piece, powers, node * record.node + c * shape.steps)
                value = value * at(data, rows.inverse + i)
                store(value, record.data, record.powers + i * record.node + c * shape.steps)
    for c in range(0, 0 if given else channels, width):
        for i in range(n):
            value = load(zero, data, space.x + i * channels + c) * at(data, rows.inverse + i)
            store(value, record.data, record.second + i * width)  # not needed yet
        target = record.powers + c // width * record.apart
        walk(zero, shape.steps, n, record.data, record.second, target, rows)


@inlined
def power_of(shape, record, c):
    """Where the powers of a channel begin."""
    return record.powers + c // shape.width * record.apart + c % shape.width


@inner
def energy_weights(n, space):
    r"""How much a square :math:`x_j^2` counts in the energy: :math:`1 + \sum_i \rho_i A_{ij}`.

    See :func:`legs.functional.signal_energy`; its two sums can be exchanged, and what is left
    depends on no signal. By rows it is :math:`1 + d_j^{-1} \sum_i W_{ji} \rho_i`, for weights are
    symmetric. Merged nodes of multiplicities :math:`n_i` have as many edges counted from either
    end, :math:`n_i W_{ij} = n_j W_{ji}`: the sum by rows stays, and counts :math:`n_j` times.
    """
    data, rows, one = space.data, space.rows, space.rows.one
    zero, inflow = zeros(data, 1, 1), space.signal
    step(zero, n, data, rows.inverse, inflow, rows, False)
    for i in range(n):
        total = at(data, inflow + i) * at(data, rows.degree + i)  # (1 + rho) / 2
        put(data, inflow + i, total + total - one)
    step(zero, n, data, inflow, space.energy, rows, False)
    for i in range(n):
        total = at(data, space.energy + i)
        total = one + (total + total - at(data, inflow + i))
        put(data, space.energy + i, times(rows.counts, rows.multiplicity + i, total))


@inlined
def magnitude(z, flip):
    """``|z|`` in lanes where ``flip`` is -1, ``z`` where it is 1."""
    return maximum(z, z * flip)


@inner
def centred_means(rows, data, z, n, share, mean, flip, unit):
    """Means of the second, third and fourth power of the centred lanes, in units of the signal.

    Args:
        z: where in ``data`` the values are, ``[n, lanes]``.
        share: of one node in a mean.
    """
    zero, lanes = flip - flip, len_of(flip)
    second, third, fourth = zero, zero, zero
    for begin in range(0, n, PIECE):
        two, three, four = zero, zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = (magnitude(load(zero, data, z + i * lanes), flip) - mean) * unit
            square = value * value
            counted = times(rows.counts, rows.multiplicity + i, square)
            two = two + counted
            three = multiply_add(counted, value, three)
            four = multiply_add(counted, square, four)
        second, third, fourth = second + two, third + three, fourth + four
    return second * share, third * share, fourth * share


@inlined
def _fade(variance):
    """The factor of skewness and kurtosis near the floor, and its derivative in the variance."""
    ratio = maximum(minimum((variance * (1 / RELATIVE_FLOOR) - 1.0) * (1.0 / 3.0), 1.0), 0.0)
    square = ratio * ratio
    left = 1.0 - ratio
    fade = square * ratio * (square * 6.0 - ratio * 15.0 + 10.0)
    return fade, square * left * left * (10 / RELATIVE_FLOOR)


@inlined
def _standardized(powers):
    """Root of the floored variance, its inverse, skewness and excess kurtosis before fading."""
    second, third, fourth = powers
    root = square_root(maximum(second, RELATIVE_FLOOR))
    inverse = 1.0 / root
    square = inverse * inverse
    return root, inverse, third * square * inverse, fourth * square * square - 3.0


@inlined
def moments_of(mean, powers, energy):
    """Mean, variance, skewness and kurtosis of every lane."""
    _, _, skewness, kurtosis = _standardized(powers)
    fade, _ = _fade(powers[0])
    return mean, powers[0] * energy, skewness * fade, kurtosis * fade


@inlined
def gradient_cubic(grads, share, powers, root_energy):
    r"""The gradient in :math:`z_i` as a cubic in :math:`\hat d_i`: its scale and coefficients; and
    the gradient in the energy.

    ``grads`` are the gradients of the four moments; ``share`` is that of a node in a mean. Of
    merged nodes this is the gradient in each one.
    """
    by_mean, by_variance, by_skewness, by_kurtosis = grads
    root, inverse, skewness, kurtosis = _standardized(powers)
    fade, slope = _fade(powers[0])
    unit = 1.0 / root_energy
    scale = inverse * unit
    three = by_skewness * scale * fade * (3.0 * share)
    four = by_kurtosis * scale * fade * (4.0 * share)
    fading = (by_skewness * skewness + by_kurtosis * kurtosis) * slope
    one = root * (by_variance * root_energy + fading * unit) * (2.0 * share)
    one = one - three * skewness - four * (kurtosis + 3.0)
    constant = by_mean * share - three - four * skewness
    return (scale, (constant, one, three, four)), (0.0 - fading) * powers[0] * unit * unit


@inlined
def gradient_at(z, mean, flip, cubic):
    """The gradient in ``|z|`` (or ``z``, see :func:`magnitude`) of one node."""
    scale, coefficients = cubic
    value = (magnitude(z, flip) - mean) * scale
    total = multiply_add(value, coefficients[3], coefficients[2])
    total = multiply_add(value, total, coefficients[1])
    return multiply_add(value, total, coefficients[0])


@inlined
def _apply_first(shape, n, share, c, bank, z, space, record):
    """Writes the rows ``[n, row]`` of channel ``c``; returns mean magnitudes and energies."""
    data, kept, rows, lanes = space.data, record.data, space.rows, shape.row
    zero, powers, place = (
        zeros(data, shape.row, 1),
        zeros(data, 1, UNROLL),
        power_of(shape, record, c),
    )
    for i in range(0, n, UNROLL):
        values = zeros(data, shape.row, UNROLL)
        for s in range(shape.steps):
            power = load_rows(powers, kept, place + i * record.node + s * record.step, record.node)
            values = multiply_add(power, load(zero, data, bank + s * shape.size), values)
        store(values, kept, z + i * lanes)
    flip = load(zero, data, space.flip)
    last = (flip + 1.0) * 0.5
    mean, energy = zero, zero
    for begin in range(0, n, PIECE):
        part, part_energy = zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            signal = at(data, space.x + i * shape.channels + c)
            value = load(zero, kept, z + i * lanes) * at(data, rows.degree + i)
            value = multiply_add(signal, last, value)
            store(value, kept, z + i * lanes)
            part = add_times(rows.counts, rows.multiplicity + i, magnitude(value, flip), part)
            part_energy = multiply_add(at(data, space.energy + i), value * value, part_energy)
        mean, energy = mean + part, energy + part_energy
    return mean * share, energy * share


@merged
def first_order(shape, n, share, low, high, bank, space, record):
    """Rows, moments and energies of the units ``low`` to ``high``."""
    row, parents, data, kept = shape.row, shape.parents, space.data, record.data
    flip = load(zeros(data, shape.row, 1), data, space.flip)
    store(zeros(data, shape.lanes, 1) + 1.0, kept, record.root)
    for k in range(high - low):
        z, c, means = record.first + k * n * row, (low + k) % shape.channels, record.means + k * row
        mean, energy = _apply_first(shape, n, share, c, bank + k * row, z, space, record)
        store(energy, kept, means)
        root = np.sqrt(at(kept, means + shape.scales) + MIN_ENERGY)
        for parent in range(parents):
            put(kept, record.root + k * parents + parent, root)
        unit = 1.0 / (flip - flip + at(kept, record.root + k * parents))
        centred = centred_means(space.rows, kept, z, n, share, mean, flip, unit)
        store_means(mean, centred, kept, means, shape.size)


@inlined
def store_means(mean, centred, data, place, size):
    """Writes means and centred powers of some lanes to a record."""
    store(mean, data, place)
    for m in range(3):
        store(centred[m], data, place + (m + 1) * size)


@inlined
def four_rows(like, data, place, size):
    """Four vectors of lanes, ``size`` apart: means, moments, or their gradients."""
    one, two = load(like, data, place), load(like, data, place + size)
    place += 2 * size
    return one, two, load(like, data, place), load(like, data, place + size)


@inner
def diffuse_parents(shape, n, units, space, record):
    r"""States :math:`D^{-1} P^s (I - P) u` of the signals ``u``, which are divided by the degrees.

    Then a step needs the weights alone.
    """
    data = space.data
    zero, line = zeros(data, shape.lanes, 1), zeros(data, shape.row, 1)
    for i in range(n):
        place, inverse = space.signal + i * shape.lanes, at(data, space.rows.inverse + i)
        store(zero, data, place)
        for k in range(units):  # what follows the parents is overwritten, or never read
            row = load(line, record.data, record.first + (k * n + i) * shape.row)
            store(absolute(row) * inverse, data, place + k * shape.parents)
    walk(zero, shape.steps, n, data, space.signal, space.states, space.rows)


@merged
def gradient_first(shape, n, c, k, bank, mean, cubic, space, record):
    """Adds to the gradient of the bank of a block's unit ``k``, which is of channel ``c``.

    ``mean`` and ``cubic``: see :func:`gradient_at`.
    """
    data, kept, rows = space.data, record.data, space.rows
    lanes, line, powers = shape.row, zeros(data, shape.row, 1), zeros(data, 1, UNROLL)
    flip, z = load(line, data, space.flip), record.first + k * n * lanes
    parent = load(line, data, space.flip + lanes)
    signal = (flip + 1.0) * 0.5
    wavelets = 1.0 - signal
    for i in range(n):
        value = load(line, kept, z + i * lanes)
        extra = load(line, data, space.signal + i * shape.lanes + k * shape.parents)
        slope = gradient_at(value, mean, flip, cubic) + with_sign_of(extra, parent)
        sign = multiply_add(value, wavelets, signal)
        slope = with_sign_of(slope, sign) * at(data, rows.degree + i)
        store(times(rows.counts, rows.multiplicity + i, slope), kept, z + i * lanes)
    for begin in range(0, n, PIECE):
        for s in range(0, shape.steps, UNROLL):
            start = power_of(shape, record, c) + s * record.step
            sums = zeros(data, shape.row, UNROLL)
            for i in range(begin, min(n, begin + PIECE)):
                power = load_rows(powers, kept, start + i * record.node, record.step)
                sums = multiply_add(power, load(line, kept, z + i * lanes), sums)
            place = bank + s * shape.size + k * lanes
            store_rows(load_rows(sums, data, place, shape.size) + sums, data, place, shape.size)


@inner
def gradient_signals(shape, n, share, low, high, bank, x, first, out, space, record):
    r"""Writes the gradient of the signals of a block, after those of its bank.

    The recurrence is that of :func:`gradient_second`, with a lane per unit.
    """
    data, kept, rows, lanes = space.data, record.data, space.rows, shape.lanes
    zero, size = zeros(data, shape.lanes, 1), n * shape.lanes
    for k in range(high - low):
        for i in range(n):
            z, inverse = record.first + (k * n + i) * shape.row, at(data, rows.inverse + i)
            for s in range(shape.steps):
                filters, total = bank + s * shape.size + k * shape.row, rows.one - rows.one
                for wavelet in range(shape.scales):
                    total += at(kept, z + wavelet) * at(data, filters + wavelet)
                put(data, space.states + s * size + i * lanes + k, total * inverse)
    for s in range(shape.steps - 2, -1, -1):
        now = space.states + s * size
        step(zero, n, data, now + size, now, rows, True)
    for i in range(n):
        value = difference(zero, data, space.states, rows, i)
        store(value, data, space.signal + i * lanes)
    for k in range(high - low):
        by_energy, second = rows.one - rows.one, space.moments + shape.second + k * shape.parents
        for wavelet in range(shape.scales + 1):
            by_energy += at(data, space.moments + k * shape.row + wavelet)
        for pair in range(shape.parents * shape.parents):
            child, parent = pair // shape.parents, pair % shape.parents
            by_energy += at(data, second + child * lanes + parent)
        for i in range(n):
            place = (first + at(rows.order, i)) * shape.channels + low + k
            slope = at(kept, record.first + (k * n + i) * shape.row + shape.scales)
            energy = at(data, space.energy + i) * by_energy * 2.0 * share
            total = slope * at(data, rows.inverse + i) + energy * at(x, place)
            put(out, place, total + at(data, space.signal + i * lanes + k))


@merged
def second_order(shape, n, share, bank, space, record):
    """Writes the children ``[n, children, lanes]`` of a block, and their moments."""
    data, kept, rows = space.data, record.data, space.rows
    zero, wide = zeros(data, shape.lanes, 1), zeros(data, shape.wide, shape.parts)
    lanes, width, mean = len_of(zero), len_of(wide), wide
    for begin in range(0, n, PIECE):
        end, part = min(n, begin + PIECE), wide
        for i in range(begin, end, 2):  # two nodes share the filters they load
            one, two, j = wide, wide, min(i + 1, end - 1)
            for s in range(shape.steps):
                filters = load(wide, data, bank + s * shape.size)
                states = space.states + s * n * lanes
                one = multiply_add(load(zero, data, states + i * lanes), filters, one)
                two = multiply_add(load(zero, data, states + j * lanes), filters, two)
            one, two = one * at(data, rows.degree + i), two * at(data, rows.degree + j)
            store(one, kept, record.second + i * width)
            store(two, kept, record.second + j * width)
            part = add_times(rows.counts, rows.multiplicity + i, absolute(one), part)
            if j > i:
                part = add_times(rows.counts, rows.multiplicity + j, absolute(two), part)
        mean = mean + part
    mean, unit = mean * share, 1.0 / (wide + load(zero, kept, record.root))
    centred = centred_means(rows, kept, record.second, n, share, mean, wide - 1.0, unit)
    store_means(mean, centred, kept, record.means + shape.second, shape.size)


@inlined
def _fold(filters, part, now, i, zero, space, record):
    """Adds a state times the slopes to ``part``; replaces it by the filters times the slopes."""
    data, rows, place = space.data, space.rows, now + i * len_of(zero)
    slope = load(part, record.data, record.second + i * len_of(part))
    state = load(zero, data, place)
    store(fold_product(zero, filters, slope) * at(data, rows.inverse + i), data, place)
    return multiply_add(times(rows.counts, rows.multiplicity + i, state), slope, part)


@inner
def gradient_second(shape, n, mean, cubic, bank, grad, space, record):
    r"""From the gradient of the moments to those of the bank and, as signals, of the parents.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0`. Adds to ``grad``, the gradient of the bank.
    """
    data, kept, rows, z = space.data, record.data, space.rows, record.second
    zero, wide = zeros(data, shape.lanes, 1), zeros(data, shape.wide, shape.parts)
    lanes, width, flip = len_of(zero), len_of(wide), wide - 1.0
    for i in range(n):
        value = load(wide, kept, z + i * width)
        slope = with_sign_of(gradient_at(value, mean, flip, cubic), value)
        store(slope * at(data, rows.degree + i), kept, z + i * width)
    for s in range(shape.steps - 1, -1, -1):
        filters, whole = load(wide, data, bank + s * shape.size), wide
        now = space.states + s * n * lanes
        for begin in range(0, n, PIECE):
            end, one, two = min(n, begin + PIECE), wide, wide
            for i in range(begin, end - 1, 2):  # sums that need not wait for each other
                one = _fold(filters, one, now, i, zero, space, record)
                two = _fold(filters, two, now, i + 1, zero, space, record)
            if (end - begin) % 2:
                one = _fold(filters, one, now, end - 1, zero, space, record)
            whole = whole + (one + two)
        place = grad + s * shape.size
        store(load(wide, data, place) + whole, data, place)
        if s < shape.steps - 1:
            step(zero, n, data, now + n * lanes, now, rows, True)
    for i in range(n):
        value = difference(zero, data, space.states, rows, i)
        store(value, data, space.signal + i * lanes)
