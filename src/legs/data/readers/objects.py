"""Graphs from Python: networkx, PyG, adjacency matrices, RDKit molecules, SMILES."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
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
    vector_block,
)
from legs.data.readers.molecules import from_smiles
from legs.data.readers.targets import encode_targets
from legs.data.validate import Array, check_graphs

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
    """A data set from graphs in memory, of mixed sizes and, if their features agree, mixed kinds.

    Args:
        graphs: undirected, each one of: a networkx graph (edge attribute ``weight``; node attribute
            ``x`` or numeric node attributes; node attribute ``label``), PyG ``Data``
            (``edge_index``, ``edge_weight``, ``edge_attr``, ``x``, ``y``), a scipy sparse or dense
            adjacency matrix, an RDKit molecule, a SMILES string. Or a data set already made.
        y: targets, one (or a row of several) per graph; default: ``y`` of PyG graphs, or none.
        features: see :func:`legs.data.features.blocks.assemble`. Default: ``"chem"`` for
            molecules, ``"attributes"`` for graphs that carry node features, else ``"structure"``.
        task: ``"classification"``, ``"regression"`` or ``"multilabel"`` (columns of 0 and 1);
            default: as the targets look, one of the first two.
        name: of the data set (default none).

    Raises:
        DataError: naming the graph (counted from 0) that is empty, directed, has weights that are
            negative or NaN, or cannot be read; or where graphs offer different node features.

    >>> import networkx as nx
    >>> data = from_objects([nx.path_graph(3), nx.star_graph(4)], y=["path", "star"])
    >>> data.sizes, data.feature_names, data.class_names
    (tensor([3, 5]), ('eccentricity', 'clustering'), ('path', 'star'))
    """
    if not isinstance(graphs, GraphDataset):
        graphs = _listed(graphs)
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
    graphs = _listed(graphs)
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
    parts: dict[int, Graph] = {}
    blocks: dict[Kind, Blocks] = {}
    for kind, numbers in places.items():
        own = [graphs[i] for i in numbers]
        if kind == "molecule":
            raw = from_smiles(own, where=[f"graph {i}" for i in numbers].__getitem__)
            if len(places) == 1:
                return raw
            whole = GraphDataset.from_edges(
                torch.empty(int(raw.ptr[-1]), 0), raw.ptr, raw.edge_index
            )
            read = [Graph(int(g.num_nodes or 0), g.edge_index.numpy()) for g in whole]
            blocks[kind] = dict(raw.blocks)
        else:
            read = [_READERS[kind](g, f"graph {i}") for g, i in zip(own, numbers, strict=True)]
            blocks[kind] = _blocks(kind, own, read)
        parts |= zip(numbers, read, strict=True)
    joined = join_graphs([parts[i] for i in range(len(graphs))])
    kinds = {i: kind for kind, numbers in places.items() for i in numbers}
    check_graphs(*joined, advice=lambda i: _ADVICE[kinds[i]])
    offered = dict.fromkeys(chain.from_iterable(blocks.values()))
    default = next((name for name in ("chem", "attributes") if name in offered), "structure")
    together = blocks[kinds[0]]
    if len(places) > 1:
        of_nodes = np.repeat([kinds[i] for i in range(len(graphs))], joined[0].diff().numpy())
        named = {kind: f"graph {places[kind][0]} ({NAMES[kind]})" for kind in blocks}
        together = {name: partial(_mixed_block, name, blocks, of_nodes, named) for name in offered}
    edge_attr = _edge_features([*parts.values()]) if len(places) == 1 else None
    return RawGraphs(*joined, blocks=together, default_features=(default,), edge_attr=edge_attr)


def _edge_features(graphs: Sequence[Graph]) -> Tensor | None:
    """``edge_attr`` of all graphs; those without edges need none."""
    with_edges = [graph for graph in graphs if graph.edge_index.shape[1]]
    if all(graph.edge_attr is None for graph in with_edges):
        return None
    tables: list[Array] = []
    for graph in with_edges:
        if graph.edge_attr is None:
            raise DataError(f"{graph.name} has no edge_attr, others have; add or remove it")
        tables.append(graph.edge_attr)
        width, first = tables[-1].shape[1], tables[0].shape[1]
        if width != first:
            raise DataError(f"{graph.name} has {width} edge features, {with_edges[0].name} {first}")
    return torch.from_numpy(np.concatenate(tables))


def _mixed_block(
    name: str, blocks: dict[Kind, Blocks], of_nodes: Array, named: dict[Kind, str]
) -> Features:
    """Features that graphs of all kinds have, with the same columns."""
    advice = "choose features that all have, such as features='structure'"
    chosen: dict[Kind, Features] = {}
    for kind, own in blocks.items():
        if name not in own:
            raise DataError(
                f"{named[kind]} has no node features {name!r}, other graphs have; {advice}"
            )
        chosen[kind] = own[name]()
        first, names = next((kind, features.names) for kind, features in chosen.items())
        if chosen[kind].names != names:
            one, other = ", ".join(chosen[kind].names), ", ".join(names)
            raise DataError(f"{named[kind]} has the {name} {one}, {named[first]} {other}; {advice}")
    x = torch.empty(len(of_nodes), len(names))
    for kind, features in chosen.items():
        x[of_nodes == kind] = features.x
    return Features(x, names)


def _listed(graphs: Iterable[Any]) -> list[Any]:
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
    if isinstance(y, np.ndarray):
        columns = list(y.reshape(len(y), -1).T)
    else:
        rows = [list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in y]
        if len({len(row) for row in rows}) > 1:
            raise DataError("graphs have different numbers of targets")
        columns = [np.empty(len(rows), dtype=object) for _ in rows[0]]
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column[:] = values
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
    attr = None if attr is None else as_columns(attr.detach().cpu()).numpy()
    return Graph(size, edges, weight, name=name, edge_attr=attr)


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


def _blocks(kind: Kind, graphs: Sequence[Any], parts: Sequence[Graph]) -> Blocks:
    """Blocks of node features; ``x``, or else every numeric attribute, are ``attributes``."""
    if kind == "networkx":
        blocks = node_blocks(parts, attribute_names(parts))
        if any("x" in node for graph in parts for node in graph.nodes):
            blocks["attributes"] = lambda: vector_block(parts)
        return blocks
    if kind == "data" and any(graph.get("x") is not None for graph in graphs):
        return {"attributes": lambda: _stack(graphs, parts)}
    return {}


def _stack(graphs: Sequence[Data], parts: Sequence[Graph]) -> Features:
    """PyG's ``x`` of all graphs, one below the other; a vector is one column."""
    tables: list[Tensor] = []
    for graph, part in zip(graphs, parts, strict=True):
        if (x := graph.get("x")) is None:
            advice = "add it, or choose features='structure'"
            raise DataError(f"{part.name} has no x, others have; {advice}")
        tables.append(x.detach().cpu().reshape(x.shape[0], -1).float())
        width, first = tables[-1].shape[1], tables[0].shape[1]
        if width != first:
            raise DataError(f"{part.name} has {width} node features, {parts[0].name} {first}")
        if not torch.isfinite(tables[-1]).all():
            raise DataError(f"{part.name} has node features that are NaN or infinite")
    return Features(torch.cat(tables), tuple(f"x{c}" for c in range(tables[0].shape[1])))


_READERS = {"networkx": _from_networkx, "data": _from_data, "matrix": _from_matrix}
