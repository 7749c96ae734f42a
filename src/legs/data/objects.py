"""Graphs of other libraries as arrays: networkx, PyG and adjacency matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from legs.data.checks import Array, Where, check_graphs
from legs.data.errors import DataError
from legs.data.node_data import attribute_names, number_block, one_hot_block, vector_block
from legs.data.raw import Features, RawGraphs

Blocks: TypeAlias = dict[str, Callable[[], Features]]


class _Graph(NamedTuple):
    num_nodes: int
    edge_index: Array  # [2, edges] int64
    edge_weight: Array | None  # [edges]


def read_networkx(graphs: Sequence[Any], where: Where) -> RawGraphs:
    """Undirected networkx graphs; the parallel edges of a multigraph stay parallel edges.

    Edge attribute ``weight`` (1 where missing); node attribute ``x``, or else every numeric node
    attribute, as the block ``attributes``; node attribute ``label`` as the block ``labels``.

    Args:
        graphs: networkx graphs.
        where: what to call a graph in messages, by its place in ``graphs``.
    """
    parts = []
    for i, graph in enumerate(graphs):
        if graph.is_directed():
            raise DataError(
                f"{where(i)} is a directed networkx graph; symmetrise it with .to_undirected()"
            )
        number = {node: k for k, node in enumerate(graph)}
        listed = [(number[a], number[b]) for a, b in graph.edges()]
        pairs = np.array(listed, dtype=np.int64).reshape(-1, 2).T
        back = pairs[0] != pairs[1]  # a self-loop is listed once
        given = [weight for *_, weight in graph.edges(data="weight")]
        weight = None
        if any(value is not None for value in given):
            weight = _as_numbers([1.0 if value is None else value for value in given], where(i))
            weight = np.concatenate([weight, weight[back]])
        edges = np.concatenate([pairs, pairs[::-1, back]], axis=1)
        parts.append(_Graph(len(number), edges, weight))

    nodes = [[data for _, data in graph.nodes(data=True)] for graph in graphs]
    names = attribute_names(nodes)
    blocks: Blocks = {}
    if any("x" in data for graph in nodes for data in graph):
        blocks["attributes"] = lambda: vector_block(nodes, "x", where)
    elif names:
        blocks["attributes"] = lambda: number_block(nodes, names, where)
    if any("label" in data for graph in nodes for data in graph):
        blocks["labels"] = lambda: one_hot_block(nodes, "label", where)
    return _gather(parts, where, "symmetrise it with .to_undirected()", blocks)


def read_data(graphs: Sequence[Data], where: Where) -> RawGraphs:
    """PyG graphs: ``edge_index``, ``edge_weight`` (``edge_attr`` is not looked at) and ``x``.

    Args:
        graphs: with both directions of every edge.
        where: what to call a graph in messages, by its place in ``graphs``.
    """
    parts = []
    for i, graph in enumerate(graphs):
        given, weight = graph.get("edge_index"), graph.get("edge_weight")
        if given is None and graph.get("adj_t") is not None:
            raise DataError(f"{where(i)} has adj_t and no edge_index; leave out ToSparseTensor")
        index = torch.empty(2, 0, dtype=torch.long) if given is None else given
        if index.dim() != 2 or index.shape[0] != 2 or index.is_floating_point():
            raise DataError(
                f"{where(i)}: edge_index must hold integers, [2, edges]; "
                f"got {index.dtype}, {list(index.shape)}"
            )
        size = int(graph.num_nodes or 0)
        edges = _to_numpy(index).astype(np.int64)
        if edges.size and not 0 <= edges.min() <= edges.max() < size:
            wrong = edges.min() if edges.min() < 0 else edges.max()
            raise DataError(f"{where(i)}: edge_index names node {wrong}, but there are {size}")
        if weight is not None:
            weight = _to_numpy(weight).reshape(-1)
            if weight.size != edges.shape[1]:
                raise DataError(
                    f"{where(i)} has {weight.size} edge weights for {edges.shape[1]} edges"
                )
        parts.append(_Graph(size, edges, weight))
    blocks: Blocks = {}
    rows = [graph.get("x") for graph in graphs]
    if any(x is not None for x in rows):
        blocks["attributes"] = lambda: _stack(rows, where)
    advice = "symmetrise it with torch_geometric.utils.to_undirected(edge_index, ...)"
    return _gather(parts, where, advice, blocks)


def read_matrices(graphs: Sequence[Any], where: Where) -> RawGraphs:
    """Adjacency matrices: scipy sparse of any format, or two-dimensional arrays.

    Args:
        graphs: symmetric; entries are weights.
        where: what to call a graph in messages, by its place in ``graphs``.
    """
    parts = []
    for i, graph in enumerate(graphs):
        if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
            raise DataError(f"{where(i)}: an adjacency matrix is square; got {graph.shape}")
        if np.dtype(graph.dtype).kind not in "buif":
            raise DataError(f"{where(i)}: an adjacency matrix holds numbers; got {graph.dtype}")
        matrix = sparse.csr_array(graph).tocoo()  # adds up entries that are listed twice
        matrix.eliminate_zeros()
        edges = np.stack([matrix.row, matrix.col]).astype(np.int64)
        parts.append(_Graph(int(graph.shape[0]), edges, matrix.data))
    return _gather(parts, where, "symmetrise it with (A + A.T) / 2", {})


def _gather(parts: Sequence[_Graph], where: Where, symmetrise: str, blocks: Blocks) -> RawGraphs:
    ptr = np.cumsum([0, *(part.num_nodes for part in parts)], dtype=np.int64)
    shifted = [part.edge_index + start for part, start in zip(parts, ptr[:-1], strict=True)]
    index = torch.from_numpy(np.concatenate(shifted, axis=1))
    weight = None
    if any(part.edge_weight is not None for part in parts):
        values = [
            np.ones(part.edge_index.shape[1]) if part.edge_weight is None else part.edge_weight
            for part in parts
        ]
        joined = np.concatenate(values).astype(np.float32)
        weight = None if (joined == 1).all() else torch.from_numpy(joined)
    check_graphs(torch.from_numpy(ptr), index, weight, where=where, symmetrise=symmetrise)
    default = ("attributes",) if "attributes" in blocks else ("structure",)
    return RawGraphs(torch.from_numpy(ptr), index, weight, blocks=blocks, default_features=default)


def _stack(rows: Sequence[Tensor | None], where: Where) -> Features:
    """PyG's ``x`` of all graphs, one below the other; a vector is one column."""
    found: list[Tensor] = []
    for i, x in enumerate(rows):
        if x is None:
            raise DataError(
                f"{where(i)} has no x, others have; add it, or choose features='structure'"
            )
        table = x.detach().cpu().reshape(x.shape[0], -1).float()
        if found and table.shape[1] != found[0].shape[1]:
            raise DataError(
                f"{where(i)} has {table.shape[1]} node features, {where(0)} {found[0].shape[1]}"
            )
        if not torch.isfinite(table).all():
            raise DataError(f"{where(i)} has node features that are NaN or infinite")
        found.append(table)
    return Features(torch.cat(found), tuple(f"x{c}" for c in range(found[0].shape[1])))


def _to_numpy(values: Tensor) -> Array:
    return values.detach().cpu().numpy()


def _as_numbers(values: Sequence[Any], where: str) -> Array:
    try:
        return np.array(values, dtype=np.float64).reshape(len(values))
    except (TypeError, ValueError):
        odd = next((v for v in values if not isinstance(v, (int, float))), values[0])
        raise DataError(f"{where}: the edge weight {odd!r} is not a number") from None
