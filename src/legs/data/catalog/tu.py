"""Sets in the layout of the TUDataset collection (Morris et al. 2020, arXiv:2007.08663)."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy import sparse

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.readers.base import Features, RawGraphs, Reader
from legs.data.readers.targets import encode_targets
from legs.io import FileError, check_archive, iter_member, read_file

LARGEST = 4 << 30  # bytes of one file unpacked; COLLAB's edges, the longest known, are 0.36 GB
LARGEST_BLOCK = 8 << 30  # bytes of one-hot labels
_BLOCK = 8 << 20  # bytes parsed at a time, and the longest line
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|-?(nan|inf)", re.IGNORECASE)
_MISSING = ("", "nan", "na", "none", "null")
_IGNORED = ("edge_labels", "edge_attributes")

Kind: TypeAlias = Literal["node", "whole", "decimal", "text"]
_Array: TypeAlias = np.ndarray[Any, Any]
_DTYPES: Mapping[Kind, Any] = {
    "node": np.int32,
    "whole": np.int64,
    "decimal": np.float32,
    "text": object,
}


class TUFiles(NamedTuple):
    """The files of one set: ``members`` are paths in ``path`` by what comes after the name."""

    path: Path  # of the folder or zip
    name: str  # of the set, which all its files begin with
    members: Mapping[str, str]

    def file(self, part: str) -> str:
        """The name to use in messages: ``NAME_graph_labels.txt``."""
        return f"{self.name}_{part}.txt"

    def read(self, part: str) -> bytes:
        """All bytes of a file."""
        if part not in self.members:
            raise DataError(f"{self.path}: {self.file(part)} is missing")
        member = self.members[part]
        try:
            if self.path.is_dir():
                return read_file(self.path / member, LARGEST)
            with zipfile.ZipFile(self.path) as archive:
                info = archive.getinfo(member)
                if info.file_size > LARGEST:
                    size = f"{member} has {info.file_size:,} bytes"
                    raise DataError(f"{size}; more than {LARGEST:,} are not read")
                return b"".join(iter_member(archive, info))
        except (DataError, FileError) as error:
            raise DataError(str(error)) from error
        except Exception as error:  # zipfile, zlib and lzma raise errors of many classes
            raise DataError(f"{self.path}: {self.file(part)} cannot be read ({error})") from error

    def error_at(self, part: str, row: int, reason: str) -> DataError:
        """An error naming the line of the ``row``-th value (from 0) of a file."""
        lines = enumerate(_lines(self.read(part)))
        number, text = next((line for i, line in lines if i == row), (row + 1, b""))
        return DataError(f"{self.path}: {self.file(part)} line {number} ({_shown(text)}): {reason}")


def is_tu(path: Path) -> bool:
    """Whether a folder or zip holds a set in TUDataset's layout: a file ``NAME_A.txt``."""
    try:
        return any(name.endswith("_A.txt") for name in _listing(path))
    except DataError:
        return False


def find_files(path: Path) -> TUFiles:
    """The files of the set in a folder or zip, which may lie in a folder of their own."""
    listing = _listing(path)
    roots = [name.removesuffix("_A.txt") for name in listing if name.endswith("_A.txt")]
    if len(roots) > 1:  # a zip may carry more; the set it is named after is meant
        roots = [root for root in roots if Path(root).name == path.stem] or roots
    if len(roots) != 1:
        names = ", ".join(f"{root}_A.txt" for root in roots[:5]) or "none"
        raise DataError(
            f"{path}: a set in TUDataset's layout has one file NAME_A.txt; found: {names}"
        )
    prefix = f"{roots[0]}_"
    members = {m[len(prefix) : -4]: m for m in listing if m.startswith(prefix)}
    return TUFiles(path, Path(roots[0]).name, members)


def _listing(path: Path) -> list[str]:
    """Text files in a folder (two deep) or zip, as paths relative to it."""
    if path.is_dir():
        files = [*path.glob("*.txt"), *path.glob("*/*.txt")]
        return sorted(p.relative_to(path).as_posix() for p in files if p.is_file())
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path)
            names = archive.namelist()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file or folder") from error
    except FileError as error:
        raise DataError(str(error)) from error
    except Exception as error:
        raise DataError(f"{path}: not a zip file, or a damaged one ({error})") from error
    for name in names:
        # Nothing is unpacked to the disk, but a file with such members is no honest data set.
        if name.startswith("/") or re.search(r"(^|/)\.\.(/|$)|\\|:|\0", name):
            raise DataError(f"{path}: its member {name!r} leaves the folder; the file is refused")
    return sorted(n for n in names if n.endswith(".txt") and not n.startswith("__MACOSX/"))


def read_columns(files: TUFiles, part: str, kind: Kind, columns: int | None = None) -> list[_Array]:
    """The columns of a comma-separated file: so many, or as many as in the first line."""
    data = files.read(part)
    first = next((line for _, line in _lines(data)), b"")
    columns = 1 + first.count(b",") if columns is None else columns
    if not first:
        return [np.empty(0, _DTYPES[kind])] * columns
    try:
        table = _parse(data, kind, columns)
        if kind in ("node", "whole") and re.search(rb"[xX]", data):
            raise ValueError("hexadecimal numbers")  # which Arrow takes
    except ValueError as error:  # pyarrow's errors and UnicodeDecodeError among them
        fault = next(_faults(data, kind, columns), f": cannot be read ({error})")
        raise DataError(f"{files.path}: {files.file(part)}{fault}") from error
    for column in table if kind == "decimal" else ():
        if not np.isfinite(column).all():
            row = int(np.argmin(np.isfinite(column)))
            raise files.error_at(part, row, "not a finite number")
    return table


def _parse(data: bytes, kind: Kind, columns: int) -> list[_Array]:
    """Columns by Arrow's parser, or by NumPy's slower one without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return _parse_with_numpy(data, kind, columns)
    names = [str(i) for i in range(columns)]
    arrow = pa.string() if kind == "text" else pa.from_numpy_dtype(_DTYPES[kind])
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, arrow), null_values=[], strings_can_be_null=False
        ),
    )
    return [column.to_numpy() for column in table.columns]


def _parse_with_numpy(data: bytes, kind: Kind, columns: int) -> list[_Array]:
    if kind == "text":
        table = np.array([line.decode().split(",") for _, line in _lines(data)], dtype=object)
    else:
        table = np.loadtxt(io.BytesIO(data), _DTYPES[kind], delimiter=",", comments=None, ndmin=2)
    if table.ndim != 2 or table.shape[1] != columns:
        raise ValueError("lines of different lengths")
    return [np.ascontiguousarray(column) for column in table.T]


def _faults(data: bytes, kind: Kind, columns: int) -> Iterator[str]:
    """What is wrong with which line: the fast parser does not say, and this one runs only then."""
    most = np.iinfo(np.int32 if kind == "node" else np.int64).max
    for number, line in _lines(data):
        if len(line) >= _BLOCK:
            yield f" line {number}: is {len(line):,} characters long"
        fields = [field.strip(b" \t") for field in line.split(b",")]
        reasons = [] if len(fields) == columns else [f"has {len(fields)} values, not {columns}"]
        for field in fields:
            if kind == "text" and field.decode("utf-8", "replace").encode() != field:
                reasons.append("is not UTF-8 text")
            elif kind == "decimal" and not _DECIMAL.fullmatch(field):
                reasons.append(f"{_shown(field)} is not a number")
            elif kind in ("node", "whole") and not _WHOLE.fullmatch(field):
                reasons.append(f"{_shown(field)} is not a whole number")
            elif kind in ("node", "whole") and (len(field) > 20 or abs(int(field)) > most):
                reasons.append(f"{_shown(field)} is too large a number")
        for reason in reasons:
            yield f" line {number} ({_shown(line)}): {reason}"


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, empty ones left out, as the fast parser leaves them out."""
    for number, line in enumerate(io.BytesIO(data), 1):
        if line := line.rstrip(b"\r\n"):
            yield number, line


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace")) + ("…" if len(text) > 40 else "")


def read_tu(
    path: str | Path,
    *,
    task: Task | None = None,
    directed: Literal["error", "symmetrize"] = "error",
    bad: BadRows | None = None,
) -> RawGraphs:
    """Reads a set in TUDataset's layout from a folder or a zip.

    ``NAME_A.txt`` lists the edges in both directions (repeated ones count once, self-loops are
    kept), ``NAME_graph_indicator.txt`` the graph of each node. Classes come from
    ``NAME_graph_labels.txt``, continuous targets from ``NAME_graph_attributes.txt``. Node labels
    and attributes become the feature blocks ``"labels"`` (one-hot) and ``"attributes"``, which are
    used by default; labels and attributes of edges are not, and ``info["ignored"]`` says so.
    Regression takes the graph attributes, or else the labels.
    """
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    files = find_files(Path(path))
    bad = BadRows() if bad is None else bad
    (indicator,) = read_columns(files, "graph_indicator", "whole", 1)
    part, table = _read_targets(files, task)
    count = len(next(iter(table.values()))) if table else None
    graph, kept = _owners(files, indicator, count, bad)
    fields: dict[str, Any] = {}
    if table:
        task = task or ("regression" if part == "graph_attributes" else "classification")
        where = [f"{files.file(part)} line {i + 1}" for i in np.flatnonzero(kept)]
        table = {name: column[kept] for name, column in table.items()}
        targets = encode_targets(table, list(table), task, bad=bad, where=where)
        kept[kept] = targets.kept
        fields = targets.fields()
        if targets.task == "classification":
            fields["target_names"] = ()
    adjacency, info = _adjacency(files, graph, directed == "symmetrize")

    # Nodes in the order of their graphs; the format does not promise it, though most files keep it.
    nodes = np.flatnonzero(kept[graph])
    nodes = nodes[np.argsort(graph[nodes], kind="stable")]
    if not np.array_equal(nodes, np.arange(len(graph))):
        adjacency = adjacency[nodes][:, nodes]
        adjacency.sort_indices()
    sizes = np.bincount(graph, minlength=len(kept))[kept]
    edges = np.empty((2, adjacency.nnz), np.int64)
    edges[0] = adjacency.indices
    edges[1] = np.repeat(np.arange(len(nodes)), np.diff(adjacency.indptr))
    blocks = {
        name: partial(read, files, len(graph), nodes)
        for name, read in (("labels", _labels), ("attributes", _attributes))
        if f"node_{name}" in files.members
    }
    return RawGraphs(
        ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])),
        edge_index=torch.from_numpy(edges),
        name=files.name,
        ids=tuple(str(i + 1) for i in np.flatnonzero(kept)),
        blocks=blocks,
        default_features=("structure", *blocks),
        info={"source": str(path), "layout": "TUDataset", **info},
        **fields,
    )


def _read_targets(files: TUFiles, task: Task | None) -> tuple[str, dict[str, _Array]]:
    """Which file holds the targets, and its columns; none where there are no targets."""
    has_labels, has_numbers = (f"graph_{p}" in files.members for p in ("labels", "attributes"))
    if task == "classification" and not has_labels:
        raise DataError(f"{files.path}: classification needs {files.file('graph_labels')}")
    if has_numbers and (task == "regression" or not has_labels):
        columns = read_columns(files, "graph_attributes", "text")
        table = {f"target_{i}": _with_gaps(c) for i, c in enumerate(columns, 1)}
        return "graph_attributes", table
    if not has_labels:
        return "graph_labels", {}
    try:
        (labels,) = read_columns(files, "graph_labels", "whole", 1)
    except DataError:  # words serve as labels as well
        labels = _with_gaps(*read_columns(files, "graph_labels", "text", 1))
    return "graph_labels", {"graph label": labels}


def _with_gaps(column: _Array) -> _Array:
    """Text without spaces around it, and ``None`` where it says that there is no value."""
    stripped = (value.strip() for value in column)
    return np.array([None if v.lower() in _MISSING else v for v in stripped], dtype=object)


def _owners(
    files: TUFiles, indicator: _Array, targets: int | None, bad: BadRows
) -> tuple[_Array, _Array]:
    """The graph of each node, from 0, and which graphs have nodes."""
    if not len(indicator):
        raise DataError(f"{files.path}: {files.file('graph_indicator')} is empty: no nodes")
    # Without targets the last graph named is the last one, and none can be without nodes.
    most = len(indicator) if targets is None else targets
    wrong = (indicator < 1) | (indicator > most)
    if wrong.any():
        reason = f"graphs are numbered from 1 to {most}"
        raise files.error_at("graph_indicator", int(np.argmax(wrong)), reason)
    graph = indicator - 1
    kept = np.bincount(graph, minlength=targets or 0) > 0
    for empty in np.flatnonzero(~kept).tolist():
        bad.add(f"{files.path}: {files.file('graph_indicator')}", f"graph {empty + 1} has no nodes")
    return graph, kept


def _adjacency(
    files: TUFiles, graph: _Array, symmetrize: bool
) -> tuple[sparse.csr_matrix, dict[str, Any]]:
    source, target = read_columns(files, "A", "node", 2)
    count = len(graph)
    for end in (source, target):
        wrong = (end < 1) | (end > count)
        if wrong.any():
            reason = f"nodes are numbered from 1 to {count}"
            raise files.error_at("A", int(np.argmax(wrong)), reason)
    source, target = source - np.int32(1), target - np.int32(1)
    graph = graph.astype(np.int32)
    wrong = graph[source] != graph[target]
    if wrong.any():
        row = int(np.argmax(wrong))
        ends = f"{graph[source[row]] + 1} and {graph[target[row]] + 1}"
        raise files.error_at("A", row, f"the edge joins nodes of two graphs, {ends}")
    matrix = _pattern(target, source, count)
    # The columns of a CSC matrix are sorted: the same arrays mean that the matrix is symmetric.
    other = matrix.tocsc()
    one_way = not (
        np.array_equal(matrix.indptr, other.indptr)
        and np.array_equal(matrix.indices, other.indices)
    )
    if one_way and not symmetrize:
        listed = set(zip(source.tolist(), target.tolist(), strict=True))
        row = next(i for i, e in enumerate(zip(target, source, strict=True)) if e not in listed)
        reason = "the edge is listed in one direction only (directed='symmetrize' adds the other)"
        raise files.error_at("A", row, reason)
    if one_way:
        matrix = _pattern(np.append(source, target), np.append(target, source), count)
    return matrix, {
        "self_loops": int(matrix.diagonal().sum()) if (source == target).any() else 0,
        "repeated_edges": 0 if one_way else len(source) - matrix.nnz,
        "symmetrized": one_way,
        "ignored": [part.replace("_", " ") for part in _IGNORED if part in files.members],
    }


def _pattern(rows: _Array, columns: _Array, count: int) -> sparse.csr_matrix:
    ones = np.ones(len(rows), np.bool_)  # sums of ones stay ones: repeated edges count once
    matrix = sparse.csr_matrix((ones, (rows, columns)), shape=(count, count))
    matrix.sum_duplicates()  # some versions of SciPy leave that to the caller
    return matrix


def _node_columns(files: TUFiles, part: str, kind: Kind, nodes: int) -> list[_Array]:
    columns = read_columns(files, part, kind)
    if len(columns[0]) != nodes:
        raise DataError(
            f"{files.path}: {files.file(part)} has {len(columns[0])} lines, but "
            f"{files.file('graph_indicator')} has {nodes}; both have a line per node"
        )
    return columns


def _labels(files: TUFiles, count: int, nodes: _Array) -> Features:
    """One-hot node labels; only values that occur get a column."""
    columns = [c[nodes] for c in _node_columns(files, "node_labels", "whole", count)]
    coded = [np.unique(column, return_inverse=True) for column in columns]
    width = sum(len(values) for values, _ in coded)
    if 4 * width * len(nodes) > LARGEST_BLOCK:
        raise DataError(
            f"{files.path}: {files.file('node_labels')} has {width:,} different labels, too many "
            "for a column each: put them into a file of node attributes as numbers "
            "(features='structure' leaves them out)"
        )
    x = torch.zeros(len(nodes), width)
    names: list[str] = []
    for i, (values, code) in enumerate(coded, 1):
        x[torch.arange(len(nodes)), torch.from_numpy(code) + len(names)] = 1
        prefix = "label" if len(coded) == 1 else f"label_{i}"
        names += [f"{prefix}={value}" for value in values.tolist()]
    return Features(x, tuple(names))


def _attributes(files: TUFiles, count: int, nodes: _Array) -> Features:
    columns = _node_columns(files, "node_attributes", "decimal", count)
    x = torch.from_numpy(np.stack([column[nodes] for column in columns], axis=1))
    return Features(x, tuple(f"attribute_{i}" for i in range(1, len(columns) + 1)))


READER = Reader(read_tu, frozenset({"task", "directed", "bad"}))
