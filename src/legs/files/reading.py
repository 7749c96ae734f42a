"""Files that others may have made, read as what they are: bytes of a known number."""

from __future__ import annotations

import stat
from pathlib import Path

from legs.files.digests import FileError


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
    legs.files.digests.FileError: /dev/null is no file
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
