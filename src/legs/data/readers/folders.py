"""Folders with a file per graph, and a table of their targets beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legs.data.dataset import Task
from legs.data.errors import STRICT, BadRows, DataError, OnError, listed
from legs.data.readers.base import RawGraphs, Reader, Rows
from legs.data.readers.table_files import ParquetTable, open_table, read_whole, without_gaps
from legs.data.readers.targets import find_column, find_targets

if TYPE_CHECKING:
    import pandas as pd

TABLE_NAMES = ("labels", "targets", "graphs")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
MOST_ROWS = 10_000_000
_ASIDE = ("README", "LICENSE", "LICENCE")
_LABELS = {"target", "id_column", "table"}  # options


def folder_reader(
    suffixes: tuple[str, ...],
    parse: Callable[..., dict[int, Any]],
    build: Callable[..., RawGraphs],
    defaults: dict[str, Any],
) -> Reader:
    """A reader of folders with a file per graph.

    Hidden files and files named README or LICENSE are left alone, subfolders are not entered. With
    a label table, files without a row and rows without a file are bad. Options of the reader are
    those of other tables; ``id_column`` names the files, with or without suffix (default: the
    column that names most of them), ``table`` is CSV, TSV or Parquet (default: ``labels``,
    ``targets`` or ``graphs`` in the folder, or the only such file, if it cannot be a graph).

    ``parse`` turns files into graphs by the position of the file and reports those that cannot be
    used; ``build`` makes a set of graphs, their ids and the folder. Both take the options in
    ``defaults``.
    """

    def rows(path: str | Path, bad: BadRows, labels: dict[str, Any], own: dict[str, Any]) -> Rows:
        folder, own = Path(path), {**defaults, **own}
        files, ids, targets = _list_files(folder, suffixes, bad, **labels)
        graphs = parse(files, bad, **own)
        if not graphs:
            raise DataError(f"none of the {len(files)} files of {folder} can be used")
        position = {p.name: k for k, p in enumerate(sorted(folder.iterdir()))}
        rows = [(files[i].name, "", i) for i in graphs] + [(name, why, -1) for name, why in bad]
        # Rows of the label table without a file come last.
        rows.sort(key=lambda row: position.get(row[0], len(position)))
        order = [i for *_, i in rows if i >= 0]

        def build_some(chosen: Sequence[int]) -> RawGraphs:
            places = [order[k] for k in chosen]
            return build([graphs[i] for i in places], tuple(ids[i] for i in places), folder, **own)

        return Rows(
            [ids[i] if i >= 0 else name for name, _, i in rows],
            [],
            [name for name, *_ in rows],
            [why for _, why, _ in rows],
            [row for row, (*_, i) in enumerate(rows) if i >= 0],
            build_some,
            None if targets is None else targets.iloc[order],
        )

    def read(
        path: str | Path, *, task: Task | None = None, bad: BadRows = STRICT, **options: Any
    ) -> RawGraphs:
        labels = {name: options.pop(name) for name in _LABELS & {*options}}
        return rows(path, bad, labels, options).graphs(task, bad)

    def iter_batches(
        path: str | Path,
        *,
        chunk: int | None = None,
        on_error: OnError = "raise",
        targets: Sequence[str] = (),
        asked: Collection[str] = (),
        id_column: str | None = None,
        **own: Any,
    ) -> Iterator[Rows]:
        # All at once: one-hot columns depend on all graphs.
        labels = {
            "known_targets": targets,
            "id_column": id_column if "id_column" in asked else None,
        }
        yield rows(path, BadRows(on_error), labels, own)

    return Reader(read, frozenset({*_LABELS, "task", "bad", *defaults}), iter_batches)


def _list_files(
    folder: Path,
    suffixes: Collection[str],
    bad: BadRows,
    *,
    table: str | Path | None = None,
    target: str | Sequence[str] | None = None,
    known_targets: Sequence[str] | None = None,
    id_column: str | None = None,
) -> tuple[list[Path], list[str], pd.DataFrame | None]:
    """Files by name, their ids, and their target columns: ``target``, or those known, if there."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    every = sorted(p for p in folder.iterdir() if p.is_file() and p.name[0] != ".")
    every = [p for p in every if p.name.upper().split(".")[0] not in _ASIDE]
    labels = _find_table(every, suffixes) if table is None else Path(table)
    own = labels if labels is not None and labels.exists() else None
    files = [p for p in every if p.suffix.lower() in suffixes and not (own and p.samefile(own))]
    if not files:
        names = ", ".join(sorted(s for s in suffixes if s))
        raise DataError(f"{folder} holds no file with a known suffix ({names})")
    # Stems, or names where two stems are the same.
    stems = [p.stem for p in files]
    ids = stems if len(set(stems)) == len(stems) else [p.name for p in files]
    if labels is None:
        if target is not None:
            raise DataError(
                f"{folder} holds no label table to find the target {listed([target])} in; add "
                "labels.csv with a column of file names (table= names a table that lies elsewhere)"
            )
        return files, ids, None
    columns, frame = _read_labels(labels, bad)
    rows, name = _match(columns, frame, files, id_column, bad)
    if known_targets is None:
        targets = find_targets(columns, target, other=[name])
    else:
        targets = [column for column in known_targets if columns.count(column) == 1]
    return (
        [files[i] for i in rows],
        [ids[i] for i in rows],
        without_gaps(frame.loc[[*rows.values()], targets]) if targets else None,
    )


def _read_labels(path: Path, bad: BadRows) -> tuple[list[str], pd.DataFrame]:
    """Columns and rows of a label table, by where they are; text stays text: ``007`` is ``007``."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise DataError(f"{path} is no table: {', '.join(TABLE_SUFFIXES)} can be read")
    table = open_table(path)
    columns = table.columns
    if isinstance(table, ParquetTable):
        columns = [name for name in columns if name not in table.nested]
        if table.count > MOST_ROWS:
            raise DataError(f"{path.name} has more than {MOST_ROWS:,} rows")
    frame = read_whole(table, list(dict.fromkeys(columns)), bad)
    return columns, frame.set_axis([f"{path.name} {table.unit} {n}" for n in frame.index])


def _match(
    columns: Sequence[str],
    frame: pd.DataFrame,
    files: Sequence[Path],
    id_column: str | None,
    bad: BadRows,
) -> tuple[dict[int, str], str]:
    """The row of each file, by the file's number, and the name of the column that names files."""
    number_of: dict[str, int] = {}
    for i, path in enumerate(files):
        # Two files of one stem: only the whole name distinguishes them.
        number_of[path.stem] = -1 if path.stem in number_of else i
    number_of.update({path.name: i for i, path in enumerate(files)})

    def numbers(column: Any) -> list[int]:
        paths = [str(value).strip().replace("\\", "/") for value in column]
        return [number_of.get(path.rpartition("/")[2], -1) for path in paths]

    if id_column is None:
        counts = {str(name): len({*numbers(frame[name])} - {-1}) for name in frame}
        id_column = max(counts, key=lambda name: counts[name], default="")
        if not counts.get(id_column):
            raise DataError(
                f"no column of the label table ({listed(columns)}) names the files, such as "
                f"{files[0].name} or {files[0].stem}"
            )
    rows: dict[int, str] = {}
    column = frame[find_column(columns, id_column)]
    for i, (where, value) in zip(numbers(column), column.items(), strict=True):
        if i >= 0 and rows.setdefault(i, str(where)) == where:
            continue
        name = repr(str(value)[:60])
        bad.add(
            str(where),
            f"a second row for {name}" if i >= 0 else f"no file {name}, or more than one",
        )
    for i, path in enumerate(files):
        if i not in rows:
            bad.add(path.name, "no row of the label table names it")
    if not rows:
        raise DataError(f"the column {id_column!r} of the label table names none of the files")
    return dict(sorted(rows.items())), id_column


def _find_table(every: Sequence[Path], suffixes: Collection[str]) -> Path | None:
    tables = [p for p in every if p.suffix.lower() in TABLE_SUFFIXES]
    named = [p for p in tables if p.stem.lower() in TABLE_NAMES]
    if len(named) > 1:
        raise DataError(
            f"which is the label table: {listed(p.name for p in named)}? Leave one "
            "of them there (table= names the one that is meant)"
        )
    others = any(p.suffix.lower() in suffixes and p not in tables for p in every)
    if not named and others and len(tables) == 1:
        return tables[0]
    return named[0] if named else None
