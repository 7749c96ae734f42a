"""Zip and ``.npz`` files of unknown origin: bounded, verified, never unpickled."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legs.io.messages import FileError

if TYPE_CHECKING:
    import numpy.typing as npt

LARGEST = 8 << 30  # bytes of all members together
# Text and small numbers compress a hundredfold at most; bombs a thousandfold and more.
FREE, RATIO = 64 << 20, 200
_CHUNKS = {zipfile.ZIP_STORED: 1 << 20, zipfile.ZIP_DEFLATED: 1 << 20, zipfile.ZIP_LZMA: 1 << 12}


def check_archive(archive: zipfile.ZipFile, path: Path, largest: int = LARGEST) -> None:
    """Refuses a zip file whose members declare more bytes than a genuine one holds."""
    total, packed = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > largest:
        raise FileError(f"{path} unpacks to {total:,} bytes; more than {largest:,} are not read")
    if total > FREE and total > RATIO * packed:
        raise FileError(
            f"{path} has {packed:,} bytes and unpacks to {total:,}: no honest file does, and it is "
            "not read"
        )


def iter_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of a member in chunks, never more of them than its declared size.

    :func:`check_archive` bounds the declared sizes. ``zipfile`` decompresses what it reads of bzip2
    and LZMA without a limit: LZMA is read in small pieces here, and bzip2 is refused. Damaged
    members raise errors of many classes.
    """
    if info.compress_type not in _CHUNKS:
        name = "bzip2" if info.compress_type == zipfile.ZIP_BZIP2 else "an unknown method"
        raise FileError(
            f"{archive.filename}: its member {info.filename!r} is compressed with {name}, which is "
            "not read; pack it with deflate, as zip does by default"
        )
    with archive.open(info) as file:  # verifies the CRC at the end
        while chunk := file.read(_CHUNKS[info.compress_type]):
            yield chunk


def read_arrays(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a ``.npz`` file, as ``numpy.savez`` and ``numpy.savez_compressed`` write it.

    >>> import numpy as np, tempfile
    >>> file = Path(tempfile.mkdtemp(), "some.npz")
    >>> np.savez_compressed(file, a=np.arange(3))
    >>> read_arrays(file)
    {'a': array([0, 1, 2])}
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            return {
                info.filename.removesuffix(".npy"): _parse(b"".join(iter_member(archive, info)))
                for info in archive.infolist()
            }
    except FileError:
        raise
    # zipfile, zlib, lzma and numpy's parser of headers raise errors of many classes.
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise FileError(f"{path} cannot be read: {type(error).__name__}: {reason}") from error


def _parse(content: bytes) -> npt.NDArray[Any]:
    # Imported here: `legs --help` needs no numpy.
    from numpy.lib import format as npy

    file = io.BytesIO(content)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"arrays of version {version} are not read")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = header(file)
    claimed, actual = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if min(shape, default=0) < 0 or (claimed != actual and not dtype.hasobject):
        raise ValueError(f"an array that claims {claimed:,} bytes, with {actual:,} bytes of data")
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)
