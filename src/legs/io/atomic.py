"""Files that appear whole or not at all, and folders with one writer at a time.

Whatever happens to the process or the machine: what a killed writer leaves is removed by the next.
"""

import errno
import glob
import os
import platform
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple

from legs.io.reading import FileError, read_file

LOCK = ".lock"
OWNER = ".lock.owner"
_FULL = "no space is left on the disk; make room, and run the same command again"
_GROWN = "a file would grow larger than is allowed there (see ulimit -f)"
_LIMITS = {_FULL: (errno.ENOSPC, errno.EDQUOT), _GROWN: (errno.EFBIG,)}
_TAKEN = "a part of this path is a file, or the path itself a folder"
_OBSTACLES = {  # at the very path
    "a link or a pipe is there in place of a file; remove it": (errno.ELOOP, errno.ENXIO),
    "no permission to write there": (errno.EROFS, errno.EACCES, errno.EPERM),
    _TAKEN: (errno.ENOTDIR, errno.EEXIST, errno.EISDIR),
    "the place does not exist and cannot be made, or was removed meanwhile": (errno.ENOENT,),
}
_BINARY = getattr(os, "O_BINARY", 0)  # of Windows, which has neither of the others
_NO_FOLLOW, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)

_writers: set[tuple[Path, int]] = set()  # folders that this process writes, and the threads


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes and renames it: all of it or nothing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", b"new")
    >>> [(file.name, file.read_text()) for file in folder.iterdir()]
    [('a.txt', 'new')]
    """
    with writing(path):
        temporary = open_temporary(path)
        try:
            temporary.file.write(content)
            temporary.flush()
            temporary.put_in_place(path)
        finally:
            temporary.drop()


def append(path: Path, text: str) -> None:
    """Adds text to a log, which is created if need be; a link or a pipe in its place is refused."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_FOLLOW | _NO_WAIT
    with writing(path), os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        file.write(text.encode())


class Temporary(NamedTuple):
    """A file that is being written, under a name of its own."""

    file: IO[bytes]
    path: Path

    def flush(self) -> None:
        """Waits until all of it is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def put_in_place(self, path: Path) -> None:
        """Gives it the name ``path``, after :meth:`flush`; survives a crash of the machine."""
        if os.name == "nt":  # which renames no open files
            self.file.close()
        # Locked until it has its name: another writer would take it for a leftover.
        os.replace(self.path, path)
        self.file.close()
        sync_folder(path.parent)

    def drop(self) -> None:
        """Removes it, unless it is in its place already."""
        with suppress(OSError):  # of a full disk, about what is not wanted any more
            self.file.close()
        self.path.unlink(missing_ok=True)


def open_temporary(path: Path) -> Temporary:
    """A new file beside ``path``; those that killed processes left of the same are removed.

    It is locked while it is open, so that :func:`clear_leftovers` sees that it has a writer.
    """
    clear_leftovers(path.parent, path.name)
    while True:
        # Other programs hide temporary files under similar names, so ours say whose they are.
        temporary = path.with_name(f".{path.name}.legs-{secrets.token_hex(4)}.tmp")
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        locked = True
        with suppress(OSError):  # some network disks have no locks
            locked = try_lock(handle)
        # Before it was locked, another writer may have taken it for a leftover, or be about to.
        if locked and (os.fstat(handle).st_nlink or os.name == "nt"):
            return Temporary(os.fdopen(handle, "wb"), temporary)
        os.close(handle)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes temporary files in a folder whose writers have ended: of all files, or of one."""
    stem = "*" if name is None else glob.escape(name)
    for path in [*folder.glob(f".{stem}.legs-????????.tmp")]:
        with suppress(OSError), path.open("rb+") as file:
            if try_lock(file.fileno()):
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Waits until the names of the files in a folder are on the disk, where the system can."""
    with suppress(OSError):  # Windows opens no folders, some network disks cannot wait
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Explains in plain words what hinders writing to ``path``.

    >>> with writing(Path("out.csv")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: out.csv: no space is left on the disk; make room, and run the same command again
    """
    try:
        yield
    except OSError as error:
        file, reasons = error.filename, _LIMITS
        if file is None or Path(os.fsdecode(file)).is_relative_to(path.parent):
            reasons = _LIMITS | _OBSTACLES
        for reason, numbers in reasons.items():
            if error.errno in numbers:
                raise OSError(f"{path}: {reason}") from error
        raise


def try_lock(handle: int) -> bool:
    """Locks an open file until it is closed; false where another process holds it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def contents(folder: Path) -> list[Path]:
    """The entries of a folder except hidden ones such as the lock; none if there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _busy(folder: Path, owner: str) -> FileError:
    return FileError(
        f"{folder} is being written by {owner}; wait for it, or choose another directory"
    )


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
    if (place, thread) in _writers:  # a caller holds the lock
        yield folder
        return
    if any(place == other for other, _ in _writers):
        raise _busy(folder, "another thread of this process")
    with writing(folder):
        if ours is not None and (entries := contents(folder)) and not ours(folder):
            names = ", ".join([path.name for path in entries[:3]] + ["…"] * (len(entries) > 3))
            raise FileError(
                f"{folder} holds files of others ({names}); choose a new or an empty folder"
            )
        fresh = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        # Never through a link, which may have come with the folder.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | _NO_FOLLOW | _BINARY, 0o644)
        if not try_lock(handle):
            os.close(handle)
            # It may have been killed a moment ago, or not have signed yet.
            owner = "another process"
            with suppress(OSError, FileError):
                owner = read_file(folder / OWNER, 10_000).decode(errors="replace") or owner
            raise _busy(folder, owner)
    _writers.add((place, thread))
    try:
        with writing(folder):
            for each in (folder, *filter(Path.is_dir, folder.iterdir())):
                clear_leftovers(each)
            command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            owner = f"process {os.getpid()} ({command}) on {platform.node()}, since {since}"
            # Not in the lock file: whoever tries the lock may empty that. And under a new name
            # first: a link that came with the folder is replaced, not followed.
            write_atomically(folder / OWNER, owner.encode("utf-8", "replace"))
        yield folder
    finally:
        _writers.remove((place, thread))
        with suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):
            if fresh and all(path.name == LOCK for path in folder.iterdir()):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
