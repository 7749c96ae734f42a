"""Sets in the layout of the TUDataset collection (Morris et al. 2020, arXiv:2007.08663)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.raw import Features, RawGraphs
from legs.data.targets import Targets, encode_targets
from legs.data.tu_files import TUFiles, fault_at, find_files, read_columns

LARGEST_BLOCK = 8 << 30  # bytes of one-hot labels
_UNNAMED = ("", "nan", "na", "none", "null")
_IGNORED = ("edge_labels", "edge_attributes")
_Array: TypeAlias = np.ndarray[Any, Any]


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
    ``NAME_graph_labels.txt``, numbers to regress from ``NAME_graph_attributes.txt``. Node labels
    and attributes become the feature blocks ``"labels"`` (one-hot) and ``"attributes"``; labels and
    attributes of edges are not used, and ``info["ignored"]`` says so.

    Args:
        path: of the folder or zip.
        task: ``"classification"`` or ``"regression"``; ``None`` (default): classification where
            there are graph labels. Regression takes the graph attributes, or else the labels.
        directed: what to do about edges listed in one direction only: ``"error"`` (default), or
            ``"symmetrize"`` to add the other.
        bad: is told of graphs without nodes or with missing targets; default: the first one raises.

    Raises:
        DataError: a broken file; names it and the line.
    """
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    files = find_files(Path(path))
    bad = BadRows() if bad is None else bad
    (indicator,) = read_columns(files, "graph_indicator", "whole", 1)
    targets = _read_targets(files, task)
    graph, kept = _owners(files, indicator, None if targets is None else len(targets), bad)
    y = None
    if targets is not None:
        where = [f"{files.file(part_of(files, task))} line {i + 1}" for i in np.flatnonzero(kept)]
        y = _encode(targets[kept], task or _usual_task(files), where, bad)
        kept[kept] = y.kept
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
        "labels": lambda: _labels(files, len(graph), nodes),
        "attributes": lambda: _attributes(files, len(graph), nodes),
    }
    return RawGraphs(
        ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])),
        edge_index=torch.from_numpy(edges),
        y=None if y is None else y.y,
        task=None if y is None else y.task,
        name=files.name,
        class_names=() if y is None else y.class_names,
        target_names=() if y is None or y.task == "classification" else y.target_names,
        ids=tuple(str(i + 1) for i in np.flatnonzero(kept)),
        blocks={name: block for name, block in blocks.items() if f"node_{name}" in files.members},
        info={"source": str(path), "layout": "TUDataset", **info},
    )


def part_of(files: TUFiles, task: Task | None) -> str:
    """Which file holds the targets: ``"graph_labels"`` or ``"graph_attributes"``."""
    has_labels, has_numbers = (f"graph_{p}" in files.members for p in ("labels", "attributes"))
    if task == "classification" and not has_labels:
        raise DataError(f"{files.path}: classification needs {files.file('graph_labels')}")
    if has_numbers and (task == "regression" or not has_labels):
        return "graph_attributes"
    return "graph_labels"


def _usual_task(files: TUFiles) -> Task:
    return "regression" if part_of(files, None) == "graph_attributes" else "classification"


def _read_targets(files: TUFiles, task: Task | None) -> pd.DataFrame | None:
    part = part_of(files, task)
    if part not in files.members:
        return None
    if part == "graph_attributes":
        columns = read_columns(files, part, "text")
        return pd.DataFrame({f"target_{i}": _stripped(c) for i, c in enumerate(columns, 1)})
    try:
        (labels,) = read_columns(files, part, "whole", 1)
    except DataError:  # words serve as labels as well
        (labels,) = read_columns(files, part, "text", 1)
        labels = _stripped(labels)
        labels[[label.lower() in _UNNAMED for label in labels]] = None
    return pd.DataFrame({"graph label": labels})


def _stripped(column: _Array) -> _Array:
    return np.array([value.strip() for value in column], dtype=object)


def _encode(frame: pd.DataFrame, task: Task, where: list[str], bad: BadRows) -> Targets:
    return encode_targets(frame, list(frame.columns), task, bad=bad, where=where)


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
        raise fault_at(files, "graph_indicator", int(np.argmax(wrong)), reason)
    graph = indicator - 1
    kept = np.bincount(graph, minlength=0 if targets is None else targets) > 0
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
            raise fault_at(files, "A", int(np.argmax(wrong)), reason)
    source, target = source - np.int32(1), target - np.int32(1)
    graph = graph.astype(np.int32)
    wrong = graph[source] != graph[target]
    if wrong.any():
        row = int(np.argmax(wrong))
        ends = f"{graph[source[row]] + 1} and {graph[target[row]] + 1}"
        raise fault_at(files, "A", row, f"the edge joins nodes of two graphs, {ends}")
    matrix = _pattern(target, source, count)
    # The columns of a CSC matrix are sorted: the same arrays mean that the matrix is symmetric.
    other = matrix.tocsc()
    one_way = not np.array_equal(matrix.indptr, other.indptr) or not np.array_equal(
        matrix.indices, other.indices
    )
    if one_way and not symmetrize:
        back = _pattern(source, target, count)
        lone = sparse.coo_matrix(matrix.astype(np.int8) - matrix.multiply(back).astype(np.int8))
        lone.eliminate_zeros()
        row = int(np.argmax((target == lone.row[0]) & (source == lone.col[0])))
        reason = "the edge is listed in one direction only (directed='symmetrize' adds the other)"
        raise fault_at(files, "A", row, reason)
    if one_way:
        matrix = _pattern(np.append(source, target), np.append(target, source), count)
    loops = source == target
    return matrix, {
        "self_loops": int(matrix.diagonal().sum()) if loops.any() else 0,
        "repeated_edges": 0 if one_way else len(source) - matrix.nnz,
        "symmetrized": one_way,
        "ignored": [part for part in _IGNORED if part in files.members],
    }


def _pattern(rows: _Array, columns: _Array, count: int) -> sparse.csr_matrix:
    ones = np.ones(len(rows), np.bool_)  # sums of ones stay ones: repeated edges count once
    matrix = sparse.csr_matrix((ones, (rows, columns)), shape=(count, count))
    matrix.sum_duplicates()  # some versions of SciPy leave that to the caller
    return matrix


def _node_columns(files: TUFiles, part: str, kind: Any, count: int) -> list[_Array]:
    columns = read_columns(files, part, kind)
    if len(columns[0]) != count:
        raise DataError(
            f"{files.path}: {files.file(part)} has {len(columns[0])} lines, but "
            f"{files.file('graph_indicator')} has {count}; both have a line a node"
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
            "for a column each; as numbers they can go into a file of node attributes"
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
