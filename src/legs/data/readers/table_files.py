"""Tables on disk: CSV, SMILES, Parquet and SDF. Columns first, then rows in chunks."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from legs.data.errors import BadRows, DataError
from legs.data.features.atom_table import MANY_RINGS, require_rdkit, ring_fault
from legs.data.readers.text import Row, delimiter_of, is_text, lines, open_binary, rows, words
from legs.io import plain_cell

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".smi", ".smiles", ".txt", ".sdf", ".sd")
MOLECULE = "(molecule)"  # the column that holds the molecules of an SDF, in RDKit's binary form
TITLE = "(title)"  # the first line of an SDF record
MOST_RECORD_BYTES = 64 << 20  # of an SDF
# A molecule takes a byte at least, unless there are few and they repeat.
FREE_ROWS, ROWS_PER_BYTE = 1_000_000, 8
# Decoded text, in bytes and relative to the file: a value that repeats is stored once.
FREE, RATIO = 64 << 20, 50
_BATCH = 50_000
_SDF_BYTES = 1 << 18  # of records parsed together


class Chunk(NamedTuple):
    """Some rows of a table."""

    frame: pd.DataFrame
    numbers: list[int]  # line, row or record of each row, from 1


class Table(Protocol):
    """A table that can be read several times, in chunks."""

    path: Path
    unit: str  # what a number counts: "line", "row", "record"
    columns: list[str]

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """Rows in chunks of at most ``size``, with the given columns only."""


def open_table(path: Path) -> Table:
    """Opens a table of the kind that its suffix says (``.gz`` may follow it)."""
    require_pandas()
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: what is this? Known endings: {' '.join(SUFFIXES)} (also .gz)")
    open_binary(path).close()
    if suffix in (".parquet", ".pq"):
        return ParquetTable(path)
    if suffix in (".sdf", ".sd"):
        return SdfTable(path)
    if suffix in (".smi", ".smiles") or (suffix == ".txt" and not _has_header(path)):
        return SmilesLines(path)
    return TextTable(path)


def require_pandas() -> None:
    """Raises :class:`DataError` with the remedy where pandas or pyarrow is not installed."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"tables need pandas and pyarrow: pip install 'torch-legs[cli]' ({error})"
        ) from error


def _has_header(path: Path) -> bool:
    """Whether the first line of a text file names columns, one of them of SMILES."""
    first = next((line for line in lines(path) if line.strip()), "").lower()
    return "smiles" in first and any(mark in first for mark in ",;\t")


class TextTable:
    """A delimited file with a header; all values are text."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delimiter = delimiter_of(path)
        header = next(rows(path, self.delimiter, BadRows()), None)
        if header is None:
            raise DataError(f"{path} is empty")
        if not all(is_text(name) for name in header.fields):
            raise DataError(
                f"{path} line {header.line} is not UTF-8 text; save the table as CSV in UTF-8"
            )
        self.columns = [plain_cell(name.strip()) for name in header.fields]

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`."""
        import pandas as pd

        place_of = {name: k for k, name in reversed(list(enumerate(self.columns)))}
        places = [place_of[name] for name in columns]
        body = islice(rows(self.path, self.delimiter, bad), 1, None)
        good = (row for row in body if self._check(row, places, bad))
        while part := list(islice(good, size)):
            values = np.empty((len(part), len(places)), dtype=object)
            values[:] = [[plain_cell(row.fields[k].strip()) for k in places] for row in part]
            frame = pd.DataFrame(values, columns=list(columns), dtype=object)
            yield Chunk(frame, [row.line for row in part])

    def _check(self, row: Row, places: Sequence[int], bad: BadRows) -> bool:
        expected, count = len(self.columns), len(row.fields)
        reason = ""
        # Delimiters at the end of a line are a habit of spreadsheets.
        if count < expected or any(row.fields[expected:]):
            reason = f"number of fields: {count}; the header has {expected}"
        elif broken := [place for place in places if not is_text(row.fields[place])]:
            reason = f"the column {self.columns[broken[0]]!r} is not UTF-8 text"
        if reason:
            bad.add(f"{self.path.name} line {row.line}", reason, row.line)
        return not reason


class SmilesLines:
    """A SMILES string per line, followed by an id."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(words(path, BadRows("skip")), None)
        if first is None:
            raise DataError(f"{path} is empty")
        self._header = "smiles" in first.fields[0].lower()
        named = any(row.fields[1] for row in islice(words(path, BadRows("skip")), 1, 100))
        self.columns = ["smiles", "id"] if named or first.fields[1] else ["smiles"]

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`."""
        import pandas as pd

        body = islice(words(self.path, bad), int(self._header), None)
        good = (row for row in body if self._check(row, bad))
        while part := list(islice(good, size)):
            data = {
                "smiles": [row.fields[0] for row in part],
                "id": [row.fields[1] or str(row.line) for row in part],  # some lines may have none
            }
            chosen = {name: pd.Series(data[name], dtype=object) for name in columns}
            yield Chunk(pd.DataFrame(chosen), [row.line for row in part])

    def _check(self, row: Row, bad: BadRows) -> bool:
        good = all(is_text(field) for field in row.fields)
        if not good:
            bad.add(f"{self.path.name} line {row.line}", "not UTF-8 text", row.line)
        return good


class SdfTable:
    """A structure-data file: molecules with properties."""

    unit = "record"

    def __init__(self, path: Path) -> None:
        require_rdkit()
        self.path = path
        names: dict[str, None] = {}
        # Records may have different properties: the first hundred stand for all.
        for _, properties, _ in islice(self._records(), 100):
            names.update(dict.fromkeys(properties))
        self.columns = [MOLECULE, *names]

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`; molecules that cannot be read are ``None``."""
        import pandas as pd

        records = self._good(bad)
        while part := list(islice(records, size)):
            data = {
                name: pd.Series([properties.get(name) for _, _, properties in part], dtype=object)
                for name in columns
                if name != MOLECULE
            }
            data[MOLECULE] = pd.Series([binary for _, binary, _ in part], dtype=object)
            yield Chunk(pd.DataFrame(data), [number for number, _, _ in part])

    def _good(self, bad: BadRows) -> Iterator[tuple[int, bytes | None, dict[str, str]]]:
        for number, (binary, properties, fault) in enumerate(self._records(), start=1):
            if fault:
                bad.add(f"{self.path.name} {self.unit} {number}", fault, number)
            else:
                yield number, binary, properties

    def _records(self) -> Iterator[tuple[bytes | None, dict[str, str], str]]:
        """Molecules, their properties, and what is wrong with those that are too large."""
        try:
            with open_binary(self.path) as file:
                records = self._cut(file)
                while batch := _take(records):
                    # RDKit looks for rings while it reads a record, sanitised or not.
                    faults = [_sdf_fault(record) for record in batch]
                    good = [
                        b"".join(r) for r, fault in zip(batch, faults, strict=True) if not fault
                    ]
                    rows = _parse_sdf(good)
                    if len(rows) < len(good):  # one has swallowed another
                        rows = [(_parse_sdf([record]) or [(None, {})])[0] for record in good]
                    left = iter(rows)
                    for fault in faults:
                        yield (None, {}, fault) if fault else (*next(left), "")
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error

    def _cut(self, file: IO[bytes]) -> Iterator[list[bytes]]:
        """The lines of each record: a broken one must not swallow the next."""
        record: list[bytes] = []
        size, number = 0, 1
        while line := file.readline(MOST_RECORD_BYTES):
            record.append(line)
            size += len(line)
            if size > MOST_RECORD_BYTES:
                limit = f"{MOST_RECORD_BYTES >> 20} MiB"
                raise DataError(f"{self.path} record {number} is longer than {limit}")
            if line.startswith(b"$$$$"):
                yield record
                record, size, number = [], 0, number + 1
        if any(line.strip() for line in record):
            yield record


def _take(records: Iterator[list[bytes]]) -> list[list[bytes]]:
    """Some records, large ones alone."""
    batch, size = [], 0
    for record in records:
        batch.append(record)
        size += sum(map(len, record))
        if size >= _SDF_BYTES:
            break
    return batch


def _parse_sdf(records: list[bytes]) -> list[tuple[bytes | None, dict[str, str]]]:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        supplier = Chem.ForwardSDMolSupplier(BytesIO(b"".join(records)), removeHs=False)
        return [
            (None, {}) if mol is None else (mol.ToBinary(), _properties(mol)) for mol in supplier
        ]


def _sdf_fault(record: list[bytes]) -> str:
    """Why a record is too large for RDKit, or ``""``."""
    counts = record[3] if len(record) > 3 else b""
    try:
        if b"V3000" in counts:
            return _sdf_fault_v3000(record)
        atoms, bonds = int(counts[:3]), int(counts[3:6])
        if bonds <= MANY_RINGS:
            return ""
        pairs = record[4 + atoms : 4 + atoms + bonds]
        return ring_fault(atoms, [(int(row[:3]), int(row[3:6])) for row in pairs])
    except (ValueError, IndexError):
        return ""  # RDKit cannot read it either


def _sdf_fault_v3000(record: list[bytes]) -> str:
    atoms, pairs, block = 0, [], b""
    start = b""
    for line in record:
        if not line.startswith(b"M  V30 "):
            continue
        text = start + line[7:].strip()
        start = text[:-1] if text.endswith(b"-") else b""  # continues on the next line
        if start:
            continue
        fields = text.split(maxsplit=5)
        if fields[:1] in ([b"BEGIN"], [b"END"]):
            block = fields[1] if fields[0] == b"BEGIN" and len(fields) > 1 else b""
        elif block == b"ATOM":
            atoms += 1
        elif block == b"BOND":
            pairs.append((int(fields[2]), int(fields[3])))
    return ring_fault(atoms, pairs)


def _properties(mol: Any) -> dict[str, str]:
    """Title and properties of a molecule; names that are not UTF-8 are left out."""
    names = mol.GetPropNames()
    title = _decoded(partial(mol.GetProp, "_Name")).strip()
    properties = {TITLE: title} if title else {}
    for i in range(len(names)):
        name = _decoded(partial(names.__getitem__, i))
        if name.strip():
            properties[name.strip()] = _decoded(partial(mol.GetProp, name)).strip()
    return properties


def _decoded(get: Callable[[], str]) -> str:
    try:
        return get()
    except (UnicodeDecodeError, KeyError):  # a name with a zero byte is a key that is not found
        return ""


class ParquetTable:
    """A Parquet file; columns keep their types. Lists and structs are not read."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.path = path
        with parquet_errors(path):
            file = _open_parquet(path)
            schema = file.schema_arrow
            self.columns = [str(name) for name in schema.names]
            flat = {field.name for field in _flat_fields(file)}
            self.nested = {field.name: field.type for field in schema if field.name not in flat}
            if not flat:
                raise DataError(f"{path} holds no column of text or numbers")
            count, size = file.metadata.num_rows, path.stat().st_size
            if count > FREE_ROWS and count > ROWS_PER_BYTE * size:
                raise DataError(
                    f"{path} has {size:,} bytes and {count:,} rows: no honest table does, and it "
                    "is not read"
                )

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[Chunk]:
        """See :class:`Table`."""
        start = 1
        for name in columns:
            if name in self.nested:
                raise DataError(
                    f"{self.path}: the column {name!r} holds {str(self.nested[name])[:60]}; ids "
                    "and targets are numbers, names or true/false"
                )
        with parquet_errors(self.path):
            for batch in _batches(self.path, columns, size):
                # Without the metadata: they turn a column that was an index into one again.
                frame = batch.to_pandas(ignore_metadata=True)
                yield Chunk(frame, list(range(start, start + batch.num_rows)))
                start += batch.num_rows


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A whole Parquet file, as pandas reads it but within bounds and without nested columns.

    Args:
        path: of the file.
        columns: to read (default: all).

    Raises:
        DataError: not a Parquet file, without one of the columns, or larger than a genuine one.
    """
    require_pandas()
    import pyarrow as pa

    with parquet_errors(path):
        file = _open_parquet(path)
        fields = _flat_fields(file)
        names = [field.name for field in fields]
        missing = [name for name in columns or () if name not in names]
        if missing:
            raise DataError(f"{path} has no column {missing[0]!r}")
        batches = list(_batches(path, names if columns is None else columns, _BATCH))
        table = pa.Table.from_batches(batches) if batches else pa.schema(fields).empty_table()
        # The metadata say which columns are the index of the frame that was written.
        table = table.replace_schema_metadata(file.schema_arrow.metadata)
        frame: pd.DataFrame = table.to_pandas()
        return frame


def _open_parquet(path: Path, **options: Any) -> Any:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, **options)
    groups = file.metadata.num_row_groups
    size = sum(file.metadata.row_group(i).total_byte_size for i in range(groups))
    _check_size(path, size)
    return file


def _flat_fields(file: Any) -> list[Any]:
    from pyarrow import types

    return [
        field
        for field in file.schema_arrow
        if not types.is_nested(getattr(field.type, "storage_type", field.type))
    ]


def _batches(path: Path, columns: Sequence[str], size: int) -> Iterator[Any]:
    """Rows of flat columns as Arrow batches; text is expanded once its size is known."""
    import pyarrow as pa
    from pyarrow import types

    fields = {field.name: field for field in _flat_fields(_open_parquet(path))}
    wanted = [fields[name] for name in columns]
    width = sum(f.type.byte_width for f in wanted if types.is_fixed_size_binary(f.type))
    size = min(size, max(FREE // max(width, 1), 1))
    # As dictionaries: decoded, a string of 1 MB that every row refers to is 1 MB per row.
    file = _open_parquet(path, read_dictionary=list(columns))
    total = start = 0
    for batch in file.iter_batches(batch_size=size, columns=list(columns)):
        batch.validate(full=True)  # text that is not UTF-8 would fail later, anywhere
        total += batch.num_rows * width
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if types.is_dictionary(array.type):
                total += _expanded_size(array)
                _check_size(path, total, f" in column {name!r}, up to row {start + len(array)}")
                kind = fields[name].type
                if not types.is_dictionary(kind):
                    array = array.dictionary_decode().cast(getattr(kind, "storage_type", kind))
            arrays.append(array)
        start += batch.num_rows
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _expanded_size(array: Any) -> int:
    """Bytes of the text that a dictionary array stands for."""
    from pyarrow import compute, types

    values = array.dictionary
    if not (types.is_binary(values.type) or types.is_string(values.type)):
        return int(array.nbytes)
    return compute.sum(compute.binary_length(values).take(array.indices)).as_py() or 0


def _check_size(path: Path, size: int, where: str = "") -> None:
    packed = path.stat().st_size
    if size > FREE and size > RATIO * packed:
        raise DataError(
            f"{path} has {packed:,} bytes and unpacks to {size:,}{where}: no honest table does, "
            "and it is not read"
        )


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Turns what pyarrow and pandas raise about a broken file into one kind of error."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path} is not a Parquet file that can be read: {error}") from error
