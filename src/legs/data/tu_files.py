"""The text files of a set in TUDataset's layout, in a folder or a zip, and columns of numbers."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from legs.data.errors import DataError
from legs.files import FileError, check_archive

LARGEST = 4 << 30  # bytes of one file unpacked; COLLAB's edges, the longest known, are 0.36 GB
_BLOCK = 8 << 20  # bytes parsed at a time, and the longest line
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|-?(nan|inf)", re.IGNORECASE)

Kind: TypeAlias = Literal["node", "whole", "decimal", "text"]
_Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TUFiles:
    """The files of one set.

    Args:
        path: of the folder or zip.
        name: of the set, which all its files begin with.
        members: paths in ``path`` by what comes after the name, such as ``"graph_labels"``.
    """

    path: Path
    name: str
    members: Mapping[str, str]

    def file(self, part: str) -> str:
        """The name to use in messages: ``NAME_graph_labels.txt``."""
        return f"{self.name}_{part}.txt"

    def read(self, part: str) -> bytes:
        """All bytes of a file."""
        if part not in self.members:
            raise DataError(f"{self.path}: {self.file(part)} is missing")
        member = self.members[part]
        try:
            if self.path.is_dir():
                _bound(self.path / member, (self.path / member).stat().st_size)
                return (self.path / member).read_bytes()
            with zipfile.ZipFile(self.path) as archive:
                _bound(member, archive.getinfo(member).file_size)
                # In pieces: read() unpacks an LZMA member at once, whatever size it claims.
                with archive.open(member) as file, io.BytesIO() as whole:
                    shutil.copyfileobj(file, whole, 1 << 16)
                    return whole.getvalue()
        except DataError:
            raise
        except Exception as error:  # zipfile, zlib and lzma raise errors of many classes
            raise DataError(f"{self.path}: {self.file(part)} cannot be read ({error})") from error


def is_tu(path: Path) -> bool:
    """Whether a folder or zip holds a set in TUDataset's layout: a file ``NAME_A.txt``."""
    try:
        return bool(_roots(_listing(path)))
    except DataError:
        return False


def find_files(path: Path) -> TUFiles:
    """The files of the set in a folder or zip, which may lie in a folder of their own.

    Raises:
        DataError: nothing there, several sets, a zip that is damaged or has paths leaving it.
    """
    listing = _listing(path)
    roots = _roots(listing)
    if len(roots) > 1:  # a zip may carry more; the set it is named after is meant
        roots = [root for root in roots if Path(root).name == path.stem] or roots
    if len(roots) != 1:
        found = ", ".join(f"{root}_A.txt" for root in roots[:5]) or "none"
        raise DataError(
            f"{path}: a set in TUDataset's layout has one file NAME_A.txt; found: {found}"
        )
    prefix = f"{roots[0]}_"
    members = {m[len(prefix) : -4]: m for m in listing if m.startswith(prefix)}
    return TUFiles(path, Path(roots[0]).name, members)


def read_columns(files: TUFiles, part: str, kind: Kind, columns: int | None = None) -> list[_Array]:
    """The columns of a comma-separated file.

    Args:
        files: of the set.
        part: which of them.
        kind: what the values must be: numbers of nodes (int32), whole numbers (int64), decimal
            numbers (float32, all finite) or text (object).
        columns: how many there must be; ``None`` (default): as many as in the first line.

    Raises:
        DataError: names the file and the line.
    """
    import pyarrow as pa
    from pyarrow import csv

    data = files.read(part)
    first = next((line for _, line in _lines(data)), b"")
    columns = 1 + first.count(b",") if columns is None else columns
    if not first:
        return [np.empty(0, _DTYPES[kind])] * columns
    names = [str(i) for i in range(columns)]
    arrow = pa.string() if kind == "text" else pa.from_numpy_dtype(_DTYPES[kind])
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, arrow), null_values=[], strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        fault = next(_faults(data, kind, columns), f": cannot be read ({error})")
        raise DataError(f"{files.path}: {files.file(part)}{fault}") from error
    result = [column.to_numpy() for column in table.columns]
    if kind == "decimal":
        for column in result:
            if not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                raise fault_at(files, part, row, "not a finite number", data)
    return result


def fault_at(
    files: TUFiles, part: str, row: int, reason: str, data: bytes | None = None
) -> DataError:
    """An error naming the line of the ``row``-th value (from 0) of a file."""
    lines = _lines(files.read(part) if data is None else data)
    number, text = next((found for i, found in enumerate(lines) if i == row), (row + 1, b""))
    return DataError(f"{files.path}: {files.file(part)} line {number} ({_shown(text)}): {reason}")


_DTYPES: Mapping[Kind, Any] = {
    "node": np.int32,
    "whole": np.int64,
    "decimal": np.float32,
    "text": object,
}


def _faults(data: bytes, kind: Kind, columns: int) -> Iterator[str]:
    # The fast parser does not say which line stopped it; this one runs only then.
    most = np.iinfo(np.int32 if kind == "node" else np.int64).max
    for number, line in _lines(data):
        fields = [field.strip(b" \t") for field in line.split(b",")]
        if len(line) >= _BLOCK:
            yield f" line {number}: is {len(line):,} characters long"
        elif len(fields) != columns:
            yield f" line {number} ({_shown(line)}): has {len(fields)} values, not {columns}"
        for field in fields:
            if kind == "text":
                if field.decode("utf-8", "replace").encode() != field:
                    yield f" line {number} ({_shown(line)}): is not UTF-8 text"
            elif kind == "decimal":
                if not _DECIMAL.fullmatch(field):
                    yield f" line {number} ({_shown(line)}): {_shown(field)} is not a number"
            elif not _WHOLE.fullmatch(field):
                yield f" line {number} ({_shown(line)}): {_shown(field)} is not a whole number"
            elif len(field) > 20 or not -most <= int(field) <= most:
                yield f" line {number} ({_shown(line)}): {_shown(field)} is too large a number"


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, empty ones left out, as the fast parser leaves them out."""
    for number, line in enumerate(io.BytesIO(data), 1):
        if line := line.rstrip(b"\r\n"):
            yield number, line


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace")) + ("…" if len(text) > 40 else "")


def _listing(path: Path) -> list[str]:
    """Text files in a folder (two deep) or zip, as paths relative to it."""
    if path.is_dir():
        found = [*path.glob("*.txt"), *path.glob("*/*.txt")]
        return sorted(p.relative_to(path).as_posix() for p in found if p.is_file())
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            names = archive.namelist()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file or folder") from error
    except FileError as error:
        raise DataError(str(error)) from error
    except Exception as error:
        raise DataError(f"{path}: not a zip file, or a damaged one ({error})") from error
    for name in names:
        # Nothing is unpacked to the disk, but a file with such members is no honest data set.
        if name.startswith("/") or re.search(r"(^|/)\.\.(/|$)|\\|:|\0", name):
            raise DataError(f"{path}: its member {name!r} leaves the folder; the file is refused")
    return sorted(n for n in names if n.endswith(".txt") and not n.startswith("__MACOSX/"))


def _roots(listing: list[str]) -> list[str]:
    return [name.removesuffix("_A.txt") for name in listing if name.endswith("_A.txt")]


def _bound(member: object, size: int) -> None:
    if size > LARGEST:
        raise DataError(f"{member} has {size:,} bytes, more than the {LARGEST:,} allowed")
