"""Files that others may have made, read as what they are: bytes of a known number."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from legs.io.digests import FileError, parse_json


def expand_user(path: str | Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home folder.

    Raises:
        FileError: there is no such user.

    >>> expand_user("~nosuchuser/run")
    Traceback (most recent call last):
    ...
    legs.io.digests.FileError: ~nosuchuser/run: there is no user 'nosuchuser' here
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        user = Path(path).parts[0][1:]
        reason = f"there is no user {user!r} here" if user else "the home folder is not known"
        raise FileError(f"{path}: {reason}") from error


def read_file(path: Path, largest: int | None = None) -> bytes:
    """All bytes of a file.

    Folders of models and runs are passed around, and what has the name of a file there may be a
    pipe that never ends, or a link to a device.

    Args:
        path: of a file.
        largest: bytes it may have (default: as many as memory holds).

    Raises:
        FileNotFoundError: nothing is there.
        FileError: it is no file, or too large.

    >>> read_file(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    legs.io.digests.FileError: /dev/null is no file
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path} is no file")
    if largest is not None and found.st_size > largest:
        raise FileError(f"{path} has {found.st_size:,} bytes; more than {largest:,} are not read")
    try:
        return path.read_bytes()
    except MemoryError:
        raise FileError(f"{path} has {found.st_size:,} bytes, more than memory holds") from None


def has_keys(path: Path, keys: Iterable[str]) -> bool:
    """Whether a file is a JSON table that has these keys, and may so be one of ours."""
    try:
        found = parse_json(read_file(path))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and set(keys) <= set(found)
