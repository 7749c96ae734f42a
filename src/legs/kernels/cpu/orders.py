r"""One order of scattering on one graph: wavelets of some signals, their moments, and gradients.

The signals of a node are lanes of a vector, and so are all wavelets of all of them: parts of such a
vector each hold some wavelets, and those of one wavelet are neighbors. Filters are laid out like
the results; those of pairs that are no path are zero. Signals of the first order are the *units* of
a block. Its wavelets, as they lie there, are the signals of the second.

States are divided by the degrees, :math:`D^{-1} P^s (I - P) u`: then a step needs the weights
alone, and operators differ only in factors of nodes before and after.

Moments are as in :func:`legs.functional.moments`, but in units of the signal: with
:math:`\kappa^{-2} = e + 10^{-24}` for the energy :math:`e`, the floor of the variance of
:math:`\kappa z` is :math:`10^{-6}`, and no power of a small signal leaves the range of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from legs.functional.moments import ABSOLUTE_FLOOR, RELATIVE_FLOOR
from legs.kernels.cpu.jit import Constants, inlined, inner
from legs.kernels.cpu.simd import (
    absolute,
    at,
    fold_product,
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


@dataclass(frozen=True)
class Order(Constants):
    """Sizes that are known at compile time. Order 0 has the signals themselves as results."""

    number: int
    lanes: int  # signals of a node
    wide: int  # lanes of a part
    parts: int
    width: int  # wide * parts
    begin: int  # where the results begin among those of all orders
    size: int  # lanes of all orders
    steps: int
    units: int  # of a block: the lanes of a wavelet's, or of a parent's, coefficients


class Workspace(NamedTuple):
    """Where the buffers for one graph begin in ``data``."""

    rows: Any
    data: Any
    before: int  # [n] factors of signals, by which they are divided by the degrees
    after: int  # [n] factors of what becomes of them
    energy: int  # [n] weights of squares, see energy_weights
    x: int  # [chunks, n, units]
    signal: int  # [n, lanes] signals, or [n, width] the gradient of the parents
    states: int  # [steps, n, lanes] of the second order
    moments: int  # [4, size], or their gradients
    bank: int  # [blocks, steps, size] filters
    grad: int  # their gradients


class Record(NamedTuple):
    """What forward leaves for backward of one block on one graph: where it begins in ``data``."""

    data: Any
    states: int  # [steps, n, units] of the first order
    first: int  # [n, width] first order, then its gradient; up to seven rows more are written
    second: int  # [n, width] second order, likewise
    means: int  # [4, size] of |z|, and of the centred powers in units of the signal
    root: int  # [units] square roots of the energy


@inner
def energy_weights(n, space):
    r"""How much a square :math:`x_j^2` counts in the energy: :math:`1 + \sum_i \rho_i A_{ij}`.

    See :func:`legs.functional.signal_energy`; its two sums can be exchanged, and what is left
    depends on no signal. With :math:`A = S R S^{-1}`, :math:`R = D^{-1} W` and symmetric weights,
    the sum is :math:`S^{-1} D\, R\, D^{-1} S \rho`. Merged nodes of multiplicities :math:`n_i` have
    as many edges counted from either end, :math:`n_i W_{ij} = n_j W_{ji}`: the sum by rows stays,
    and counts :math:`n_j` times.
    """
    data, rows, one = space.data, space.rows, space.rows.one
    zero, inflow = zeros(data, 1, 1), space.signal
    step(zero, n, data, space.before, inflow, rows, False)
    for i in range(n):
        total, after = at(data, inflow + i), at(data, space.after + i)
        rho = (total + total - at(data, space.before + i)) * after
        put(data, inflow + i, rho * after * at(data, rows.inverse + i))
    step(zero, n, data, inflow, space.energy, rows, False)
    for i in range(n):
        total = at(data, space.energy + i)
        total = (total + total - at(data, inflow + i)) * at(data, space.before + i)
        total = one + total * at(data, rows.degree + i)
        put(data, space.energy + i, times(rows.counts, rows.multiplicity + i, total))


@inner
def root_energy(order, n, share, x, space, record):
    """Writes the square roots of the energies of a block's units."""
    data, line = space.data, zeros(space.data, order.units, 1)
    energy = line
    for begin in range(0, n, PIECE):
        part = line
        for i in range(begin, min(n, begin + PIECE)):
            value = load(line, data, x + i * order.units)
            part = multiply_add(at(data, space.energy + i), value * value, part)
        energy = energy + part
    store(square_root(energy * share + MIN_ENERGY), record.data, record.root)


@inner
def diffuse(order, n, source, signals, stride, data, place, states, space):
    """Writes the states of signals, ``stride`` apart in ``source``, via ``place``."""
    line = zeros(data, order.lanes, 1)
    for i in range(n):
        value = load(line, source, signals + i * stride)
        value = absolute(value) if order.number == 2 else value
        store(value * at(space.data, space.before + i), data, place + i * order.lanes)
    walk(line, order.steps, n, data, place, states, space.rows)


@inner
def apply_filters(order, n, bank, source, states, z, space, record):
    """Writes the wavelets ``[n, width]`` of states; up to seven rows more."""
    data, line, factors = space.data, zeros(space.data, order.wide, 1), zeros(space.data, 1, UNROLL)
    some, sums = zeros(data, order.lanes, UNROLL), zeros(data, order.wide, UNROLL)
    for i in range(0, n, UNROLL):
        after = load(factors, data, space.after + i)
        for part in range(0, order.width, order.wide):
            total, filters = sums, bank + order.begin + part
            for s in range(order.steps):
                state = load(some, source, states + (s * n + i) * order.lanes)
                total = multiply_add(state, load(line, data, filters + s * order.size), total)
            store_rows(total * after, record.data, z + i * order.width + part, order.width)


@inlined
def _magnitude(order, z):
    return z if order.number == 0 else absolute(z)


@inner
def take_means(order, n, share, source, z, space, record):
    """Writes means, and those of the centred powers in units of the signal."""
    data, rows, zero = space.data, space.rows, zeros(space.data, order.wide, order.parts)
    unit = 1.0 / load(zeros(data, order.units, 1), record.data, record.root)
    mean, second, third, fourth = zero, zero, zero, zero
    for begin in range(0, n, PIECE):
        one = zero
        for i in range(begin, min(n, begin + PIECE)):
            value = _magnitude(order, load(zero, source, z + i * order.width))
            one = add_times(rows.counts, rows.multiplicity + i, value, one)
        mean = mean + one
    mean = mean * share
    for begin in range(0, n, PIECE):
        two, three, four = zero, zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = _magnitude(order, load(zero, source, z + i * order.width))
            value = (value - mean) * unit
            square = value * value
            counted = times(rows.counts, rows.multiplicity + i, square)
            two = two + counted
            three = multiply_add(counted, value, three)
            four = multiply_add(counted, square, four)
        second, third, fourth = second + two, third + three, fourth + four
    means = mean, second * share, third * share, fourth * share
    _store_four(order, means, record.data, record.means)


@inlined
def _store_four(order, values, data, place):
    for m in range(4):
        store(values[m], data, place + order.begin + m * order.size)


@inlined
def _load_four(order, data, place):
    like, place = zeros(data, order.wide, order.parts), place + order.begin
    one, two = load(like, data, place), load(like, data, place + order.size)
    place += 2 * order.size
    return one, two, load(like, data, place), load(like, data, place + order.size)


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


@inner
def take_moments(order, space, record):
    """Writes mean, variance, skewness and kurtosis of every lane, from the means."""
    mean, second, third, fourth = _load_four(order, record.data, record.means)
    root = load(zeros(space.data, order.units, 1), record.data, record.root)
    _, _, skewness, kurtosis = _standardized((second, third, fourth))
    fade, _ = _fade(second)
    moments = mean, second * (root * root), skewness * fade, kurtosis * fade
    _store_four(order, moments, space.data, space.moments)


@inlined
def _gradient_cubic(grads, share, powers, root_energy):
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
    return scale, constant, one, three, four, (0.0 - fading) * powers[0] * unit * unit


@inner
def gradient_values(order, n, share, source, z, target, out, space, record):
    """Writes the gradient of the values, with that of the parents; up to the factors after.

    The gradient in the energy replaces that of the mean.
    """
    data, zero = space.data, zeros(space.data, order.wide, order.parts)
    mean, second, third, fourth = _load_four(order, record.data, record.means)
    root = load(zeros(data, order.units, 1), record.data, record.root)
    scale, constant, one, three, four, by_energy = _gradient_cubic(
        _load_four(order, data, space.moments), share, (second, third, fourth), root
    )
    store(by_energy, data, space.moments + order.begin)
    for i in range(n):
        value = load(zero, source, z + i * order.width)
        centred = (_magnitude(order, value) - mean) * scale
        slope = multiply_add(centred, multiply_add(centred, four, three), one)
        slope = multiply_add(centred, slope, constant)
        if order.number == 1:
            slope = slope + load(zero, data, space.signal + i * order.width)
        if order.number != 0:
            slope = with_sign_of(slope, value) * at(data, space.after + i)
        store(slope, target, out + i * order.width)


@inner
def gradient_filters(order, n, source, states, z, grad, space, record):
    """Adds to the gradient of the filters, from that of the wavelets."""
    data, kept, rows = space.data, record.data, space.rows
    some, sums = zeros(data, order.lanes, UNROLL), zeros(data, order.wide, UNROLL)
    line, apart = zeros(data, order.wide, 1), n * order.lanes
    for begin in range(0, n, PIECE):
        for part in range(0, order.width, order.wide):
            for s in range(0, order.steps, UNROLL):
                total, first = sums, states + s * apart
                for i in range(begin, min(n, begin + PIECE)):
                    slope = load(line, kept, z + i * order.width + part)
                    slope = times(rows.counts, rows.multiplicity + i, slope)
                    state = load_rows(some, source, first + i * order.lanes, apart)
                    total = multiply_add(state, slope, total)
                place = grad + order.begin + part + s * order.size
                total = total + load_rows(sums, data, place, order.size)
                store_rows(total, data, place, order.size)


@inner
def gradient_signals(order, n, bank, data, states, z, stride, space, record):
    r"""Writes the gradient of the signals to the workspace, ``stride`` apart; states are lost.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0`.
    """
    line, wide = zeros(data, order.lanes, 1), zeros(data, order.wide, order.parts)
    rows, size = space.rows, n * order.lanes
    for s in range(order.steps - 1, -1, -1):
        now, filters = (
            states + s * size,
            load(wide, space.data, bank + order.begin + s * order.size),
        )
        for i in range(n):
            slope = load(wide, record.data, z + i * order.width)
            value = fold_product(line, filters, slope) * at(space.data, rows.inverse + i)
            store(value, data, now + i * order.lanes)
        if s < order.steps - 1:
            step(line, n, data, now + size, now, rows, True)
    for i in range(n):
        factor = at(space.data, rows.degree + i) * at(space.data, space.before + i)
        for k in range(order.lanes, stride):
            put(space.data, space.signal + i * stride + k, rows.one - rows.one)
        value = difference(line, data, states, rows, i)
        store(value * factor, space.data, space.signal + i * stride)
