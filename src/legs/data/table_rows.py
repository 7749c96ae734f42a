"""From a table to the rows that are wanted: which columns, which rows, their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from legs.data.errors import BadRows, DataError
from legs.data.table_columns import find_column
from legs.data.table_columns import id_column as find_ids
from legs.data.table_columns import smiles_column as find_smiles
from legs.data.table_files import MOLECULE, TITLE, Chunk, Table
from legs.data.targets import find_targets

# Text that stands for no value, as pandas and spreadsheets write it; compared in lower case.
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"})
_BLOCK = 50_000


class Columns(NamedTuple):
    """Names of the columns to read."""

    molecules: str
    ids: str | None
    targets: list[str]


def choose(
    table: Table, smiles: str | None, ids: str | None, target: str | Sequence[str] | None
) -> Columns:
    """The columns that were asked for, or else those that can be meant; see ``read_table``."""
    names = table.columns
    first: Chunk | None = None
    if len(set(names)) == len(names):
        first = next(table.chunks(names, 50, BadRows("skip")), None)
    sample = pd.DataFrame(columns=names) if first is None else first.frame
    try:
        molecules = find_smiles(names, sample, smiles)
        rest = [name for name in names if name != molecules]
        identity = find_ids(rest, ids)
        if identity is None and ids is None and TITLE in rest:
            identity = TITLE
        if target is None:
            other = [molecules, TITLE, identity or TITLE]
            targets = find_targets(pd.DataFrame(columns=names), None, other=other)
        else:
            asked = [target] if isinstance(target, str) else list(target)
            targets = [find_column(names, name, "target column") for name in asked]
            if len(set(targets)) < len(targets):
                raise DataError(f"a target is named twice: {', '.join(targets)}")
    except DataError as error:
        raise DataError(f"{table.path.name}: {error}") from error
    return Columns(molecules, identity, targets)


def needed(columns: Columns) -> list[str]:
    """The columns that have to be read, each once."""
    ids = [] if columns.ids is None else [columns.ids]
    return list(dict.fromkeys([columns.molecules, *ids, *columns.targets]))


def whole_table(table: Table, columns: Columns, bad: BadRows, limit: int | None) -> Chunk:
    """The first ``limit`` rows, or all, in one piece."""
    if limit is not None and limit < 1:
        raise DataError(f"limit is at least 1, not {limit}")
    parts: list[Chunk] = []
    count = 0
    for part in table.chunks(needed(columns), _BLOCK if limit is None else limit, bad):
        parts.append(part)
        count += len(part.numbers)
        if limit is not None and count >= limit:
            break
    if not parts:
        return Chunk(pd.DataFrame(columns=needed(columns)), [])
    frame = pd.concat([part.frame for part in parts], ignore_index=True)
    numbers = [number for part in parts for number in part.numbers]
    return Chunk(frame.iloc[:limit], numbers[:limit])


def identify(
    table: Table, columns: Columns, part: Chunk, bad: BadRows, *, strict: bool
) -> tuple[Chunk, list[str]]:
    """The rows with usable ids, and these ids; with ``strict`` they must also differ."""
    numbers = [str(number) for number in part.numbers]
    if columns.ids is None:
        return part, numbers
    ids = [
        "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value).strip()
        for value in part.frame[columns.ids]
    ]
    if columns.ids == TITLE:
        # Nobody promised that titles are ids: they serve where they are there and differ.
        titles = [title or number for title, number in zip(ids, numbers, strict=True)]
        return part, numbers if strict and len(set(titles)) < len(titles) else titles
    seen: dict[str, int] = {}
    good = np.ones(len(ids), dtype=bool)
    for row, name in enumerate(ids):
        number = part.numbers[row]
        if not name:
            why = f"no id in the column {columns.ids!r}"
        elif strict and name in seen:
            why = (
                f"the id {name[:60]!r} was used before, in {table.unit} {seen[name]} "
                f"(id_column='' takes the number of the {table.unit} instead)"
            )
        else:
            seen[name] = number
            continue
        good[row] = False
        bad.add(where(table, number), why)
    kept = np.flatnonzero(good).tolist()
    chunk = Chunk(part.frame.iloc[kept], [part.numbers[i] for i in kept])
    return chunk, [ids[i] for i in kept]


def molecules(frame: pd.DataFrame, columns: Columns) -> list[str | bytes | None]:
    """The molecules of some rows, as SMILES or in RDKit's binary form."""
    values = frame[columns.molecules].tolist()
    if columns.molecules == MOLECULE:
        return values
    # Numbers and gaps in a Parquet column are no SMILES; they are reported row by row.
    return [value if isinstance(value, str) else None for value in values]


def gaps(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The same table, with ``None`` where the text of a target says that there is none."""
    frame = frame[list(columns)].copy()
    for name in columns:
        if frame[name].dtype == object or isinstance(frame[name].dtype, pd.StringDtype):
            frame[name] = [
                None if isinstance(v, str) and v.strip().lower() in MISSING else v
                for v in frame[name]
            ]
    return frame


def where(table: Table, number: int) -> str:
    """What messages call a row."""
    return f"{table.path.name} {table.unit} {number}"
