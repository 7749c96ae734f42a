"""Tables of molecules for a model, row by row: none is lost, whether it can be used or not."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from legs.data.atom_table import require_rdkit
from legs.data.dataset import GraphDataset
from legs.data.errors import BadRows, DataError, OnError
from legs.data.features import assemble
from legs.data.molecules import raw_graphs, read_parallel
from legs.data.table_files import MOLECULE, TITLE, Chunk, Table, open_table
from legs.data.table_rows import Columns, choose, gaps, molecules, needed, where, whole_table
from legs.training.raw_input import InputPart, Reading


@dataclass(frozen=True)
class RawRows:
    """Some rows of a table as they stand there. What is left to do is slow, and needs no file.

    Args:
        table: they are of.
        columns: that were read.
        chunk: the rows.
        bad: rows between and after these that are no rows of the table: what messages call them,
            and why.
        on_error: what to do about molecules that cannot be read.
    """

    table: Table
    columns: Columns
    chunk: Chunk
    bad: tuple[tuple[str, str], ...]
    on_error: OnError

    def __len__(self) -> int:
        return len(self.chunk.numbers) + len(self.bad)

    def read(self, reading: Reading) -> InputPart:
        """The graphs of these rows."""
        bad = BadRows(self.on_error, list(self.bad))
        return _part(reading, self.table, self.columns, self.chunk, bad)

    def pieces(self, size: int) -> Iterator[RawRows]:
        """The same rows in the same order, about ``size`` at a time."""
        numbers, bad = self.chunk.numbers, list(self.bad)
        numbered = [number for number, _ in _numbered(self.table, bad)]
        for start in range(0, max(len(numbers), 1), size):
            chunk = Chunk(self.chunk.frame.iloc[start : start + size], numbers[start:][:size])
            last = start + size >= len(numbers)
            end = len(numbered) if last else bisect_left(numbered, numbers[start + size])
            begin = bisect_left(numbered, numbers[start]) if start else 0
            yield replace(self, chunk=chunk, bad=tuple(bad[begin:end]))

    def digest(self) -> str:
        """Of all that the result depends on."""
        digest = hashlib.sha256()
        for name in needed(self.columns):
            for value in self.chunk.frame[name]:
                digest.update(value if isinstance(value, bytes) else str(value).encode())
                digest.update(b"\0")
        digest.update(repr((self.chunk.numbers, self.bad)).encode())
        return digest.hexdigest()


def table_parts(
    reading: Reading, path: Path, chunk: int | None, on_error: OnError
) -> Iterator[InputPart]:
    """The rows of a table, ``chunk`` at a time, or all at once; see :func:`raw_rows`."""
    return (rows.read(reading) for rows in raw_rows(reading, path, chunk, on_error))


def raw_rows(
    reading: Reading, path: Path, chunk: int | None, on_error: OnError
) -> Iterator[RawRows]:
    """The rows of a table, ``chunk`` at a time, or all at once.

    Ids may repeat or be missing: rows are told apart by their place.

    Args:
        reading: how to read it.
        path: of the table.
        chunk: rows in a part, or ``None`` for all.
        on_error: ``"raise"`` stops at the first bad row; ``"skip"`` goes on.
    """
    if chunk is not None and chunk < 1:
        raise DataError(f"chunk is at least 1, not {chunk}")
    require_rdkit()
    table = open_table(path.expanduser())
    columns = _columns(table, reading)
    bad = BadRows(on_error)
    count = 0

    def rows(part: Chunk) -> RawRows:
        found = RawRows(table, columns, part, tuple(bad), on_error)
        bad.rows.clear()
        return found

    for part in _chunks(table, columns, chunk, bad):
        count += 1
        yield rows(part)
    if len(bad) or not count:  # bad rows after the last good one
        if not count and not len(bad):
            raise DataError(f"{table.path} holds no row")
        yield rows(Chunk(pd.DataFrame(columns=needed(columns)), []))


def _chunks(table: Table, columns: Columns, chunk: int | None, bad: BadRows) -> Iterator[Chunk]:
    if chunk is not None:
        yield from table.chunks(needed(columns), chunk, bad)
    else:
        whole = whole_table(table, columns, bad, None)
        if whole.numbers:
            yield whole


def _columns(table: Table, reading: Reading) -> Columns:
    def name(option: str) -> str | None:
        known: str | None = reading.options.get(option)
        there = option in reading.asked or known in table.columns
        return known if there or not known else None

    columns = choose(table, name("smiles_column"), name("id_column"), [])
    taken = (columns.molecules, columns.ids)
    there = [t for t in reading.targets if table.columns.count(t) == 1 and t not in taken]
    return columns._replace(targets=there)


def _part(reading: Reading, table: Table, columns: Columns, part: Chunk, bad: BadRows) -> InputPart:
    hydrogens = bool(reading.options.get("hydrogens", False))
    read = read_parallel(molecules(part.frame, columns), hydrogens=hydrogens)
    for position, reason in read.bad:
        bad.add(where(table, part.numbers[position]), reason)
    errors = dict(_numbered(table, bad))
    ids = dict(zip(part.numbers, _ids(columns, part), strict=True))
    kept = [part.numbers[i] for i in read.kept.tolist()]
    if columns.molecules == MOLECULE:
        text = dict(zip(kept, read.smiles, strict=True))
    else:
        given = part.frame[columns.molecules]
        text = {n: v for n, v in zip(part.numbers, given, strict=True) if isinstance(v, str)}
    numbers = sorted({*part.numbers, *errors})
    place = {number: row for row, number in enumerate(numbers)}
    data: GraphDataset | None = None
    if kept:
        raw = raw_graphs(
            read,
            hydrogens=hydrogens,
            bond_weights=bool(reading.options.get("bond_weights", False)),
            ids=tuple(ids[number] for number in kept),
            name=table.path.name,
            info={"source": str(table.path)},
        )
        data = assemble(raw, reading.features)
    unnamed = columns.ids is None
    return InputPart(
        [ids.get(number, str(number) if unnamed else "") for number in numbers],
        [text.get(number, "") for number in numbers],
        [errors.get(number, "") for number in numbers],
        data,
        [place[number] for number in kept],
        [where(table, number) for number in numbers],
        gaps(part.frame.iloc[read.kept], columns.targets) if columns.targets else None,
    )


def _ids(columns: Columns, part: Chunk) -> list[str]:
    if columns.ids is None:
        return [str(number) for number in part.numbers]
    names = [
        "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value).strip()
        for value in part.frame[columns.ids]
    ]
    if columns.ids == TITLE:
        return [n or str(number) for n, number in zip(names, part.numbers, strict=True)]
    return names


def _numbered(table: Table, bad: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """Bad rows by their numbers, which their names in messages end with."""
    start = where(table, 0).removesuffix("0")
    for name, reason in bad:
        yield int(name.removeprefix(start)), reason
