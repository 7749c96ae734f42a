"""Text files of tables: their lines, fields and numbers.

Numbers follow one strict pattern: Python's ``float`` also takes ``1_0`` and digits of other
scripts, which are typing errors or ids in a table.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from legs.data.errors import BadRows, DataError

# The widest tables of descriptors stay below this; what is longer has lost its line ends.
LONGEST_LINE = 8_000_000
_LONGER = f"longer than {LONGEST_LINE:,} characters"
_TOO_LONG = "\ufdd1too long"
# Bytes that are not UTF-8, as Python's surrogateescape smuggles them through.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
# Tables pack tenfold; what packs so much more would fill the memory.
FREE, RATIO = 16 << 20, 200
_MAGIC = {b"PK\x03\x04": "a zip or Excel file", b"PAR1": "a Parquet file"}
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_COMMA = re.compile(rf"[+-]?(?:[0-9]+,[0-9]*|,[0-9]+){_EXPONENT}")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_THOUSANDS = re.compile(
    r"[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]*|(?:,[0-9]{3}){2,}|"
    r"(?:\.[0-9]{3})+,[0-9]*|(?:\.[0-9]{3}){2,})"
)
_CENSORED = re.compile(r"(?:[<>]=?|=[<>]|[≤≥⩽⩾~≈≲≳])\s*[+-]?(?:[0-9]|[.,][0-9]).*")


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
            packed = file.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], _Unpacked(path, "rb")) if packed else path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


class _Unpacked(gzip.GzipFile):
    """A compressed file that unpacks to no more than is honest."""

    def read1(self, size: int = -1) -> bytes:  # what text is decoded from
        content = super().read1(size)
        check_unpacked(Path(self.name), self.tell(), FREE, RATIO, " and more")
        return content


def check_unpacked(
    path: Path, size: int, free: int, ratio: int, where: str = "", *, rows: bool = False
) -> None:
    """Refuses a file that holds much more than its size allows, in bytes or rows."""
    if size > free and size > ratio * (packed := path.stat().st_size):
        holds = f"and {size:,} rows" if rows else f"and unpacks to {size:,}{where}"
        raise DataError(
            f"{path} has {packed:,} bytes {holds}: no honest table does, and it is not read"
        )


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
            encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
            text = io.TextIOWrapper(binary, encoding, errors="surrogateescape", newline="")
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
            reason = f"{error}; is a quotation mark not closed?"
            bad.add(f"{path.name} line {line}", reason, line)
            continue
        if any(field.startswith(_TOO_LONG) for field in fields):
            bad.add(f"{path.name} line {line}", _LONGER, line)
        elif any(field and not field.isspace() for field in fields):
            yield Row(line, fields)


def words(path: Path, bad: BadRows) -> Iterator[Row]:
    """The first word and the rest of each line, for files of SMILES and names."""
    for number, line in enumerate(lines(path), start=1):
        if line.startswith(_TOO_LONG):
            bad.add(f"{path.name} line {number}", _LONGER, number)
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


def read_number(text: str) -> tuple[float, str]:
    """The number that a text is, or NaN; and its mark: ``"."``, ``","``, ``"thousands"`` or none.

    >>> read_number("3,14"), read_number(" -1.5e3"), read_number("a")
    ((3.14, ','), (-1500.0, '.'), (nan, ''))
    """
    bare = text.strip()
    if _NUMBER.fullmatch(bare) or _INFINITE.fullmatch(bare):
        return float(bare), "." if "." in bare else ""
    if _COMMA.fullmatch(bare):
        return float(bare.replace(",", ".")), ","
    if _THOUSANDS.fullmatch(bare):  # looks like a number; never used as one
        return float(re.sub("[.,]", "", bare)), "thousands"
    return math.nan, ""


def parse_number(text: str) -> float:
    """The number that a text is, with a decimal point; infinite where it says so."""
    value, mark = read_number(text)
    if math.isnan(value) or mark in (",", "thousands"):
        raise DataError(f"{text[:40]!r} is not a number")
    return value


def is_censored(text: str) -> bool:
    """Whether a text is a bound on a number, such as ``>7.5``, and no measurement."""
    return _CENSORED.fullmatch(text.strip()) is not None


def is_ambiguous(text: str) -> bool:
    """Whether a comma may be decimal or separate thousands: 1,234 is 1.234 or 1234."""
    return _EITHER.fullmatch(text.strip()) is not None
