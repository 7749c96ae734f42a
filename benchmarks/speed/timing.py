"""Time and peak memory on shared machines.

Competitors take turns, which spreads whatever else the machine does over all of them. Short runs
are queued back to back and timed together: a GPU is waited for once per turn.

Peak memory on a CPU comes from a fresh process: in a used one, freed memory hides what is needed.
Processes are forked from a server that has imported everything and computed nothing, so that one
costs milliseconds instead of the seconds of importing PyTorch.
"""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

Run = Callable[[], object]

# Seconds of a turn, at least: the clock and a GPU's wake-up are small beside it.
TURN = 4e-3
MOST_TOGETHER = 200
# Runs before a step is recorded.
WARM_UP = 3
# A run that takes this many times the time for all turns is timed once, after its first.
SLOW = 4
# Only Linux reports how much memory a process had at its peak since some moment.
STATUS, PEAK_RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# The server tries; what is not there is not imported.
PRELOADED = ("legs.kernels.cpu.scattering",)


@dataclass(frozen=True)
class Timing:
    """Time and memory of one competitor."""

    seconds: float | None  # median of its turns; None where it failed
    first: float | None = None  # of its first run, with compiling
    memory: int | None = None  # bytes at its peak beyond what was in use before; on a GPU only
    failed: str = ""  # why there is no time


def compare(
    candidates: Mapping[str, Run],
    device: torch.device | str = "cpu",
    *,
    rounds: int = 15,
    least: int = 3,
    seconds: float = 2.0,
) -> dict[str, Timing]:
    """Times competitors in turn: ``least`` to ``rounds`` times, as ``seconds`` allow."""
    device = torch.device(device)
    timings: dict[str, Timing] = {}
    together: dict[str, int] = {}
    for name, run in candidates.items():
        try:
            first, memory, once = timed(run, device), peak(run, device), timed(run, device)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            timings[name] = Timing(None, failed="out of memory")
            if device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        timings[name] = Timing(once, first, memory)
        if once < SLOW * seconds:
            together[name] = min(MOST_TOGETHER, math.ceil(TURN / max(once, 1e-9)))
    turns: dict[str, list[float]] = {name: [] for name in together}
    for number in range(rounds):
        # Back and forth: nobody always runs after the same neighbour.
        for name in list(together)[:: -1 if number % 2 else 1]:
            if number < least or sum(turns[name]) * together[name] <= seconds:
                turns[name].append(timed(candidates[name], device, together[name]))
    for name, values in turns.items():
        timings[name] = replace(timings[name], seconds=statistics.median(values))
    return timings


def timed(run: Run, device: torch.device, count: int = 1) -> float:
    """Seconds per run, of so many one after another."""
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
    """Waits for a GPU to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    words = ("can't allocate memory", "not enough memory")
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or any(text in str(error) for text in words)


def record(step: Run, device: torch.device) -> Run | None:
    """Records a step in a CUDA graph; ``None`` where it cannot be, or there is no GPU.

    A step that looks at its results on the CPU, or chooses shapes by them, cannot be recorded.
    """
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        # On a stream of its own first: libraries set themselves up on first use, and what they
        # allocate then must not end up in the recording.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            wait(device)
            with torch.cuda.graph(graph):
                written = step()
        except RuntimeError:  # memory may also run out: a recording keeps its own
            with suppress(RuntimeError):  # may report itself once more
                wait(device)
            wait(device)
            return None
        wait(device)

    def replay() -> object:
        graph.replay()
        return written

    return replay


def measurable() -> bool:
    """Whether peak memory on the CPU can be read here."""
    return STATUS.exists() and PEAK_RESET.exists()


def peak_of(prepare: Callable[..., tuple[Run, Run]], *arguments: Any) -> int | None:
    """Bytes at the peak of a run in a fresh process, beyond those it had before.

    ``prepare``, a function of a module, makes two runs: a small one, to load what is loaded once,
    and the one to measure. ``None`` where it cannot be measured, or memory ran out.
    """
    if not measurable():
        return None
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([prepare.__module__, *PRELOADED])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            threads = torch.get_num_threads()
            return pool.submit(_peak_here, prepare, arguments, threads).result()
        except BrokenProcessPool:  # ended by the system, for want of memory
            return None
        except (RuntimeError, MemoryError) as error:
            if out_of_memory(error):
                return None
            raise


def _peak_here(
    prepare: Callable[..., tuple[Run, Run]], arguments: tuple[Any, ...], threads: int
) -> int | None:
    torch.set_num_threads(threads)
    small, run = prepare(*arguments)
    small()
    # Freed memory goes back to the system, where it is counted when it is used again.
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc's
        trim(0)
    try:
        PEAK_RESET.write_text("5")  # the peak starts again: see proc(5)
    except OSError:
        return None
    before = kilobytes(STATUS, "VmRSS")
    run()
    return max(0, kilobytes(STATUS, "VmHWM") - before) * 1024


def kilobytes(file: Path, name: str) -> int:
    """A size that Linux reports in a file of lines ``name: size kB``."""
    lines = (line.split() for line in file.read_text().splitlines())
    return next(int(words[1]) for words in lines if words[0] == f"{name}:")
