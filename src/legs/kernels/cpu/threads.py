"""Compiled calls in parallel.

They run without the interpreter's lock, so Python threads are enough. Numba's own thread pool can
neither be used by several callers at once nor survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    """Threads of a process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(size, thread_name_prefix="legs")


def run(calls: Sequence[Callable[[], Any]]) -> None:
    """Runs calls in parallel, the last one in this thread, and waits for all of them."""
    *others, last = calls
    futures = [_pool(os.getpid(), len(others)).submit(call) for call in others]
    last()
    for future in futures:
        future.result()


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
