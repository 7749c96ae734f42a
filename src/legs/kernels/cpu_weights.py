"""Weights of edges, and of nodes that stand for several: arrays, or None where all are one.

The type of the argument decides, so that no test of it is left to the loops.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from legs.kernels.cpu_vectors import at, multiply_add, put


def weight_at(weights: Any, place: int, one: Any) -> Any:
    """A weight; one if there are none."""


def keep_weight(weights: Any, place: int, weight: Any) -> None:
    """Writes a weight if weights are kept."""


def times_weight(weights: Any, place: int, value: Any) -> Any:
    """A vector times a weight."""


def add_weighted(weights: Any, place: int, value: Any, total: Any) -> Any:
    """``total`` plus a vector times a weight."""


def room_for_weights(weight: Any, work: Any) -> Any:
    """The work array where a graph's weights are kept, or None."""


def share_of(copies: Any, first: int, n: int) -> Any:
    """The share of one node in means over a graph: one by the number that its nodes stand for."""


@overload(weight_at, strict=False)
def _weight_at(weights: Any, place: int, one: Any) -> Any:
    if isinstance(weights, types.NoneType):
        return lambda weights, place, one: one
    return lambda weights, place, one: at(weights, place)


@overload(keep_weight, strict=False)
def _keep_weight(weights: Any, place: int, weight: Any) -> Any:
    if isinstance(weights, types.NoneType):
        return lambda weights, place, weight: None

    def keep(weights: Any, place: int, weight: Any) -> None:
        put(weights, place, weight)

    return keep


@overload(times_weight, strict=False)
def _times_weight(weights: Any, place: int, value: Any) -> Any:
    if isinstance(weights, types.NoneType):
        return lambda weights, place, value: value
    return lambda weights, place, value: value * at(weights, place)


@overload(add_weighted, strict=False)
def _add_weighted(weights: Any, place: int, value: Any, total: Any) -> Any:
    if isinstance(weights, types.NoneType):
        return lambda weights, place, value, total: total + value
    return lambda weights, place, value, total: multiply_add(at(weights, place), value, total)


@overload(room_for_weights, strict=False)
def _room_for_weights(weight: Any, work: Any) -> Any:
    if isinstance(weight, types.NoneType):
        return lambda weight, work: None
    return lambda weight, work: work


@overload(share_of, strict=False)
def _share_of(copies: Any, first: int, n: int) -> Any:
    if isinstance(copies, types.NoneType):
        return lambda copies, first, n: 1.0 / n

    def share(copies: Any, first: int, n: int) -> Any:
        total = 0.0
        for i in range(first, first + n):
            total += at(copies, i)
        return 1.0 / max(total, 1.0)

    return share
