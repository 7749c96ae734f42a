"""Folders with a file per graph, and a table of their targets beside them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from legs.data.errors import BadRows, DataError, listed
from legs.data.readers.base import RawGraphs, Rows
from legs.data.readers.table_files import read_parquet, require_pandas
from legs.data.readers.targets import find_targets, pick_column
from legs.io import plain_cells

if TYPE_CHECKING:
    import pandas as pd

Graph = TypeVar("Graph")
TABLE_NAMES = ("labels", "targets", "graphs")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
MOST_BYTES = 256 * 2**20
MOST_ROWS = 10_000_000


class LabelledFiles(NamedTuple):
    """Files to read, and their rows of the table if there is one."""

    files: list[Path]
    ids: list[str]  # stems of the files, or their names where two stems are the same
    frame: pd.DataFrame | None  # a row per file
    columns: list[str]  # of the targets


def read_files(
    folder: str | Path,
    suffixes: Collection[str],
    parse: Callable[[Sequence[Path], BadRows], dict[int, Graph]],
    build: Callable[[Sequence[Graph], tuple[str, ...]], RawGraphs],
    *,
    what: str,
    bad: BadRows,
    **options: Any,
) -> Rows:
    """Reads the files of a folder, each one a row.

    Args:
        folder: the folder.
        suffixes: of the files to read.
        parse: reads files, reports those that cannot be used, and returns the other graphs by the
            position of the file.
        build: makes a set of such graphs and their ids.
        what: the files are called in messages.
        bad: collects files that cannot be used.
        options: of :func:`list_files`.
    """
    listing = list_files(folder, suffixes, bad=bad, **options)
    graphs = parse(listing.files, bad)
    if not graphs:
        raise DataError(f"none of the {len(listing.files)} {what} files of {folder} can be used")
    position = {p.name: k for k, p in enumerate(sorted(Path(folder).iterdir()))}
    # Rows of the label table without a file come last.
    rows = [(position[listing.files[i].name], listing.files[i].name, "", i) for i in graphs]
    rows += [(position.get(name, len(position)), name, why, -1) for name, why in bad]
    rows.sort(key=lambda row: row[0])
    order = [i for *_, i in rows if i >= 0]
    targets = None
    if listing.frame is not None and listing.columns:
        targets = listing.frame.iloc[order][listing.columns]
    return Rows(
        [listing.ids[i] if i >= 0 else name for _, name, _, i in rows],
        [],
        [name for _, name, _, _ in rows],
        [why for _, _, why, _ in rows],
        [row for row, (*_, i) in enumerate(rows) if i >= 0],
        lambda chosen: build(
            [graphs[order[k]] for k in chosen], tuple(listing.ids[order[k]] for k in chosen)
        ),
        targets,
    )


def list_files(
    folder: str | Path,
    suffixes: Collection[str],
    *,
    table: str | Path | None = None,
    target: str | Sequence[str] | None = None,
    known_targets: Sequence[str] | None = None,
    id_column: str | None = None,
    bad: BadRows | None = None,
) -> LabelledFiles:
    """Lists the files of a folder, by name, and finds each one's row in a table.

    Hidden files and files named README or LICENSE are left alone. With a table, files without a
    row and rows without a file are bad.

    Args:
        folder: the folder; its subfolders are not entered.
        suffixes: of the files to read, in lower case with the dot; ``""`` for none.
        table: a CSV, TSV or Parquet file. Default: ``labels``, ``targets`` or ``graphs`` with one
            of these suffixes in the folder, or the only such file, if it cannot be a graph.
        target: target column or columns; see :func:`legs.data.readers.targets.find_targets`.
        known_targets: target columns to take if they are there, instead of ``target``.
        id_column: the column that names the files, with or without suffix. Default: the column
            that names most of them.
        bad: collects files without a row and the reverse (default: the first one raises).
    """
    bad = BadRows() if bad is None else bad
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    every = sorted(p for p in folder.iterdir() if p.is_file() and not _aside(p.name))
    labels = _find_table(every, suffixes) if table is None else Path(table)
    files = [p for p in every if p.suffix.lower() in suffixes and not _same(p, labels)]
    if not files:
        names = ", ".join(sorted(s for s in suffixes if s))
        raise DataError(f"{folder} holds no file with a known suffix ({names})")
    stems = [p.stem for p in files]
    ids = stems if len(set(stems)) == len(stems) else [p.name for p in files]
    if labels is None:
        if target is not None:
            raise DataError(
                f"{folder} holds no label table to find the target {listed([target])} in; add "
                "labels.csv with a column of file names (table= names a table that lies elsewhere)"
            )
        return LabelledFiles(files, ids, None, [])
    frame = read_labels(labels)
    rows, name = _match(frame, labels, files, id_column, bad)
    kept = [i for i in range(len(files)) if i in rows]
    columns = [str(column) for column in frame.columns]
    if known_targets is None:
        targets = find_targets(columns, target, other=[name])
    else:
        targets = [column for column in known_targets if columns.count(column) == 1]
    return LabelledFiles(
        [files[i] for i in kept],
        [ids[i] for i in kept],
        frame.iloc[[rows[i] for i in kept]],
        targets,
    )


def read_labels(path: Path) -> pd.DataFrame:
    """A CSV, TSV or Parquet file; text files as text throughout, so that ``007`` stays ``007``."""
    require_pandas()
    import pandas as pd

    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise DataError(f"{path} is no table: {', '.join(TABLE_SUFFIXES)} can be read")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path.name} is larger than {MOST_BYTES >> 20} MiB")
        if path.suffix.lower() == ".parquet":
            return _read_parquet(path)
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        with path.open(encoding="utf-8-sig") as file:
            head = file.readline(10_000)
        if separator == "," and "," not in head and ";" in head:
            separator = ";"
        with warnings.catch_warnings():
            # Rows longer than the header: pandas would drop their ends, or their beginnings.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return plain_cells(
                pd.read_csv(path, sep=separator, dtype=str, encoding="utf-8-sig", index_col=False)
            )
    except DataError:
        raise
    except Exception as error:  # pandas and pyarrow raise errors of many classes
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"{path.name} cannot be read as a table: {reason}") from error


def _read_parquet(path: Path) -> pd.DataFrame:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        if file.metadata.num_rows > MOST_ROWS:
            raise DataError(f"{path.name} has more than {MOST_ROWS:,} rows")
    try:
        return read_parquet(path)
    except DataError as error:
        raise DataError(f"{path.name} cannot be read as a table: {error}") from error


def _match(
    frame: pd.DataFrame, table: Path, files: Sequence[Path], id_column: str | None, bad: BadRows
) -> tuple[dict[int, int], str]:
    """The row of each file, by the file's number, and the name of the column that names files."""
    number_of: dict[str, int] = {}
    for i, path in enumerate(files):
        # Two files of one stem: only the whole name tells them apart.
        number_of[path.stem] = -1 if path.stem in number_of else i
    number_of.update({path.name: i for i, path in enumerate(files)})

    def numbers(column: Any) -> list[int]:
        paths = [str(value).strip().replace("\\", "/") for value in column]
        return [number_of.get(path.rpartition("/")[2], -1) for path in paths]

    if id_column is None:
        columns = [str(column) for column in frame.columns]
        counts = [len({i for i in numbers(column) if i >= 0}) for _, column in frame.items()]
        if not any(counts):
            raise DataError(
                f"no column of {table.name} ({listed(columns)}) names the files, such as "
                f"{files[0].name} or {files[0].stem}"
            )
        id_column = columns[counts.index(max(counts))]
    rows: dict[int, int] = {}
    for row, i in enumerate(numbers(pick_column(frame, id_column))):
        if i >= 0 and i not in rows:
            rows[i] = row
            continue
        value = str(frame[id_column].iloc[row])[:60]
        why = f"a second row for {value!r}" if i >= 0 else f"no file {value!r}, or more than one"
        bad.add(f"{table.name}, row {row + 1}", why)
    for i, path in enumerate(files):
        if i not in rows:
            bad.add(path.name, f"no row of {table.name} names it")
    if not rows:
        raise DataError(f"the column {id_column!r} of {table.name} names none of the files")
    return rows, id_column


def _find_table(every: Sequence[Path], suffixes: Collection[str]) -> Path | None:
    tables = [p for p in every if p.suffix.lower() in TABLE_SUFFIXES]
    named = [p for p in tables if p.stem.lower() in TABLE_NAMES]
    if len(named) > 1:
        raise DataError(
            f"which is the label table: {listed(p.name for p in named)}? Leave one "
            "of them there (table= names the one that is meant)"
        )
    others = [p for p in every if p.suffix.lower() in suffixes and p not in tables]
    if not named and len(tables) == 1 and others:
        return tables[0]
    return named[0] if named else None


def _aside(name: str) -> bool:
    return name.startswith(".") or name.upper().split(".")[0] in ("README", "LICENSE", "LICENCE")


def _same(path: Path, table: Path | None) -> bool:
    return table is not None and table.exists() and path.samefile(table)
