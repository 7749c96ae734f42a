"""Targets of graphs that lie in files of their own: a table beside the files names them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from legs.data.columns import listed, pick_column
from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.targets import Targets, encode_targets, find_targets

TABLE_NAMES = ("labels", "targets", "graphs")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
MOST_BYTES = 256 * 2**20
MOST_ROWS = 10_000_000


class LabelledFiles(NamedTuple):
    """Files to read, and their rows of the table if there is one."""

    files: list[Path]
    ids: list[str]  # stems of the files, or their names where two stems are the same
    frame: pd.DataFrame | None  # a row a file
    columns: list[str]  # of the targets

    def encode(self, chosen: Sequence[int], task: Task | None, bad: BadRows) -> Targets | None:
        """Targets of the chosen files, or ``None`` where there are none."""
        if self.frame is None or not self.columns:
            return None
        where = [self.files[i].name for i in chosen]
        return encode_targets(
            self.frame.iloc[list(chosen)], self.columns, task, bad=bad, where=where
        )


def list_files(
    folder: str | Path,
    suffixes: Collection[str],
    *,
    table: str | Path | None = None,
    target: str | Sequence[str] | None = None,
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
        target: target column or columns; see :func:`legs.data.targets.find_targets`.
        id_column: the column that names the files, with or without suffix. Default: the column
            that names most of them.
        bad: is told of files without a row and the reverse; default: the first one raises.
    """
    bad = BadRows() if bad is None else bad
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    every = sorted(p for p in folder.iterdir() if p.is_file() and not _aside(p.name))
    found = _find_table(every, suffixes) if table is None else Path(table)
    files = [p for p in every if p.suffix.lower() in suffixes and not _same(p, found)]
    if not files:
        known = ", ".join(sorted(s for s in suffixes if s))
        raise DataError(f"{folder} holds no file with a known suffix ({known})")
    stems = [p.stem for p in files]
    ids = stems if len(set(stems)) == len(stems) else [p.name for p in files]
    if found is None:
        if target is not None:
            raise DataError(
                f"{folder} holds no label table to find the target {listed([target])} in; add "
                "labels.csv with a column of file names, or name the table"
            )
        return LabelledFiles(files, ids, None, [])
    frame = read_table(found)
    rows, name = _match(frame, found, files, id_column, bad)
    kept = [i for i in range(len(files)) if i in rows]
    return LabelledFiles(
        [files[i] for i in kept],
        [ids[i] for i in kept],
        frame.iloc[[rows[i] for i in kept]],
        find_targets(frame, target, other=[name]),
    )


def read_table(path: Path) -> pd.DataFrame:
    """A CSV, TSV or Parquet file; text files as text throughout, so that ``007`` stays ``007``."""
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
            return pd.read_csv(
                path, sep=separator, dtype=str, encoding="utf-8-sig", index_col=False
            )
    except DataError:
        raise
    # pandas and pyarrow have many ways to say that a file is broken.
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise DataError(f"{path.name} cannot be read as a table: {told}") from error


def _read_parquet(path: Path) -> pd.DataFrame:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        if file.metadata.num_rows > MOST_ROWS:
            raise DataError(f"{path.name} has more than {MOST_ROWS:,} rows")
        table = file.read()
    table.validate(full=True)  # text that is not UTF-8 would fail later, anywhere
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _match(
    frame: pd.DataFrame, table: Path, files: Sequence[Path], id_column: str | None, bad: BadRows
) -> tuple[dict[int, int], str]:
    """The row of each file, by the file's number, and the name of the column that names files."""
    known: dict[str, int] = {}
    for i, path in enumerate(files):
        # Two files of one stem: only the whole name tells them apart.
        known[path.stem] = -1 if path.stem in known else i
    known.update({path.name: i for i, path in enumerate(files)})

    def numbers(column: str) -> list[int]:
        named = [str(value).strip().replace("\\", "/") for value in pick_column(frame, column)]
        return [known.get(value.rpartition("/")[2], -1) for value in named]

    if id_column is None:
        columns = [str(column) for column in frame.columns]
        counts = [len({i for i in numbers(column) if i >= 0}) for column in columns]
        if not any(counts):
            raise DataError(
                f"no column of {table.name} ({listed(columns)}) names the files, such as "
                f"{files[0].name} or {files[0].stem}"
            )
        id_column = columns[counts.index(max(counts))]
    rows: dict[int, int] = {}
    for row, i in enumerate(numbers(id_column)):
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
        raise DataError(f"which is the label table: {listed(p.name for p in named)}? Name one")
    others = [p for p in every if p.suffix.lower() in suffixes and p not in tables]
    if not named and len(tables) == 1 and others:
        return tables[0]
    return named[0] if named else None


def _aside(name: str) -> bool:
    return name.startswith(".") or name.upper().split(".")[0] in ("README", "LICENSE", "LICENCE")


def _same(path: Path, table: Path | None) -> bool:
    return table is not None and table.exists() and path.samefile(table)
