"""One writer in a folder at a time, and the name of the one who is there."""

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

from legs.io.atomic import clear_leftovers, write_atomically, writing
from legs.io.digests import FileError, parse_json
from legs.io.reading import read_file

LOCK = ".lock"
OWNER = ".lock.owner"

# Folders that this process writes: the thread that does, and how often it has said so.
_held: dict[Path, tuple[int, int]] = {}
_guard = threading.Lock()


def contents(folder: Path) -> list[Path]:
    """What a folder holds, hidden files such as the lock apart; nothing if there is none."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


@contextmanager
def one_writer(folder: Path, ours: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Keeps other writers out of a folder, which is made if need be.

    The system lets go of the lock when the process ends, however it ends. Within one thread it may
    be taken again. What a killed writer left half-written is removed. A new folder in which nothing
    was written is removed at the end.

    Args:
        folder: to be written.
        ours: whether a folder that is not empty may be written (default: any may). Others are
            refused before anything in them changes.

    Raises:
        FileError: there is a writer, which is named; or there are files of others.

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
    place = folder.resolve()
    thread = threading.get_ident()
    with _guard:
        owner, depth = _held.get(place, (thread, 0))
        if owner != thread:
            raise FileError(_told(folder, "another thread of this process"))
        lock = None if depth else _acquire(folder, ours)
        _held[place] = (thread, depth + 1)
    try:
        yield folder
    finally:
        with _guard:
            if depth:
                _held[place] = (thread, depth)
            else:
                del _held[place]
        if lock is not None:
            _release(folder, lock)


def _acquire(folder: Path, ours: Callable[[Path], bool] | None) -> tuple[BinaryIO, bool]:
    with writing(folder):
        if ours is not None and (there := contents(folder)) and not ours(folder):
            names = ", ".join([*(path.name for path in there[:3]), *(["…"] if there[3:] else [])])
            raise FileError(
                f"{folder} holds files of others ({names}); choose a new or an empty folder"
            )
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / LOCK)
        if lock is None:
            raise FileError(_told(folder, _owner(folder)))
    try:
        with writing(folder):
            for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
                clear_leftovers(place)
            # Not in the lock file: whoever tries the lock may empty that. And under a new name
            # first: a link that came with the folder is replaced, not followed.
            write_atomically(folder / OWNER, json.dumps(_me()).encode())
    except BaseException:
        _release(folder, (lock, fresh))
        raise
    return lock, fresh


def lock_file(path: Path, wait: bool = False) -> BinaryIO | None:
    """Locks a file, which is made if need be, until it is closed or the process ends.

    Args:
        path: of the file.
        wait: whether to wait for another process that holds it (default: no).

    Returns:
        The open file, or ``None`` if another process holds it.
    """
    # Never through a link, which may have come with the folder.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0)
    try:
        while True:
            try:
                if os.name == "nt":
                    import msvcrt

                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
                else:
                    import fcntl

                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except (BlockingIOError, PermissionError):
                if not wait:
                    file.close()
                    return None
            time.sleep(0.05)
    except BaseException:
        file.close()
        raise


def _release(folder: Path, held: tuple[BinaryIO, bool]) -> None:
    lock, fresh = held
    with suppress(OSError):
        (folder / OWNER).unlink(missing_ok=True)
    lock.close()
    with suppress(OSError):
        if fresh and all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


def _me() -> dict[str, object]:
    words = [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else []
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "command": " ".join(words)[:200],
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _owner(folder: Path) -> str:
    """The writer in words; it may have been killed a moment ago, or not have told yet."""
    try:
        known = parse_json(read_file(folder / OWNER, 100_000))
        where = "" if known["host"] == platform.node() else f" on {known['host']}"
        command = f" ({known['command']})" if known["command"] else ""
        return f"process {known['process']}{where}{command}, since {known['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _told(folder: Path, owner: str) -> str:
    return f"{folder} is being written by {owner}; wait for it, or choose another directory"
