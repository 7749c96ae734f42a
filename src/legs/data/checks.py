"""Checks of many graphs at once that name the graph at fault. Made once, when graphs come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from torch import Tensor

from legs.data.errors import DataError

Array: TypeAlias = np.ndarray[Any, Any]
Where: TypeAlias = Callable[[int], str]  # what to call a graph in messages, by its number

# Weights that differ by less than this share count as equal: users symmetrise in float32.
RELATIVE_TOLERANCE = 1e-5
SYMMETRISE = "symmetrise it with torch_geometric.utils.to_undirected(edge_index, ...)"


def check_graphs(
    ptr: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    *,
    where: Where = "graph {}".format,
    symmetrise: str = SYMMETRISE,
) -> None:
    """Every graph has nodes, finite non-negative weights, and both directions of every edge.

    Args:
        ptr: node offsets of the graphs, ``[graphs + 1]``.
        edge_index: edges of all graphs, numbered through, ``[2, edges]``.
        edge_weight: ``[edges]``, or ``None`` for ones.
        where: what to call a graph, by its number (default ``graph 0``, ``graph 1``, …).
        symmetrise: what to tell the owner of a directed graph.

    Raises:
        DataError: for the first graph at fault.

    >>> import torch
    >>> check_graphs(torch.tensor([0, 2, 4]), torch.tensor([[0, 1, 2], [1, 0, 3]]))
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: graph 1 is directed: 0 to 1 has weight 1, 1 to 0 has 0; \
symmetrise it with torch_geometric.utils.to_undirected(edge_index, ...)
    """
    offsets = ptr.numpy()
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if empty.size:
        raise DataError(f"{where(int(empty[0]))} has no nodes; remove it")
    source, target = edge_index.numpy()
    weight = None if edge_weight is None else edge_weight.numpy()
    if weight is not None:
        _check_weights(offsets, source, target, weight, where)
    _check_undirected(offsets, source, target, weight, where, symmetrise)


def graph_of(ptr: Array, node: int) -> tuple[int, int]:
    """The graph of a node of the whole set, and the node's number there.

    >>> graph_of(np.array([0, 3, 5]), 4)
    (1, 1)
    """
    graph = int(np.searchsorted(ptr, node, side="right")) - 1
    return graph, int(node - ptr[graph])


def _check_weights(
    ptr: Array,
    source: Array,
    target: Array,
    weight: Array,
    where: Where,
) -> None:
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        edge = int(bad[0])
        graph, a = graph_of(ptr, int(source[edge]))
        b = int(target[edge] - ptr[graph])
        raise DataError(
            f"{where(graph)}: the edge between nodes {a} and {b} has weight {weight[edge]:g}; "
            "weights must be finite and not negative"
        )


def _check_undirected(
    ptr: Array,
    source: Array,
    target: Array,
    weight: Array | None,
    where: Where,
    symmetrise: str,
) -> None:
    size = int(ptr[-1])
    values = np.ones(len(source)) if weight is None else weight.astype(np.float64)
    # Parallel edges add up, here as in a walk on the graph.
    there = sparse.coo_array((values, (source, target)), shape=(size, size)).tocsr()
    back = there.T.tocsr()
    off = (abs(there - back) > RELATIVE_TOLERANCE * there.maximum(back)).tocoo()
    off.eliminate_zeros()
    if off.nnz:
        first = np.lexsort((off.col, off.row))[0]
        row, col = int(off.row[first]), int(off.col[first])
        graph, a = graph_of(ptr, row)
        b = int(col - ptr[graph])
        raise DataError(
            f"{where(graph)} is directed: {a} to {b} has weight {there[row, col]:g}, "
            f"{b} to {a} has {back[row, col]:g}; {symmetrise}"
        )
