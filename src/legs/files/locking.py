"""One writer in a folder at a time, and the name of the one who is there."""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from legs.files.atomic import clear_leftovers, write_atomically, writing
from legs.files.digests import FileError, parse_json
from legs.files.reading import read_file

LOCK = ".lock"
OWNER = ".lock.owner"

# Folders that this process writes: the thread that does, and how often it has said so.
_held: dict[Path, tuple[int, int]] = {}
_guard = threading.Lock()


@contextmanager
def one_writer(folder: Path) -> Iterator[Path]:
    """Keeps other writers out of a folder, which is made if need be.

    The system lets go of the lock when the process ends, however it ends. Within one thread it may
    be taken again. What a killed writer left half-written is removed. A new folder in which nothing
    was written is removed at the end.

    Args:
        folder: to be written.

    Raises:
        FileError: there is a writer; names it.

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
        lock = None if depth else _acquire(folder)
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


def _acquire(folder: Path) -> tuple[FileLock, bool]:
    with writing(folder):
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise FileError(_told(folder, _owner(folder))) from None
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


def _release(folder: Path, held: tuple[FileLock, bool]) -> None:
    lock, fresh = held
    with suppress(OSError):
        (folder / OWNER).unlink(missing_ok=True)
    lock.release()
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
