"""Tables of molecules on disk: columns first, then rows in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pandas as pd

from legs.data.errors import BadRows, DataError
from legs.data.table_text import lines, open_binary

ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".smi", ".smiles", ".txt", ".sdf", ".sd")
MOLECULE = "(molecule)"  # the column that holds the molecules of an SDF, in RDKit's binary form
TITLE = "(title)"  # the first line of an SDF's record


class Chunk(NamedTuple):
    """Some rows of a table."""

    frame: pd.DataFrame
    numbers: list[int]  # line, row or record of each row, counted from 1 as a person would


class Table(Protocol):
    """A table that can be read several times, in pieces."""

    path: Path
    unit: str  # what a number counts: "line", "row", "record"

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """Rows in pieces of at most ``size``, with the given columns only."""


def open_table(path: Path) -> Table:
    """The reader for a file, by its ending (and ``.gz`` after it)."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending not in ENDINGS:
        raise DataError(f"{path}: what is this? Known endings: {' '.join(ENDINGS)} (also .gz)")
    open_binary(path).close()
    from legs.data.table_binary import ParquetTable, SdfTable
    from legs.data.table_readers import SmilesLines, TextTable

    if ending in (".parquet", ".pq"):
        return ParquetTable(path)
    if ending in (".sdf", ".sd"):
        return SdfTable(path)
    if ending in (".smi", ".smiles") or (ending == ".txt" and not _has_header(path)):
        return SmilesLines(path)
    return TextTable(path)


def _has_header(path: Path) -> bool:
    """Whether a text file's first line names columns, one of them of SMILES."""
    first = next((line for line in lines(path) if line.strip()), "").lower()
    return "smiles" in first and any(mark in first for mark in ",;\t")
