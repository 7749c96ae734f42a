"""Molecules in tables: CSV, TSV, Excel, Parquet, files of SMILES, SDF.

Messages name rows as a person finds them in the file: ``line`` counts from the first line of a text
file (a header is line 1), ``row`` from the first row of an Excel or Parquet file, ``record`` from
the first molecule of an SDF. Training reads a table in one batch, prediction and embedding in
chunks.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from legs.data.dataset import Task
from legs.data.errors import STRICT, BadRow, BadRows, DataError, OnError, listed
from legs.data.features.atom_table import MoleculeArrays, read_molecules, require_rdkit, select
from legs.data.readers.base import RawGraphs, Reader, Rows
from legs.data.readers.molecules import raw_graphs
from legs.data.readers.table_files import (
    MOLECULE,
    TITLE,
    Table,
    open_table,
    read_whole,
    without_gaps,
)
from legs.data.readers.targets import find_column, find_targets
from legs.data.splits import PARTS
from legs.io import expand_user

if TYPE_CHECKING:
    import pandas as pd

_IDS = {"id", "ids", "identifier", "molid", "moleculeid", "compoundid", "chemblid", "zincid"}
_IDS |= {"moleculechemblid", "cid", "cas", "inchikey"}
_PARTS = {part: part for part in PARTS} | {"training": "train", "holdout": "test"}
_PARTS |= dict.fromkeys(("valid", "val", "dev"), "validation")
_MOLECULES = {"mol", "mols", "molecule", "molecules", "structure", "compound", "drug"}


def read_table(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    smiles_column: str | None = None,
    id_column: str | None = None,
    hydrogens: bool = False,
    bond_weights: bool = False,
    keep_salts: bool = False,
    split_column: str | None = None,
    bad: BadRows = STRICT,
    limit: int | None = None,
) -> RawGraphs:
    """Molecules and their targets from a file.

    CSV (comma, semicolon or tab) and TSV with a header, in UTF-8 or Windows-1252, the first sheet
    of an Excel file, Parquet, ``.smi``/``.txt`` with a SMILES string and an id per line, SDF; text
    files and SDF also compressed (``.gz``).

    ``target`` names columns (an SDF's properties), ``[]`` none; see :func:`find_targets` for the
    default, :mod:`legs.data.readers.targets` for that of ``task``, :func:`smiles_column` and
    :func:`id_column` for columns of molecules and ids. Ids must be present and distinct, but for
    an SDF's titles, which serve if they are; else, and with ``id_column=""``, the number of the
    line does. Of salts and mixtures, the largest fragment is read, unless ``keep_salts``;
    ``info["salts"]`` counts them. ``split_column`` says where rows belong, ``train``,
    ``validation`` or ``test``; ``info["split"]`` has it by id. ``bad`` collects rows that cannot be
    used (default: the first one raises).
    """
    require_rdkit()
    table = open_table(expand_user(path))
    columns = choose_columns(table, smiles_column, id_column, target, split_column)
    frame = read_whole(table, columns.needed(), bad, limit)
    options = (bad.on_error, hydrogens, bond_weights, keep_salts)
    batch = TableRows(table, columns, frame, (), *options)
    if split_column is not None:
        batch = batch.in_parts(bad)
    rows = batch.read(bad, unique_ids=True)
    if not rows.index:
        raise DataError(f"{table.path} holds no row that can be used")
    info: dict[str, Any] = {"smiles_column": columns.molecules, "id_column": columns.ids}
    raw = rows.graphs(task, bad)
    if rows.others is not None:
        info["split"] = dict(zip(rows.ids, rows.others.iloc[:, 0], strict=True))
    name = Path(re.sub(r"(?i)\.gz$", "", table.path.name)).stem
    return replace(raw, name=name, info={**raw.info, **info})


def iter_table(
    path: str | Path,
    *,
    chunk: int | None = None,
    on_error: OnError = "raise",
    targets: Sequence[str] = (),
    asked: Collection[str] = (),
    smiles_column: str | None = None,
    id_column: str | None = None,
    hydrogens: bool = False,
    bond_weights: bool = False,
    keep_salts: bool = False,
    others: bool = False,
) -> Iterator[TableRows]:
    """The rows of a table of any length, ``chunk`` at a time, for a model's ``Reading``.

    Ids may repeat or be missing: rows are identified by their position. Columns that a user
    ``asked`` for must be there, while one that training had may be called otherwise in a new file.
    With ``others``, all other columns are read too.
    """
    if chunk is not None and chunk < 1:
        raise DataError(f"chunk is at least 1, not {chunk}")
    require_rdkit()
    import pandas as pd

    table = open_table(expand_user(path))
    smiles, ids = (
        name if option in asked or not name or name in table.columns else None
        for option, name in (("smiles_column", smiles_column), ("id_column", id_column))
    )
    columns = choose_columns(table, smiles, ids, [])
    taken = (columns.molecules, columns.ids)
    there = [t for t in targets if table.columns.count(t) == 1 and t not in taken]
    columns = columns._replace(targets=there)
    if others:
        aside = {MOLECULE, TITLE, columns.ids, *there, *getattr(table, "nested", ())}
        rest = [c for c in table.columns if c not in aside and table.columns.count(c) == 1]
        columns = columns._replace(others=rest)
    options = (on_error, hydrogens, bond_weights, keep_salts)
    bad, needed, empty = BadRows(on_error), columns.needed(), True
    parts = [read_whole(table, needed, bad)] if chunk is None else table.chunks(needed, chunk, bad)
    # Bad rows may follow the last good one.
    for part in chain(parts, [pd.DataFrame(columns=needed)]):
        rows = TableRows(table, columns, part, tuple(bad.rows), *options)
        bad.rows.clear()
        if len(rows):
            empty = False
            yield rows
    if empty:
        raise DataError(f"{table.path} holds no row")


class Columns(NamedTuple):
    """Names of the columns to read."""

    molecules: str
    ids: str | None
    targets: list[str]
    others: Sequence[str] = ()  # to be written beside results

    def needed(self) -> list[str]:
        """All of them, each once."""
        ids = [] if self.ids is None else [self.ids]
        return list(dict.fromkeys([self.molecules, *ids, *self.targets, *self.others]))


@dataclass(frozen=True)
class TableRows:
    """Some rows of a table as they are there, cheap to make and to send to another process."""

    table: Table
    columns: Columns  # that were read
    frame: pd.DataFrame  # indexed by the number of the line, row or record
    bad: tuple[BadRow, ...]  # between and after these, without fields, such as broken lines
    on_error: OnError
    hydrogens: bool = False
    bond_weights: bool = False
    keep_salts: bool = False

    def __len__(self) -> int:
        """Number of rows, including those that cannot be used."""
        return len(self.frame) + len(self.bad)

    def in_parts(self, bad: BadRows) -> TableRows:
        """The rows whose last column names a part of a split, by its full name; others are bad."""
        name = self.columns.others[-1]
        parts = self.frame[name].map(lambda value: _PARTS.get(str(value).strip().casefold()))
        for number in self.frame.index[parts.isna()].tolist():
            value = str(self.frame.at[number, name])[:40]
            reason = f"the split column {name!r} holds {value!r}, not train, validation or test"
            bad.add(self._where(number), reason, number)
        return replace(self, frame=self.frame.assign(**{name: parts})[parts.notna()])

    def read(self, bad: BadRows | None = None, *, unique_ids: bool = False) -> Rows:
        """Makes graphs of the molecules: the slow part; ids may have to be there and distinct."""
        bad = BadRows(self.on_error, list(self.bad)) if bad is None else bad
        columns, ids = self.columns, self._ids()
        if unique_ids and columns.ids == TITLE:
            # Nobody promised that titles are ids: they serve if they are distinct.
            if len({*ids.values()}) < len(ids):
                ids = {number: str(number) for number in ids}
        elif unique_ids:
            self._drop_repeated(ids, bad)
        numbers = list(ids)
        frame = self.frame.loc[numbers]
        molecules = frame[columns.molecules].tolist()
        if columns.molecules != MOLECULE:
            # Numbers and gaps in a Parquet column are not SMILES; they are reported row by row.
            molecules = [value if isinstance(value, str) else None for value in molecules]
        read = read_molecules(molecules, self.hydrogens, self.keep_salts)
        for position, reason in read.bad:
            bad.add(self._where(numbers[position]), reason, numbers[position])
        errors = {row.number: row.reason for row in bad.rows if row.number is not None}
        usable = [numbers[i] for i in read.position.tolist()]
        if columns.molecules == MOLECULE:
            smiles = dict(zip(usable, read.smiles, strict=True))
        else:
            smiles = dict(zip(numbers, molecules, strict=True))
        order = sorted({*numbers, *errors})
        others = self.frame[[*columns.others]].reindex(order) if columns.others else None
        if others is not None and columns.molecules == MOLECULE and "smiles" not in others:
            others["smiles"] = [smiles.get(n) or "" for n in order]
        row_of = {number: row for row, number in enumerate(order)}
        return Rows(
            [ids.get(n, str(n) if columns.ids is None else "") for n in order],
            [smiles.get(n) or "" for n in order],
            [self._where(n) for n in order],
            [errors.get(n, "") for n in order],
            [row_of[n] for n in usable],
            lambda chosen: self._build(read, [ids[n] for n in usable], chosen),
            without_gaps(frame.loc[usable, columns.targets]) if columns.targets else None,
            others,
        )

    def pieces(self, size: int) -> Iterator[TableRows]:
        """The same rows in the same order, about ``size`` at a time."""
        bad_numbers, begin = [row.number or 0 for row in self.bad], 0
        for start in range(0, max(len(self.frame), 1), size):
            following = self.frame.index[start + size : start + size + 1]
            end = bisect_left(bad_numbers, following[0]) if len(following) else len(self.bad)
            frame = self.frame.iloc[start : start + size]
            yield replace(self, frame=frame, bad=self.bad[begin:end])
            begin = end

    def digest(self) -> str:
        """A digest of everything the result depends on."""
        digest = hashlib.sha256()
        for name in self.columns.needed():
            for value in self.frame[name]:
                digest.update(value if isinstance(value, bytes) else str(value).encode())
                digest.update(b"\0")
        pairs = tuple((row.where, row.reason) for row in self.bad)
        digest.update(repr((self.frame.index.tolist(), pairs)).encode())
        return digest.hexdigest()

    def _build(self, read: MoleculeArrays, ids: Sequence[str], chosen: Sequence[int]) -> RawGraphs:
        mask = np.zeros(len(ids), dtype=bool)
        mask[list(chosen)] = True
        read = read if mask.all() else select(read, mask)
        salts = {"keep_salts": self.keep_salts, "salts": int(read.parted.sum())}
        return raw_graphs(
            read,
            hydrogens=self.hydrogens,
            bond_weights=self.bond_weights,
            ids=tuple(ids[i] for i in chosen),
            name=self.table.path.name,
            info={"source": str(self.table.path), **salts},
        )

    def _ids(self) -> dict[int, str]:
        """The id of every row, by its number."""
        numbers = self.frame.index.tolist()
        if self.columns.ids is None:
            return {number: str(number) for number in numbers}
        column = self.frame[self.columns.ids]
        gaps = column.isna().tolist()
        ids = ["" if gap else str(v).strip() for v, gap in zip(column, gaps, strict=True)]
        titles = self.columns.ids == TITLE
        return {n: name or str(n) * titles for n, name in zip(numbers, ids, strict=True)}

    def _drop_repeated(self, ids: dict[int, str], bad: BadRows) -> None:
        """Drops rows without an id of their own; they are bad."""
        first: dict[str, int] = {}
        unit = self.table.unit
        for number, name in list(ids.items()):
            if name and first.setdefault(name, number) == number:
                continue
            reason = f"no id in the column {self.columns.ids!r}"
            if name:
                reason = (
                    f"the id {name[:60]!r} was used before, in {unit} {first[name]} "
                    f"(id_column='' takes the number of the {unit} instead)"
                )
            bad.add(self._where(number), reason, number)
            del ids[number]

    def _where(self, number: int) -> str:
        return f"{self.table.path.name} {self.table.unit} {number}"


def choose_columns(
    table: Table,
    smiles: str | None,
    ids: str | None,
    target: str | Sequence[str] | None,
    split: str | None = None,
) -> Columns:
    """The columns that were named, or else the likely ones; see :func:`read_table`."""
    names = table.columns
    try:
        molecules = smiles_column(names, smiles)
        rest = [name for name in names if name != molecules]
        identity = id_column(rest, ids)
        if identity is None and ids is None and TITLE in rest:
            identity = TITLE
        others = [] if split is None else [find_column(names, split, "split column")]
        other = [molecules, TITLE, identity or TITLE, *others]
        targets = find_targets(names, target, other=other)
    except DataError as error:
        raise DataError(f"{table.path.name}: {error}") from error
    return Columns(molecules, identity, targets, others)


def smiles_column(columns: Sequence[str], name: str | None = None) -> str:
    """The column of molecules: in this order, ``name``; an SDF's molecules; the column named
    ``smiles`` (in any case); the only one whose name contains ``smiles``; the only one with another
    usual name, such as ``mol`` or ``structure``.
    """
    if name is not None:
        return find_column(columns, name, "SMILES column")
    if MOLECULE in columns:
        return MOLECULE
    folded = [(column, _folded(column)) for column in columns]
    exact = [column for column, name in folded if name == "smiles"]
    similar = [column for column, name in folded if "smiles" in name or name == "smi"]
    usual = [column for column, name in folded if name in _MOLECULES]
    for candidates in (exact, similar, usual):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise DataError(
                f"which column holds the molecules: {listed(candidates)}? Name it (smiles_column=)"
            )
    raise DataError(
        f"no column is named like SMILES; there are: {listed(columns)}. Name it (smiles_column=); "
        "if these are data, put a line of names above them"
    )


def id_column(columns: Sequence[str], name: str | None = None) -> str | None:
    """The column of ids: ``name``, or the first with a usual name; ``""`` chooses none."""
    if name is not None:
        return find_column(columns, name, "id column") if name else None
    usual = [c for c in columns if _folded(c) in _IDS and list(columns).count(c) == 1]
    return usual[0] if usual else None


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_OPTIONS = "target task smiles_column id_column hydrogens bond_weights bad limit keep_salts"
_OPTIONS += " split_column"
READER = Reader(read_table, frozenset(_OPTIONS.split()), iter_table)
