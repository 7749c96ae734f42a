"""Parts of a table on disk: Parquet files that know which rows of which input they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from legs.inference.table_writer import GROUP_BYTES
from legs.io import FileError, open_temporary, parse_json, writing

WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_KEY = b"legs"  # of what a file knows about itself, in its footer


@dataclass(frozen=True)
class Known:
    """What a part knows about itself.

    Args:
        first: number of its first row in the input, from 0.
        rows: of the input in it, those that cannot be used among them.
        source: digest of these rows in the input.
        settings: digest of how they were embedded.
        bad: number in the input, place and reason of each row that could not be used.
    """

    first: int
    rows: int
    source: str
    settings: str
    bad: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True)
class Block:
    """Some rows of a part.

    Args:
        ids: per row.
        rows: those with features.
        features: of these, ``[len(rows), columns]``.
        bad: the others, as in :class:`Known`.
    """

    ids: Sequence[str]
    rows: Sequence[int]
    features: npt.NDArray[np.float32]
    bad: Sequence[tuple[int, str, str]] = ()


def part_file(folder: Path, number: int) -> Path:
    """Where a part is.

    >>> part_file(Path("out"), 12).name
    'part-000012.parquet'
    """
    return folder / f"part-{number:06d}.parquet"


def write_part(path: Path, columns: Sequence[str], known: Known, blocks: Iterable[Block]) -> Known:
    """Writes a part, all of it or nothing.

    Columns: ``row`` (number in the input, from 0), ``id``, then the features, which are missing in
    rows that cannot be used.

    Args:
        path: of the file; one that is there is replaced.
        columns: names of the features.
        known: what it is to know about itself; ``bad`` is taken from the blocks.
        blocks: the rows, in order.

    Returns:
        What it knows about itself.
    """
    import pyarrow as pa
    from pyarrow import parquet

    types = [("row", pa.int64()), ("id", pa.string()), *((name, pa.float32()) for name in columns)]
    schema = pa.schema(types)
    with writing(path):
        temporary = open_temporary(path)
    writer: Any = None
    try:
        with writing(path):
            writer = parquet.ParquetWriter(
                temporary.file,
                schema,
                compression="zstd",
                # Dictionaries of numbers that hardly repeat cost memory and save nothing.
                use_dictionary=False,
                write_statistics=["row"],
                write_page_checksum=True,
            )
        waiting: list[Any] = []
        bad: list[tuple[int, str, str]] = []
        first = known.first
        for block in blocks:
            waiting.append(_table(schema, block, first))
            first += len(block.ids)
            bad += block.bad
            if sum(table.nbytes for table in waiting) >= GROUP_BYTES:
                _flush(path, writer, waiting)
        _flush(path, writer, waiting)
        if first != known.first + known.rows:
            raise AssertionError(f"{path}: {first - known.first} rows, not {known.rows}")
        known = replace(known, bad=tuple(bad))
        with writing(path):
            writer.add_key_value_metadata({_KEY: json.dumps(asdict(known)).encode()})
            writer.close()
            writer = None
            temporary.flush()
            temporary.put_in_place(path)
        return known
    finally:
        if writer is not None:
            with suppress(OSError):  # of a full disk, about what is dropped
                writer.close()  # before the file: it would be written to once more
        temporary.drop()


def read_known(path: Path) -> Known | None:
    """What a part knows about itself, or ``None`` if there is none; its rows are not read.

    Raises:
        FileError: the file is damaged, or another program's.
    """
    from pyarrow import ArrowException, parquet

    if not path.exists():
        return None
    try:
        footer = parquet.read_metadata(path)
        known = parse_json((footer.metadata or {})[_KEY])
        bad = tuple((int(row), str(where), str(why)) for row, where, why in known.pop("bad"))
        found = Known(**known, bad=bad)
        if footer.num_rows != found.rows:
            raise ValueError(f"{footer.num_rows} rows, not {found.rows}")
        return found
    # Its text may be of any kind: a number has no `pop`, an infinite one is no row.
    except (ArrowException, OSError, *WRONG) as error:
        raise _damaged(path, error) from error


def check_pages(path: Path) -> None:
    """Reads a whole part and verifies the checksums that Parquet keeps of its pages.

    Raises:
        FileError: the file is damaged.
    """
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except (ArrowException, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> FileError:
    reason = " ".join(str(error).split())[:160]
    return FileError(f"{path} is damaged: {reason}; delete it to compute it again")


def _table(schema: Any, block: Block, first: int) -> Any:
    import pyarrow as pa

    count = len(block.ids)
    values = np.asfortranarray(block.features)  # columns are what is written
    missing = None
    if len(block.rows) < count:
        whole = np.zeros((count, values.shape[1]), np.float32, order="F")
        whole[np.asarray(block.rows, dtype=np.int64)] = values
        values, missing = whole, np.ones(count, dtype=bool)
        missing[np.asarray(block.rows, dtype=np.int64)] = False
    arrays = [
        pa.array(np.arange(first, first + count)),
        pa.array(list(block.ids), pa.string()),
        *(pa.array(values[:, k], pa.float32(), mask=missing) for k in range(values.shape[1])),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _flush(path: Path, writer: Any, waiting: list[Any]) -> None:
    import pyarrow as pa

    if not waiting:
        return
    table = pa.concat_tables(waiting)
    waiting.clear()
    with writing(path):
        writer.write_table(table, row_group_size=max(len(table), 1))
