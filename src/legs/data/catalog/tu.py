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
from legs.data.errors import STRICT, BadRows, DataError
from legs.data.readers.base import Features, RawGraphs, Reader
from legs.data.readers.table_files import MISSING, reading_errors
from legs.data.readers.targets import encode_targets
from legs.io import check_archive, iter_member, read_file

LARGEST = 4 << 30  # bytes unpacked; COLLAB's edges, the longest file known, are 0.36 GB
LARGEST_BLOCK = 8 << 30  # bytes of one-hot labels
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|-?(nan|inf)", re.IGNORECASE)
_IGNORED = ("edge_labels", "edge_attributes")
_Array: TypeAlias = np.ndarray[Any, Any]


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
        with reading_errors(f"{self.path}: {self.file(part)} cannot be read", self.path):
            if self.path.is_dir():
                return read_file(self.path / member, LARGEST)
            with zipfile.ZipFile(self.path) as archive:
                check_archive(archive, self.path, LARGEST)
                return b"".join(iter_member(archive, archive.getinfo(member)))

    def refuse(self, part: str, wrong: _Array, reason: str) -> None:
        """Raises an error that names the line of the first value of a file that is ``wrong``."""
        if wrong.any():
            row = int(np.argmax(wrong))
            lines = enumerate(_lines(self.read(part)))
            number, text = next((line for i, line in lines if i == row), (row + 1, b""))
            place = f"{self.file(part)} line {number} ({_shown(text)})"
            raise DataError(f"{self.path}: {place}: {reason}")


def is_tu(path: Path) -> bool:
    """Whether a folder holds a set in TUDataset's layout: a file ``NAME_A.txt``."""
    return any(path.glob("*_A.txt")) or any(path.glob("*/*_A.txt"))


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
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    message = f"{path}: not a zip file, or a damaged one"
    with reading_errors(message, path), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for name in names:
        # Nothing is unpacked to the disk, but a file with such members is no honest data set.
        if name.startswith("/") or re.search(r"(^|/)\.\.(/|$)|\\|:|\0", name):
            raise DataError(f"{path}: its member {name!r} leaves the folder; the file is refused")
    return sorted(n for n in names if n.endswith(".txt") and not n.startswith("__MACOSX/"))


def read_columns(files: TUFiles, part: str, dtype: Any, columns: int | None = None) -> _Array:
    """The columns of a comma-separated file, ``[columns, lines]``, as many as in its first line.

    ``dtype`` is an integer or floating type, or ``object`` for text; ``columns`` how many there
    must be.
    """
    data, dtype = files.read(part), np.dtype(dtype)
    first = next((line for _, line in _lines(data)), b"")
    columns = 1 + first.count(b",") if columns is None else columns
    if not first:
        return np.empty((columns, 0), dtype)
    options: dict[str, Any] = {"comments": None, "encoding": "utf-8"}
    try:
        table = np.loadtxt(io.BytesIO(data), dtype, delimiter=",", ndmin=2, **options)
        if table.shape[1] != columns:
            raise ValueError("lines of another length")
    except ValueError as error:  # UnicodeDecodeError among them
        # NumPy counts no empty lines.
        faults = ((n, line, _fault(line, dtype, columns)) for n, line in _lines(data))
        texts = (f" line {n} ({_shown(line)}): {fault}" for n, line, fault in faults if fault)
        fault = next(texts, f": cannot be read ({error})")
        raise DataError(f"{files.path}: {files.file(part)}{fault}") from error
    if dtype.kind == "f":
        files.refuse(part, (~np.isfinite(table)).max(axis=1), "not a finite number")
    return np.ascontiguousarray(table.T)


def _fault(line: bytes, dtype: np.dtype[Any], columns: int) -> str:
    """What is wrong with a line, or an empty text."""
    fields = [field.strip(b" \t") for field in line.split(b",")]
    if len(fields) != columns:
        return f"has {len(fields)} values, not {columns}"
    if dtype.kind == "O":
        same = line.decode("utf-8", "replace").encode() == line
        return "" if same else "is not UTF-8 text"
    pattern, what = (_DECIMAL, "number") if dtype.kind == "f" else (_WHOLE, "whole number")
    for field in fields:
        if not pattern.fullmatch(field):
            return f"{_shown(field)} is not a {what}"
        if dtype.kind == "i" and (len(field) > 20 or abs(int(field)) > np.iinfo(dtype).max):
            return f"{_shown(field)} is too large a number"
    return ""


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, empty ones left out, as NumPy leaves them out."""
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
    bad: BadRows = STRICT,
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
    (indicator,) = read_columns(files, "graph_indicator", np.int64, 1)
    part, table = _read_targets(files, task)
    graph, used = _owners(files, indicator, len(next(iter(table.values()))) if table else None, bad)
    fields: dict[str, Any] = {}
    if table:
        task = task or ("regression" if part == "graph_attributes" else "classification")
        where = [f"{files.file(part)} line {i + 1}" for i in np.flatnonzero(used)]
        table = {name: column[used] for name, column in table.items()}
        targets = encode_targets(table, list(table), task, bad=bad, where=where)
        used[used] = targets.used
        fields = targets.fields()
        if targets.task == "classification":
            fields["target_names"] = ()
    adjacency = _adjacency(files, graph.astype(np.int32), directed == "symmetrize")

    # Nodes in the order of their graphs; the format does not promise it, though most files keep it.
    nodes = np.flatnonzero(used[graph])
    nodes = nodes[np.argsort(graph[nodes], kind="stable")]
    if not np.array_equal(nodes, np.arange(len(graph))):
        adjacency = adjacency[nodes][:, nodes]
        adjacency.sort_indices()
    sizes = np.bincount(graph, minlength=len(used))[used]
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
        ids=tuple(str(i + 1) for i in np.flatnonzero(used)),
        blocks=blocks,
        default_features=("structure", *blocks),
        info={
            "source": str(path),
            "layout": "TUDataset",
            "ignored": [part.replace("_", " ") for part in _IGNORED if part in files.members],
        },
        **fields,
    )


def _read_targets(files: TUFiles, task: Task | None) -> tuple[str, dict[str, _Array]]:
    """Which file holds the targets, and its columns as text; none where there are no targets."""
    has_labels, has_numbers = (f"graph_{p}" in files.members for p in ("labels", "attributes"))
    if task == "classification" and not has_labels:
        raise DataError(f"{files.path}: classification needs {files.file('graph_labels')}")
    if has_numbers and (task == "regression" or not has_labels):
        columns = read_columns(files, "graph_attributes", object)
        return "graph_attributes", {f"target_{i}": _gaps(c) for i, c in enumerate(columns, 1)}
    if not has_labels:
        return "graph_labels", {}
    (labels,) = read_columns(files, "graph_labels", object, 1)
    return "graph_labels", {"graph label": _gaps(labels)}


def _gaps(column: _Array) -> _Array:
    """Text without spaces around it, and ``None`` where it says that there is no value."""
    stripped = (value.strip() for value in column)
    return np.array([None if v.lower() in MISSING else v for v in stripped], dtype=object)


def _owners(
    files: TUFiles, indicator: _Array, targets: int | None, bad: BadRows
) -> tuple[_Array, _Array]:
    """The graph of each node, from 0, and which graphs have nodes."""
    if not len(indicator):
        raise DataError(f"{files.path}: {files.file('graph_indicator')} is empty: no nodes")
    # Without targets the last graph named is the last one, and none can be without nodes.
    most = len(indicator) if targets is None else targets
    wrong = (indicator < 1) | (indicator > most)
    files.refuse("graph_indicator", wrong, f"graphs are numbered from 1 to {most}")
    graph = indicator - 1
    used = np.bincount(graph, minlength=targets or 0) > 0
    for empty in np.flatnonzero(~used).tolist():
        bad.add(f"{files.path}: {files.file('graph_indicator')}", f"graph {empty + 1} has no nodes")
    return graph, used


def _adjacency(files: TUFiles, graph: _Array, symmetrize: bool) -> sparse.csr_matrix:
    source, target = read_columns(files, "A", np.int32, 2)
    count = len(graph)
    for end in (source, target):
        files.refuse("A", (end < 1) | (end > count), f"nodes are numbered from 1 to {count}")
    source, target = source - np.int32(1), target - np.int32(1)
    wrong = graph[source] != graph[target]
    ends = [int(graph[end[np.argmax(wrong)]]) + 1 for end in (source, target) if wrong.any()]
    files.refuse("A", wrong, "the edge joins nodes of two graphs, " + " and ".join(map(str, ends)))
    matrix = _pattern(target, source, count)
    one_way = (matrix.astype(np.int8) - matrix.T).count_nonzero() > 0
    if one_way and not symmetrize:
        reason = "the edge is listed in one direction only (directed='symmetrize' adds the other)"
        files.refuse("A", ~np.asarray(matrix[source, target]).ravel(), reason)
    if one_way:
        matrix = _pattern(np.append(source, target), np.append(target, source), count)
    return matrix


def _pattern(rows: _Array, columns: _Array, count: int) -> sparse.csr_matrix:
    ones = np.ones(len(rows), np.bool_)  # sums of ones stay ones: repeated edges count once
    matrix = sparse.csr_matrix((ones, (rows, columns)), shape=(count, count))
    matrix.sum_duplicates()  # some versions of SciPy leave that to the caller
    return matrix


def _node_columns(files: TUFiles, part: str, dtype: Any, count: int, nodes: _Array) -> _Array:
    """The values of ``nodes``, of ``count``, ``[columns, nodes]``."""
    columns = read_columns(files, part, dtype)
    if columns.shape[1] != count:
        raise DataError(
            f"{files.path}: {files.file(part)} has {columns.shape[1]} lines, but "
            f"{files.file('graph_indicator')} has {count}; both have a line per node"
        )
    return columns[:, nodes]


def _labels(files: TUFiles, count: int, nodes: _Array) -> Features:
    """One-hot node labels; only values that occur get a column."""
    columns = _node_columns(files, "node_labels", np.int64, count, nodes)
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
    columns = _node_columns(files, "node_attributes", np.float32, count, nodes)
    names = tuple(f"attribute_{i}" for i in range(1, len(columns) + 1))
    return Features(torch.from_numpy(columns.T), names)


READER = Reader(read_tu, frozenset({"task", "directed", "bad"}))
