r"""Second order of a block of lanes on one graph, and its gradient.

A *lane* is one parent wavelet of one unit. The lanes of a block are diffused together, and all
children of a lane are formed at once: a vector of one part a child. Those that are no path have
zero weights.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from legs.kernels.cpu_graph import row_sum
from legs.kernels.cpu_jit import inlined, inner
from legs.kernels.cpu_moments import PIECE, gradient_at
from legs.kernels.cpu_vectors import (
    absolute,
    at,
    fold_product,
    len_of,
    load,
    multiply_add,
    repeat,
    store,
    with_sign_of,
)
from legs.kernels.cpu_weights import add_weighted, times_weight


@inlined
def apply_second(
    zero: Any,
    wide: Any,
    steps: int,
    graph: Any,
    n: int,
    share: float,
    states: int,
    bank: int,
    z: int,
) -> Any:
    """Writes the children ``[n, children, lanes]`` of a block; returns their mean magnitudes.

    Args:
        zero, wide: zeros, as many as lanes, and as many as lanes times children.
        share: of one node in a mean.
        states: where in the work array the diffused parents are, ``[steps, n, lanes]``;
            ``bank``: the filters, ``[steps, children, lanes]``; ``z``: where to write.
    """
    lanes, width, work, degree = len_of(zero), len_of(wide), graph.work, graph.degree
    copies, times = graph.copies, graph.times
    mean = wide
    for begin in range(0, n, PIECE):
        end = min(n, begin + PIECE)
        part = wide
        pairs = begin + ((end - begin) & ~1)
        for i in range(begin, pairs, 2):  # two nodes share the filters they load
            one, two = wide, wide
            for s in range(steps):
                filters = load(wide, work, bank + s * width)
                place = states + (s * n + i) * lanes
                one = multiply_add(repeat(wide, load(zero, work, place)), filters, one)
                two = multiply_add(repeat(wide, load(zero, work, place + lanes)), filters, two)
            one, two = one * at(work, degree + i), two * at(work, degree + i + 1)
            store(one, work, z + i * width)
            store(two, work, z + (i + 1) * width)
            one = times_weight(copies, times + i, absolute(one))
            two = times_weight(copies, times + i + 1, absolute(two))
            part = part + (one + two)
        for i in range(pairs, end):
            one = wide
            for s in range(steps):
                filters = load(wide, work, bank + s * width)
                state = load(zero, work, states + (s * n + i) * lanes)
                one = multiply_add(repeat(wide, state), filters, one)
            one = one * at(work, degree + i)
            store(one, work, z + i * width)
            part = add_weighted(copies, times + i, absolute(one), part)
        mean = mean + part
    return mean * share


@inner
def children_to_gradients(graph: Any, n: int, mean: Any, flip: Any, cubic: Any, z: int) -> None:
    """Replaces the children by their gradients times degree."""
    work, width = graph.work, len_of(mean)
    for i in range(n):
        value = load(mean, work, z + i * width)
        grad = with_sign_of(gradient_at(value, mean, flip, cubic), value)
        store(grad * at(work, graph.degree + i), work, z + i * width)


@inner
def gradient_second(
    zero: Any,
    wide: Any,
    steps: int,
    graph: Any,
    n: int,
    states: int,
    bank: int,
    z: int,
    ping: int,
    found: int,
    signal: int,
) -> None:
    r"""From the children's gradients, times degree, in ``z`` to those of the bank and the parents.

    Backwards in :math:`s`, :math:`g_s = \sum_k f_{ks} \bar g_k + P^\top g_{s+1}`; then
    :math:`(I - P^\top) g_0` is written over ``signal``. The bank's gradient is added to ``found``.
    """
    lanes, width, work = len_of(zero), len_of(wide), graph.work
    inverse, move, size = graph.inverse, graph.move, n * lanes
    for s in range(steps - 1, -1, -1):
        filters = load(wide, work, bank + s * width)
        now = ping + (s & 1) * size
        before = ping + size - (s & 1) * size
        whole = wide
        for begin in range(0, n, PIECE):
            part = wide
            for i in range(begin, min(n, begin + PIECE)):
                grad = load(wide, work, z + i * width)
                state = load(zero, work, states + s * size + i * lanes)
                state = times_weight(graph.copies, graph.times + i, state)
                part = multiply_add(repeat(wide, state), grad, part)
                total = fold_product(zero, filters, grad) * at(work, inverse + i)
                if s < steps - 1:
                    here = load(zero, work, before + i * lanes)
                    total = multiply_add(graph.rest, here, total)
                    moved = row_sum(zero, before, graph, i)
                    total = multiply_add(at(work, move + i), moved, total)
                store(total, work, now + i * lanes)
            whole = whole + part
        place = found + s * width
        store(load(wide, work, place) + whole, work, place)
    for i in range(n):
        moved = row_sum(zero, ping, graph, i) * at(work, move + i)
        here = load(zero, work, ping + i * lanes) * (1 - graph.rest)
        store(here - moved, work, signal + i * lanes)
