"""Arrays from ``.npz`` files of unknown origin: bounded, checked, never unpickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from legs.files.digests import FileError

LARGEST = 8 << 30  # bytes of all arrays together
# Text and small numbers pack well, a hundredfold at most; bombs a thousandfold and more.
FREE, RATIO = 64 << 20, 200


def check_archive(archive: zipfile.ZipFile, path: Path, largest: int = LARGEST) -> None:
    """Refuses a zip file that would unpack to more than is honest.

    Args:
        archive: of which the list of members is read, no more.
        path: of it.
        largest: bytes that all members may have.

    Raises:
        FileError: says how large it claims to be.
    """
    total, packed = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > largest:
        raise FileError(f"{path} unpacks to {total:,} bytes; more than {largest:,} are not read")
    if total > FREE and total > RATIO * packed:
        raise FileError(
            f"{path} has {packed:,} bytes and unpacks to {total:,}: no honest file does, and it is "
            "not read"
        )


def read_arrays(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a ``.npz`` file.

    Args:
        path: of the file, as ``numpy.savez`` and ``numpy.savez_compressed`` write it.

    Raises:
        FileError: the reason, with the file's name. Nothing larger than the file says is made.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "some.npz")
    >>> np.savez_compressed(file, a=np.arange(3))
    >>> read_arrays(file)
    {'a': array([0, 1, 2])}
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            found = {}
            for info in archive.infolist():
                with archive.open(info) as file:
                    found[info.filename.removesuffix(".npy")] = _read(file, info.file_size)
            return found
    except FileError:
        raise
    # zipfile, zlib, lzma and numpy's parser of headers raise errors of many classes.
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise FileError(f"{path} cannot be read: {type(error).__name__}: {told}") from error


def _read(file: IO[bytes], size: int) -> npt.NDArray[Any]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"arrays of version {version} are not read")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which is not read")
    wanted = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or wanted > size:
        raise ValueError(f"an array that claims {wanted:,} bytes, in a member of {size:,}")
    content = bytearray(file.read())  # to the end: the checksum is looked at there
    if len(content) != wanted:
        raise ValueError(f"{len(content):,} bytes for an array of {wanted:,}")
    array = np.frombuffer(content, dtype, count=math.prod(shape))
    return array.reshape(shape, order="F" if by_columns else "C")
