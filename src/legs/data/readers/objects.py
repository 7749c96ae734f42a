"""Graphs from Python: networkx, PyG, adjacency matrices, RDKit molecules, SMILES."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Batch, Data

from legs.data.dataset import GraphDataset, Task, offsets
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.readers.base import Blocks, Features, RawGraphs
from legs.data.readers.graphs import (
    Graph,
    attribute_names,
    both_directions,
    from_networkx,
    join_graphs,
    node_blocks,
    vector_block,
)
from legs.data.readers.molecules import from_smiles
from legs.data.readers.targets import encode_targets
from legs.data.validate import Where, check_graphs

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
        y: targets, one (or a row of several) per graph; default: ``y`` of PyG graphs, or none.
        features: see :func:`legs.data.features.blocks.assemble`. Default: ``"chem"`` for
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
    if not isinstance(graphs, GraphDataset):
        graphs = _listed(graphs)
    raw = read_objects(graphs)
    raw = replace(raw, name=name or raw.name)
    if y is None and isinstance(graphs, list):
        y = _own_targets(graphs)
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
    if (kind := _kind(graphs)) is not None:
        raise DataError(f"{NAMES[kind]} instead of a list of graphs; put it in a list: [graph]")
    if hasattr(graphs, "iloc") and hasattr(graphs, "columns"):
        raise DataError("a table instead of a list of graphs; choose a column: table['smiles']")
    try:
        graphs = list(graphs)
    except TypeError:
        raise DataError(f"a list of graphs is needed; got {type(graphs).__name__}") from None
    if not graphs:
        raise DataError("the list of graphs is empty")
    return graphs


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
    readers: dict[Kind, Callable[..., RawGraphs]] = {
        "networkx": _read_networkx,
        "data": _read_data,
        "matrix": _read_matrices,
    }
    parts: list[RawGraphs] = []
    for kind, numbers in places.items():
        where = [f"graph {i}" for i in numbers].__getitem__
        parts.append(readers.get(kind, from_smiles)([graphs[i] for i in numbers], where=where))
    if len(parts) == 1:
        return parts[0]
    return _merge(parts, list(places.values()), [NAMES[kind] for kind in places])


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


def _reopen(data: GraphDataset) -> RawGraphs:
    """A data set as a reader would give it, so that other features can be chosen."""
    names = data.feature_names or tuple(f"x{c}" for c in range(data.x.shape[1]))
    fields = ("y", "task", "name", "class_names", "target_names", "ids", "smiles")
    return RawGraphs(
        data.ptr,
        data.whole().edge_index,
        data.edge_weight,
        blocks={"attributes": lambda: Features(data.x, names)},
        default_features=("attributes",),
        info={**data.info, **({"groups": data.groups} if data.groups else {})},
        **{field: getattr(data, field) for field in fields},
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


def _with_targets(raw: RawGraphs, y: Any, task: Task | None) -> RawGraphs:
    graphs = raw.ptr.numel() - 1
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    columns = _columns(y)
    if len(y) != graphs:
        raise DataError(f"{graphs} graphs, but {len(y)} targets")
    where = [f"graph {i}" for i in range(graphs)]
    return replace(raw, **encode_targets(columns, list(columns), task, where=where).fields())


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


def _read_networkx(graphs: Sequence[Any], where: Where) -> RawGraphs:
    """Undirected networkx graphs; ``x``, or else every numeric node attribute, are attributes."""
    advice = "symmetrise it with .to_undirected()"
    parts: list[Graph] = []
    for i, graph in enumerate(graphs):
        if graph.is_directed():
            raise DataError(f"{where(i)} is a directed networkx graph; {advice}")
        try:
            parts.append(both_directions(from_networkx(graph))._replace(name=where(i)))
        except DataError as error:
            raise DataError(f"{where(i)}: {error}") from error
    blocks = node_blocks(parts, attribute_names(parts))
    if any("x" in node for graph in parts for node in graph.nodes):
        blocks["attributes"] = lambda: vector_block(parts)
    return _gather(parts, where, advice, blocks)


def _read_data(graphs: Sequence[Data], where: Where) -> RawGraphs:
    """PyG graphs with both directions of every edge; ``edge_attr`` is not looked at."""
    parts = []
    for i, graph in enumerate(graphs):
        index, weight = graph.get("edge_index"), graph.get("edge_weight")
        if index is None and graph.get("adj_t") is not None:
            raise DataError(f"{where(i)} has adj_t and no edge_index; leave out ToSparseTensor")
        index = torch.empty(2, 0, dtype=torch.long) if index is None else index.detach().cpu()
        if index.dim() != 2 or index.shape[0] != 2 or index.is_floating_point():
            shape = f"{index.dtype}, {list(index.shape)}"
            raise DataError(f"{where(i)}: edge_index must hold integers, [2, edges]; got {shape}")
        size, edges = int(graph.num_nodes or 0), index.numpy().astype(np.int64)
        wrong = edges[(edges < 0) | (edges >= size)]
        if wrong.size:
            raise DataError(f"{where(i)}: edge_index names node {wrong[0]}, but there are {size}")
        weight = None if weight is None else weight.detach().cpu().numpy().reshape(-1)
        if weight is not None and weight.size != len(edges[0]):
            raise DataError(f"{where(i)} has {weight.size} edge weights for {len(edges[0])} edges")
        parts.append(Graph(size, edges, weight))
    rows = [graph.get("x") for graph in graphs]
    blocks: Blocks = {}
    if any(x is not None for x in rows):
        blocks["attributes"] = lambda: _stack(rows, where)
    advice = "symmetrise it with torch_geometric.utils.to_undirected(edge_index, ...)"
    return _gather(parts, where, advice, blocks)


def _read_matrices(graphs: Sequence[Any], where: Where) -> RawGraphs:
    """Symmetric matrices of weights: scipy sparse of any format, or two-dimensional arrays."""
    parts = []
    for i, graph in enumerate(graphs):
        if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
            raise DataError(f"{where(i)}: an adjacency matrix is square; got {graph.shape}")
        if np.dtype(graph.dtype).kind not in "buif":
            raise DataError(f"{where(i)}: an adjacency matrix holds numbers; got {graph.dtype}")
        matrix = sparse.csr_array(graph).tocoo()  # adds up entries that are listed twice
        matrix.eliminate_zeros()
        edges = np.stack([matrix.row, matrix.col]).astype(np.int64)
        parts.append(Graph(int(graph.shape[0]), edges, matrix.data))
    return _gather(parts, where, "symmetrise it with (A + A.T) / 2", {})


def _gather(parts: Sequence[Graph], where: Where, symmetrise: str, blocks: Blocks) -> RawGraphs:
    joined = join_graphs(parts)
    check_graphs(*joined, where=where, symmetrise=symmetrise)
    default = ("attributes",) if "attributes" in blocks else ("structure",)
    return RawGraphs(*joined, blocks=blocks, default_features=default)


def _stack(rows: Sequence[Tensor | None], where: Where) -> Features:
    """PyG's ``x`` of all graphs, one below the other; a vector is one column."""
    tables: list[Tensor] = []
    for i, x in enumerate(rows):
        if x is None:
            advice = "add it, or choose features='structure'"
            raise DataError(f"{where(i)} has no x, others have; {advice}")
        tables.append(x.detach().cpu().reshape(x.shape[0], -1).float())
        width, first = tables[-1].shape[1], tables[0].shape[1]
        if width != first:
            raise DataError(f"{where(i)} has {width} node features, {where(0)} {first}")
        if not torch.isfinite(tables[-1]).all():
            raise DataError(f"{where(i)} has node features that are NaN or infinite")
    return Features(torch.cat(tables), tuple(f"x{c}" for c in range(tables[0].shape[1])))


def _merge(
    parts: Sequence[RawGraphs], places: Sequence[Sequence[int]], kinds: Sequence[str]
) -> RawGraphs:
    """Puts the graphs of several kinds into the order of their ``places``."""

    def block(name: str) -> Features:
        """Features that all parts have, with the same columns."""
        blocks: list[Features] = []
        for part, numbers, kind in zip(parts, places, kinds, strict=True):
            graph = f"graph {numbers[0]} ({kind})"
            fault = f"no node features {name!r}, other graphs have"
            if name in part.blocks:
                blocks.append(part.blocks[name]())
                if blocks[-1].names == blocks[0].names:
                    continue
                one, other = (", ".join(blocks[k].names) for k in (-1, 0))
                fault = f"the {name} {one}, graph {places[0][0]} ({kinds[0]}) {other}"
            advice = "choose features that all have, such as features='structure'"
            raise DataError(f"{graph} has {fault}; {advice}")
        return Features(torch.cat([block.x for block in blocks])[nodes], blocks[0].names)

    ptr = offsets(torch.cat([part.ptr.diff() for part in parts]))
    first = np.cumsum([0, *(int(part.ptr[-1]) for part in parts)])[:-1].tolist()
    edges = torch.cat([part.edge_index + o for part, o in zip(parts, first, strict=True)], dim=1)
    weight = None
    if any(part.edge_weight is not None for part in parts):
        weights = [(part.edge_weight, part.edge_index.shape[1]) for part in parts]
        weight = torch.cat([torch.ones(n) if w is None else w.float() for w, n in weights])
    numbers = torch.arange(int(ptr[-1]))[:, None]
    order = np.argsort(list(chain(*places)))
    merged = GraphDataset.from_edges(numbers, ptr, edges, weight).subset(order)
    nodes = merged.x[:, 0]
    offered = dict.fromkeys(chain.from_iterable(part.blocks for part in parts))
    special = [part.default_features for part in parts if part.default_features != ("structure",)]
    return RawGraphs(
        merged.ptr,
        merged.whole().edge_index,
        merged.edge_weight,
        blocks={name: partial(block, name) for name in offered},
        default_features=special[0] if special else ("structure",),
    )
