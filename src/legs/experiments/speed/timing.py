"""Timing on shared machines: medians of interleaved runs, so that ratios can be trusted.

The competitors take turns, which spreads whatever else the machine does over all of them. Short
runs are queued back to back and timed together: a GPU is waited for once a turn, not once a run.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

Run = Callable[[], object]

# A turn takes at least about so long: the clock and a GPU's wake-up are small beside it.
TURN = 4e-3
MOST_TOGETHER = 200
# A run that takes so many times the time for all turns is timed once, after its first.
SLOW = 4


@dataclass(frozen=True)
class Timing:
    """What one competitor took.

    Args:
        seconds: median of its turns; ``None`` where it failed.
        first: of its first run: compiling, and whatever else is done once.
        memory: bytes at its peak beyond what was in use before; on a GPU only.
        failed: why there is no time.
    """

    seconds: float | None
    first: float | None = None
    memory: int | None = None
    failed: str = ""


def compare(
    candidates: Mapping[str, Run],
    device: torch.device | str = "cpu",
    *,
    rounds: int = 15,
    least: int = 3,
    seconds: float = 2.0,
) -> dict[str, Timing]:
    """Times competitors in turn.

    Args:
        candidates: what to run, by name.
        device: where they run.
        rounds: the most turns (default 15).
        least: the fewest (default 3).
        seconds: of turns of each competitor; then it has had enough (default 2). One that takes
            several times as long for a single run is timed once.

    >>> found = compare({"sum": lambda: sum(range(100)), "nothing": lambda: None}, rounds=3)
    >>> found["sum"].seconds > found["nothing"].seconds
    True
    """
    device = torch.device(device)
    found: dict[str, Timing] = {}
    together: dict[str, int] = {}
    for name, run in candidates.items():
        try:
            first = timed(run, device)
            memory = peak(run, device)
            once = timed(run, device)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            found[name] = Timing(None, failed="out of memory")
            _let_go(device)
            continue
        found[name] = Timing(once, first, memory)
        if once < SLOW * seconds:
            together[name] = min(MOST_TOGETHER, math.ceil(TURN / max(once, 1e-9)))
    turns: dict[str, list[float]] = {name: [] for name in together}
    used = dict.fromkeys(together, 0.0)
    for number in range(rounds):
        # There and back: nobody always runs in the wake of the same neighbour.
        for name in list(together)[:: -1 if number % 2 else 1]:
            count = together[name]
            if number >= least and used[name] > seconds:
                continue
            took = timed(candidates[name], device, count)
            used[name] += took * count
            turns[name].append(took)
    for name, values in turns.items():
        found[name] = replace(found[name], seconds=statistics.median(values))
    return found


def timed(run: Run, device: torch.device, count: int = 1) -> float:
    """Seconds a run, of so many one after another."""
    wait(device)
    start = time.perf_counter()
    for _ in range(count):
        run()
    wait(device)
    return (time.perf_counter() - start) / count


def peak(run: Run, device: torch.device) -> int | None:
    """Bytes in use at the peak of a run beyond those before it; ``None`` but on a GPU."""
    if device.type != "cuda":
        return None
    wait(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    wait(device)
    return torch.cuda.max_memory_allocated(device) - before


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("wrong shape"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return "can't allocate memory" in text or "not enough memory" in text


def _let_go(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
