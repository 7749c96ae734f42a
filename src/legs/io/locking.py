"""One writer in a folder at a time, and the name of the current one."""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from legs.io.atomic import clear_leftovers, try_lock, write_atomically, writing
from legs.io.messages import FileError
from legs.io.reading import parse_json, read_file

LOCK = ".lock"
OWNER = ".lock.owner"

_threads: dict[Path, int] = {}  # the thread of this process that writes a folder


def contents(folder: Path) -> list[Path]:
    """The entries of a folder except hidden ones such as the lock; none if there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


@contextmanager
def one_writer(folder: Path, ours: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Keeps other writers out of a folder, which is created if need be.

    The system releases the lock when the process ends, however it ends. A thread may take it more
    than once. What a killed writer left half-written is removed. A new folder in which nothing was
    written is removed at the end.

    Args:
        folder: to be written.
        ours: whether a folder that is not empty may be written (default: any may). Others are
            refused before anything in them changes.

    Raises:
        FileError: another writer, which is named; or files of others.

    >>> import tempfile
    >>> with one_writer(Path(tempfile.mkdtemp()) / "run") as folder:
    ...     with one_writer(folder):
    ...         sorted(file.name for file in folder.iterdir())
    ['.lock', '.lock.owner']
    >>> folder.exists()
    False
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; a run needs a directory")
    place, thread = folder.resolve(), threading.get_ident()
    holder = _threads.get(place)
    if holder == thread:  # a caller holds the lock
        yield folder
        return
    if holder is not None:
        raise _busy(folder, "another thread of this process")
    with writing(folder):
        if ours is not None and (entries := contents(folder)) and not ours(folder):
            names = ", ".join([path.name for path in entries[:3]] + ["…"] * (len(entries) > 3))
            raise FileError(
                f"{folder} holds files of others ({names}); choose a new or an empty folder"
            )
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / LOCK)
        if lock is None:
            raise _busy(folder, _owner(folder))
    _threads[place] = thread
    try:
        with writing(folder):
            for each in (folder, *filter(Path.is_dir, folder.iterdir())):
                clear_leftovers(each)
            words = [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else []
            me = {
                "process": os.getpid(),
                "host": platform.node(),
                "command": " ".join(words)[:200],
                "since": datetime.now().astimezone().isoformat(timespec="seconds"),
            }
            # Not in the lock file: whoever tries the lock may empty that. And under a new name
            # first: a link that came with the folder is replaced, not followed.
            write_atomically(folder / OWNER, json.dumps(me).encode())
        yield folder
    finally:
        del _threads[place]
        with suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.close()
        with suppress(OSError):
            if fresh and all(path.name == LOCK for path in folder.iterdir()):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()


def lock_file(path: Path, wait: bool = False) -> BinaryIO | None:
    """Locks a file, which is created if need be, until it is closed or the process ends.

    Returns ``None`` if another process holds it, unless it is to ``wait`` for that.
    """
    # Never through a link, which may have come with the folder.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0)
    while not try_lock(file.fileno()):
        if not wait:
            file.close()
            return None
        time.sleep(0.05)
    return file


def _owner(folder: Path) -> str:
    """The writer in words; it may have been killed a moment ago, or not have signed yet."""
    try:
        owner = parse_json(read_file(folder / OWNER, 100_000))
        where = "" if owner["host"] == platform.node() else f" on {owner['host']}"
        command = f" ({owner['command']})" if owner["command"] else ""
        return f"process {owner['process']}{where}{command}, since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _busy(folder: Path, owner: str) -> FileError:
    return FileError(
        f"{folder} is being written by {owner}; wait for it, or choose another directory"
    )
