"""Processes for one training on one machine: all end well, or all end."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from legs.training.distributed import MEETING, PeerError, launched

# Seconds for the others to say what is wrong, after one has ended.
GRACE = 5.0
# A process that CUDA was used in cannot be forked.
START = "spawn"


class _Told(NamedTuple):
    """What was wrong in a process."""

    peer: bool  # only that another ended
    plain: bool  # a sentence for people
    text: str
    trace: str


def processes_to_start(device: str, devices: int) -> int:
    """How many processes a command has to start; one where ``torchrun`` has started them.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        devices: as asked for.

    Raises:
        ValueError: there are not so many.
    """
    if launched():
        size = int(os.environ["WORLD_SIZE"])
        if devices not in (1, size):
            raise ValueError(f"{size} processes were started, but devices={devices}")
        return 1
    if device == "cuda" and devices > torch.cuda.device_count():
        there = torch.cuda.device_count()
        raise ValueError(f"devices={devices}, but PyTorch finds {there} GPUs here")
    return devices


def launch(processes: int, work: Callable[..., None], given: Mapping[str, Any]) -> None:
    """Calls a function in so many processes at once, which find each other as under ``torchrun``.

    Output of process 0 goes where ours goes; the others are silent.

    Args:
        processes: how many.
        work: a function of a module, called in each of them.
        given: its arguments.

    Raises:
        ValueError: as one of the processes raised it, with its text. The others are ended.
        RuntimeError: any other error in one of them, or one was killed.
    """
    context: Any = get_context(START)
    running, pipes = [], []
    folder = tempfile.mkdtemp(prefix="legs-train-")
    try:
        for rank in range(processes):
            ours, theirs = context.Pipe(duplex=False)
            variables = _variables(rank, processes, folder)
            arguments = (variables, work, dict(given), theirs)
            running.append(context.Process(target=_work, args=arguments, daemon=True))
            running[-1].start()
            theirs.close()
            pipes.append(ours)
        waiting = set(running)
        while waiting and not any(process.exitcode for process in running):
            ended = wait([process.sentinel for process in waiting])
            for process in [each for each in waiting if each.sentinel in ended]:
                process.join()  # its end is in sight; until then it has no exit code
                waiting.remove(process)
        if waiting:
            until = time.monotonic() + GRACE
            for process in running:
                process.join(max(until - time.monotonic(), 0))
        codes = [process.exitcode for process in running]
    finally:
        for process in running:
            process.kill()
            process.join()
        shutil.rmtree(folder, ignore_errors=True)
    if any(codes):
        _tell([_told(pipe) for pipe in pipes], codes)


def _variables(rank: int, processes: int, folder: str) -> dict[str, str]:
    found = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
    # A file, not a port, which somebody else might take meanwhile.
    found[MEETING] = Path(folder, "meeting").as_uri()
    if sys.platform == "linux":  # what stays on the machine needs no name of it
        found["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return found


def _work(
    variables: dict[str, str], work: Callable[..., None], given: dict[str, Any], pipe: Connection
) -> None:
    os.environ.update(variables)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max((os.cpu_count() or 1) // int(variables["WORLD_SIZE"]), 1))
    if variables["RANK"] != "0":
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        work(**given)
    except Exception as error:
        text = " ".join(str(error).split())[:2_000]
        plain = isinstance(error, ValueError | OSError | ImportError) and bool(text)
        text = text if plain else f"{type(error).__name__}: {text}"
        # Not the error itself: not all can be sent.
        trace = traceback.format_exc()[-20_000:]
        pipe.send(_Told(isinstance(error, PeerError), plain, text, trace))
        sys.exit(1)


def _end_with_parent() -> None:
    """A parent that was killed cannot end its children, which would go on and hold the lock."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _told(pipe: Connection) -> _Told | None:
    try:
        found: _Told | None = pipe.recv() if pipe.poll() else None
    except EOFError:
        return None
    return found


def _tell(told: list[_Told | None], codes: list[int | None]) -> None:
    """Raises the error that came first: those who only miss another tell nothing new."""
    for found in told:
        if found is not None and not found.peer:
            error = (ValueError if found.plain else RuntimeError)(found.text)
            error.add_note(found.trace)
            raise error
    for rank, code in enumerate(codes):
        if code and told[rank] is None:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            why = "; it may have been short of memory" if code == -9 else ""
            raise RuntimeError(f"process {rank} of {len(codes)} {how}{why}")
    raise PeerError("; ".join(found.text for found in told if found))
