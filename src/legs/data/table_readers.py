"""Text tables: delimited files with a header, and lists of SMILES."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pandas as pd

from legs.data.errors import BadRows, DataError
from legs.data.table_files import Chunk
from legs.data.table_text import Row, delimiter_of, is_text, rows, words


class TextTable:
    """A delimited file with a header."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delimiter = delimiter_of(path)
        header = next(rows(path, self.delimiter, BadRows()), None)
        if header is None:
            raise DataError(f"{path} is empty")
        if not all(is_text(name) for name in header.fields):
            raise DataError(
                f"{path} line {header.line} is not UTF-8 text; save the table as CSV in UTF-8"
            )
        self._names = [name.strip() for name in header.fields]

    @property
    def columns(self) -> list[str]:
        """Names in the header."""
        return self._names

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`; everything is text."""
        places = [self._names.index(name) for name in columns]
        body = islice(rows(self.path, self.delimiter, bad), 1, None)
        good = (row for row in body if self._check(row, places, bad))
        while part := list(islice(good, size)):
            data = {
                name: pd.Series([row.fields[place].strip() for row in part], dtype=object)
                for name, place in zip(columns, places, strict=True)
            }
            yield Chunk(pd.DataFrame(data), [row.line for row in part])

    def _check(self, row: Row, places: Sequence[int], bad: BadRows) -> bool:
        where = f"{self.path.name} {self.unit} {row.line}"
        expected, found = len(self._names), len(row.fields)
        # Delimiters at the end of a line are a habit of spreadsheets.
        if found < expected or any(row.fields[expected:]):
            bad.add(where, f"number of fields: {found}; the header has {expected}")
            return False
        for place in places:
            if not is_text(row.fields[place]):
                bad.add(where, f"the column {self._names[place]!r} is not UTF-8 text")
                return False
        return True


class SmilesLines:
    """A SMILES string a line, and what follows it on the line as an id."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(words(path, BadRows("skip")), None)
        if first is None:
            raise DataError(f"{path} is empty")
        self._header = "smiles" in first.fields[0].lower()
        named = any(row.fields[1] for row in islice(words(path, BadRows("skip")), 1, 100))
        self._names = ["smiles", "id"] if named or first.fields[1] else ["smiles"]

    @property
    def columns(self) -> list[str]:
        """``smiles``, and ``id`` where the lines have a second word."""
        return self._names

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`."""
        body = islice(words(self.path, bad), int(self._header), None)
        good = (row for row in body if self._check(row, bad))
        while part := list(islice(good, size)):
            data = {
                "smiles": [row.fields[0] for row in part],
                # A name is not asked of every line.
                "id": [row.fields[1] or str(row.line) for row in part],
            }
            chosen = {name: pd.Series(data[name], dtype=object) for name in columns}
            yield Chunk(pd.DataFrame(chosen), [row.line for row in part])

    def _check(self, row: Row, bad: BadRows) -> bool:
        good = all(is_text(field) for field in row.fields)
        if not good:
            bad.add(f"{self.path.name} {self.unit} {row.line}", "not UTF-8 text")
        return good
