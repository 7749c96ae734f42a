"""Attention over every node's neighbours and itself, and its gradient, row by row.

The formulas are those of ``sources/messages_attend.cuh``. A row of ``u`` holds the states of all
heads, their scores as a sender, then those as a receiver. All arrays are those of one model.
Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legs.kernels.cpu_jit import inlined, summing


@inlined
def _leaky(score: Any, slope: Any) -> Any:
    return score if score > 0 else slope * score


@inlined
def _slant(score: Any, slope: Any) -> Any:
    return slope / slope if score > 0 else slope


@inlined
def _times(weight: Any, e: int, start: int) -> Any:
    """How often a neighbour counts; the node itself, which comes first, once."""
    return weight.dtype.type(1) if weight.size == 0 or e < start else weight[e]


@inlined
def _dot(a: Any, i: int, b: Any, j: int, first: int, last: int) -> Any:
    total = a.dtype.type(0)
    for c in range(first, last):
        total += a[i, c] * b[j, c]
    return total


@summing
def attend(
    rowptr: Any,
    col: Any,
    weight: Any,
    u: Any,
    out: Any,
    stats: Any,
    slope: Any,
    first: int,
    last: int,
) -> None:
    """States after attention; ``stats``: largest score and sum of each head, ``[rows, 2, heads]``.

    ``weight`` may be empty: every neighbour counts once then.
    """
    heads, base = stats.shape[2], out.shape[1]
    channels = base // heads
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        for k in range(heads):
            most = u[i, base + k]
            for e in range(start, end):
                most = max(most, u[col[e], base + k])
            stats[i, 0, k] = _leaky(most + u[i, base + heads + k], slope)
            stats[i, 1, k] = 0
        out[i, :] = 0
        for e in range(start - 1, end):
            j = np.int64(i if e < start else col[e])
            for k in range(heads):
                score = _leaky(u[j, base + k] + u[i, base + heads + k], slope)
                share = _times(weight, e, start) * np.exp(score - stats[i, 0, k])
                stats[i, 1, k] += share
                for c in range(k * channels, (k + 1) * channels):
                    out[i, c] += share * u[j, c]
        for k in range(heads):
            scale = u.dtype.type(1) / stats[i, 1, k]
            for c in range(k * channels, (k + 1) * channels):
                out[i, c] *= scale


@summing
def receivers(
    rowptr: Any,
    col: Any,
    weight: Any,
    copies: Any,
    u: Any,
    grad: Any,
    stats: Any,
    change: Any,
    seen: Any,
    slope: Any,
    first: int,
    last: int,
) -> None:
    """Gradients of scores as a receiver; ``seen``: what senders need, ``[rows, 4, heads]``.

    That is: score as a receiver, largest score, sum (times copies, if there are any) and
    :math:`D_i`.
    """
    heads, base = stats.shape[2], grad.shape[1]
    channels = base // heads
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        many = max(copies[i], u.dtype.type(1)) if copies.size else u.dtype.type(1)
        for k in range(heads):
            here, most = u[i, base + heads + k], stats[i, 0, k]
            scale = u.dtype.type(1) / stats[i, 1, k]
            inner, along, slants = u.dtype.type(0), u.dtype.type(0), u.dtype.type(0)
            for e in range(start - 1, end):
                j = np.int64(i if e < start else col[e])
                score = u[j, base + k] + here
                share = _times(weight, e, start) * np.exp(_leaky(score, slope) - most) * scale
                part = share * _dot(grad, i, u, j, k * channels, (k + 1) * channels)
                inner += part
                along += _slant(score, slope) * part
                slants += _slant(score, slope) * share
            change[i, base + heads + k] = along - inner * slants
            seen[i, 0, k] = here
            seen[i, 1, k] = most
            seen[i, 2, k] = stats[i, 1, k] * many
            seen[i, 3, k] = inner


@summing
def senders(
    rowptr: Any,
    col: Any,
    weight: Any,
    copies: Any,
    u: Any,
    grad: Any,
    seen: Any,
    change: Any,
    slope: Any,
    first: int,
    last: int,
) -> None:
    """Gradients of states, and of scores as a sender."""
    heads, base = seen.shape[2], grad.shape[1]
    channels = base // heads
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        many = max(copies[i], u.dtype.type(1)) if copies.size else u.dtype.type(1)
        change[i, : base + heads] = 0
        for e in range(start - 1, end):
            j = np.int64(i if e < start else col[e])
            for k in range(heads):
                score = u[i, base + k] + seen[j, 0, k]
                share = np.exp(_leaky(score, slope) - seen[j, 1, k]) / seen[j, 2, k]
                share *= _times(weight, e, start)
                along = _dot(grad, j, u, i, k * channels, (k + 1) * channels)
                change[i, base + k] += share * _slant(score, slope) * (along - seen[j, 3, k])
                for c in range(k * channels, (k + 1) * channels):
                    change[i, c] += share * grad[j, c]
        for c in range(base + heads):
            change[i, c] *= many
