"""Files that others may have written: bounded, verified, never unpickled.

Messages about them are of bounded length, and without characters that control a terminal.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

_BEGINNING, _END = 1_500, 300  # characters of a long message that remain
# Control characters, marks that change the direction of writing, and bytes that were not UTF-8.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
LARGEST = 8 << 30  # bytes of all members together
# Text and small numbers compress a hundredfold at most; bombs a thousandfold and more.
FREE, RATIO = 64 << 20, 200
_CHUNKS = {zipfile.ZIP_STORED: 1 << 20, zipfile.ZIP_DEFLATED: 1 << 20, zipfile.ZIP_LZMA: 1 << 12}


def printable(text: str) -> str:
    r"""The same text with control characters escaped as in Python.

    >>> print(printable("a\x1b[31mb\n"))
    a\x1b[31mb\n
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class BoundedError(ValueError):
    """A message for people, cut in the middle where it is too long.

    >>> len(str(BoundedError("no column " + 100_000 * "a")))
    1803
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > _BEGINNING + _END + 3:
            text = f"{text[:_BEGINNING]} … {text[-_END:]}"
        super().__init__(printable(text))


class FileError(BoundedError):
    """A file or folder that cannot be used; the message says why."""


class FileWarning(UserWarning):
    """A file that is used although it could not be verified, or is recreated as it is damaged."""


def expand_user(path: str | Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home folder.

    >>> expand_user("~nosuchuser/run")
    Traceback (most recent call last):
    ...
    legs.io.reading.FileError: ~nosuchuser/run: there is no user 'nosuchuser' here
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        user = Path(path).parts[0][1:]
        reason = f"there is no user {user!r} here" if user else "the home folder is not known"
        raise FileError(f"{path}: {reason}") from error


def read_file(path: Path, largest: int | None = None) -> bytes:
    """The bytes of a regular file of at most ``largest`` bytes.

    Folders of models and runs are shared, and what has the name of a file there may be a pipe that
    never ends, or a link to a device.

    >>> read_file(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    legs.io.reading.FileError: /dev/null is not a file
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path} is not a file")
    if largest is not None and status.st_size > largest:
        raise FileError(f"{path} has {status.st_size:,} bytes; more than {largest:,} are not read")
    try:
        return path.read_bytes()
    except MemoryError:
        raise FileError(f"{path} has {status.st_size:,} bytes, more than memory holds") from None


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text; any fault in it is a ``ValueError``.

    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def has_keys(path: Path, keys: Iterable[str]) -> bool:
    """Whether a file is a JSON object with these keys, and so may be one of ours."""
    try:
        value = parse_json(read_file(path))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and set(keys) <= set(value)


def check_outputs(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Refuses to write where something is read, also through links.

    No input may lie in a folder that is written, and no existing file in a folder that is read may
    be written. Names of data sets, which are not paths, may be among the inputs.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "some.csv")
    >>> _ = file.write_text("smiles")
    >>> check_outputs([file.with_name("other.csv")], [file, "MUTAG"])
    >>> check_outputs([file], [file])
    Traceback (most recent call last):
    ...
    legs.io.reading.FileError: ...some.csv would replace ...some.csv, ...
    """

    def resolve(path: str | Path) -> Path:
        return Path(os.path.realpath(os.path.expanduser(path)))

    existing = [name for name in inputs if os.path.exists(os.path.expanduser(name))]
    for output, name in product(outputs, existing):
        written, read = resolve(output), resolve(name)
        if (
            written == read
            or (written.exists() and written.samefile(read))
            or (written.is_dir() and read.is_relative_to(written))
            or (written.is_file() and read.is_dir() and written.is_relative_to(read))
        ):
            raise FileError(
                f"{output} would replace {name}, which belongs to the input; choose another output"
            )


def check_archive(archive: zipfile.ZipFile, path: Path, largest: int = LARGEST) -> None:
    """Refuses a zip file whose members declare more bytes than a genuine one holds."""
    total, packed = sum(info.file_size for info in archive.infolist()), path.stat().st_size
    if total > largest:
        raise FileError(f"{path} unpacks to {total:,} bytes; more than {largest:,} are not read")
    if total > FREE and total > RATIO * packed:
        sizes = f"has {packed:,} bytes and unpacks to {total:,}"
        raise FileError(f"{path} {sizes}: no honest file does, and it is not read")


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
    # Imported here: `legs --help` needs no numpy.
    from numpy.lib.format import read_array

    path, arrays = Path(path), {}
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            for info in archive.infolist():
                content = io.BytesIO(b"".join(iter_member(archive, info)))
                arrays[info.filename.removesuffix(".npy")] = read_array(content, allow_pickle=False)
        return arrays
    except FileError:
        raise
    # zipfile, zlib, lzma and numpy's parser of headers raise errors of many classes.
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise FileError(f"{path} cannot be read: {type(error).__name__}: {reason}") from error
