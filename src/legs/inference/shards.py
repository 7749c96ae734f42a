"""Features of files of any length as a folder of Parquet files, on many cores or machines.

The input is cut into parts of equal size. A part is embedded by whatever worker an engine has, and
is a file that is there whole or not at all; its checksum is added to a list once it is finished. A
run that was killed resumes with the parts that are missing, damaged or not on the list.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from legs.data.errors import DataError, OnError, write_bad_rows
from legs.engine import Engine, LocalEngine
from legs.inference.embed import CHUNK, Embedded, Embedder, distinct
from legs.inference.inputs import Batch, finite_part, iter_batches, probe, read_batch
from legs.inference.parts import (
    Block,
    Known,
    check_pages,
    part_file,
    read_known,
    write_part,
)
from legs.io import (
    FileError,
    FileWarning,
    append,
    check_digest,
    check_outputs,
    contents,
    digest_of,
    expand_user,
    file_digest,
    has_keys,
    one_writer,
    parse_json,
    read_file,
    with_digest,
    write_atomically,
)
from legs.training.checkpoint import check_settings, plain

# Batch of a part: a hundred megabytes of scattering, a few seconds of work.
PART = 20_000
# Readers of Parquet folders pass over names that begin so.
SETTINGS, DONE, BAD = "_settings.json", "_done.json", "_bad_rows.csv"
PARTS = "_parts.jsonl"


class Task(NamedTuple):
    """A part to be made."""

    number: int
    first: int  # row
    rows: Batch
    digest: str


class Made(NamedTuple):
    """A part that is finished."""

    name: str  # of its file
    known: Known
    digest: str  # of its file


@dataclass(frozen=True)
class Shared:
    """What every part needs."""

    embedder: Embedder
    columns: list[str]
    folder: Path
    settings: str  # digest
    on_error: OnError = "raise"


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
    ``_bad_rows.csv`` says why. The same call resumes after an interruption; parts that are finished
    are not computed again unless they are damaged (a :class:`~legs.io.FileWarning`). Memory does
    not grow with the input, unless that is a folder of graphs or a named data set, which are read
    whole.

    Args:
        embedder: what turns graphs into features.
        path: a file, a folder or the name of a data set.
        out: the folder; made if need be. One that holds other files is refused.
        engine: does the parts (default: a process a core).
        on_error: ``"raise"`` (default) stops at the first bad row, and keeps the parts that are
            done; ``"skip"`` goes on.
        part: rows in a part.
        report: called with the number of rows done.
    """
    folder = expand_user(out)
    check_outputs([folder], [path])
    with one_writer(folder, _is_ours):
        rows = iter_batches(embedder.reading, path, chunk=part, on_error=on_error)
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
        shared = Shared(embedder, columns, folder.absolute(), digest_of(settings), on_error)
        plan = _Plan(shared, _chained(first, rows), report)
        for _, made in (engine or LocalEngine()).run(make_part, shared, plan):
            plan.digests.add(made.name, made.digest)
            plan.note(made.known)
        return plan.finish(path, folder)


class _Digests:
    """Checksums of the finished parts in a folder, a line of ``_parts.jsonl`` per part.

    A line that is damaged vouches for nothing: its part is computed again.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / PARTS
        self.by_name: dict[str, str] = {}
        # Folders of version 0.1.0 have no such list.
        self.legacy = not self.file.exists()
        if self.legacy:
            write_atomically(self.file, b"")
        content = read_file(self.file)
        if content and not content.endswith(b"\n"):
            append(self.file, "\n")
        for line in content.splitlines():
            try:
                row = parse_json(line)
                self.by_name[str(row["part"])] = str(row["sha256"])
            except (ValueError, KeyError, TypeError):
                continue

    def add(self, part: str, digest: str) -> None:
        """Records a finished part."""
        append(self.file, json.dumps({"part": part, "sha256": digest}) + "\n")


class _Plan:
    """The parts that miss, one by one while the input is read; and what is known of all parts."""

    def __init__(
        self, shared: Shared, rows: Iterator[Batch], report: Callable[[int], None]
    ) -> None:
        self.shared, self.report = shared, report
        self.digests = _Digests(shared.folder)
        if self.digests.legacy and any(shared.folder.glob("part-*.parquet")):
            warnings.warn(
                f"{shared.folder} was begun by an earlier version, which kept no checksums of its "
                "parts; they are used, but damage to them may go unnoticed",
                FileWarning,
                stacklevel=2,
            )
        self.source = rows
        self.read = self.done = self.parts = 0
        self.bad: list[tuple[int, str, str]] = []

    def __iter__(self) -> Iterator[Task]:
        for number, rows in enumerate(self.source):
            task = Task(number, self.read, rows, rows.digest())
            self.read += len(rows)
            self.parts += 1
            file = part_file(self.shared.folder, number)
            digest = self.digests.by_name.get(file.name)
            if digest is not None and file.is_file() and file_digest(file) != digest:
                warnings.warn(
                    f"{file} is damaged: its checksum is wrong; it is computed again",
                    FileWarning,
                    stacklevel=2,
                )
                yield task
                continue
            known = read_known(file)
            if known is None:
                yield task
                continue
            wanted = Known(task.first, len(rows), task.digest, self.shared.settings, known.bad)
            if known != wanted:
                raise FileError(
                    f"{file} was made from other rows: the input has changed since. Choose another "
                    "folder, or delete this one to start again"
                )
            if self.digests.legacy:
                check_pages(file)
                self.digests.add(file.name, file_digest(file))
            elif digest is None:  # stopped before it was recorded
                yield task
                continue
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


def make_part(shared: Shared, task: Task) -> Made:
    """Embeds one part and writes its file; what an engine's workers do."""
    if not (shared.folder / SETTINGS).exists():
        raise FileError(
            f"{shared.folder} is not to be seen on every machine of the cluster; the output has to "
            "be on a disk that all of them share, under the same path"
        )
    known = Known(task.first, len(task.rows), task.digest, shared.settings)
    file = part_file(shared.folder, task.number)
    known = write_part(file, shared.columns, known, _blocks(shared, task))
    return Made(file.name, known, file_digest(file))


def _blocks(shared: Shared, task: Task) -> Iterator[Block]:
    first = task.first
    for piece in task.rows.pieces(CHUNK):
        part = read_batch(shared.embedder.reading, piece)
        part, found = finite_part(part, shared.embedder.features_of, shared.on_error)
        features = np.empty((0, len(shared.columns)), dtype=np.float32)
        if found is not None:
            features = found.float().numpy()
        places = zip(part.where, part.errors, strict=True)
        bad = [(first + row, w, why) for row, (w, why) in enumerate(places) if why]
        yield Block(part.ids, part.rows, features, bad)
        first += len(part.ids)


def _columns(embedder: Embedder, path: str | Path, first: Batch) -> list[str]:
    part = probe(embedder.reading, path) or read_batch(embedder.reading, first)
    if part.data is None:
        raise DataError(f"{path} holds no row that can be used")
    one = part.data[:1]
    return distinct(embedder.names_of(one.feature_names, embedder.features_of(one).shape[1]))


def _keep_settings(folder: Path, settings: dict[str, Any]) -> None:
    file = folder / SETTINGS
    if file.exists():
        advice = "choose another folder"
        try:
            known = parse_json(read_file(file))
        except ValueError as error:
            raise FileError(f"{file} is damaged: {error}; {advice}") from error
        check_settings(folder, check_digest(known, file, advice), settings)
    elif any(folder.glob("part-*.parquet")):
        raise FileError(f"{folder} holds parts, but no {SETTINGS}; choose another folder")
    else:
        _Digests(folder)  # before the settings: a folder with settings but no list is of 0.1.0
        write_atomically(file, json.dumps(with_digest(settings), indent=1).encode())


def _is_ours(folder: Path) -> bool:
    made = has_keys(folder / SETTINGS, ("embedder", "reading", "part", "columns"))
    return (
        made
        or any(folder.glob("part-*.parquet"))  # these are checked one by one
        or contents(folder) == [folder / PARTS]  # killed before the settings were written
    )


def _chained(first: Batch, rest: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from rest
