"""Lines of text tables: encoding, compression and monstrous lines dealt with once."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from legs.data.errors import BadRows, DataError

# The widest tables of descriptors stay below this; what is longer has lost its line ends.
LONGEST_LINE = 8_000_000
_TOO_LONG = "\ufdd1too long"
# Bytes that are not UTF-8, as Python's surrogateescape smuggles them through.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
# Tables pack tenfold; what packs so much more would fill the memory.
FREE, RATIO = 16 << 20, 200
_MAGIC = {b"PK\x03\x04": "a zip or Excel file", b"PAR1": "a Parquet file"}


class Row(NamedTuple):
    """A record of a text table."""

    line: int  # the first line of the record, as an editor counts
    fields: list[str]


def open_binary(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed where they are gzip (whatever the file's name says)."""
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "not there"
        raise DataError(f"{path} is {what}; give a CSV, TSV, Parquet, SMILES or SDF file")
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start[:2] == b"\x1f\x8b":
            return cast(IO[bytes], _Unpacked(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


class _Unpacked(gzip.GzipFile):
    """A compressed file that unpacks to no more than is honest."""

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(-1 if size is None else size))

    def read1(self, size: int = -1) -> bytes:
        return self._checked(super().read1(size))

    def _checked(self, found: bytes) -> bytes:
        if self.tell() > FREE:
            packed = Path(self.name).stat().st_size
            if self.tell() > RATIO * packed:
                raise DataError(
                    f"{self.name} has {packed:,} bytes and unpacks to {self.tell():,} and more: no "
                    "honest table does, and it is not read"
                )
        return found


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, with their ends; one too long to be a row arrives cut and marked.

    Bytes that are not UTF-8 come as lone surrogates (see :func:`is_text`), so that a stray byte
    in a column nobody reads does no harm.
    """
    try:
        with open_binary(path) as binary:
            start = binary.read(4)
            binary.seek(0)
            for magic, what in _MAGIC.items():
                if start.startswith(magic):
                    raise DataError(f"{path} is {what}; save it as CSV, or give it its own ending")
            utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff")
            text = io.TextIOWrapper(
                binary,
                encoding="utf-16" if utf16 else "utf-8-sig",
                errors="surrogateescape",
                newline="",
            )
            while line := text.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE and not _ended(line):
                    while line and not _ended(line):
                        line = text.readline(LONGEST_LINE)
                    line = _TOO_LONG + "\n"
                yield line
    except (UnicodeError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def rows(path: Path, delimiter: str, bad: BadRows) -> Iterator[Row]:
    """The records of a delimited file; blank ones are left out, broken ones go to ``bad``."""
    reader = csv.reader(lines(path), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad.add(f"{path.name} line {line}", f"{error}; is a quotation mark not closed?")
            continue
        if any(field.startswith(_TOO_LONG) for field in fields):
            bad.add(f"{path.name} line {line}", f"longer than {LONGEST_LINE:,} characters")
        elif any(field and not field.isspace() for field in fields):
            yield Row(line, fields)


def words(path: Path, bad: BadRows) -> Iterator[Row]:
    """The first word and the rest of each line, for files of SMILES and names."""
    for number, line in enumerate(lines(path), start=1):
        if line.startswith(_TOO_LONG):
            bad.add(f"{path.name} line {number}", f"longer than {LONGEST_LINE:,} characters")
        elif fields := line.split(maxsplit=1):
            yield Row(number, [fields[0], fields[1].strip() if len(fields) > 1 else ""])


def delimiter_of(path: Path) -> str:
    """Tab, comma or semicolon: the one the first line holds most of (a comma where none)."""
    first = next((line for line in lines(path) if line.strip()), "")
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    return max(",\t;", key=first.count)


def is_text(field: str) -> bool:
    """Whether a field was proper UTF-8, without the zero bytes of binary files."""
    return "\0" not in field and (field.isascii() or not _NOT_UTF8.search(field))


def _ended(line: str) -> bool:
    return line.endswith(("\n", "\r"))
