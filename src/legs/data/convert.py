"""Lists of graphs from Python: networkx, PyG, adjacency matrices, RDKit molecules, SMILES."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Batch, Data

from legs.data.checks import Where
from legs.data.dataset import GraphDataset, Task
from legs.data.errors import DataError
from legs.data.features import assemble
from legs.data.merge import merge
from legs.data.objects import read_data, read_matrices, read_networkx
from legs.data.raw import Features, RawGraphs
from legs.data.targets import encode_targets

Kind: TypeAlias = Literal["networkx", "data", "matrix", "mol", "smiles"]
NAMES: dict[Kind, str] = {
    "networkx": "a networkx graph",
    "data": "PyG Data",
    "matrix": "an adjacency matrix",
    "mol": "an RDKit molecule",
    "smiles": "a SMILES string",
}


def from_objects(
    graphs: Iterable[Any] | GraphDataset,
    y: Any = None,
    features: str | Sequence[str] | None = None,
    *,
    task: Task | None = None,
    name: str = "",
) -> GraphDataset:
    """A data set from graphs in memory, of mixed sizes and, if their features agree, mixed kinds.

    Args:
        graphs: undirected, each one of: a networkx graph (edge attribute ``weight``; node attribute
            ``x`` or numeric node attributes; node attribute ``label``), PyG ``Data``
            (``edge_index``, ``edge_weight``, ``x``, ``y``), a scipy sparse or dense adjacency
            matrix, an RDKit molecule, a SMILES string. Or a data set already made.
        y: targets, one (or a row of several) a graph; default: ``y`` of PyG graphs, or none.
        features: node features, as in :func:`legs.data.features.assemble`. Default: ``"chem"`` for
            molecules, ``"attributes"`` for graphs that carry node features, else ``"structure"``.
        task: ``"classification"`` or ``"regression"``; default: as the targets look.
        name: of the data set (default none).

    Raises:
        DataError: naming the graph (counted from 0) that is empty, directed, has weights that are
            negative or NaN, or cannot be read; or where graphs offer different node features.

    >>> import networkx as nx
    >>> data = from_objects([nx.path_graph(3), nx.star_graph(4)], y=["path", "star"])
    >>> data.sizes, data.feature_names, data.class_names
    (tensor([3, 5]), ('eccentricity', 'clustering'), ('path', 'star'))
    """
    listed = graphs if isinstance(graphs, GraphDataset) else _listed(graphs)
    raw = read_objects(listed)
    raw = replace(raw, name=name or raw.name)
    if y is None and isinstance(listed, list):
        y = _own_targets(listed)
    return assemble(raw if y is None else _with_targets(raw, y, task), features)


def read_objects(graphs: Iterable[Any] | GraphDataset) -> RawGraphs:
    """Graphs as in :func:`from_objects`, checked, before node features are chosen.

    Targets are left aside, except those of a data set already made.

    >>> read_objects(["CCO", "C"]).default_features
    ('chem',)
    """
    return _reopen(graphs) if isinstance(graphs, GraphDataset) else _read(_listed(graphs))


def _listed(graphs: Iterable[Any]) -> list[Any]:
    if isinstance(graphs, Batch):
        return list(graphs.to_data_list())
    if _kind(graphs) is not None:
        raise DataError(f"{_named(graphs)} instead of a list of graphs; put it in a list: [graph]")
    if isinstance(graphs, pd.DataFrame):
        raise DataError("a table instead of a list of graphs; choose a column: table['smiles']")
    try:
        listed = list(graphs)
    except TypeError:
        raise DataError(f"a list of graphs is needed; got {type(graphs).__name__}") from None
    if not listed:
        raise DataError("the list of graphs is empty")
    return listed


def _read(graphs: list[Any]) -> RawGraphs:
    places: dict[Kind, list[int]] = {}
    for i, graph in enumerate(graphs):
        kind = _kind(graph)
        if kind is None or isinstance(graph, Batch):
            more = " (take it apart with .to_data_list())" if kind else ""
            raise DataError(
                f"graph {i} is of type {type(graph).__qualname__}{more}; a graph can be "
                f"{', '.join(NAMES.values())}"
            )
        places.setdefault(kind, []).append(i)
    parts = [
        _READERS[kind]([graphs[i] for i in numbers], partial(_graph_number, numbers))
        for kind, numbers in places.items()
    ]
    if len(parts) == 1:
        return parts[0]
    return merge(parts, list(places.values()), [NAMES[kind] for kind in places])


def _kind(graph: Any) -> Kind | None:
    if isinstance(graph, str):
        return "smiles"
    if isinstance(graph, Data):
        return "data"
    if sparse.issparse(graph) or (isinstance(graph, np.ndarray) and graph.ndim == 2):
        return "matrix"
    # An object of a library that nobody has imported is not in our hands.
    networkx, chem = sys.modules.get("networkx"), sys.modules.get("rdkit.Chem")
    if networkx is not None and isinstance(graph, networkx.Graph):
        return "networkx"
    if chem is not None and isinstance(graph, chem.Mol):
        return "mol"
    return None


def _named(graph: Any) -> str:
    kind = _kind(graph)
    return NAMES[kind] if kind else type(graph).__name__


def _graph_number(numbers: Sequence[int], i: int) -> str:
    return f"graph {numbers[i]}"


def _read_mols(mols: Sequence[Any], where: Where) -> RawGraphs:
    from legs.data.molecules import from_mols

    return from_mols(mols, where=where)


def _read_smiles(smiles: Sequence[str], where: Where) -> RawGraphs:
    from legs.data.molecules import from_smiles

    return from_smiles(smiles, where=where)


_READERS: dict[Kind, Callable[[Sequence[Any], Where], RawGraphs]] = {
    "networkx": read_networkx,
    "data": read_data,
    "matrix": read_matrices,
    "mol": _read_mols,
    "smiles": _read_smiles,
}


def _reopen(data: GraphDataset) -> RawGraphs:
    """A data set as a reader would give it, so that other features can be chosen."""
    features = Features(
        data.x, data.feature_names or tuple(f"x{c}" for c in range(data.x.shape[1]))
    )
    known = ("y", "task", "name", "class_names", "target_names", "ids", "smiles")
    return RawGraphs(
        data.ptr,
        data.whole().edge_index,
        data.edge_weight,
        blocks={"attributes": lambda: features},
        default_features=("attributes",),
        info={**data.info, **({"groups": data.groups} if data.groups else {})},
        **{field: getattr(data, field) for field in known},
    )


def _own_targets(graphs: list[Any]) -> Any:
    """``y`` of PyG graphs, where every graph has one."""
    found = [graph.get("y") if isinstance(graph, Data) else None for graph in graphs]
    if any(value is None for value in found):
        return None
    tensors = [value for value in found if isinstance(value, Tensor)]
    if len(tensors) == len(found):
        rows = [value.detach().cpu().reshape(-1) for value in tensors]
        if len({len(row) for row in rows}) > 1:
            return None  # one target a node, not a graph
        return torch.stack(rows)
    return found


def _with_targets(raw: RawGraphs, y: Any, task: Task | None) -> RawGraphs:
    graphs = raw.ptr.numel() - 1
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    frame = y.reset_index(drop=True) if isinstance(y, pd.DataFrame) else pd.DataFrame(y)
    if len(frame) != graphs:
        raise DataError(f"{graphs} graphs, but {len(frame)} targets")
    frame.columns = pd.Index([c if isinstance(c, str) else f"y{c}" for c in frame.columns])
    if len(frame.columns) == 1 and not isinstance(y, (pd.DataFrame, pd.Series)):
        frame.columns = pd.Index(["y"])
    targets = encode_targets(
        frame,
        list(frame.columns),
        task,
        where=[f"graph {i}" for i in range(graphs)],
        missing=True,
    )
    return replace(
        raw,
        y=targets.y,
        task=targets.task,
        class_names=targets.class_names,
        target_names=targets.target_names,
    )
