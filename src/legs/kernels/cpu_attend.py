"""Attention over every node's neighbours and itself, and its gradient, row by row.

The formulas are those of ``sources/messages_attend.cuh``. A row of ``u`` holds the states of all
heads, their scores as a sender, then those as a receiver. All arrays are those of one model.
Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from legs.kernels.cpu_jit import inlined, summing
from legs.kernels.cpu_shape import constants, source_checksum


@constants
@dataclass(frozen=True)
class Heads:
    """What the loops are compiled for (see ``cpu_shape``)."""

    heads: int
    channels: int
    source: int  # checksum


@cache
def heads_of(heads: int, width: int) -> Heads:
    """For rows of ``u`` of so many numbers."""
    return Heads(heads, width // heads - 2, source_checksum())


@inlined
def _leaky(score: Any, slope: Any) -> Any:
    return score if score > 0 else slope * score


@inlined
def _slant(score: Any, slope: Any) -> Any:
    return slope * 0 + 1 if score > 0 else slope


@inlined
def _times(weight: Any, e: int, start: int) -> Any:
    """How often a neighbour counts; the node itself, which comes first, once."""
    return weight.dtype.type(1) if weight.size == 0 or e < start else weight[e]


@inlined
def _dot(size: Any, a: Any, i: int, b: Any, j: int, k: int) -> Any:
    """Of the states of head ``k`` in two rows."""
    total = a.dtype.type(0)
    for c in range(size.channels):
        total += a[i, k * size.channels + c] * b[j, k * size.channels + c]
    return total


@summing
def attend(
    size: Any,
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
    base = size.heads * size.channels
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        for k in range(size.heads):
            most = u[i, base + k]
            for e in range(start, end):
                most = max(most, u[col[e], base + k])
            stats[i, 0, k] = _leaky(most + u[i, base + size.heads + k], slope)
            stats[i, 1, k] = 0
        out[i, :] = 0
        for e in range(start - 1, end):
            j = np.int64(i if e < start else col[e])
            for k in range(size.heads):
                score = _leaky(u[j, base + k] + u[i, base + size.heads + k], slope)
                share = _times(weight, e, start) * np.exp(score - stats[i, 0, k])
                stats[i, 1, k] += share
                for c in range(size.channels):
                    out[i, k * size.channels + c] += share * u[j, k * size.channels + c]
        for k in range(size.heads):
            scale = u.dtype.type(1) / stats[i, 1, k]
            for c in range(size.channels):
                out[i, k * size.channels + c] *= scale


@summing
def receivers(
    size: Any,
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

    That is: score as a receiver, largest score, one over the sum (times copies, if there are any)
    and :math:`D_i`.
    """
    base = size.heads * size.channels
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        many = max(copies[i], u.dtype.type(1)) if copies.size else u.dtype.type(1)
        for k in range(size.heads):
            here, most = u[i, base + size.heads + k], stats[i, 0, k]
            scale = u.dtype.type(1) / stats[i, 1, k]
            inner, along, slants = u.dtype.type(0), u.dtype.type(0), u.dtype.type(0)
            for e in range(start - 1, end):
                j = np.int64(i if e < start else col[e])
                score = u[j, base + k] + here
                share = _times(weight, e, start) * np.exp(_leaky(score, slope) - most) * scale
                part = share * _dot(size, grad, i, u, j, k)
                inner += part
                along += _slant(score, slope) * part
                slants += _slant(score, slope) * share
            change[i, base + size.heads + k] = along - inner * slants
            seen[i, 0, k] = here
            seen[i, 1, k] = most
            seen[i, 2, k] = scale / many
            seen[i, 3, k] = inner


@summing
def senders(
    size: Any,
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
    base = size.heads * size.channels
    for i in range(first, last):
        start, end = rowptr[i], rowptr[i + 1]
        many = max(copies[i], u.dtype.type(1)) if copies.size else u.dtype.type(1)
        change[i, : base + size.heads] = 0
        for e in range(start - 1, end):
            j = np.int64(i if e < start else col[e])
            for k in range(size.heads):
                score = u[i, base + k] + seen[j, 0, k]
                share = np.exp(_leaky(score, slope) - seen[j, 1, k]) * seen[j, 2, k]
                share *= _times(weight, e, start)
                along = _dot(size, grad, j, u, i, k)
                change[i, base + k] += share * _slant(score, slope) * (along - seen[j, 3, k])
                for c in range(size.channels):
                    change[i, k * size.channels + c] += share * grad[j, k * size.channels + c]
        for c in range(base + size.heads):
            change[i, c] *= many
