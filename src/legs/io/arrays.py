"""Arrays from ``.npz`` files of unknown origin: bounded, checked, never unpickled."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from legs.io.archives import check_archive, iter_member
from legs.io.digests import FileError


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
                content = b"".join(iter_member(archive, info))
                found[info.filename.removesuffix(".npy")] = _parse(content)
            return found
    except FileError:
        raise
    # zipfile, zlib, lzma and numpy's parser of headers raise errors of many classes.
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise FileError(f"{path} cannot be read: {type(error).__name__}: {told}") from error


def _parse(content: bytes) -> npt.NDArray[Any]:
    file = io.BytesIO(content)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"arrays of version {version} are not read")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which is not read")
    wanted, there = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if min(shape, default=0) < 0 or wanted != there:
        raise ValueError(f"an array that claims {wanted:,} bytes, with {there:,} bytes of data")
    # A copy of its own: aligned, and writable.
    array = np.frombuffer(bytearray(file.read()), dtype, count=math.prod(shape))
    return array.reshape(shape, order="F" if by_columns else "C")
