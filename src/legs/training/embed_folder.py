"""Features of files of any length as a folder of Parquet files, on many cores or machines.

The input is cut into parts of equal size. A part is embedded by whatever worker an engine has, and
is a file that is there whole or not at all: a run that was killed goes on with those that miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from legs.data.errors import DataError, OnError
from legs.engine import Engine, LocalEngine
from legs.files import (
    FileError,
    check_digest,
    digest_of,
    one_writer,
    parse_json,
    with_digest,
    write_atomically,
)
from legs.training.checkpoint import check_settings, plain
from legs.training.embedding import CHUNK, Embedded, Embedder, distinct
from legs.training.partitions import Block, Known, part_file, read_known, write_part
from legs.training.raw_input import write_bad_rows
from legs.training.raw_parts import Rows, iter_rows, probe, read_rows

# Rows of a part: a hundred megabytes of scattering, a few seconds of work.
PART = 20_000
# Readers of Parquet folders pass over names that begin so.
SETTINGS, DONE, BAD = "_settings.json", "_done.json", "_bad_rows.csv"


class Task(NamedTuple):
    """A part to be made."""

    number: int
    first: int  # row
    rows: Rows
    digest: str


@dataclass(frozen=True)
class Shared:
    """What every part needs."""

    embedder: Embedder
    columns: list[str]
    folder: Path
    settings: str  # digest


def embed_folder(
    embedder: Embedder,
    path: str | Path,
    out: str | Path,
    *,
    engine: Engine | None = None,
    on_error: OnError = "raise",
    part: int = PART,
    report: Callable[[int], None] = lambda rows: None,
) -> Embedded:
    """Writes features of graphs into a folder of Parquet files, ``part-000000.parquet`` and so on.

    There is exactly one row for each row of the input, in its order: ``row`` (its number, from 0),
    ``id``, then a column a feature. Where a row cannot be used, its features are missing, and
    ``_bad_rows.csv`` says why. The same call goes on after an interruption; parts that are finished
    are not done again. Memory does not grow with the input, unless that is a folder of graphs or a
    named data set, which are read whole.

    Args:
        embedder: what turns graphs into features.
        path: a file, a folder or the name of a data set.
        out: the folder; made if need be.
        engine: does the parts (default: a process a core).
        on_error: ``"raise"`` (default) stops at the first bad row, and keeps the parts that are
            done; ``"skip"`` goes on.
        part: rows in a part.
        report: called with the number of rows done.
    """
    folder = Path(out).expanduser()
    with one_writer(folder):
        rows = iter_rows(embedder.reading, path, size=part, on_error=on_error)
        first = next(rows)
        columns = _columns(embedder, path, first)
        settings = plain(
            {
                "embedder": embedder.known,
                "features": embedder.reading.features,
                "reading": dict(embedder.reading.options),
                "input": Path(path).name,
                "part": part,
                "columns": columns,
            }
        )
        _keep_settings(folder, settings)
        # Workers may have been started elsewhere.
        shared = Shared(embedder, columns, folder.absolute(), digest_of(settings))
        plan = _Plan(shared, _chained(first, rows), report)
        for _, known in (engine or LocalEngine()).run(make_part, shared, plan):
            plan.note(known)
        return plan.finish(path, folder)


class _Plan:
    """The parts that miss, one by one while the input is read; and what is known of all parts."""

    def __init__(self, shared: Shared, rows: Iterator[Rows], report: Callable[[int], None]) -> None:
        self.shared, self.report = shared, report
        self.source = rows
        self.read = self.done = self.parts = 0
        self.bad: list[tuple[int, str, str]] = []

    def __iter__(self) -> Iterator[Task]:
        for number, rows in enumerate(self.source):
            task = Task(number, self.read, rows, rows.digest())
            self.read += len(rows)
            self.parts += 1
            file = part_file(self.shared.folder, number)
            known = read_known(file)
            if known is None:
                yield task
                continue
            wanted = Known(task.first, len(rows), task.digest, self.shared.settings, known.bad)
            if known != wanted:
                raise FileError(
                    f"{file} was made from other rows: the input has changed since. Choose another "
                    "folder, or delete this one to start anew"
                )
            self.note(known)

    def note(self, known: Known) -> None:
        """A part is there."""
        self.done += known.rows
        self.bad += known.bad
        self.report(self.done)

    def finish(self, path: str | Path, folder: Path) -> Embedded:
        """Looks whether all is there, and lists what could not be used."""
        wanted = {part_file(folder, number).name for number in range(self.parts)}
        found = {file.name for file in folder.glob("part-*.parquet")}
        if wanted != found or self.done != self.read:
            odd = ", ".join(sorted(wanted ^ found)[:3])
            raise FileError(
                f"{folder}: {self.done:,} of {self.read:,} rows are there; parts that miss or are "
                f"too many: {odd}. Delete what is too much, and run the same command again"
            )
        if len(self.bad) == self.done:
            raise DataError(f"{path} holds no row that can be used")
        bad_file = folder / BAD
        if self.bad:
            write_bad_rows(bad_file, [(where, why) for _, where, why in sorted(self.bad)])
        else:
            bad_file.unlink(missing_ok=True)
        facts = {"rows": self.done, "parts": self.parts, "bad_rows": len(self.bad)}
        write_atomically(folder / DONE, json.dumps(with_digest(facts), indent=1).encode())
        skipped = len(self.bad)
        return Embedded(self.done, len(self.shared.columns), skipped, bad_file if skipped else None)


def make_part(shared: Shared, task: Task) -> Known:
    """Embeds one part and writes its file; what an engine's workers do."""
    if not (shared.folder / SETTINGS).exists():
        raise FileError(
            f"{shared.folder} is not to be seen on every machine of the cluster; the output has to "
            "be on a disk that all of them share, under the same path"
        )
    known = Known(task.first, len(task.rows), task.digest, shared.settings)
    file = part_file(shared.folder, task.number)
    return write_part(file, shared.columns, known, _blocks(shared, task))


def _blocks(shared: Shared, task: Task) -> Iterator[Block]:
    first = task.first
    for piece in task.rows.pieces(CHUNK):
        part = read_rows(shared.embedder.reading, piece)
        features = np.empty((0, len(shared.columns)), dtype=np.float32)
        if part.data is not None:
            features = shared.embedder.features_of(part.data).float().numpy()
        places = zip(part.where, part.errors, strict=True)
        bad = [(first + row, w, why) for row, (w, why) in enumerate(places) if why]
        yield Block(part.ids, part.rows, features, bad)
        first += len(part.ids)


def _columns(embedder: Embedder, path: str | Path, first: Rows) -> list[str]:
    part = probe(embedder.reading, path) or read_rows(embedder.reading, first)
    if part.data is None:
        raise DataError(f"{path} holds no row that can be used")
    one = part.data[:1]
    return distinct(embedder.names_of(one.feature_names, embedder.features_of(one).shape[1]))


def _keep_settings(folder: Path, settings: dict[str, Any]) -> None:
    file = folder / SETTINGS
    if file.exists():
        check_settings(folder, check_digest(parse_json(file.read_bytes()), file), settings)
    elif any(folder.glob("part-*.parquet")):
        raise FileError(f"{folder} holds parts, but no {SETTINGS}; choose another folder")
    else:
        write_atomically(file, json.dumps(with_digest(settings), indent=1).encode())


def _chained(first: Rows, rest: Iterator[Rows]) -> Iterator[Rows]:
    yield first
    yield from rest
