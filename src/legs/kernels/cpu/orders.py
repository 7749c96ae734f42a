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
    maximum,
    minimum,
    multiply_add,
    pointer,
    put,
    square_root,
    store,
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
    """Buffers for one graph."""

    rows: Any
    before: Any  # [n] factors of signals, by which they are divided by the degrees
    after: Any  # [n] factors of what becomes of them
    energy: Any  # [n] weights of squares, see energy_weights
    x: Any  # [chunks, n, units]
    signal: Any  # [n, lanes] signals, or [n, width] the gradient of the parents
    states: Any  # [steps, n, lanes] of the second order
    moments: Any  # [4, size], or their gradients
    bank: Any  # [blocks, steps, size] filters
    grad: Any  # their gradients


class Block(NamedTuple):
    """What one order of a block has on one graph."""

    signals: Any  # [n, stride]
    stride: int
    states: Any  # [steps, n, lanes]
    z: Any  # [n, width] results; up to seven rows more are written
    slopes: Any  # [n, width] their gradient, which may replace them
    means: Any  # [4, size] of |z|, and of the centred powers in units of the signal
    root: Any  # [units] square roots of the energy
    bank: Any  # [steps, size] filters
    grad: Any  # their gradient


@inner
def energy_weights(n, space):
    r"""How much a square :math:`x_j^2` counts in the energy: :math:`1 + \sum_i \rho_i A_{ij}`.

    See :func:`legs.functional.signal_energy`; its two sums can be exchanged, and what is left
    depends on no signal. With :math:`A = S R S^{-1}`, :math:`R = D^{-1} W` and symmetric weights,
    the sum is :math:`S^{-1} D\, R\, D^{-1} S \rho`. Merged nodes of multiplicities :math:`n_i` have
    as many edges counted from either end, :math:`n_i W_{ij} = n_j W_{ji}`: the sum by rows stays,
    and counts :math:`n_j` times.
    """
    rows, zero, inflow, before = space.rows, zeros(space.x, 1, 1), space.signal, space.before
    step(zero, n, before, inflow, rows, False)
    for i in range(n):
        after = at(space.after, i)
        rho = (2 * at(inflow, i) - at(before, i)) * after
        put(inflow, i, rho * after * at(rows.inverse, i))
    step(zero, n, inflow, space.energy, rows, False)
    for i in range(n):
        total = (2 * at(space.energy, i) - at(inflow, i)) * at(before, i)
        put(space.energy, i, times(rows.count, i, 1 + total * at(rows.degree, i)))


@inner
def root_energy(order, n, share, own, space):
    """Writes the square roots of the energies of a block's units."""
    line = zeros(own.z, order.units, 1)
    energy = line
    for begin in range(0, n, PIECE):
        part = line
        for i in range(begin, min(n, begin + PIECE)):
            value = load(line, own.z, i * order.units)
            part = multiply_add(at(space.energy, i), value * value, part)
        energy = energy + part
    store(square_root(energy * share + MIN_ENERGY), own.root, 0)


@inner
def diffuse(order, n, own, space):
    """Writes the states of signals."""
    line = zeros(own.z, order.lanes, 1)
    for i in range(n):
        value = load(line, own.signals, i * own.stride)
        value = absolute(value) if order.number == 2 else value
        store(value * at(space.before, i), space.signal, i * order.lanes)
    walk(line, order.steps, n, space.signal, own.states, space.rows)


@inner
def apply_filters(order, n, own, space):
    """Writes the wavelets of states."""
    line, factors = zeros(own.z, order.wide, 1), zeros(own.z, 1, UNROLL)
    some, sums = zeros(own.z, order.lanes, UNROLL), zeros(own.z, order.wide, UNROLL)
    for i in range(0, n, UNROLL):
        after = load(factors, space.after, i)
        for part in range(0, order.width, order.wide):
            total, filters = sums, pointer(own.bank, order.begin + part)
            for s in range(order.steps):
                state = load(some, own.states, (s * n + i) * order.lanes)
                total = multiply_add(state, load(line, filters, s * order.size), total)
            store(total * after, own.z, i * order.width + part, order.width)


@inlined
def _magnitude(order, z):
    return z if order.number == 0 else absolute(z)


@inner
def take_means(order, n, share, own, space):
    """Writes means, and those of the centred powers in units of the signal."""
    zero, count = zeros(own.z, order.wide, order.parts), space.rows.count
    unit = 1.0 / load(zeros(own.z, order.units, 1), own.root, 0)
    mean, second, third, fourth = zero, zero, zero, zero
    for begin in range(0, n, PIECE):
        one = zero
        for i in range(begin, min(n, begin + PIECE)):
            value = _magnitude(order, load(zero, own.z, i * order.width))
            one = add_times(count, i, value, one)
        mean = mean + one
    mean = mean * share
    for begin in range(0, n, PIECE):
        two, three, four = zero, zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = _magnitude(order, load(zero, own.z, i * order.width))
            value = (value - mean) * unit
            square = value * value
            counted = times(count, i, square)
            two = two + counted
            three = multiply_add(counted, value, three)
            four = multiply_add(counted, square, four)
        second, third, fourth = second + two, third + three, fourth + four
    _store_four(order, (mean, second * share, third * share, fourth * share), own.means)


@inlined
def _store_four(order, values, target):
    for m in range(4):
        store(values[m], target, order.begin + m * order.size)


@inlined
def _load_four(order, source):
    like, own, size = zeros(source, order.wide, order.parts), order.begin, order.size
    one, two = load(like, source, own), load(like, source, own + size)
    return one, two, load(like, source, own + 2 * size), load(like, source, own + 3 * size)


@inlined
def _fade(variance):
    """The factor of skewness and kurtosis near the floor, and its derivative in the variance."""
    ratio = maximum(minimum((variance * (1 / RELATIVE_FLOOR) - 1.0) * (1.0 / 3.0), 1.0), 0.0)
    square = ratio * ratio
    left = 1.0 - ratio
    fade = square * ratio * (square * 6.0 - ratio * 15.0 + 10.0)
    return fade, square * left * left * (10 / RELATIVE_FLOOR)


@inlined
def _standardized(second, third, fourth):
    """Root of the floored variance, its inverse, skewness and excess kurtosis before fading."""
    root = square_root(maximum(second, RELATIVE_FLOOR))
    inverse = 1.0 / root
    square = inverse * inverse
    return root, inverse, third * square * inverse, fourth * square * square - 3.0


@inner
def take_moments(order, own, space):
    """Writes mean, variance, skewness and kurtosis of every lane, from the means."""
    mean, second, third, fourth = _load_four(order, own.means)
    root = load(zeros(own.z, order.units, 1), own.root, 0)
    _, _, skewness, kurtosis = _standardized(second, third, fourth)
    fade, _ = _fade(second)
    moments = mean, second * (root * root), skewness * fade, kurtosis * fade
    _store_four(order, moments, space.moments)


@inlined
def _gradient_cubic(grads, share, powers, root_energy):
    r"""The gradient in :math:`z_i` as a cubic in :math:`\hat d_i`: its scale and coefficients; and
    the gradient in the energy.

    ``grads`` are the gradients of the four moments; ``share`` is that of a node in a mean. Of
    merged nodes this is the gradient in each one.
    """
    by_mean, by_variance, by_skewness, by_kurtosis = grads
    root, inverse, skewness, kurtosis = _standardized(*powers)
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
def gradient_values(order, n, share, own, space):
    """Writes the gradient of the values, with that of the parents; up to the factors after.

    The gradient in the energy replaces that of the mean.
    """
    zero = zeros(own.z, order.wide, order.parts)
    mean, second, third, fourth = _load_four(order, own.means)
    root = load(zeros(own.z, order.units, 1), own.root, 0)
    scale, constant, one, three, four, by_energy = _gradient_cubic(
        _load_four(order, space.moments), share, (second, third, fourth), root
    )
    store(by_energy, space.moments, order.begin)
    for i in range(n):
        value = load(zero, own.z, i * order.width)
        centred = (_magnitude(order, value) - mean) * scale
        slope = multiply_add(centred, multiply_add(centred, four, three), one)
        slope = multiply_add(centred, slope, constant)
        if order.number == 1:
            slope = slope + load(zero, space.signal, i * order.width)
        if order.number != 0:
            slope = with_sign_of(slope, value) * at(space.after, i)
        store(slope, own.slopes, i * order.width)


@inner
def gradient_filters(order, n, own, space):
    """Adds to the gradient of the filters, from that of the wavelets."""
    some, sums = zeros(own.z, order.lanes, UNROLL), zeros(own.z, order.wide, UNROLL)
    line, apart = zeros(own.z, order.wide, 1), n * order.lanes
    for begin in range(0, n, PIECE):
        for part in range(0, order.width, order.wide):
            for s in range(0, order.steps, UNROLL):
                total = sums
                for i in range(begin, min(n, begin + PIECE)):
                    slope = load(line, own.slopes, i * order.width + part)
                    slope = times(space.rows.count, i, slope)
                    state = load(some, own.states, s * apart + i * order.lanes, apart)
                    total = multiply_add(state, slope, total)
                place = order.begin + part + s * order.size
                total = total + load(sums, own.grad, place, order.size)
                store(total, own.grad, place, order.size)


@inner
def gradient_signals(order, n, own, space):
    r"""Writes the gradient of the signals to the workspace; states are lost.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0`.
    """
    line, wide = zeros(own.z, order.lanes, 1), zeros(own.z, order.wide, order.parts)
    rows, size = space.rows, n * order.lanes
    for s in range(order.steps - 1, -1, -1):
        now = pointer(own.states, s * size)
        filters = load(wide, own.bank, order.begin + s * order.size)
        for i in range(n):
            value = fold_product(line, filters, load(wide, own.slopes, i * order.width))
            store(value * at(rows.inverse, i), now, i * order.lanes)
        if s < order.steps - 1:
            step(line, n, pointer(now, size), now, rows, True)
    for i in range(n):
        factor, target = at(rows.degree, i) * at(space.before, i), i * own.stride
        for k in range(order.lanes, own.stride):
            put(space.signal, target + k, 0)
        store(difference(line, own.states, rows, i) * factor, space.signal, target)
