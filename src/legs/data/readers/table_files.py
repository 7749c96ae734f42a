"""Tables on disk: CSV, SMILES, Excel, Parquet and SDF. Columns first, then rows in chunks.

The index of a chunk says where its rows are: the line, row or record of each, from 1.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from itertools import chain, count, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast
from zipfile import ZipFile

from legs.data.errors import BadRows, DataError, require
from legs.data.features.atom_table import MANY_RINGS, require_rdkit, ring_fault
from legs.data.readers.targets import find_column
from legs.io import FileError, plain_cell

if TYPE_CHECKING:
    import pandas as pd

# Can be read several times, in chunks; has a path, columns and the unit that numbers count.
Table: TypeAlias = "TextTable | ParquetTable"
Row: TypeAlias = tuple[int, list[str]]  # its first line, as an editor counts, and its fields
EXCEL = (".xlsx", ".xlsm")
SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".parquet", ".pq", ".smi", ".smiles", ".txt", ".sdf", ".sd"),
    *EXCEL,
)
# Text that stands for a missing value, as pandas and spreadsheets write it; in lower case.
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"})
MOLECULE = "(molecule)"  # the column that holds the molecules of an SDF, in RDKit's binary form
TITLE = "(title)"  # the first line of an SDF record
MOST_RECORD_BYTES = 64 << 20  # of an SDF
# A molecule takes a byte at least, unless there are few and they repeat.
FREE_ROWS, ROWS_PER_BYTE = 1_000_000, 8
# Decoded text, in bytes and relative to the file: a value that repeats is stored once.
FREE, RATIO = 64 << 20, 50
# The widest tables of descriptors stay below this; what is longer has lost its line ends.
LONGEST_LINE = 8_000_000
_ENDS = ("\n", "\r")
_SEPARATOR = re.compile(r"(?i)\"?sep=([,;\t])")
# Bytes that are not UTF-8, as Python's surrogateescape smuggles them through.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
# Text packs tenfold; what packs so much more would fill the memory.
GZIP_FREE, GZIP_RATIO = 16 << 20, 200
_MAGIC = {b"PK\x03\x04": "a zip or Excel file", b"PAR1": "a Parquet file"}
_BATCH = 50_000
_V3000_CONTINUED = re.compile(rb"-[ \t\r]*\nM  V30 ")
_V3000_ATOMS = re.compile(rb"^M  V30\s+COUNTS\s+(\d+)", re.MULTILINE)
_V3000_BOND = re.compile(rb"^M  V30\s+\d+\s+\d+\s+(\d+)\s+(\d+)", re.MULTILINE)


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
    if suffix in EXCEL:
        return ExcelTable(path)
    if suffix == ".txt":  # a table, if its first line names columns, one of them of SMILES
        first = first_line(path).lower()
        table = "smiles" in first and any(mark in first for mark in ",;\t")
        suffix = ".csv" if table else ".smi"
    return SmilesLines(path) if suffix in (".smi", ".smiles") else TextTable(path)


def first_line(path: Path) -> str:
    """The first line of a text file that is not blank."""
    return next((line for line in lines(path) if line.strip()), "")


def read_whole(
    table: Table, columns: Sequence[str], bad: BadRows, limit: int | None = None
) -> pd.DataFrame:
    """The first ``limit`` rows, or all, in one chunk."""
    import pandas as pd

    frames, count = [pd.DataFrame(columns=list(columns), index=pd.Index([], dtype=int))], 0
    for frame in table.chunks(columns, _BATCH if limit is None else limit, bad):
        frames.append(frame)
        count += len(frame)
        if limit is not None and count >= limit:
            break
    return pd.concat(frames[1:] or frames).iloc[:limit]


def without_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """The same columns with ``None`` where text stands for a missing value."""
    import pandas as pd

    frame = frame.copy()
    for name in frame.columns:
        if frame[name].dtype == object or isinstance(frame[name].dtype, pd.StringDtype):
            frame[name] = [
                None if isinstance(v, str) and v.strip().lower() in MISSING else v
                for v in frame[name]
            ]
    return frame


def require_pandas() -> None:
    """Raises :class:`DataError` with the remedy where pandas or pyarrow is not installed."""
    require("tables need pandas and pyarrow: pip install 'torch-legs[cli]'", "pandas", "pyarrow")


def open_binary(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed where they are gzip (whatever the file's name says)."""
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "not there"
        raise DataError(f"{path} is {what}; give a CSV, TSV, Excel, Parquet, SMILES or SDF file")
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], _Unpacked(path, "rb")) if packed else path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


class _Unpacked(gzip.GzipFile):
    """A compressed file that unpacks to no more than is honest."""

    def read1(self, size: int = -1) -> bytes:  # what text is decoded from
        content = super().read1(size)
        check_unpacked(Path(self.name), self.tell(), GZIP_FREE, GZIP_RATIO, " and more")
        return content


def check_unpacked(
    path: Path, size: int, free: int, ratio: int, where: str = "", *, rows: bool = False
) -> None:
    """Refuses a file that holds much more than its size allows, in bytes or rows."""
    if size > free and size > ratio * (packed := path.stat().st_size):
        holds = f"and {size:,} rows" if rows else f"and unpacks to {size:,}{where}"
        raise DataError(
            f"{path} has {packed:,} bytes {holds}: no honest table does, and it is not read"
        )


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, with their ends; one too long to be a row is an error.

    A line that is not UTF-8 is read as Windows-1252, as older spreadsheets write it. Bytes that
    mean nothing there either come as lone surrogates (see :func:`is_text`), so that a stray byte
    in a column nobody reads does no harm.
    """
    try:
        with open_binary(path) as binary:
            start = binary.read(4)
            binary.seek(0)
            for magic, what in _MAGIC.items():
                if start.startswith(magic):
                    raise DataError(f"{path} is {what}; save it as CSV, or give it its own ending")
            encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
            text = TextIOWrapper(binary, encoding, errors="surrogateescape", newline="")
            for number in count(1):
                if not (line := text.readline(LONGEST_LINE)):
                    return
                if len(line) == LONGEST_LINE and not line.endswith(_ENDS):
                    longer = f"longer than {LONGEST_LINE:,} characters"
                    raise DataError(f"{path.name} line {number}: {longer}")
                if not line.isascii() and _NOT_UTF8.search(line):
                    # All of it: "Å²" in Windows-1252 happens to be UTF-8.
                    raw = line.encode("utf-8", "surrogateescape")
                    line = raw.decode("cp1252", "surrogateescape")
                yield line
    except (UnicodeError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def rows(path: Path, delimiter: str, bad: BadRows) -> Iterator[Row]:
    """The records of a delimited file; blank ones are left out, broken ones go to ``bad``."""
    reader = csv.reader(lines(path), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = f"{error}; is a quotation mark not closed?"
            bad.add(f"{path.name} line {line}", reason, line)
            continue
        if any(field and not field.isspace() for field in fields):
            yield line, fields


def words(path: Path) -> Iterator[Row]:
    """The first word and the rest of each line, for files of SMILES and names."""
    for number, line in enumerate(lines(path), start=1):
        if fields := line.split(maxsplit=1):
            yield number, [fields[0], fields[1].strip() if len(fields) > 1 else ""]


def delimiter_of(path: Path) -> str:
    """Tab, comma or semicolon: the one the first line holds most of (a comma where none).

    Or the one that a first line ``sep=;`` names, which Excel understands.
    """
    first = first_line(path)
    if named := _SEPARATOR.match(first):
        return named[1]
    tabs = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    return "\t" if tabs else max(",\t;", key=first.count)


def is_text(field: str) -> bool:
    """Whether a field was proper UTF-8, without the zero bytes of binary files."""
    return "\0" not in field and (field.isascii() or not _NOT_UTF8.search(field))


class TextTable:
    """A delimited file with a header; all values are text."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._delimiter = delimiter_of(path)
        self._above = 1 + bool(_SEPARATOR.match(first_line(path)))  # rows up to the header
        self._read_header(rows(path, self._delimiter, BadRows()))

    def _read_header(self, rows: Iterator[Row]) -> None:
        path = self.path
        line, header = next(islice(rows, self._above - 1, None), (0, []))
        if not header:
            raise DataError(f"{path} is empty")
        if not all(map(is_text, header)):
            where = f"{path} {self.unit} {line}"
            raise DataError(f"{where} is not UTF-8 text; save the table as CSV in UTF-8")
        self.columns = [plain_cell(name.strip()) for name in header]

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[pd.DataFrame]:
        """Rows in chunks of at most ``size``, with some columns only."""
        import pandas as pd

        values = self._values(columns, bad)
        while part := list(islice(values, size)):
            index = [number for number, _ in part]
            yield pd.DataFrame([row for _, row in part], index, list(columns), dtype=object)

    def _values(self, columns: Sequence[str], bad: BadRows) -> Iterator[tuple[int, list[Any]]]:
        place_of = {name: k for k, name in reversed(list(enumerate(self.columns)))}
        places, expected = [place_of[name] for name in columns], len(self.columns)
        for line, fields in self._rows(bad):
            # Delimiters at the end of a line are a habit of spreadsheets.
            if len(fields) < expected or any(fields[expected:]):
                reason = f"number of fields: {len(fields)}; the header has {expected}"
            elif broken := [place for place in places if not is_text(fields[place])]:
                reason = f"the column {self.columns[broken[0]]!r} is not UTF-8 text"
            else:
                yield line, [plain_cell(fields[place].strip()) for place in places]
                continue
            bad.add(f"{self.path.name} line {line}", reason, line)

    def _rows(self, bad: BadRows) -> Iterator[Row]:
        return islice(rows(self.path, self._delimiter, bad), self._above, None)


class ExcelTable(TextTable):
    """The first sheet of an Excel file: its first row names the columns, cells are text."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        require("Excel files need openpyxl: pip install 'torch-legs[cli]'", "openpyxl")
        self.path, self._above = path, 1
        self._read_header(self._sheet())

    def _rows(self, bad: BadRows) -> Iterator[Row]:
        for number, fields in islice(self._sheet(), self._above, None):
            yield number, fields + [""] * (len(self.columns) - len(fields))

    def _sheet(self) -> Iterator[Row]:
        """The rows that are not blank, without empty cells at their ends."""
        from openpyxl import load_workbook

        with reading_errors(f"{self.path} is not an Excel file that can be read", self.path):
            with ZipFile(self.path) as parts:
                size = sum(part.file_size for part in parts.infolist())
                check_unpacked(self.path, size, FREE, RATIO)
            # As it was last calculated, row by row.
            book = load_workbook(self.path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # some programs write wrong ones
                for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
                    fields = ["" if cell is None else str(cell) for cell in cells]
                    while fields and not fields[-1].strip():
                        fields.pop()
                    if fields:
                        yield number, fields
            finally:
                book.close()


class SmilesLines(TextTable):
    """A SMILES string per line, followed by an id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        first = [fields for _, fields in islice(words(path), 100)]
        if not first:
            raise DataError(f"{path} is empty")
        self._header = "smiles" in first[0][0].lower()
        self.columns = ["smiles", "id"] if any(name for _, name in first) else ["smiles"]

    def _rows(self, bad: BadRows) -> Iterator[Row]:
        for line, (smiles, name) in islice(words(self.path), int(self._header), None):
            yield line, [smiles, name or str(line)][: len(self.columns)]


class SdfTable(TextTable):
    """A structure-data file: molecules, ``None`` where they cannot be read, with properties."""

    unit = "record"

    def __init__(self, path: Path) -> None:
        require_rdkit()
        self.path = path
        # Records may have different properties: the first hundred stand for all.
        records = islice(self._records(BadRows("skip")), 100)
        self.columns = list(dict.fromkeys([MOLECULE, *chain(*(row for _, row in records))]))

    def _values(self, columns: Sequence[str], bad: BadRows) -> Iterator[tuple[int, list[Any]]]:
        return ((number, [row.get(c) for c in columns]) for number, row in self._records(bad))

    def _records(self, bad: BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
        """Numbers of records and their properties; those that are too large go to ``bad``."""
        try:
            # One by one: a broken record must not swallow the next.
            for number, record in enumerate(self._texts(), start=1):
                # RDKit looks for rings while it reads a record, sanitised or not.
                if fault := _sdf_fault(record):
                    bad.add(f"{self.path.name} record {number}", fault, number)
                else:
                    yield number, _parse_sdf(b"".join(record))
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error

    def _texts(self) -> Iterator[list[bytes]]:
        """The records as lines."""
        number, size, record = 1, 0, list[bytes]()
        with open_binary(self.path) as file:
            while line := file.readline(MOST_RECORD_BYTES):
                record.append(line)
                size += len(line)
                if size > MOST_RECORD_BYTES:
                    limit = f"{MOST_RECORD_BYTES >> 20} MiB"
                    raise DataError(f"{self.path} record {number} is longer than {limit}")
                if line.startswith(b"$$$$"):
                    yield record
                    number, size, record = number + 1, 0, []
        if any(line.strip() for line in record):
            yield record


def _parse_sdf(record: bytes) -> dict[str, Any]:
    """Molecule, title and properties of a record; nothing if RDKit cannot read it."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        mol = next(Chem.ForwardSDMolSupplier(BytesIO(record), removeHs=False), None)
    return {} if mol is None else _properties(mol)


def _sdf_fault(record: list[bytes]) -> str:
    """Why a record is too large for RDKit, or ``""``."""
    counts = record[3] if len(record) > 3 else b""
    try:
        if b"V3000" in counts:
            text = _V3000_CONTINUED.sub(b"", b"".join(record))
            atoms = max(int(count) for count in _V3000_ATOMS.findall(text))
            return ring_fault(atoms, [(int(a), int(b)) for a, b in _V3000_BOND.findall(text)])
        atoms, bonds = int(counts[:3]), int(counts[3:6])
        if bonds <= MANY_RINGS:
            return ""
        pairs = record[4 + atoms : 4 + atoms + bonds]
        return ring_fault(atoms, [(int(row[:3]), int(row[3:6])) for row in pairs])
    except (ValueError, IndexError):
        return ""  # RDKit cannot read it either


def _properties(mol: Any) -> dict[str, Any]:
    names = mol.GetPropNames()
    properties: dict[str, Any] = {MOLECULE: mol.ToBinary()}
    if title := _decoded(mol.GetProp, "_Name").strip():
        properties[TITLE] = title
    for i in range(len(names)):
        name = _decoded(names.__getitem__, i)
        if name.strip():
            properties[name.strip()] = _decoded(mol.GetProp, name).strip()
    return properties


def _decoded(get: Callable[[Any], str], key: Any) -> str:
    """A name or value; empty where it is not UTF-8."""
    try:
        return get(key)
    except (UnicodeDecodeError, KeyError):  # a name with a zero byte is a key that is not found
        return ""


class ParquetTable:
    """A Parquet file; columns keep their types. Lists and structs are not read."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        from pyarrow import types

        self.path = path
        with reading_errors(f"{path} is not a Parquet file that can be read", path):
            file = _open_parquet(path)
            self.types = {field.name: field.type for field in file.schema_arrow}
            self.columns = list(map(str, file.schema_arrow.names))
            self.nested = {
                name
                for name, kind in self.types.items()
                if types.is_nested(getattr(kind, "storage_type", kind))
            }
            if self.nested >= {*self.types}:
                raise DataError(f"{path} holds no column of text or numbers")
            self.count = file.metadata.num_rows
            check_unpacked(path, self.count, FREE_ROWS, ROWS_PER_BYTE, rows=True)

    def chunks(self, columns: Sequence[str], size: int, bad: BadRows) -> Iterator[pd.DataFrame]:
        """As :meth:`TextTable.chunks`; text is expanded once its size is known."""
        import pandas as pd
        import pyarrow as pa
        from pyarrow import compute, types

        for name in columns:
            if name in self.nested:
                raise DataError(
                    f"{self.path}: the column {name!r} holds {str(self.types[name])[:60]}; ids "
                    "and targets are numbers, names or true/false"
                )
        kinds = [self.types[find_column(self.columns, name)] for name in columns]
        width = sum(kind.byte_width for kind in kinds if types.is_fixed_size_binary(kind))
        size = min(size, max(FREE // max(width, 1), 1))
        total = start = 0
        with reading_errors(f"{self.path} is not a Parquet file that can be read", self.path):
            # As dictionaries: decoded, a string of 1 MB that every row refers to is 1 MB per row.
            file = _open_parquet(self.path, read_dictionary=list(columns))
            for batch in file.iter_batches(batch_size=size, columns=list(columns)):
                batch.validate(full=True)  # text that is not UTF-8 would fail later, anywhere
                end = start + batch.num_rows
                total += batch.num_rows * width
                arrays = []
                for name, array in zip(batch.schema.names, batch.columns, strict=True):
                    kind = self.types[name]
                    if types.is_dictionary(array.type):
                        values = array.dictionary
                        if types.is_binary(values.type) or types.is_string(values.type):
                            lengths = compute.binary_length(values).take(array.indices)
                            total += compute.sum(lengths).as_py() or 0
                        else:
                            total += array.nbytes
                        where = f" in column {name!r}, up to row {end}"
                        check_unpacked(self.path, total, FREE, RATIO, where)
                        if not types.is_dictionary(kind):
                            kind = getattr(kind, "storage_type", kind)
                            array = array.dictionary_decode().cast(kind)
                    arrays.append(array)
                plain = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
                # Without the metadata: they turn a column that was an index into one again.
                frame = plain.to_pandas(ignore_metadata=True)
                yield frame.set_axis(pd.RangeIndex(start + 1, end + 1))
                start = end


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A whole Parquet file, within bounds: some columns, or all that are not nested."""
    require_pandas()
    table = ParquetTable(path)
    if columns is None:
        columns = [name for name in table.columns if name not in table.nested]
    return read_whole(table, columns, BadRows())


def _open_parquet(path: Path, **options: Any) -> Any:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, **options)
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    check_unpacked(path, sum(group.total_byte_size for group in groups), FREE, RATIO)
    return file


@contextmanager
def reading_errors(message: str, path: Path, most_bytes: int | None = None) -> Iterator[None]:
    """Turns whatever a parser raises into a :class:`DataError`; larger files are refused."""
    try:
        if most_bytes is not None and (size := path.stat().st_size) > most_bytes:
            raise DataError(f"{size / 2**20:.0f} MiB; files above {most_bytes >> 20} are not read")
        yield
    except (DataError, FileError) as error:
        raise DataError(str(error)) from error
    except Exception as error:  # KeyError, RecursionError, …
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"{message}: {type(error).__name__}: {reason}") from error
