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
from legs.kernels.cpu.walk import add_times, difference, step, times, walk

MIN_ENERGY = ABSOLUTE_FLOOR / RELATIVE_FLOOR
# Sums run over pieces of this many nodes: a long sum in float32 would lose its last digits.
PIECE = 256
UNROLL = 8  # independent sums of the first order: each has to wait for its own additions


@inner
def load_signals(shape, x, powers, first, n, space):
    """Copies the signals and walk powers of a graph; without powers, computes them."""
    lanes, steps, channels, data = shape.lanes, shape.steps, shape.channels, space.data
    zero, piece, size = zeros(data, shape.lanes, 1), zeros(data, shape.steps, 1), steps * channels
    for i in range(n):
        node = first + at(space.order, i)
        for c in range(channels):
            put(data, space.x + i * channels + c, at(x, node * channels + c))
            if powers.size:
                value = load(piece, powers, node * size + c * steps)
                store(value, data, space.powers + i * size + c * steps)
    if powers.size:
        return
    # The last channels come first: they are written as if they were a whole block, and those before
    # overwrite what is too much.
    for c in range((channels - 1) // lanes * lanes, -1, -lanes):
        for i in range(n):
            signal = load(zero, data, space.x + i * channels + c)
            store(signal, data, space.signal + i * lanes)
        _walk(shape, n, space)
        for i in range(n):
            for s in range(steps):
                state = load(zero, data, space.states + (s * n + i) * lanes)
                place = space.powers + i * size + s * channels + c
                store(state * at(data, space.degree + i), data, place)


@inner
def _walk(shape, n, space):
    r"""States :math:`D^{-1} P^s (I - P) u` of the signals ``u``, which are divided by the degrees.

    Then a step needs the weights alone.
    """
    zero = zeros(space.data, shape.lanes, 1)
    for i in range(n):
        place = space.signal + i * shape.lanes
        value = load(zero, space.data, place) * at(space.data, space.inverse + i)
        store(value, space.data, place)
    walk(zero, shape.steps, n, space.signal, space.states, space)


@inner
def energy_weights(n, lanes, space):
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
                value = at(data, source + at(space.near, e) // lanes)
                total += times(space.weights, space.weight + e, value)
            if turn:
                total = one + at(data, space.inverse + i) * total
                total = times(space.counts, space.multiplicity + i, total)
            put(data, (space.energy if turn else space.ping) + i, total)


@inlined
def magnitude(z, flip):
    """``|z|`` in lanes where ``flip`` is -1, ``z`` where it is 1."""
    return maximum(z, z * flip)


@inner
def centred_means(space, z, n, share, mean, flip, unit):
    """Means of the second, third and fourth power of the centred lanes, in units of the signal.

    Args:
        z: where in the workspace the values are, ``[n, lanes]``.
        share: of one node in a mean.
    """
    zero, lanes = flip - flip, len_of(flip)
    second, third, fourth = zero, zero, zero
    for begin in range(0, n, PIECE):
        two, three, four = zero, zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = (magnitude(load(zero, space.data, z + i * lanes), flip) - mean) * unit
            square = value * value
            counted = times(space.counts, space.multiplicity + i, square)
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
    r"""The gradient in :math:`z_i` as a cubic in :math:`\hat d_i`: its scale and coefficients.

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
    return scale, (constant, one, three, four)


@inlined
def gradient_at(z, mean, flip, cubic):
    """The gradient in ``|z|`` (or ``z``, see :func:`magnitude`) of one node."""
    scale, coefficients = cubic
    value = (magnitude(z, flip) - mean) * scale
    total = multiply_add(value, coefficients[3], coefficients[2])
    total = multiply_add(value, total, coefficients[1])
    return multiply_add(value, total, coefficients[0])


@inlined
def _apply_first(shape, n, share, c, bank, z, space):
    """Writes the rows ``[n, row]`` of channel ``c``; returns mean magnitudes and energies.

    Up to seven rows more than there are nodes may be written.
    """
    data, channels, lanes = space.data, shape.channels, shape.row
    zero, size = zeros(data, shape.row, 1), shape.steps * shape.channels
    powers = zeros(data, 1, UNROLL)
    for i in range(0, n, UNROLL):
        rows = zeros(data, shape.row, UNROLL)
        for s in range(shape.steps):
            power = load_rows(powers, data, space.powers + i * size + s * channels + c, size)
            rows = multiply_add(power, load(zero, data, bank + s * shape.size), rows)
        store(rows, data, z + i * lanes)
    flip = load(zero, data, space.flip)
    last = (flip + 1.0) * 0.5
    mean, energy = zero, zero
    for begin in range(0, n, PIECE):
        part, part_energy = zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            signal = at(data, space.x + i * channels + c)
            value = multiply_add(signal, last, load(zero, data, z + i * lanes))
            store(value, data, z + i * lanes)
            part = add_times(space.counts, space.multiplicity + i, magnitude(value, flip), part)
            part_energy = multiply_add(at(data, space.energy + i), value * value, part_energy)
        mean, energy = mean + part, energy + part_energy
    return mean * share, energy * share


@merged
def first_order(shape, n, share, low, high, bank, space):
    """Rows, means and energies of the units ``low`` to ``high``, and the signals of the parents."""
    lanes, row, parents, data = shape.lanes, shape.row, shape.parents, space.data
    data[space.signal : space.signal + n * lanes] = 0
    for k in range(high - low):
        z, c = space.first + k * n * row, (low + k) % shape.channels
        mean, energy = _apply_first(shape, n, share, c, bank + k * row, z, space)
        store(energy, data, space.mean + k * row)
        root = np.sqrt(data[space.mean + k * row + shape.scales] + MIN_ENERGY)
        data[space.root + k * parents : space.root + (k + 1) * parents] = root
        store(mean, data, space.mean + k * row)
        for i in range(n):
            for parent in range(parents):
                value = abs(at(data, z + i * row + parent))
                put(data, space.signal + i * lanes + k * parents + parent, value)


@merged
def first_moments(shape, n, share, k, space):
    """Mean, centred powers and root of the energy of a block's unit ``k``."""
    line = zeros(space.data, shape.row, 1)
    flip = load(line, space.data, space.flip)
    mean = load(line, space.data, space.mean + k * shape.row)
    root = line + at(space.data, space.root + k * shape.parents)
    z = space.first + k * n * shape.row
    return mean, centred_means(space, z, n, share, mean, flip, 1.0 / root), root


@merged
def gradient_first(shape, n, c, k, bank, mean, cubic, space):
    """Adds to the gradient of the bank of a block's unit ``k``, which is of channel ``c``.

    ``mean`` and ``cubic``: see :func:`gradient_at`.
    """
    data, lanes, parents, channels = space.data, shape.row, shape.parents, shape.channels
    line, size = zeros(data, shape.row, 1), shape.steps * shape.channels
    flip, z, extra = load(line, data, space.flip), space.first + k * n * lanes, space.second
    for i in range(n):  # the second order is not needed any more
        store(line, data, extra + i * lanes)
        for parent in range(parents):
            value = at(data, space.signal + i * shape.lanes + k * parents + parent)
            put(data, extra + i * lanes + parent, value)
    for i in range(n):
        value = load(line, data, z + i * lanes)
        slope = gradient_at(value, mean, flip, cubic) + load(line, data, extra + i * lanes)
        slope = times(space.counts, space.multiplicity + i, with_sign_of(slope, value))
        store(slope, data, z + i * lanes)
    for begin in range(0, n, PIECE):
        for s in range(0, shape.steps, UNROLL):
            sums = zeros(data, shape.row, UNROLL)
            for i in range(begin, min(n, begin + PIECE)):
                place = space.powers + i * size + s * channels + c
                power = load_rows(zeros(data, 1, UNROLL), data, place, channels)
                sums = multiply_add(power, load(line, data, z + i * lanes), sums)
            place = bank + s * shape.size + k * lanes
            store_rows(load_rows(sums, data, place, shape.size) + sums, data, place, shape.size)


@inlined
def _apply_second(shape, n, share, bank, space):
    """Writes the children ``[n, children, lanes]`` of a block; returns their mean magnitudes."""
    data, zero = space.data, zeros(space.data, shape.lanes, 1)
    wide = zeros(data, shape.lanes, shape.parents)
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
            one, two = one * at(data, space.degree + i), two * at(data, space.degree + j)
            store(one, data, space.second + i * width)
            store(two, data, space.second + j * width)
            part = add_times(space.counts, space.multiplicity + i, absolute(one), part)
            if j > i:
                part = add_times(space.counts, space.multiplicity + j, absolute(two), part)
        mean = mean + part
    return mean * share


@merged
def second_order(shape, n, share, bank, space):
    """Children of a block: mean magnitudes, centred powers, roots of the energy."""
    zero, wide = zeros(space.data, shape.lanes, 1), zeros(space.data, shape.lanes, shape.parents)
    _walk(shape, n, space)
    mean = _apply_second(shape, n, share, bank, space)
    root = wide + load(zero, space.data, space.root)
    centred = centred_means(space, space.second, n, share, mean, wide - 1.0, 1.0 / root)
    return mean, centred, root


@inner
def gradient_second(shape, n, mean, cubic, bank, grad, space):
    r"""From the gradient of the moments to those of the bank and, as signals, of the parents.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0`. Adds to ``grad``, the gradient of the bank.
    """
    data, z, last = space.data, space.second, shape.steps - 1
    zero, wide = zeros(data, shape.lanes, 1), zeros(data, shape.lanes, shape.parents)
    lanes, width, flip = len_of(zero), len_of(wide), wide - 1.0
    size = n * lanes
    for i in range(n):
        value = load(wide, data, z + i * width)
        slope = with_sign_of(gradient_at(value, mean, flip, cubic), value)
        store(slope * at(data, space.degree + i), data, z + i * width)
    for s in range(last, -1, -1):
        filters = load(wide, data, bank + s * shape.size)
        now, after = space.ping + (s & 1) * size, space.ping + (1 - s & 1) * size
        whole = wide
        for begin in range(0, n, PIECE):
            part = wide
            for i in range(begin, min(n, begin + PIECE)):
                slope = load(wide, data, z + i * width)
                state = load(zero, data, space.states + s * size + i * lanes)
                part = multiply_add(times(space.counts, space.multiplicity + i, state), slope, part)
                total = fold_product(zero, filters, slope) * at(data, space.inverse + i)
                if s < last:
                    total = step(zero, after, space, i, total)
                store(total, data, now + i * lanes)
            whole = whole + part
        place = grad + s * shape.size
        store(load(wide, data, place) + whole, data, place)
    for i in range(n):
        store(difference(zero, space.ping, space, i), data, space.signal + i * lanes)
