"""Peak memory on a CPU, from a fresh process: in a used one, freed memory hides what is needed.

Processes are forked from a server that has imported everything and computed nothing, so that one
costs milliseconds instead of the seconds of importing PyTorch. It needs Linux: nobody else says
how much memory a process had at its peak *since some moment*.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.timing import Run, out_of_memory

STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")
# The server tries; what is not there is not imported.
PRELOADED = ("legs.kernels.cpu.scattering",)


def measurable() -> bool:
    """Whether peak memory can be read here."""
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
            return pool.submit(_measured, prepare, arguments, threads).result()
        except BrokenProcessPool:  # ended by the system, for want of memory
            return None
        except (RuntimeError, MemoryError) as error:
            if out_of_memory(error):
                return None
            raise


def _measured(
    prepare: Callable[..., tuple[Run, Run]], arguments: tuple[Any, ...], threads: int
) -> int | None:
    torch.set_num_threads(threads)
    small, run = prepare(*arguments)
    small()
    _give_back()
    try:
        PEAK_RESET.write_text("5")  # the peak starts again: see proc(5)
    except OSError:
        return None
    before = _status("VmRSS")
    run()
    return max(0, _status("VmHWM") - before)


def _give_back() -> None:
    """Returns freed memory to the system, where it would be counted when it is used again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        gc.collect()
        trim(0)


def _status(name: str) -> int:
    """A size from the kernel's description of this process, in bytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{STATUS} says nothing of {name}")
