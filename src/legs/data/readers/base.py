"""What readers have in common: single graphs, graphs as read, rows of a source, readers.

networkx and node-link JSON keep what they say of nodes in dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.readers.targets import encode_targets, parse_number
from legs.data.validate import LARGEST, Array

if TYPE_CHECKING:
    import pandas as pd

    from legs.data.readers.tables import TableRows

Nodes: TypeAlias = Sequence[Mapping[str, Any]]

# Held in node dictionaries for other purposes than to describe the node.
NOT_ATTRIBUTES = ("label", "x", "y", "id")
_NOT_EDGE_ATTRIBUTES = frozenset({"source", "target", "weight", "id", "key"})


class Features(NamedTuple):
    """A block of node features."""

    x: Tensor  # [nodes, columns], float32
    names: tuple[str, ...]


# Fields that a data set takes over from its graphs as read.
SAME_FIELDS = (
    *("y", "task", "name", "class_names", "target_names", "ids", "smiles"),
    *("graph_features", "graph_feature_names"),
)
Blocks: TypeAlias = dict[str, Callable[[], Features]]


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Graphs as read: structure, targets, and the node features their source can offer.

    Args:
        ptr: node offsets of the graphs, ``[graphs + 1]``, int64.
        edge_index: edges of all graphs, numbered through, ``[2, edges]``, both directions.
        edge_weight: ``[edges]`` or ``None``.
        y: classes ``[graphs]`` (int64) or targets ``[graphs, targets]`` (float32, NaN: missing).
        blocks: feature blocks by name (``"labels"``, ``"attributes"``, ``"atoms"``, ``"qm9"``,
            ``"chem"``), each a function, so that only the chosen ones are computed. Blocks that
            follow from the structure alone (``"structure"``, ``"degree"``) are not listed here.
        default_features: blocks to use where the user names none.
        info: source, licence note, groups for splitting, bad rows, …
        edge_attr: edge features, ``[edges, edge features]``, or ``None``.
        graph_features: ``[graphs, columns]``, or ``None``; with ``graph_feature_names``.
    """

    ptr: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    task: Task | None = None
    name: str = ""
    class_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    smiles: tuple[str, ...] = ()
    blocks: Mapping[str, Callable[[], Features]] = field(default_factory=dict)
    default_features: tuple[str, ...] = ("structure",)
    info: Mapping[str, Any] = field(default_factory=dict)
    edge_attr: Tensor | None = None
    graph_features: Tensor | None = None
    graph_feature_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a source in its order, including those that cannot be used."""

    ids: list[str]  # per row
    smiles: list[str]  # per row, as written in the source; empty for graphs that are no molecules
    where: list[str]  # what messages call each row: a line of the file, a file of the folder
    errors: list[str]  # why a row cannot be used, or ""
    index: list[int]  # the row of each graph
    # Makes the graphs at some positions of the index.
    build: Callable[[Sequence[int]], RawGraphs] | None = None
    targets: pd.DataFrame | None = None  # target columns, a row per graph; None without
    others: pd.DataFrame | None = None  # further columns, per row; None without

    def graphs(self, task: Task | None, bad: BadRows) -> RawGraphs:
        """The graphs with their targets, for training; arguments as in ``encode_targets``."""
        assert self.build is not None
        if self.targets is None or not len(self.targets.columns):
            return self.build(range(len(self.index)))
        # Only rows with a graph: no class is left without one.
        names = [str(name) for name in self.targets.columns]
        where = [self.where[row] for row in self.index]
        targets = encode_targets(self.targets, names, task, bad=bad, where=where)
        return replace(self.build(targets.used.nonzero()[0].tolist()), **targets.fields())


@dataclass(frozen=True)
class Reader:
    """How one kind of source is read."""

    read: Callable[..., RawGraphs]  # everything, for training
    options: frozenset[str]  # names of the keyword arguments of ``read``
    # Rows, ``chunk`` at a time, for prediction and embedding; ``Rows`` where all rows have to be
    # read together, ``None`` for sources that are only read whole.
    iter_batches: Callable[..., Iterator[TableRows | Rows]] | None = None


class Graph(NamedTuple):
    """One graph, with every edge once, as its source lists them, or then in both directions."""

    num_nodes: int
    edge_index: Array  # [2, edges] int64
    edge_weight: Array | None = None  # [edges]
    nodes: Nodes = ()  # attributes of each node, where the source has any
    directed: bool = False
    edge_attributes: frozenset[str] = frozenset()  # names, without that of the weight
    name: str = ""  # what messages call it
    edge_attr: Tensor | None = None  # [edges, ...], edge features
    x: Tensor | None = None  # [nodes, ...], features


def make_graph(
    nodes: Nodes,
    edges: Sequence[tuple[int, int, Any]],
    edge_attributes: set[str] | None = None,
    *,
    directed: bool = False,
) -> Graph:
    """A graph from edges ``(node, node, weight)``; weights of ``None`` are 1."""
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    weight = None
    if any(w is not None for *_, w in edges):
        weight = np.array([_weight(w, number) for number, (*_, w) in enumerate(edges, start=1)])
    names = frozenset(edge_attributes or ()) - _NOT_EDGE_ATTRIBUTES
    return Graph(len(nodes), ends, weight, nodes, directed, names)


def _weight(value: Any, edge: int) -> float:
    if value is None:
        return 1.0
    try:
        return parse_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise DataError(f"edge {edge} has weight {str(value)[:40]}, not a number") from None


def from_networkx(
    graph: Any, node_default: Mapping[str, Any] | None = None, weight_default: Any = None
) -> Graph:
    """A networkx graph; the parallel edges of a multigraph stay parallel edges."""
    number = {node: i for i, node in enumerate(graph)}
    nodes = [{**(node_default or {}), **data} for _, data in graph.nodes(data=True)]
    listed = list(graph.edges(data=True))
    edges = [(number[a], number[b], data.get("weight", weight_default)) for a, b, data in listed]
    names = {name for *_, data in listed for name in data}
    return make_graph(nodes, edges, names, directed=graph.is_directed())


def merge_edges(graph: Graph) -> Graph:
    """One edge for every edge listed twice; a directed graph if directions differ in weight."""
    for both in (False,) if graph.directed else (False, True):
        edges, weight = graph.edge_index, graph.edge_weight
        source, target = np.sort(edges, axis=0) if both else edges
        _, first, place = np.unique(
            source * graph.num_nodes + target, return_index=True, return_inverse=True
        )
        if weight is not None:
            differ = np.flatnonzero(weight[first][place] != weight)
            if differ.size and both:
                return graph._replace(directed=True)
            if differ.size and not np.isnan(weight).any():
                raise DataError(f"edge {int(differ[0]) + 1} is listed before with another weight")
            weight = weight[first]
        graph = graph._replace(edge_index=edges[:, first], edge_weight=weight)
    return graph


def both_directions(graph: Graph, *, symmetrize: bool = False) -> Graph:
    """The graph with every edge in both directions.

    A directed graph whose arcs all have an equal counterpart is an undirected one. Any other is
    refused, or with ``symmetrize`` gets an edge wherever there is an arc, of the larger weight.
    """
    edges, weight = graph.edge_index, graph.edge_weight
    if not graph.directed:
        once = edges[0] != edges[1]  # a loop is its own reverse
        both = np.concatenate([edges, edges[::-1, once]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[once]])
        return graph._replace(edge_index=both, edge_weight=weight)
    ones = np.ones(edges.shape[1]) if weight is None else weight
    # Parallel arcs add up.
    arcs, there = coalesce(
        torch.from_numpy(edges), torch.from_numpy(ones), graph.num_nodes, reduce="sum"
    )
    index, larger = to_undirected(arcs, there, graph.num_nodes, reduce="max")
    same = index.shape == arcs.shape and torch.allclose(larger, there, rtol=1e-5, atol=0)
    if not symmetrize and not same:
        raise DataError(
            "a directed graph (directed='symmetrize' takes every arc as an undirected edge, of the "
            "larger weight where there are two)"
        )
    return graph._replace(edge_index=index.numpy(), edge_weight=larger.numpy())


def join_graphs(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor, Tensor | None]:
    """Node offsets, edges and weights (``None``: all ones) of many graphs, numbered through."""
    ptr = np.cumsum([0, *(graph.num_nodes for graph in graphs)], dtype=np.int64)
    shifted = [graph.edge_index + start for graph, start in zip(graphs, ptr[:-1], strict=True)]
    weight = None
    if any(graph.edge_weight is not None for graph in graphs):
        weights = [(graph.edge_weight, graph.edge_index.shape[1]) for graph in graphs]
        parts = [np.ones(edges) if own is None else own for own, edges in weights]
        with np.errstate(over="ignore"):
            weight = torch.from_numpy(np.concatenate(parts).astype(np.float32))
    return (
        torch.from_numpy(ptr),
        torch.from_numpy(np.concatenate(shifted, axis=1)),
        None if weight is None or bool((weight == 1).all()) else weight,
    )


def attribute_names(graphs: Sequence[Graph], aside: Sequence[str] = NOT_ATTRIBUTES) -> list[str]:
    """Names of the numeric node attributes, in the order they are first seen."""
    items = chain.from_iterable(node.items() for graph in graphs for node in graph.nodes)
    numeric = (name for name, value in items if name not in aside and isinstance(value, Real))
    return list(dict.fromkeys(numeric))


def node_blocks(graphs: Sequence[Graph], names: Sequence[str]) -> Blocks:
    """Blocks of node features: these attributes, and labels where there are any."""
    blocks: Blocks = {}
    if names:
        blocks["attributes"] = lambda: number_block(graphs, names)
    if any("label" in node for graph in graphs for node in graph.nodes):
        blocks["labels"] = lambda: one_hot_block(graphs)
    return blocks


def node_numbers(graph: Graph, names: Sequence[str]) -> Array:
    """Numeric attributes of one graph, ``[nodes, names]``; every node must have each of them."""
    values: list[float] = []
    for k, node in enumerate(graph.nodes):
        for name in names:
            value = node.get(name)
            # In float32, as it will be kept.
            if not isinstance(value, Real) or not abs(value) <= LARGEST:  # type: ignore[operator]
                what = f"is {repr(value)[:40]}, not a finite number"
                what = "is missing" if value is None else what
                raise DataError(
                    f"{graph.name}: attribute {name!r} of node {k} {what}; give every node the "
                    "same attributes, or choose features='structure'"
                )
            values.append(float(value))
    return np.array(values, dtype=np.float32).reshape(len(graph.nodes), len(names))


def number_block(graphs: Sequence[Graph], names: Sequence[str]) -> Features:
    """Numeric attributes as columns."""
    values = np.concatenate([node_numbers(graph, names) for graph in graphs])
    return Features(torch.from_numpy(values), tuple(map(str, names)))


def node_vectors(graph: Graph) -> Tensor:
    """The attribute ``x`` of every node, a number or a vector, ``[nodes, ...]``."""
    for k, node in enumerate(graph.nodes):
        if "x" not in node:
            raise DataError(f"{graph.name}: attribute 'x' of node {k} is missing")
    try:
        return torch.from_numpy(np.array([node["x"] for node in graph.nodes], dtype=np.float32))
    except (TypeError, ValueError):
        what = "are no numbers, and no vectors of one length"
        raise DataError(f"{graph.name}: the attributes 'x' of its nodes {what}") from None


def node_labels(graph: Graph) -> list[Any]:
    """The attribute ``label`` of every node of a graph, a name or a number."""
    for k, node in enumerate(graph.nodes):
        value = node.get("label")
        if not isinstance(value, (str, Real)) or value != value:
            what = f"has label {value!r}; every node needs a name or number"
            raise DataError(f"{graph.name}: node {k} {what}")
    return [node["label"] for node in graph.nodes]


def one_hot_block(graphs: Sequence[Graph]) -> Features:
    """The attribute ``label`` as one-hot columns: numbers by value, then names by alphabet."""
    values = list(chain.from_iterable(map(node_labels, graphs)))
    classes = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    place = {value: column for column, value in enumerate(classes)}
    x = torch.zeros(len(values), len(classes))
    x[torch.arange(len(values)), torch.tensor([place[value] for value in values])] = 1
    return Features(x, tuple(f"label={value}" for value in classes))
