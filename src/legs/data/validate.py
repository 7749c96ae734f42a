"""Checks of graphs and data sets that name the graph at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError

Array: TypeAlias = np.ndarray[Any, Any]
Where: TypeAlias = Callable[[int], str]  # what to call a graph in messages, by its number

# Weights that differ by less than this share count as equal: users symmetrise in float32.
RELATIVE_TOLERANCE = 1e-5
LARGEST = float(np.finfo(np.float32).max)
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
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.double().numpy()
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        graph, a = graph_of(offsets, int(source[bad[0]]))
        b = int(target[bad[0]] - offsets[graph])
        raise DataError(
            f"{where(graph)}: the edge between nodes {a} and {b} has weight {weight[bad[0]]:g}; "
            "weights must be finite and not negative"
        )
    # Parallel edges add up, here as in a walk on the graph.
    size = int(offsets[-1])
    there = sparse.coo_array((weight, (source, target)), shape=(size, size)).tocsr()
    back = there.T.tocsr()
    off = (abs(there - back) > RELATIVE_TOLERANCE * there.maximum(back)).tocoo()
    off.eliminate_zeros()
    if off.nnz:
        first = np.lexsort((off.col, off.row))[0]
        row, col = int(off.row[first]), int(off.col[first])
        graph, a = graph_of(offsets, row)
        b = int(col - offsets[graph])
        raise DataError(
            f"{where(graph)} is directed: {a} to {b} has weight {there[row, col]:g}, "
            f"{b} to {a} has {back[row, col]:g}; {symmetrise}"
        )


def check_values(data: GraphDataset) -> None:
    """Raises :class:`DataError` for the first graph that :func:`overflows` finds."""
    for graph, reason in overflows(data).items():
        raise DataError(f"{graph_name(data, graph)}: {reason}")


def overflows(data: GraphDataset) -> dict[int, str]:
    """Graphs with values that are not finite, or too large for float32 to compute with, and why.

    Node features are squared and summed over a graph, edge weights are summed at every node.

    >>> from legs.data.dataset import GraphDataset
    >>> ptr, rowptr = torch.tensor([0, 1]), torch.tensor([0, 0])
    >>> overflows(GraphDataset(torch.tensor([[1e30]]), ptr, rowptr, rowptr[:0].int()))
    {0: 'the node feature 0 of node 0 is 1e+30, too large to be squared in float32; rescale it'}
    """
    reasons: dict[int, str] = {}
    x, weight, nodes = data.x, data.edge_weight, data.num_nodes
    # Most sets pass at a glance; NaN fails every comparison.
    if x.numel() and not float(torch.stack(x.aminmax()).abs().max()) ** 2 * nodes <= LARGEST:
        limit = (LARGEST / data.sizes.double()).sqrt().repeat_interleave(data.sizes)
        for node, column in (~(x.abs() <= limit.unsqueeze(1))).nonzero().tolist():
            graph, place = graph_of(data.ptr.numpy(), node)
            name = data.feature_names[column] if data.feature_names else column
            reasons.setdefault(graph, _large(name, place, float(x[node, column])))
    if weight is not None and not float(weight.abs().sum(dtype=torch.float64)) <= LARGEST:
        rows = torch.arange(nodes).repeat_interleave(data.rowptr.diff())
        total = torch.zeros(nodes, dtype=torch.float64).index_add_(0, rows, weight.double())
        for node in (~(total.abs() <= LARGEST)).nonzero().flatten().tolist():
            graph, place = graph_of(data.ptr.numpy(), node)
            reasons.setdefault(graph, _heavy(place, float(total[node])))
    return dict(sorted(reasons.items()))


def check_magnitudes(values: Array, name: str) -> None:
    """The same for one node feature of one graph, before it is part of a data set."""
    bad = np.flatnonzero(~(np.abs(values) <= np.sqrt(LARGEST / max(len(values), 1))))
    if bad.size:
        raise DataError(_large(name, int(bad[0]), float(values[bad[0]])))


def check_degrees(source: Array, weight: Array) -> None:
    """The same for the edge weights of one graph; ``source`` has both directions of every edge."""
    total = np.bincount(source, weight)
    bad = np.flatnonzero(~(total <= LARGEST))
    if bad.size:
        raise DataError(_heavy(int(bad[0]), float(total[bad[0]])))


def graph_name(data: GraphDataset, graph: int) -> str:
    """What messages call a graph: its number, and its id where it has one."""
    return f"graph {graph} ({data.ids[graph]})" if data.ids else f"graph {graph}"


def _large(feature: str | int, node: int, value: float) -> str:
    large = "too large to be squared in float32; rescale it"
    why = large if np.isfinite(value) else "not a finite number"
    return f"the node feature {feature!r} of node {node} is {value:g}, {why}"


def _heavy(node: int, total: float) -> str:
    return (
        f"the edge weights at node {node} sum to {total:g}, more than float32 holds; rescale them"
    )


def graph_of(ptr: Array, node: int) -> tuple[int, int]:
    """The graph of a node of the whole set, and the node's number there.

    >>> graph_of(np.array([0, 3, 5]), 4)
    (1, 1)
    """
    graph = int(np.searchsorted(ptr, node, side="right")) - 1
    return graph, int(node - ptr[graph])


_KINDS = {
    "x": (torch.float32, 2),
    "ptr": (torch.int64, 1),
    "rowptr": (torch.int64, 1),
    "col": (torch.int32, 1),
    "edge_weight": (torch.float32, 1),
}
NAMES = ("feature_names", "class_names", "target_names", "ids", "smiles", "groups")


def check_dataset(data: GraphDataset) -> GraphDataset:
    """The same data set, if its parts fit together; loaders of files ask before anyone computes.

    Raises:
        DataError: names the part that does not fit.

    >>> ptr, rowptr = torch.tensor([0, 1]), torch.tensor([0, 1])
    >>> check_dataset(GraphDataset(torch.ones(1, 1), ptr, rowptr, torch.tensor([5]).int()))
    Traceback (most recent call last):
    ...
    legs.data.errors.DataError: not a data set: edges lead out of their graphs
    """
    for name, (dtype, dimensions) in _KINDS.items():
        tensor: Tensor | None = getattr(data, name)
        if tensor is None and name == "edge_weight":
            continue
        if not isinstance(tensor, Tensor) or (tensor.dtype, tensor.dim()) != (dtype, dimensions):
            raise _fault(f"{name} is no tensor of {dtype} with {dimensions} dimensions")
    nodes, edges, weight = len(data.x), len(data.col), data.edge_weight
    for name, offsets, total, least in (
        ("ptr", data.ptr, nodes, 1),
        ("rowptr", data.rowptr, edges, 0),
    ):
        good = len(offsets) > least and int(offsets[0]) == 0 and int(offsets[-1]) == total
        if not good or bool((offsets.diff() < least).any()):
            raise _fault(f"{name} does not count up to {total}")
    if len(data.rowptr) != nodes + 1:
        raise _fault(f"rowptr has {len(data.rowptr)} entries for {nodes} nodes")
    # Each neighbour lies between the first and the last node of the graph of its row.
    per_graph = data.rowptr[data.ptr].diff()
    first = torch.repeat_interleave(data.ptr[:-1], per_graph)
    last = torch.repeat_interleave(data.ptr[1:], per_graph)
    if bool(((data.col < first) | (data.col >= last)).any()):
        raise _fault("edges lead out of their graphs")
    if weight is not None and (
        len(weight) != edges or not bool((torch.isfinite(weight) & (weight >= 0)).all())
    ):
        raise _fault("edge weights are not one per edge, or negative, or not finite")
    if not bool(torch.isfinite(data.x).all()):
        raise _fault("node features are NaN or infinite")
    _check_names(data)
    _check_targets(data)
    return data


def _check_names(data: GraphDataset) -> None:
    lengths = {"feature_names": data.in_channels} | dict.fromkeys(
        ("ids", "smiles", "groups"), len(data)
    )
    for name in NAMES:
        values = getattr(data, name)
        if not all(isinstance(value, str) for value in values):
            raise _fault(f"{name} are not all text")
        if name in lengths and len(values) not in (0, lengths[name]):
            raise _fault(f"there are {len(values)} {name}, not {lengths[name]}")
    if not isinstance(data.name, str) or not isinstance(data.info, dict):
        raise _fault("its name is no text, or its info no dictionary")


def _check_targets(data: GraphDataset) -> None:
    y = data.y
    if y is None:
        if data.task is not None:
            raise _fault(f"it has no targets for {data.task}")
    elif data.task == "classification":
        good = y.dtype == torch.int64 and y.shape == (len(data),)
        named = len(data.class_names)
        if not good or int(y.min()) < 0 or (named and int(y.max()) >= named):
            raise _fault("its classes are not one per graph, or have no names")
    elif data.task == "regression":
        named = len(data.target_names)
        if y.dim() != 2 or len(y) != len(data) or named not in (0, y.shape[1]):
            raise _fault("its targets are not a row per graph and a column per name")
        if y.dtype != torch.float32 or bool(torch.isinf(y).any()):
            raise _fault("its targets are infinite, or not float32")
    else:
        raise _fault(f"its task is {data.task!r}")


def _fault(reason: str) -> DataError:
    return DataError(f"not a data set: {reason}")
