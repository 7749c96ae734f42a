"""Files that appear whole or not at all, whatever happens to the process or the machine."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

# Other programs hide temporary files under similar names, so ours say whose they are.
_LEFTOVER = re.compile(r"\.(.+)\.legs-[a-z0-9_]{8}\.tmp")
_FULL = "no space is left on the disk; make room, and run the same command again"
_LIMITS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "a file would grow larger than is allowed there (see ulimit -f)",
}
_LINK = "a link or a pipe is there in place of a file; remove it"
_DENIED = "no permission to write there"
_TAKEN = "a part of this path is a file, or the path itself a folder"
_OBSTACLES = {  # at the very path
    **{errno.ELOOP: _LINK, errno.ENXIO: _LINK},
    **{errno.EROFS: _DENIED, errno.EACCES: _DENIED, errno.EPERM: _DENIED},
    **{errno.ENOTDIR: _TAKEN, errno.EEXIST: _TAKEN, errno.EISDIR: _TAKEN},
    errno.ENOENT: "the place does not exist and cannot be made, or was removed meanwhile",
}


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes and renames it: all of it or nothing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", b"new")
    >>> [(file.name, file.read_text()) for file in folder.iterdir()]
    [('a.txt', 'new')]
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Writes files that belong to each other: none changes before all of them are on the disk.

    They are renamed in the given order: what makes the others valid comes last.
    """
    temporaries: dict[Path, Temporary] = {}
    try:
        for path, content in contents.items():
            with writing(path):
                temporaries[path] = open_temporary(path)
                temporaries[path].file.write(content)
                temporaries[path].flush()
        for path, temporary in temporaries.items():
            with writing(path):
                temporary.put_in_place(path)
    finally:
        for temporary in temporaries.values():
            temporary.drop()


def append(path: Path, text: str) -> None:
    """Adds text to a log, which is created if need be; a link or a pipe in its place is refused."""
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

    It is locked while it is open, so that :func:`clear_leftovers` knows that it has a writer.
    """
    clear_leftovers(path.parent, path.name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = path.with_name(f".{path.name}.legs-{secrets.token_hex(4)}.tmp")
        handle = os.open(temporary, flags, 0o666)
        locked = True
        with suppress(OSError):  # some network disks have no locks
            locked = try_lock(handle)
        # Before it was locked, another writer may have taken it for a leftover, or be about to.
        if locked and (os.fstat(handle).st_nlink or os.name == "nt"):
            return Temporary(os.fdopen(handle, "wb"), temporary)
        os.close(handle)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Removes temporary files in a folder whose writers have ended: of all files, or of one."""
    for entry in [*os.scandir(folder)]:
        match = _LEFTOVER.fullmatch(entry.name)
        if match is None or name not in (None, match[1]):
            continue
        with suppress(OSError):
            handle = os.open(entry.path, os.O_RDWR)
            try:
                if try_lock(handle):
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
        name = error.filename
        here = name is None or Path(os.fsdecode(name)).is_relative_to(path.parent)
        reason = (_LIMITS | _OBSTACLES if here else _LIMITS).get(error.errno or 0)
        if reason is None:
            raise
        raise OSError(f"{path}: {reason}") from error


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
