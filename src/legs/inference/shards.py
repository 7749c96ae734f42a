"""Features of files of any length as a folder of Parquet files, on many cores or machines.

The input is cut into parts of equal size. A part is embedded by whatever worker an engine has, and
is a file that is there whole or not at all; its checksum is added to a list once it is finished. A
run that was killed resumes with the parts that are missing, damaged or not on the list.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from legs.data.errors import DataError, OnError, write_bad_rows
from legs.engine import Engine, LocalEngine
from legs.inference.embed import CHUNK, Embedded, Embedder, distinct
from legs.inference.inputs import Batch, InputPart, finite_part, iter_batches, read_batch
from legs.inference.table_writer import TableWriter
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

# Rows of a part: a hundred megabytes of scattering, a few seconds of work.
PART = 20_000
# Readers of Parquet folders pass over names that begin so.
SETTINGS, DONE, BAD = "_settings.json", "_done.json", "_bad_rows.csv"
PARTS, ALL = "_parts.jsonl", "part-*.parquet"
_KEY = b"legs"  # of the header, in the footer of a Parquet file
_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class PartHeader:
    """What a part records about itself."""

    first: int  # number of its first row in the input, from 0
    rows: int  # of the input in it, including those that cannot be used
    source: str  # digest of these rows in the input
    settings: str  # digest of how they were embedded
    bad: tuple[tuple[int, str, str], ...] = ()  # number in the input, place and reason of each


class Task(NamedTuple):
    """A part to be made."""

    number: int
    rows: Batch
    header: PartHeader


class Shared(NamedTuple):
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
    ``id``, then a column per feature. Where a row cannot be used, its features are missing, and
    ``_bad_rows.csv`` says why. The same call resumes after an interruption; parts that are finished
    are not computed again unless they are damaged (a :class:`~legs.io.FileWarning`). Memory does
    not grow with the input, unless that is a folder of graphs or a named data set, which are read
    whole.

    Args:
        embedder: what turns graphs into features.
        path: a file, a folder or the name of a data set.
        out: the folder; made if need be. One that holds other files is refused.
        engine: makes the parts (default: a process per core).
        on_error: ``"raise"`` (default) stops at the first bad row, and keeps the parts that are
            done; ``"skip"`` continues.
        part: rows in a part.
        report: called with the number of rows done.
    """
    folder = expand_user(out)
    check_outputs([folder], [path])
    with one_writer(folder, _is_ours):
        batches = iter_batches(embedder.reading, path, chunk=part, on_error=on_error)
        columns, batches = _columns(embedder, path, batches)
        settings = plain(
            {
                "embedder": embedder.identity,
                "features": embedder.reading.features,
                "reading": dict(embedder.reading.options),
                "input": Path(path).name,
                "part": part,
                "columns": columns,
            }
        )
        _check_settings(folder, settings)
        # Workers may have been started elsewhere.
        shared = Shared(embedder, columns, folder.absolute(), digest_of(settings), on_error)
        plan = _Plan(shared, batches, report)
        for _, made in (engine or LocalEngine()).run(make_part, shared, plan):
            plan.add(*made)
        return plan.finish(path, folder)


def make_part(shared: Shared, task: Task) -> tuple[str, PartHeader, str]:
    """Embeds one part and writes its file, on a worker; returns name, header and checksum."""
    if not (shared.folder / SETTINGS).exists():
        raise FileError(
            f"{shared.folder} is not to be seen on every machine of the cluster; the output has to "
            "be on a disk that all of them share, under the same path"
        )
    pieces = (read_batch(shared.embedder.reading, p) for p in task.rows.pieces(CHUNK))
    blocks = (finite_part(p, shared.embedder.features_of, shared.on_error) for p in pieces)
    file = part_file(shared.folder, task.number)
    header = write_part(file, shared.columns, task.header, blocks)
    return file.name, header, file_digest(file)


def part_file(folder: Path, number: int) -> Path:
    """Where a part is.

    >>> part_file(Path("out"), 12).name
    'part-000012.parquet'
    """
    return folder / f"part-{number:06d}.parquet"


def write_part(
    path: Path,
    columns: Sequence[str],
    header: PartHeader,
    blocks: Iterable[tuple[InputPart, Tensor | None]],
) -> PartHeader:
    """Writes a part, all of it or nothing; returns its header, to which bad rows are added.

    ``blocks`` are rows of the input in order, and the features of those that can be used.
    """
    bad: list[tuple[int, str, str]] = []
    with TableWriter(path, write_statistics=["row"], write_page_checksum=True) as writer:
        for part, features in blocks:
            first = header.first + writer.rows
            places = enumerate(zip(part.where, part.errors, strict=True), first)
            bad += [(row, where, why) for row, (where, why) in places if why]
            writer.add(_table(part, features, columns, first))
        if writer.rows != header.rows:
            raise AssertionError(f"{path}: {writer.rows} rows, not {header.rows}")
        header = replace(header, bad=tuple(bad))
        writer.metadata[_KEY] = json.dumps(asdict(header)).encode()
    return header


def _table(part: InputPart, features: Tensor | None, columns: Sequence[str], first: int) -> Any:
    import pyarrow as pa

    count, missing = len(part), None
    values = np.empty((0, len(columns)), np.float32)
    if features is not None:
        values = np.asfortranarray(features.float().numpy())  # written by column
    if len(part.index) < count:
        whole = np.zeros((count, len(columns)), np.float32, order="F")
        whole[part.index] = values
        values, missing = whole, ~np.isin(np.arange(count), part.index)
    numbers, ids = pa.array(np.arange(first, first + count)), pa.array(part.ids, pa.string())
    features_ = (pa.array(values[:, k], pa.float32(), mask=missing) for k in range(len(columns)))
    return pa.Table.from_arrays([numbers, ids, *features_], names=["row", "id", *columns])


def read_header(path: Path, *, pages: bool = False) -> PartHeader | None:
    """What a part records about itself, or ``None`` if there is none.

    With ``pages``, also reads its rows, and verifies the checksums that Parquet keeps of them.
    """
    from pyarrow import ArrowException, parquet

    if not path.exists():
        return None
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            record = parse_json((file.metadata.metadata or {})[_KEY])
            bad = tuple((int(row), str(where), str(why)) for row, where, why in record.pop("bad"))
            header = PartHeader(**record, bad=bad)
            if file.metadata.num_rows != header.rows:
                raise ValueError(f"{file.metadata.num_rows} rows, not {header.rows}")
            for _ in file.iter_batches() if pages else ():
                pass
        return header
    # Its text may be of any kind: a number has no `pop`, an infinite one is no row.
    except (ArrowException, OSError, *_WRONG) as error:
        reason = " ".join(str(error).split())[:160]
        raise FileError(f"{path} is damaged: {reason}; delete it to compute it again") from error


class _Plan:
    """Lists the missing parts while the input is read, and keeps account of all parts.

    Checksums of finished parts are lines of ``_parts.jsonl``. A part without one, or whose line is
    damaged, is computed again.
    """

    def __init__(
        self, shared: Shared, batches: Iterator[Batch], report: Callable[[int], None]
    ) -> None:
        self.shared, self.batches, self.report = shared, batches, report
        self.read = self.done = 0
        self.expected: set[str] = set()
        self.bad: list[tuple[int, str, str]] = []
        self.digests: dict[str, str] = {}
        self.log = shared.folder / PARTS
        self.legacy = not self.log.exists()  # version 0.1.0 kept no checksums
        if self.legacy:
            write_atomically(self.log, b"")
            if any(shared.folder.glob(ALL)):
                warnings.warn(
                    f"{shared.folder} was begun by an earlier version, which kept no checksums of "
                    "its parts; they are used, but damage to them may go unnoticed",
                    FileWarning,
                    stacklevel=2,
                )
        content = read_file(self.log)
        if content and not content.endswith(b"\n"):
            append(self.log, "\n")
        for line in content.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                row = parse_json(line)
                self.digests[str(row["part"])] = str(row["sha256"])

    def __iter__(self) -> Iterator[Task]:
        for number, rows in enumerate(self.batches):
            header = PartHeader(self.read, len(rows), rows.digest(), self.shared.settings)
            self.read += len(rows)
            file = part_file(self.shared.folder, number)
            self.expected.add(file.name)
            finished = self._finished(file, header)
            if finished is None:
                yield Task(number, rows, header)
            else:
                self.add(file.name, finished)

    def _finished(self, file: Path, expected: PartHeader) -> PartHeader | None:
        """The header of a part that is there, whole and of the same rows."""
        digest = self.digests.get(file.name)
        if digest is not None and file.is_file() and file_digest(file) != digest:
            warnings.warn(
                f"{file} is damaged: its checksum is wrong; it is computed again",
                FileWarning,
                stacklevel=3,
            )
            return None
        header = read_header(file, pages=self.legacy)
        if header is not None and replace(header, bad=()) != expected:
            raise FileError(
                f"{file} was made from other rows: the input has changed since. Choose another "
                "folder, or delete this one to start again"
            )
        # Without a checksum, it was stopped before that was recorded.
        return header if digest is not None or self.legacy else None

    def add(self, part: str, header: PartHeader, digest: str | None = None) -> None:
        """Counts a part that is there, and records its checksum if that is new."""
        if digest is None and self.legacy:
            digest = file_digest(self.shared.folder / part)
        if digest is not None:
            append(self.log, json.dumps({"part": part, "sha256": digest}) + "\n")
        self.done += header.rows
        self.bad += header.bad
        self.report(self.done)

    def finish(self, path: str | Path, folder: Path) -> Embedded:
        """Checks that all parts are there, and lists the rows that could not be used."""
        odd = sorted(self.expected ^ {file.name for file in folder.glob(ALL)})
        if odd or self.done != self.read:
            raise FileError(
                f"{folder}: {self.done:,} of {self.read:,} rows are there; parts that miss or are "
                f"too many: {', '.join(odd[:3])}. Delete what is too much, and run the same "
                "command again"
            )
        skipped, bad_file = len(self.bad), folder / BAD
        if skipped == self.done:
            raise DataError(f"{path} holds no row that can be used")
        if skipped:
            write_bad_rows(bad_file, [(where, why) for _, where, why in sorted(self.bad)])
        else:
            bad_file.unlink(missing_ok=True)
        facts = {"rows": self.done, "parts": len(self.expected), "bad_rows": skipped}
        write_atomically(folder / DONE, json.dumps(with_digest(facts), indent=1).encode())
        return Embedded(self.done, len(self.shared.columns), skipped, bad_file if skipped else None)


def _columns(
    embedder: Embedder, path: str | Path, batches: Iterator[Batch]
) -> tuple[list[str], Iterator[Batch]]:
    """Names of the features, from the first graph there is; and all batches again."""
    passed: list[Batch] = []
    for batch in batches:
        passed.append(batch)
        for piece in batch.pieces(64):
            data = read_batch(embedder.reading, piece).data
            if data is not None:
                width = embedder.features_of(data[:1]).shape[1]
                names = distinct(embedder.names_of(data.feature_names, width))
                return names, chain(passed, batches)
    raise DataError(f"{path} holds no row that can be used")


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Compares the settings with those the folder was begun with, or records them."""
    file = folder / SETTINGS
    if file.exists():
        advice = "choose another folder"
        try:
            recorded = parse_json(read_file(file))
        except ValueError as error:
            raise FileError(f"{file} is damaged: {error}; {advice}") from error
        check_settings(folder, check_digest(recorded, file, advice), settings)
    elif any(folder.glob(ALL)):
        raise FileError(f"{folder} holds parts, but no {SETTINGS}; choose another folder")
    else:
        # First the list: a folder with settings but without it is of 0.1.0.
        if not (folder / PARTS).exists():
            write_atomically(folder / PARTS, b"")
        write_atomically(file, json.dumps(with_digest(settings), indent=1).encode())


def _is_ours(folder: Path) -> bool:
    return (
        has_keys(folder / SETTINGS, ("embedder", "reading", "part", "columns"))
        or any(folder.glob(ALL))  # these are checked one by one
        or contents(folder) == [folder / PARTS]  # killed before the settings were written
    )
