"""A user's graphs: a folder with one file a graph, and a table of their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.file_graph import both_directions
from legs.data.graph_formats import PARSERS, read_graph
from legs.data.label_tables import list_files
from legs.data.node_data import number_block, one_hot_block
from legs.data.raw import Features, RawGraphs

SUFFIXES = frozenset(PARSERS)
_LARGEST = float(np.finfo(np.float32).max)
_Array: TypeAlias = np.ndarray[Any, Any]


def read_folder(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    id_column: str | None = None,
    table: str | Path | None = None,
    directed: Literal["error", "symmetrize"] = "error",
    bad: BadRows | None = None,
) -> RawGraphs:
    """Reads a folder of graph files: GraphML, GML, node-link JSON, edge lists of 2 or 3 columns.

    Numeric node attributes become the block ``attributes``, one column each; a node without one of
    them makes its file bad. The node attribute ``label`` becomes the block ``labels``, one-hot over
    all graphs, unless no two nodes of any graph share one: then they are names. The edge attribute
    ``weight`` is the weight.

    Args:
        path: the folder.
        target: target column or columns of the label table (default: the one that can be meant).
        task: ``"classification"`` or ``"regression"``; default: see :mod:`legs.data.targets`.
        id_column: column of the table that names the files (default: the one that does).
        table: the label table (default: ``labels.csv``, ``targets.csv``, ``graphs.csv`` or the
            same as TSV or Parquet, in the folder); without one there are no targets.
        directed: what to do about directed graphs: ``"error"``, or ``"symmetrize"`` to take every
            arc as an undirected edge, of the larger weight where there are two.
        bad: is told of files that cannot be used; default: the first one raises.

    Raises:
        DataError: names the file, and says what to do.
    """
    bad = BadRows() if bad is None else bad
    if directed not in ("error", "symmetrize"):
        raise DataError(f"directed is 'error' or 'symmetrize', not {directed!r}")
    listing = list_files(path, SUFFIXES, table=table, target=target, id_column=id_column, bad=bad)
    graphs = _read(listing.files, directed == "symmetrize", bad)
    names = _attribute_names(graphs)
    labelled = _have_labels(graphs)
    graphs = [graph for graph in graphs if _complete(graph, names, labelled, bad)]
    if not graphs:
        raise DataError(f"none of the {len(listing.files)} graph files of {path} can be used")
    targets = listing.encode([graph.number for graph in graphs], task, bad)
    if targets is not None:
        graphs = [graph for graph, kept in zip(graphs, targets.kept, strict=True) if kept]

    nodes = [graph.nodes for graph in graphs]
    blocks: dict[str, Callable[[], Features]] = {}
    if names:
        blocks["attributes"] = lambda: number_block(nodes, names, lambda i: graphs[i].file)
    if labelled:
        blocks["labels"] = lambda: one_hot_block(nodes, "label", lambda i: graphs[i].file)
    ptr = np.cumsum([0, *map(len, nodes)])
    shifted = [graph.edge_index + start for graph, start in zip(graphs, ptr, strict=False)]
    return RawGraphs(
        torch.from_numpy(ptr),
        torch.from_numpy(np.concatenate(shifted, axis=1)),
        _weights(graphs),
        y=None if targets is None else targets.y,
        task=None if targets is None else targets.task,
        name=Path(path).name,
        class_names=() if targets is None else targets.class_names,
        target_names=() if targets is None else targets.target_names,
        ids=tuple(listing.ids[graph.number] for graph in graphs),
        blocks=blocks,
        default_features=("attributes",) if names else ("structure",),
        info={"source": str(path)},
    )


class _Graph(NamedTuple):
    number: int  # among the files
    file: str
    nodes: list[dict[str, Any]]
    edge_index: _Array  # [2, edges] int64, both directions
    edge_weight: _Array | None  # [edges]


def _read(files: Sequence[Path], symmetrize: bool, bad: BadRows) -> list[_Graph]:
    graphs = []
    for number, file in enumerate(files):
        try:
            graph = read_graph(file)
        except DataError as error:
            bad.add(file.name, str(error))
            continue
        try:
            edges, weight = both_directions(graph, symmetrize=symmetrize)
        except DataError as error:  # a choice to make, not a broken file: never skipped
            raise DataError(f"{file.name}: {error}") from error
        graphs.append(_Graph(number, file.name, graph.nodes, edges, weight))
    return graphs


def _attribute_names(graphs: Sequence[_Graph]) -> tuple[str, ...]:
    """Names of all attributes that are a number somewhere, as they are first seen."""
    seen: dict[str, None] = {}
    for graph in graphs:
        for node in graph.nodes:
            seen.update(
                dict.fromkeys(k for k, value in node.items() if isinstance(value, int | float))
            )
    seen.pop("label", None)
    return tuple(seen)


def _have_labels(graphs: Sequence[_Graph]) -> bool:
    """Whether nodes have labels; where all of every graph differ, as in GML, they are names."""
    for graph in graphs:
        labels = [node["label"] for node in graph.nodes if "label" in node]
        if len(set(map(str, labels))) < len(labels):
            return True
    return False


def _complete(graph: _Graph, names: Sequence[str], labelled: bool, bad: BadRows) -> bool:
    for k, node in enumerate(graph.nodes):
        for name in names:
            value = node.get(name)
            # In float32, as it will be kept.
            if not isinstance(value, int | float) or not abs(value) <= _LARGEST:
                told = "no attribute" if value is None else f"{str(value)[:40]!r} as attribute"
                bad.add(graph.file, f"node {k} has {told} {name!r}, where others have numbers")
                return False
        label = node.get("label")
        if labelled and (not isinstance(label, str | int | float) or label != label):
            bad.add(graph.file, f"node {k} has no label, others have")
            return False
    return True


def _weights(graphs: Sequence[_Graph]) -> Tensor | None:
    if all(graph.edge_weight is None for graph in graphs):
        return None
    values = [
        np.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
        for graph in graphs
    ]
    weight = np.concatenate(values).astype(np.float32)
    return None if (weight == 1).all() else torch.from_numpy(weight)
