"""Tables of molecules for a model, row by row: none is lost, whether it can be used or not."""

from __future__ import annotations

from collections.abc import Iterator
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


def table_parts(
    reading: Reading, path: Path, chunk: int | None, on_error: OnError
) -> Iterator[InputPart]:
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
    for part in _chunks(table, columns, chunk, bad):
        count += 1
        yield _part(reading, table, columns, part, bad)
    if len(bad) or not count:  # bad rows after the last good one
        if not count and not len(bad):
            raise DataError(f"{table.path} holds no row")
        empty = pd.DataFrame(columns=needed(columns))
        yield _part(reading, table, columns, Chunk(empty, []), bad)


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
    bad.rows.clear()
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


def _numbered(table: Table, bad: BadRows) -> Iterator[tuple[int, str]]:
    """Bad rows by their numbers, which their names in messages end with."""
    start = where(table, 0).removesuffix("0")
    for name, reason in bad:
        yield int(name.removeprefix(start)), reason
