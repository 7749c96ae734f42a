r"""First order of one unit, that is of one channel of one model, on one graph; and its gradient.

A node has one vector, a *row*: the unit's wavelets, and the signal itself in the lane after them.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from legs.kernels.cpu_jit import inlined, inner
from legs.kernels.cpu_moments import PIECE, gradient_at, magnitude
from legs.kernels.cpu_vectors import (
    at,
    len_of,
    load,
    multiply_add,
    store,
    with_sign_of,
    zeros_like,
)
from legs.kernels.cpu_weights import add_weighted, times_weight


@inlined
def _filter_eight(
    zero: Any,
    steps: int,
    channels: int,
    powers: Any,
    source: int,
    order: Any,
    n: int,
    i: int,
    work: Any,
    bank: int,
    z: int,
) -> None:
    """Writes the wavelets of the nodes ``i`` to ``i + 8``.

    Eight sums at once, since each has to wait for its own additions. The last node is taken again
    for those that are not there.
    """
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    lanes, node, last = len_of(zero), steps * channels, n - 1
    a_at = at(order, i) * node
    b_at = at(order, min(i + 1, last)) * node
    c_at = at(order, min(i + 2, last)) * node
    d_at = at(order, min(i + 3, last)) * node
    e_at = at(order, min(i + 4, last)) * node
    f_at = at(order, min(i + 5, last)) * node
    g_at = at(order, min(i + 6, last)) * node
    h_at = at(order, min(i + 7, last)) * node
    for s in range(steps):
        filters = load(zero, work, bank + s * lanes)
        here = source + s * channels
        a = multiply_add(at(powers, here + a_at), filters, a)
        b = multiply_add(at(powers, here + b_at), filters, b)
        c = multiply_add(at(powers, here + c_at), filters, c)
        d = multiply_add(at(powers, here + d_at), filters, d)
        e = multiply_add(at(powers, here + e_at), filters, e)
        f = multiply_add(at(powers, here + f_at), filters, f)
        g = multiply_add(at(powers, here + g_at), filters, g)
        h = multiply_add(at(powers, here + h_at), filters, h)
    store(a, work, z)
    store(b, work, z + lanes)
    store(c, work, z + 2 * lanes)
    store(d, work, z + 3 * lanes)
    store(e, work, z + 4 * lanes)
    store(f, work, z + 5 * lanes)
    store(g, work, z + 6 * lanes)
    store(h, work, z + 7 * lanes)


@inlined
def apply_first(
    steps: int,
    channels: int,
    powers: Any,
    source: int,
    graph: Any,
    n: int,
    share: float,
    x: Any,
    x_at: int,
    flip: Any,
    work: Any,
    reach: int,
    bank: int,
    z: int,
) -> Any:
    """Writes the rows ``[n, row]`` of a unit; returns mean magnitudes and energies of its lanes.

    Up to seven rows more than there are nodes may be written.

    Args:
        steps, channels: constants, for speed.
        powers: walk powers ``[..., steps, channels]``, the unit's from ``source`` on.
        graph: :class:`~legs.kernels.cpu_graph.Graph`.
        share: of one node in a mean.
        x: signals ``[..., channels]``, the unit's from ``x_at`` on.
        flip: -1 in the lanes of wavelets, 1 in that of the signal.
        reach: where in ``work`` the energy's factors are; ``bank``: the unit's filters
            ``[steps, row]``; ``z``: where to write.
    """
    zero, lanes, order = zeros_like(flip), len_of(flip), graph.order
    copies, times = graph.copies, graph.times
    for i in range(0, n, 8):
        _filter_eight(zero, steps, channels, powers, source, order, n, i, work, bank, z + i * lanes)
    last = (flip + 1.0) * 0.5
    mean, energy = zero, zero
    for begin in range(0, n, PIECE):
        part, part_energy = zero, zero
        for i in range(begin, min(n, begin + PIECE)):
            value = load(zero, work, z + i * lanes)
            value = multiply_add(at(x, x_at + at(order, i) * channels), last, value)
            store(value, work, z + i * lanes)
            part = add_weighted(copies, times + i, magnitude(value, flip), part)
            part_energy = multiply_add(at(work, reach + i), value * value, part_energy)
        mean, energy = mean + part, energy + part_energy
    return mean * share, energy * share


@inner
def rows_to_gradients(
    n: int, mean: Any, flip: Any, cubic: Any, work: Any, z: int, extra: int
) -> None:
    """Replaces the rows of a unit by their gradients: the moments' and ``extra``."""
    lanes = len_of(mean)
    for i in range(n):
        value = load(mean, work, z + i * lanes)
        grad = gradient_at(value, mean, flip, cubic) + load(mean, work, extra + i * lanes)
        store(with_sign_of(grad, value), work, z + i * lanes)


@inlined
def gradient_first(
    zero: Any,
    steps: int,
    channels: int,
    powers: Any,
    source: int,
    graph: Any,
    n: int,
    work: Any,
    z: int,
    found: int,
) -> None:
    """Adds to ``found`` the gradient of a unit's bank, given that of its rows in ``z``."""
    for begin in range(0, n, PIECE):
        end = min(n, begin + PIECE)
        for s in range(0, steps, 8):
            _gradient_eight(
                zero, steps, channels, powers, source, graph, begin, end, s, work, z, found
            )


@inlined
def _gradient_eight(
    zero: Any,
    steps: int,
    channels: int,
    powers: Any,
    source: int,
    graph: Any,
    begin: int,
    end: int,
    s: int,
    work: Any,
    z: int,
    found: int,
) -> None:
    """The steps ``s`` to ``s + 8``; the last one is taken again for those that are not there."""
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    lanes, last = len_of(zero), steps - 1
    for i in range(begin, end):
        grad = times_weight(graph.copies, graph.times + i, load(zero, work, z + i * lanes))
        here = source + at(graph.order, i) * steps * channels
        a = multiply_add(at(powers, here + s * channels), grad, a)
        b = multiply_add(at(powers, here + min(s + 1, last) * channels), grad, b)
        c = multiply_add(at(powers, here + min(s + 2, last) * channels), grad, c)
        d = multiply_add(at(powers, here + min(s + 3, last) * channels), grad, d)
        e = multiply_add(at(powers, here + min(s + 4, last) * channels), grad, e)
        f = multiply_add(at(powers, here + min(s + 5, last) * channels), grad, f)
        g = multiply_add(at(powers, here + min(s + 6, last) * channels), grad, g)
        h = multiply_add(at(powers, here + min(s + 7, last) * channels), grad, h)
    for k, value in enumerate((a, b, c, d, e, f, g, h)):
        if s + k < steps:
            place = found + (s + k) * lanes
            store(load(zero, work, place) + value, work, place)
