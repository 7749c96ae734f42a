"""Tables that are written part by part and appear whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Self

import pandas as pd

from legs.data.errors import BAD_COLUMNS, DataError, OnError, is_bad_rows
from legs.io import check_outputs, csv_table, expand_user, open_temporary, writing

ENDINGS = (".csv", ".tsv", ".parquet")
# Parquet keeps a description of every column of every group until the end: groups must be large.
GROUP_BYTES = 64 * 2**20


class TableWriter:
    """Writes a CSV, TSV or Parquet file (by its ending), part by part; an older one is replaced.

    The file is written under another name and renamed at the end of the ``with`` block; after an
    error there is none. ``options`` are those of :class:`pyarrow.parquet.ParquetWriter`.
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path = expand_user(path)
        self.ending = self.path.suffix.lower()
        if self.ending not in ENDINGS:
            raise DataError(f"{self.path}: an output file ends in {', '.join(ENDINGS)}")
        if self.path.is_dir():
            raise DataError(f"{self.path} is a folder; name a file")
        if not self.path.parent.is_dir():
            raise DataError(f"{self.path.parent} is not a folder; make it first")
        self.rows = 0
        self._options = options
        self._parquet: Any = None
        self._schema: Any = None  # of the first part
        self._waiting: list[Any] = []

    def __enter__(self) -> Self:
        with writing(self.path):
            self._temporary = open_temporary(self.path)
        self._file: IO[bytes] = self._temporary.file
        return self

    def add(self, part: pd.DataFrame) -> None:
        """Writes some rows; every part has the same columns."""
        import pyarrow as pa

        with writing(self.path):
            if self.ending != ".parquet":
                separator = "\t" if self.ending == ".tsv" else ","
                self._file.write(csv_table(part, separator, header=not self.rows).encode())
            else:
                table = pa.Table.from_pandas(part, schema=self._schema, preserve_index=False)
                self._schema = table.schema
                self._waiting.append(table)
                if sum(table.nbytes for table in self._waiting) >= GROUP_BYTES:
                    self._flush()
        self.rows += len(part)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        try:
            if kind is None:
                with writing(self.path):
                    self._flush()
                    if self._parquet is not None:
                        self._parquet.close()
                    self._temporary.flush()
                    self._temporary.put_in_place(self.path)
        finally:
            with suppress(OSError):  # a full disk has been reported already
                if self._parquet is not None:
                    self._parquet.close()  # before the file: it would be written to once more
                self._file.close()
            self._temporary.drop()

    def _flush(self) -> None:
        """Writes the parts that wait for a large group of rows."""
        import pyarrow as pa
        from pyarrow import parquet

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._parquet is None:
            # Dictionaries of numbers that hardly repeat cost memory and save nothing.
            options = {"use_dictionary": False, "write_statistics": False, **self._options}
            self._parquet = parquet.ParquetWriter(
                self._file, table.schema, compression="zstd", **options
            )
        self._parquet.write_table(table, row_group_size=max(len(table), 1))


class ResultWriter(ExitStack):
    """A table of results, and with ``"skip"`` ``OUT.bad_rows.csv`` of rows that cannot be used.

    Neither may replace the input (``source``), nor the list a file that is no such list.
    """

    def __init__(self, out: str | Path, source: str | Path, on_error: OnError) -> None:
        super().__init__()
        self.table = TableWriter(out)
        out = self.table.path
        self.bad_file: Path | None = None
        self.skipped = 0
        self._list = out.with_name(f"{out.stem}.bad_rows.csv")
        lists = [self._list] if on_error == "skip" else []
        check_outputs([out, *lists], [source])
        if lists and self._list.exists() and not is_bad_rows(self._list):
            raise DataError(f"{self._list} is no list of bad rows; move it, or rename {out}")

    def __enter__(self) -> Self:
        self.enter_context(self.table)
        return self

    def add_bad(self, rows: Sequence[tuple[str, str]]) -> None:
        """Lists rows that cannot be used: where, reason."""
        if not rows:
            return
        if self.bad_file is None:
            self.bad_file = self._list
            self._bad = self.enter_context(TableWriter(self._list))
        self._bad.add(pd.DataFrame(rows, columns=list(BAD_COLUMNS), dtype="string"))
        self.skipped += len(rows)
