"""What workers of the tests do; in a module, so that other processes find it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from legs.data.errors import DataError


def add(shared: int, task: int) -> int:
    """A sum."""
    return shared + task


def refuse(shared: int, task: int) -> int:
    """An error of ours for one task."""
    if task == shared:
        raise DataError(f"row {task}: refused")
    return task


def wait(shared: float, task: float) -> float:
    """Nothing, for a while."""
    time.sleep(shared)
    return task


def die_once(folder: str, task: int) -> int:
    """The first worker at each task is killed."""
    mark = Path(folder) / str(task)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def place(name: str, task: int) -> str | None:
    """What a variable says where the worker is."""
    return os.environ.get(name)


def tell_and_wait(folder: str, task: float) -> None:
    """Leaves the number of this process in a folder, and stays."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(task)
