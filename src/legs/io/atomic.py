"""Files that appear whole or not at all, whatever happens to the process or the machine."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

# What mkstemp makes of the prefix and suffix in open_temporary. Other programs name theirs alike,
# so ours say whose they are.
_LEFTOVER = re.compile(r"\.(.+)\.legs-[a-z0-9_]{8}\.tmp")


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes and renames it: all of it or nothing.

    Args:
        path: of the file; an older one is replaced.
        content: all of it.

    Raises:
        OSError: in words for people, where the disk is full or the place cannot be written.

    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", b"new")
    >>> [(file.name, file.read_text()) for file in folder.iterdir()]
    [('a.txt', 'new')]
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Writes files that belong to each other: none changes before all of them are on the disk.

    Args:
        contents: of each file. They are renamed in this order: what makes the others valid comes
            last.
    """
    waiting: dict[Path, Temporary] = {}
    try:
        for path, content in contents.items():
            with writing(path):
                waiting[path] = open_temporary(path)
                waiting[path].file.write(content)
                waiting[path].flush()
        for path, temporary in waiting.items():
            with writing(path):
                temporary.put_in_place(path)
    finally:
        for temporary in waiting.values():
            temporary.drop()


def append(path: Path, text: str) -> None:
    """Adds to a log, which is made if need be.

    Folders are passed around: a link or a pipe in place of the log is refused, since what it leads
    to is not ours to write.

    Args:
        path: of the log.
        text: to be added at its end.

    >>> log = Path(tempfile.mkdtemp()) / "log"
    >>> append(log, "one\\n")
    >>> append(log, "two\\n")
    >>> log.read_text()
    'one\\ntwo\\n'
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK"):  # Windows has neither
        flags |= getattr(os, name, 0)
    with writing(path), os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        file.write(text.encode())


class Temporary(NamedTuple):
    """A file that is being written, under a name of its own."""

    file: IO[bytes]
    path: Path

    def flush(self) -> None:
        """Waits until all of it is on the disk."""
        self.file.flush()
        # mkstemp's files are their owner's alone; results are passed around.
        os.chmod(self.path, 0o666 & ~_umask())
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
    """A new file beside ``path``; those that killed processes left of the same are cleared away.

    It is locked while it is open, so that :func:`clear_leftovers` knows that it has a writer.
    """
    clear_leftovers(path.parent, path.name)
    while True:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.legs-", suffix=".tmp"
        )
        _try_lock(handle)
        # Another process may have taken it for a leftover before it was locked.
        if os.fstat(handle).st_nlink or os.name == "nt":
            return Temporary(os.fdopen(handle, "wb"), Path(name))
        os.close(handle)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes temporary files whose writers are no more.

    Args:
        folder: where to look; not in folders below it.
        name: of the file that was to be written (default: of any).
    """
    for entry in [*os.scandir(folder)]:
        match = _LEFTOVER.fullmatch(entry.name)
        if match is None or name not in (None, match[1]):
            continue
        with suppress(OSError):
            handle = os.open(entry.path, os.O_RDWR)
            try:
                if _try_lock(handle):
                    os.unlink(entry.path)
            finally:
                os.close(handle)


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
    """Says in plain words what hinders writing to ``path``.

    >>> with writing(Path("out.csv")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: out.csv: no space is left on the disk; make room, and run the same command again
    """
    try:
        yield
    except OSError as error:
        named = None if error.filename is None else Path(os.fsdecode(error.filename))
        elsewhere = named is not None and not named.is_relative_to(path.parent)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = "no space is left on the disk; make room, and run the same command again"
        elif error.errno == errno.EFBIG:
            why = "a file would grow larger than is allowed there (see ulimit -f)"
        elif elsewhere:
            raise
        elif error.errno in (errno.ELOOP, errno.ENXIO):
            why = "a link or a pipe is there in place of a file; remove it"
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            why = "no permission to write there"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            why = "a part of this path is a file, or the path itself a folder"
        elif error.errno == errno.ENOENT:
            why = "the place does not exist and cannot be made, or was removed meanwhile"
        else:
            raise
        raise OSError(f"{path}: {why}") from error


def _try_lock(handle: int) -> bool:
    """Locks an open file until it is closed; false where another holds it, or none can."""
    try:
        import fcntl
    except ImportError:  # Windows does not remove open files anyway
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
