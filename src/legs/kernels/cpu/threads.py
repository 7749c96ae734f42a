"""Compiled calls in parallel.

They run without the interpreter's lock, so Python threads are enough. Numba's own thread pool can
neither be used by several callers at once nor survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_pool: ThreadPoolExecutor | None = None
_size = 0


def run(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs calls in parallel, the last one in this thread, and waits for all of them.

    >>> run([lambda: 1, lambda: 2])
    [1, 2]
    """
    global _pool, _size
    if len(calls) == 1:
        return [calls[0]()]
    if _pool is None or _size < len(calls) - 1:  # a smaller pool ends with its last call
        _size = len(calls) - 1
        _pool = ThreadPoolExecutor(_size, thread_name_prefix="legs")
    futures = [_pool.submit(call) for call in calls[:-1]]
    try:
        last = calls[-1]()
    finally:
        wait(futures)  # they write to memory that the caller may free
    return [*(future.result() for future in futures), last]


def split(work: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Cuts a list into at most ``parts`` ranges of about equal work.

    Args:
        work: cumulative work before each item, and in total; ``[items + 1]``.
        parts: how many ranges to make.

    >>> split(np.array([0, 4, 5, 6, 8]), 2)
    [(0, 1), (1, 4)]
    """
    shares = work[0] + (work[-1] - work[0]) * np.arange(1, parts) / parts
    cuts = sorted({0, *np.searchsorted(work, shares).tolist(), len(work) - 1})
    return list(pairwise(cuts))


def _forget_pool() -> None:
    """A forked process has none of its parent's threads."""
    global _pool, _size
    _pool, _size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
