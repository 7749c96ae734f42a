"""Tables that are written part by part and appear whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from legs.data.errors import DataError
from legs.io import csv_table, expand_user, open_temporary, writing

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".tsv", ".parquet")
# Parquet keeps a description of every column of every group until the end: groups must be large.
GROUP_BYTES = 64 * 2**20


class TableWriter:
    """Writes a CSV, TSV or Parquet file (by its ending), part by part.

    The file is written under another name and renamed at the end of the ``with`` block; after an
    error there is none.

    Args:
        path: of the file; an older one is replaced.

    >>> import pandas as pd, tempfile
    >>> file = Path(tempfile.mkdtemp(), "table.csv")
    >>> with TableWriter(file) as writer:
    ...     writer.add(pd.DataFrame({"a": [1]}))
    ...     writer.add(pd.DataFrame({"a": [2]}))
    >>> file.read_text().split()
    ['a', '1', '2']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = expand_user(path)
        self.ending = self.path.suffix.lower()
        if self.ending not in ENDINGS:
            raise DataError(f"{self.path}: an output file ends in {', '.join(ENDINGS)}")
        if self.path.is_dir():
            raise DataError(f"{self.path} is a folder; name a file")
        if not self.path.parent.is_dir():
            raise DataError(f"{self.path.parent} is not a folder; make it first")
        self.rows = 0
        self._parquet: Any = None
        self._waiting: list[Any] = []

    def __enter__(self) -> TableWriter:
        with writing(self.path):
            self._temporary = open_temporary(self.path)
        self._file: IO[bytes] = self._temporary.file
        return self

    def add(self, part: pd.DataFrame) -> None:
        """Writes some rows; every part has the same columns."""
        with writing(self.path):
            if self.ending == ".parquet":
                self._add_parquet(part)
            else:
                separator = "\t" if self.ending == ".tsv" else ","
                text = csv_table(part, separator, header=not self.rows)
                self._file.write(text.encode())
        self.rows += len(part)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                with writing(self.path):
                    self._finish()
        finally:
            with suppress(OSError):  # a full disk has been reported already
                self._file.close()
            self._temporary.drop()

    def _finish(self) -> None:
        if self.ending == ".parquet":
            self._flush()
            if self._parquet is not None:
                self._parquet.close()
        self._temporary.flush()
        self._temporary.put_in_place(self.path)

    def _add_parquet(self, part: pd.DataFrame) -> None:
        import pyarrow as pa

        schema = self._waiting[0].schema if self._waiting else None
        if self._parquet is not None:
            schema = self._parquet.schema
        self._waiting.append(pa.Table.from_pandas(part, schema=schema, preserve_index=False))
        if sum(table.nbytes for table in self._waiting) >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(
                self._file,
                table.schema,
                compression="zstd",
                # Dictionaries of numbers that hardly repeat cost memory and save nothing.
                use_dictionary=False,
                write_statistics=False,
            )
        self._parquet.write_table(table, row_group_size=max(len(table), 1))
