"""A user's own molecules: CSV, TSV, Parquet, files of SMILES, SDF.

Rows are named in messages as a person finds them in the file: ``line`` counts from the first line
of a text file (a header is line 1), ``row`` from the first row of a Parquet file, ``record`` from
the first molecule of an SDF. What makes a column of targets classes or numbers is told in
:mod:`legs.data.targets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from legs.data.atom_table import require_rdkit, select
from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.molecules import raw_graphs, read_parallel
from legs.data.raw import RawGraphs
from legs.data.table_files import Table, open_table
from legs.data.table_rows import choose, gaps, identify, molecules, needed, where, whole_table
from legs.data.targets import encode_targets


def read_table(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    smiles_column: str | None = None,
    id_column: str | None = None,
    hydrogens: bool = False,
    missing: bool = False,
    bad: BadRows | None = None,
    limit: int | None = None,
) -> RawGraphs:
    """Molecules and their targets from a file.

    CSV (comma, semicolon or tab) and TSV with a header, Parquet, ``.smi``/``.txt`` with a SMILES
    string and an id a line, SDF; text files and SDF also compressed (``.gz``).

    Args:
        path: of the file.
        target: column or columns (an SDF's properties). Default: the only column named target,
            label, y or class, or the only one left; ``[]`` for none.
        task: ``"classification"`` or ``"regression"`` (default: by the rule of
            :mod:`legs.data.targets`).
        smiles_column: default: by name, else by content.
        id_column: its values must be there and differ. Default: a column with a usual name such as
            ``id`` or ``mol_id``; an SDF's titles, if they differ; else the number of the line, as
            also with ``""``.
        hydrogens: make hydrogens nodes (default: heavy atoms only).
        missing: keep rows in which some of several targets are missing, as NaN (default: such rows
            are bad).
        bad: is told of rows that cannot be used (default: the first one raises).
        limit: read only the first rows (default: all).

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "alcohols.csv")
    >>> _ = file.write_text("smiles,boils\\nCO,64.7\\nCCO,78.2\\n")
    >>> raw = read_table(file)
    >>> raw.task, raw.target_names, raw.y.tolist(), raw.ids
    ('regression', ('boils',), [[64.69...], [78.19...]], ('2', '3'))
    """
    bad = BadRows() if bad is None else bad
    table = _open(path)
    chosen = choose(table, smiles_column, id_column, target)
    whole = whole_table(table, chosen, bad, limit)
    if not whole.numbers:
        raise DataError(f"{table.path} holds no row that can be used")
    whole, ids = identify(table, chosen, whole, bad, strict=True)
    names = [where(table, number) for number in whole.numbers]
    read = read_parallel(molecules(whole.frame, chosen), hydrogens=hydrogens)
    for position, reason in read.bad:
        bad.add(names[position], reason)
    if not len(read.kept):
        raise DataError(f"{table.path} holds no molecule that can be read")
    known: dict[str, Any] = {}
    if chosen.targets:
        # Among the molecules that are there, so that no class is left without one.
        rows = read.kept.tolist()
        found = encode_targets(
            gaps(whole.frame.iloc[rows], chosen.targets),
            chosen.targets,
            task,
            bad=bad,
            where=[names[i] for i in rows],
            missing=missing,
        )
        read = select(read, found.kept)
        known = {
            "y": found.y,
            "task": found.task,
            "class_names": found.class_names,
            "target_names": found.target_names,
        }
    return raw_graphs(
        read,
        hydrogens=hydrogens,
        ids=tuple(ids[i] for i in read.kept.tolist()),
        name=_stem(table.path),
        info={
            "source": str(table.path),
            "smiles_column": chosen.molecules,
            "id_column": chosen.ids,
        },
        **known,
    )


def iter_tables(
    path: str | Path,
    *,
    chunk: int = 10_000,
    smiles_column: str | None = None,
    id_column: str | None = None,
    hydrogens: bool = False,
    bad: BadRows | None = None,
) -> Iterator[RawGraphs]:
    """Molecules of a file of any length, without targets, some thousand at a time.

    Files as in :func:`read_table`. Ids that repeat are not looked for: that would take the memory
    this saves.

    Args:
        path: of the file.
        chunk: rows at a time.
        smiles_column: as in :func:`read_table`.
        id_column: as in :func:`read_table`.
        hydrogens: make hydrogens nodes (default: heavy atoms only).
        bad: is told of rows that cannot be used (default: the first one raises).

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "alkanes.smi")
    >>> _ = file.write_text("C methane\\nCC ethane\\nCCC propane\\n")
    >>> [raw.ids for raw in iter_tables(file, chunk=2)]
    [('methane', 'ethane'), ('propane',)]
    """
    if chunk < 1:
        raise DataError(f"chunk is at least 1, not {chunk}")
    bad = BadRows() if bad is None else bad
    table = _open(path)
    columns = choose(table, smiles_column, id_column, [])
    for part in table.chunks(needed(columns), chunk, bad):
        part, ids = identify(table, columns, part, bad, strict=False)
        read = read_parallel(molecules(part.frame, columns), hydrogens=hydrogens)
        for position, reason in read.bad:
            bad.add(where(table, part.numbers[position]), reason)
        if len(read.kept):
            yield raw_graphs(
                read,
                hydrogens=hydrogens,
                ids=tuple(ids[i] for i in read.kept.tolist()),
                name=_stem(table.path),
                info={"source": str(table.path)},
            )


def _open(path: str | Path) -> Table:
    require_rdkit()
    return open_table(Path(path).expanduser())


def _stem(path: Path) -> str:
    name = path.name
    return Path(name[:-3] if name.lower().endswith(".gz") else name).stem
