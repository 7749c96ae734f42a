"""Graphs from Python: networkx, PyG, adjacency matrices, RDKit molecules, SMILES."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Batch, Data

from legs.data.dataset import GraphDataset, Task, as_columns
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.readers.base import (
    SAME_FIELDS,
    Blocks,
    Features,
    Graph,
    RawGraphs,
    attribute_names,
    both_directions,
    from_networkx,
    join_graphs,
    node_blocks,
    node_vectors,
)
from legs.data.readers.molecules import from_smiles
from legs.data.readers.targets import encode_targets
from legs.data.validate import check_graphs

Kind: TypeAlias = Literal["networkx", "data", "matrix", "molecule"]
NAMES: dict[Kind, str] = {
    "networkx": "a networkx graph",
    "data": "PyG Data",
    "matrix": "an adjacency matrix",
    "molecule": "an RDKit molecule or a SMILES string",
}
_ADVICE: dict[Kind, str] = {
    "networkx": "symmetrise it with .to_undirected()",
    "data": "symmetrise it with torch_geometric.utils.to_undirected(edge_index, ...)",
    "matrix": "symmetrise it with (A + A.T) / 2",
}


def from_objects(
    graphs: Iterable[Any] | GraphDataset,
    y: Any = None,
    features: str | Sequence[str] | None = None,
    *,
    task: Task | None = None,
    name: str = "",
) -> GraphDataset:
    """A data set from graphs in memory, of mixed sizes and one kind.

    Args:
        graphs: undirected, all of one kind: networkx graphs (edge attribute ``weight``; node
            attribute ``x`` or numeric node attributes; node attribute ``label``), PyG ``Data``
            (``edge_index``, ``edge_weight``, ``edge_attr``, ``x``, ``y``), scipy sparse or dense
            adjacency matrices, RDKit molecules and SMILES strings. Or a data set already made.
        y: targets, one (or a row of several) per graph; default: ``y`` of PyG graphs, or none.
        features: see :func:`legs.data.features.blocks.assemble`. Default: ``"chem"`` for
            molecules, ``"attributes"`` for graphs that carry node features, else ``"structure"``.
        task: ``"classification"``, ``"regression"`` or ``"multilabel"`` (columns of 0 and 1);
            default: as the targets look, one of the first two.
        name: of the data set (default none).

    Raises:
        DataError: naming the graph (counted from 0) that is empty, directed, has weights that are
            negative or NaN, or cannot be read; or where graphs have different node features.

    >>> import networkx as nx
    >>> data = from_objects([nx.path_graph(3), nx.star_graph(4)], y=["path", "star"])
    >>> data.sizes, data.feature_names, data.class_names
    (tensor([3, 5]), ('eccentricity', 'clustering'), ('path', 'star'))
    """
    if not isinstance(graphs, GraphDataset):
        graphs = listed(graphs)
        y = _own_targets(graphs) if y is None else y
    raw = read_objects(graphs)
    raw = replace(raw, name=name or raw.name)
    if y is not None:
        y = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
        columns, where = _columns(y), [f"graph {i}" for i in range(len(raw.ptr) - 1)]
        if len(y) != len(where):
            raise DataError(f"{len(where)} graphs, but {len(y)} targets")
        targets = encode_targets(columns, list(columns), task, where=where)
        raw = replace(raw, **targets.fields())
    return assemble(raw, features)


def read_objects(graphs: Iterable[Any] | GraphDataset) -> RawGraphs:
    """Graphs as in :func:`from_objects`, checked, before features are chosen; without ``y``."""
    if isinstance(graphs, GraphDataset):
        return _reopen(graphs)
    graphs = listed(graphs)
    kind = _common_kind(graphs)
    if kind == "molecule":
        return from_smiles(graphs, where="graph {}".format)
    parts = [_READERS[kind](graph, f"graph {i}") for i, graph in enumerate(graphs)]
    joined = join_graphs(parts)
    check_graphs(*joined, advice=_ADVICE[kind])
    blocks: Blocks = {}
    if kind == "networkx":
        blocks = node_blocks(parts, attribute_names(parts))
    if any(part.x is not None or any("x" in node for node in part.nodes) for part in parts):
        blocks["attributes"] = partial(_own_features, parts)
    default = "attributes" if "attributes" in blocks else "structure"
    # Graphs without edges need no edge features.
    attrs = {part.name: part.edge_attr for part in parts if part.edge_index.shape[1]}
    edge_attr = None
    if any(attr is not None for attr in attrs.values()):
        edge_attr = _stack(attrs, "edge_attr", "edge features")
    return RawGraphs(*joined, blocks=blocks, default_features=(default,), edge_attr=edge_attr)


def _own_features(parts: Sequence[Graph]) -> Features:
    """``x`` of all graphs."""
    tables = {part.name: node_vectors(part) if part.nodes else part.x for part in parts}
    x = _stack(tables, "x", "node features").float()
    return Features(x, tuple(f"x{column}" for column in range(x.shape[1])))


def _stack(tables: Mapping[str, Tensor | None], name: str, columns: str) -> Tensor:
    """Tables of all graphs, by the names of these, one below the other."""
    rows: list[Tensor] = []
    for graph, table in tables.items():
        if table is None:
            raise DataError(f"{graph} has no {name}, others have; add it, or remove theirs")
        rows.append(as_columns(table.detach().cpu()))
        width, first = rows[-1].shape[1], rows[0].shape[1]
        if width != first:
            raise DataError(f"{graph} has {width} {columns}, {next(iter(tables))} {first}")
    return torch.cat(rows)


def _common_kind(graphs: Sequence[Any]) -> Kind:
    """The kind of all graphs; others, and kinds that cannot be read, are named."""
    first = _kind(graphs[0])
    for i, graph in enumerate(graphs):
        kind = _kind(graph)
        if kind is None or isinstance(graph, Batch):
            more = " (take it apart with .to_data_list())" if kind else ""
            raise DataError(
                f"graph {i} is of type {type(graph).__qualname__}{more}; a graph can be "
                f"{', '.join(NAMES.values())}"
            )
        if first is not None and kind != first:
            raise DataError(
                f"graph {i} is {NAMES[kind]}, graph 0 {NAMES[first]}; a list holds graphs of one "
                "kind"
            )
    assert first is not None
    return first


def listed(graphs: Iterable[Any]) -> list[Any]:
    """Graphs as a list, also from a PyG batch or a table with one column."""
    if isinstance(graphs, Batch):
        return list(graphs.to_data_list())
    if (kind := _kind(graphs)) is not None:
        what = "a SMILES string" if isinstance(graphs, str) else NAMES[kind]
        raise DataError(f"{what} instead of a list of graphs; put it in a list: [graph]")
    if hasattr(graphs, "iloc") and hasattr(graphs, "columns"):
        if len(graphs.columns) != 1:
            raise DataError("a table instead of a list of graphs; choose a column: table['smiles']")
        graphs = graphs.iloc[:, 0]
    try:
        graphs = list(graphs)
    except TypeError:
        raise DataError(f"a list of graphs is needed; got {type(graphs).__name__}") from None
    if not graphs:
        raise DataError("the list of graphs is empty")
    return graphs


def _kind(graph: Any) -> Kind | None:
    if isinstance(graph, str):
        return "molecule"
    if isinstance(graph, Data):
        return "data"
    if sparse.issparse(graph) or (isinstance(graph, np.ndarray) and graph.ndim == 2):
        return "matrix"
    # An object of a library that nobody has imported is not in our hands.
    networkx, chem = sys.modules.get("networkx"), sys.modules.get("rdkit.Chem")
    if networkx is not None and isinstance(graph, networkx.Graph):
        return "networkx"
    if chem is not None and isinstance(graph, chem.Mol):
        return "molecule"
    return None


def _reopen(data: GraphDataset) -> RawGraphs:
    """A data set as a reader would give it, so that other features can be chosen."""
    names = data.feature_names or tuple(f"x{c}" for c in range(data.x.shape[1]))
    return RawGraphs(
        data.ptr,
        data.whole().edge_index,
        data.edge_weight,
        edge_attr=data.edge_attr,
        blocks={"attributes": lambda: Features(data.x, names)},
        default_features=("attributes",),
        info={**data.info, **({"groups": data.groups} if data.groups else {})},
        **{field: getattr(data, field) for field in SAME_FIELDS},
    )


def _own_targets(graphs: list[Any]) -> Any:
    """``y`` of PyG graphs, where every graph has one."""
    targets = [graph.get("y") if isinstance(graph, Data) else None for graph in graphs]
    if any(value is None for value in targets):
        return None
    rows = [value.detach().cpu().reshape(-1) for value in targets if isinstance(value, Tensor)]
    if len(rows) < len(targets):
        return targets
    # Rows of different lengths are targets of nodes.
    return torch.stack(rows) if len({len(row) for row in rows}) == 1 else None


def _columns(y: Any) -> dict[str, Any]:
    """Target columns by name, from a table, a column, an array or nested lists."""
    if hasattr(y, "iloc"):  # pandas
        series = [y.iloc[:, k] for k in range(y.shape[1])] if y.ndim == 2 else [y]
        names = [k if c.name is None else c.name for k, c in enumerate(series)]
        return {n if isinstance(n, str) else f"y{n}": c for n, c in zip(names, series, strict=True)}
    y = y if isinstance(y, np.ndarray) else np.array(y, dtype=object)
    columns = list(y.reshape(len(y), -1).T)
    return {"y": columns[0]} if len(columns) == 1 else {f"y{k}": c for k, c in enumerate(columns)}


def _from_networkx(graph: Any, name: str) -> Graph:
    if graph.is_directed():
        raise DataError(f"{name} is a directed networkx graph; {_ADVICE['networkx']}")
    try:
        return both_directions(from_networkx(graph))._replace(name=name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def _from_data(graph: Data, name: str) -> Graph:
    """A PyG graph with both directions of every edge."""
    index, weight = graph.get("edge_index"), graph.get("edge_weight")
    if index is None and graph.get("adj_t") is not None:
        raise DataError(f"{name} has adj_t and no edge_index; leave out ToSparseTensor")
    index = torch.empty(2, 0, dtype=torch.long) if index is None else index.detach().cpu()
    if index.dim() != 2 or index.shape[0] != 2 or index.is_floating_point():
        shape = f"{index.dtype}, {list(index.shape)}"
        raise DataError(f"{name}: edge_index must hold integers, [2, edges]; got {shape}")
    size, edges = int(graph.num_nodes or 0), index.numpy().astype(np.int64)
    for wrong in edges[(edges < 0) | (edges >= size)]:
        raise DataError(f"{name}: edge_index names node {wrong}, but there are {size}")
    weight = None if weight is None else weight.detach().cpu().numpy().reshape(-1)
    if weight is not None and weight.size != len(edges[0]):
        raise DataError(f"{name} has {weight.size} edge weights for {len(edges[0])} edges")
    attr = graph.get("edge_attr")
    if attr is not None and len(attr) != len(edges[0]):
        raise DataError(f"{name} has {len(attr)} rows of edge_attr for {len(edges[0])} edges")
    return Graph(size, edges, weight, name=name, edge_attr=attr, x=graph.get("x"))


def _from_matrix(graph: Any, name: str) -> Graph:
    """A symmetric matrix of weights: scipy sparse of any format, or a two-dimensional array."""
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise DataError(f"{name}: an adjacency matrix is square; got {graph.shape}")
    if np.dtype(graph.dtype).kind not in "buif":
        raise DataError(f"{name}: an adjacency matrix holds numbers; got {graph.dtype}")
    matrix = sparse.csr_array(graph).tocoo()  # adds up entries that are listed twice
    matrix.eliminate_zeros()
    edges = np.stack([matrix.row, matrix.col]).astype(np.int64)
    return Graph(int(graph.shape[0]), edges, matrix.data, name=name)


_READERS = {"networkx": _from_networkx, "data": _from_data, "matrix": _from_matrix}
