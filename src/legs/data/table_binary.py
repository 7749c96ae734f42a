"""Tables that are no text: Parquet, and the structure-data files of chemistry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from legs.data.atom_table import require_rdkit
from legs.data.errors import BadRows, DataError
from legs.data.table_files import MOLECULE, TITLE, Chunk
from legs.data.table_text import open_binary

# A molecule takes a byte at least, unless there are few and they repeat.
FREE_ROWS, ROWS_A_BYTE = 1_000_000, 8


class ParquetTable:
    """A Parquet file; columns keep their types."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.path = path
        with parquet_errors(path):
            file = self._open()
            self._names = [str(name) for name in file.schema_arrow.names]
            rows, size = file.metadata.num_rows, path.stat().st_size
            if rows > FREE_ROWS and rows > ROWS_A_BYTE * size:
                raise DataError(
                    f"{path} has {size:,} bytes and {rows:,} rows: no honest table does, and it is "
                    "not read"
                )

    @property
    def columns(self) -> list[str]:
        """Names in the schema."""
        return self._names

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`."""
        start = 1
        with parquet_errors(self.path):
            for batch in self._open().iter_batches(batch_size=size, columns=list(columns)):
                batch.validate(full=True)  # text that is not UTF-8 would fail later, anywhere
                # Without the metadata: they turn a column that was an index into one again.
                frame = batch.to_pandas(ignore_metadata=True)
                yield Chunk(frame, list(range(start, start + batch.num_rows)))
                start += batch.num_rows

    def _open(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.path)


class SdfTable:
    """A structure-data file: molecules with properties."""

    unit = "record"

    def __init__(self, path: Path) -> None:
        require_rdkit()
        self.path = path
        names: dict[str, None] = {}
        # Records may have different properties: the first hundred stand for all.
        for _, properties in islice(self._records(), 100):
            names.update(dict.fromkeys(properties))
        self._names = [MOLECULE, *names]

    @property
    def columns(self) -> list[str]:
        """The molecule, its title, and the properties of the first hundred records."""
        return self._names

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`; molecules that cannot be read are ``None``."""
        records = enumerate(self._records(), start=1)
        while part := list(islice(records, size)):
            data = {
                name: pd.Series([properties.get(name) for _, (_, properties) in part], dtype=object)
                for name in columns
                if name != MOLECULE
            }
            data[MOLECULE] = pd.Series([binary for _, (binary, _) in part], dtype=object)
            yield Chunk(pd.DataFrame(data), [number for number, _ in part])

    def _records(self) -> Iterator[tuple[bytes | None, dict[str, str]]]:
        from rdkit import Chem, rdBase

        with open_binary(self.path) as file:
            supplier = Chem.ForwardSDMolSupplier(file, removeHs=False)
            while True:
                try:
                    # Not around the yield: the log is the caller's meanwhile.
                    with rdBase.BlockLogs():
                        mol = next(supplier)
                except StopIteration:
                    return
                except Exception as error:
                    raise DataError(f"{self.path} cannot be read: {error}") from error
                if mol is None:
                    yield None, {}
                    continue
                yield mol.ToBinary(), _properties(mol)


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Turns what pyarrow and pandas raise about a broken file into one kind of error."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path} is not a Parquet file that can be read: {error}") from error


def _properties(mol: Any) -> dict[str, str]:
    """Title and properties of a molecule; names that are not UTF-8 are passed over."""
    names = mol.GetPropNames()
    title = _decoded(partial(mol.GetProp, "_Name")).strip()
    found = {TITLE: title} if title else {}
    for i in range(len(names)):
        name = _decoded(partial(names.__getitem__, i))
        if name.strip():
            found[name.strip()] = _decoded(partial(mol.GetProp, name)).strip()
    return found


def _decoded(get: Callable[[], str]) -> str:
    try:
        return get()
    except (UnicodeDecodeError, KeyError):  # a name with a zero byte is a key that is not found
        return ""
