"""Timing on shared machines: medians of interleaved runs, so that only ratios are read off."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def compare(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, warm_up: int = 2
) -> dict[str, float]:
    """Median seconds of each candidate; the candidates take turns.

    Taking turns spreads whatever else the machine does over all of them.
    """
    for _ in range(warm_up):
        for run in candidates.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}
