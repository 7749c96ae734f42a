"""Work shared by threads.

Compiled code runs without the interpreter's lock, so plain Python threads are enough. Numba's own
would not do: they may neither be used by several callers at once nor survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

T = TypeVar("T")

SIZE_OF_A_THREAD = 2**18  # numbers; to wake a thread for fewer takes longer than they do

_pool: ThreadPoolExecutor | None = None
_size = 0


def run(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs the calls at the same time, the last one in this thread, and waits for all of them.

    >>> run([lambda: 1, lambda: 2])
    [1, 2]
    """
    if len(calls) == 1:
        return [calls[0]()]
    pool = _pool_of(len(calls) - 1)
    waiting = [pool.submit(call) for call in calls[:-1]]
    try:
        done = calls[-1]()
    finally:
        wait(waiting)  # they write to what the caller may throw away
    return [*(future.result() for future in waiting), done]


def split(work: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Cuts a list into at most ``parts`` runs of about equal work.

    Args:
        work: the work done before each item, and in the end all of it; ``[items + 1]``.
        parts: how many runs to make.

    >>> split(np.array([0, 4, 5, 6, 8]), 2)
    [(0, 1), (1, 4)]
    """
    wanted = work[0] + (work[-1] - work[0]) * np.arange(1, parts) / parts
    inner = np.searchsorted(work, wanted).tolist()
    cuts = sorted({0, *inner, len(work) - 1})
    return list(pairwise(cuts))


def over_parts(
    loop: Callable[..., None], known: Sequence[tuple[Any, ...]], work: NDArray[Any], width: int
) -> None:
    """A loop over rows, or graphs, of some models, by as many threads as PyTorch has.

    Args:
        loop: takes what is known of a model, and a range of rows.
        known: of each model.
        work: what there is to do before each row, and in the end all of it; ``[rows + 1]``.
        width: how many numbers each piece of work is.
    """
    size = len(known) * width * int(work[-1])
    parts = split(work.astype(np.int64), _threads_for(size))
    share_out(loop, [(*given, *part) for part in parts for given in known], size)


def share_out(loop: Callable[..., None], calls: Sequence[tuple[Any, ...]], size: int) -> None:
    """Calls a loop with all of these arguments, by as many threads as pay for so many numbers."""
    threads = min(_threads_for(size), len(calls))
    cuts = [len(calls) * k // max(1, threads) for k in range(threads + 1)]
    if threads:
        run([partial(_all, loop, calls[a:b]) for a, b in pairwise(cuts)])


def _all(loop: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> None:
    for call in calls:
        loop(*call)


def _threads_for(size: int) -> int:
    return min(torch.get_num_threads(), 1 + size // SIZE_OF_A_THREAD)


def _pool_of(size: int) -> ThreadPoolExecutor:
    global _pool, _size
    if _pool is None or _size < size:
        # An older, smaller one ends with its last call.
        _pool, _size = ThreadPoolExecutor(size, thread_name_prefix="legs"), size
    return _pool


def _forget() -> None:
    """A child process has none of its parent's threads."""
    global _pool, _size
    _pool, _size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
