r"""Moments of many lanes over the nodes of one graph, and their gradient.

As :func:`legs.functional.moments`, but in units of the signal: with :math:`\kappa^{-2} = e +
10^{-24}` for the energy :math:`e`, the floor of the variance of :math:`\kappa z` is
:math:`10^{-6}`, and no power of a small signal leaves the range of float32.
"""

from __future__ import annotations

from typing import Any

from legs.functional.moments import ABSOLUTE_FLOOR, RELATIVE_FLOOR
from legs.kernels.cpu.jit import inlined, inner
from legs.kernels.cpu.simd import len_of, load, maximum, minimum, multiply_add, square_root
from legs.kernels.cpu.walk import times

FLOOR = RELATIVE_FLOOR
MIN_ENERGY = ABSOLUTE_FLOOR / RELATIVE_FLOOR
# Sums run over pieces of this many nodes: a long sum in float32 would lose its last digits.
PIECE = 256


@inlined
def magnitude(z: Any, flip: Any) -> Any:
    """``|z|`` in lanes where ``flip`` is -1, ``z`` where it is 1."""
    return maximum(z, z * flip)


@inner
def centred_means(space: Any, z: int, n: int, share: float, mean: Any, flip: Any, unit: Any) -> Any:
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
            counted = times(space.counts, space.count + i, square)
            two = two + counted
            three = multiply_add(counted, value, three)
            four = multiply_add(counted, square, four)
        second, third, fourth = second + two, third + three, fourth + four
    return second * share, third * share, fourth * share


@inlined
def _fade(variance: Any) -> Any:
    """The factor of skewness and kurtosis near the floor, and its derivative in the variance."""
    ratio = maximum(minimum((variance * (1 / FLOOR) - 1.0) * (1.0 / 3.0), 1.0), 0.0)
    square = ratio * ratio
    left = 1.0 - ratio
    fade = square * ratio * (square * 6.0 - ratio * 15.0 + 10.0)
    return fade, square * left * left * (10 / FLOOR)


@inlined
def _standardized(powers: Any) -> Any:
    """Root of the floored variance, its inverse, skewness and excess kurtosis before fading."""
    second, third, fourth = powers
    root = square_root(maximum(second, FLOOR))
    inverse = 1.0 / root
    square = inverse * inverse
    return root, inverse, third * square * inverse, fourth * square * square - 3.0


@inlined
def moments_of(mean: Any, powers: Any, energy: Any) -> Any:
    """Mean, variance, skewness and kurtosis of every lane."""
    _, _, skewness, kurtosis = _standardized(powers)
    fade, _ = _fade(powers[0])
    return mean, powers[0] * energy, skewness * fade, kurtosis * fade


@inlined
def gradient_cubic(grads: Any, share: float, powers: Any, root_energy: Any) -> Any:
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
def gradient_at(z: Any, mean: Any, flip: Any, cubic: Any) -> Any:
    """The gradient in ``|z|`` (or ``z``, see :func:`magnitude`) of one node."""
    scale, coefficients = cubic
    value = (magnitude(z, flip) - mean) * scale
    total = multiply_add(value, coefficients[3], coefficients[2])
    total = multiply_add(value, total, coefficients[1])
    return multiply_add(value, total, coefficients[0])
