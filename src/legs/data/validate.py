"""Checks of graphs and data sets that name the graph at fault."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError

Array: TypeAlias = np.ndarray[Any, Any]

# Weights that differ by less than this share count as equal: users symmetrise in float32.
RELATIVE_TOLERANCE = 1e-5
LARGEST = float(np.finfo(np.float32).max)


def check_graphs(
    ptr: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    *,
    advice: str = "symmetrise it",
) -> None:
    """Every graph has nodes, finite non-negative weights, and both directions of every edge."""
    offsets = ptr.numpy()
    for graph in np.flatnonzero(np.diff(offsets) == 0).tolist():
        raise DataError(f"graph {graph} has no nodes; remove it")
    source, target = edge_index.numpy()
    weight = np.ones(len(source)) if edge_weight is None else edge_weight.double().numpy()
    for edge in np.flatnonzero(~(np.isfinite(weight) & (weight >= 0))).tolist():
        graph, a = graph_of(offsets, source[edge])
        raise DataError(
            f"graph {graph}: the edge between nodes {a} and {target[edge] - offsets[graph]} has "
            f"weight {weight[edge]:g}; weights must be finite and not negative"
        )
    # Parallel edges add up, here as in a walk on the graph.
    there = sparse.coo_array((weight, (source, target)), shape=(offsets[-1], offsets[-1])).tocsr()
    back = there.T.tocsr()
    differ = abs(there - back) > RELATIVE_TOLERANCE * there.maximum(back)
    for row, col in sorted(zip(*differ.nonzero(), strict=True)):
        graph, a = graph_of(offsets, row)
        b = col - offsets[graph]
        raise DataError(
            f"graph {graph} is directed: {a} to {b} has weight {there[row, col]:g}, "
            f"{b} to {a} has {back[row, col]:g}; {advice}"
        )


def check_values(data: GraphDataset) -> None:
    """Raises :class:`DataError` for the first graph that :func:`overflows` finds."""
    for graph, reason in overflows(data).items():
        raise DataError(f"{graph_name(data, graph)}: {reason}")


def overflows(data: GraphDataset) -> dict[int, str]:
    """Graphs with values that are not finite, or too large for float32 to compute with, and why."""
    reasons: dict[int, str] = {}
    x, weight, nodes = data.x, data.edge_weight, data.num_nodes
    # Features are squared and summed over a graph, weights are summed at every node. Most sets pass
    # at a glance; NaN fails every comparison.
    if x.numel() and not float(torch.stack(x.aminmax()).abs().max()) ** 2 * nodes <= LARGEST:
        limit = (LARGEST / data.sizes.double()).sqrt().repeat_interleave(data.sizes)
        for node, column in (~(x.abs() <= limit.unsqueeze(1))).nonzero().tolist():
            graph, place = graph_of(data.ptr.numpy(), node)
            name = data.feature_names[column] if data.feature_names else column
            value = float(x[node, column])
            why = "too large to be squared in float32; rescale it"
            why = why if np.isfinite(value) else "not a finite number"
            reason = f"the node feature {name!r} of node {place} is {value:g}, {why}"
            reasons.setdefault(graph, reason)
    if weight is not None and not float(weight.abs().sum(dtype=torch.float64)) <= LARGEST:
        rows = torch.arange(nodes).repeat_interleave(data.rowptr.diff())
        total = torch.zeros(nodes, dtype=torch.float64).index_add_(0, rows, weight.double())
        for node in (~(total.abs() <= LARGEST)).nonzero().flatten().tolist():
            graph, place = graph_of(data.ptr.numpy(), node)
            reason = f"the edge weights at node {place} sum to {float(total[node]):g}, more than "
            reasons.setdefault(graph, f"{reason}float32 holds; rescale them")
    if data.edge_attr is not None and not bool(data.edge_attr.isfinite().all()):
        rows = torch.arange(nodes).repeat_interleave(data.rowptr.diff())
        for node in rows[~data.edge_attr.isfinite().all(1)].tolist():
            graph, place = graph_of(data.ptr.numpy(), node)
            reasons.setdefault(graph, f"an edge feature at node {place} is not a finite number")
    return dict(sorted(reasons.items()))


def graph_name(data: GraphDataset, graph: int) -> str:
    """What messages call a graph: its number, and its id where it has one."""
    return f"graph {graph} ({data.ids[graph]})" if data.ids else f"graph {graph}"


def graph_of(ptr: Array, node: int) -> tuple[int, int]:
    """The graph of a node of the whole set, and the node's number there."""
    graph = int(np.searchsorted(ptr, node, side="right")) - 1
    return graph, int(node - ptr[graph])


NAMES = (
    *("feature_names", "class_names", "target_names", "ids", "smiles", "groups"),
    "graph_feature_names",
)


def check_dataset(data: GraphDataset) -> GraphDataset:
    """The same data set, if its parts fit together; loaders of files ask before anyone computes."""
    if reason := _misfit(data):
        raise DataError(f"not a data set: {reason}")
    return data


def _misfit(data: GraphDataset) -> str:
    """The part of a data set that does not fit the others, or an empty string."""
    nodes, edges, float32, int64 = len(data.x), len(data.col), torch.float32, torch.int64
    for name, dtype, *shape in (
        ("x", float32, nodes, None),
        ("ptr", int64, len(data) + 1),
        ("rowptr", int64, nodes + 1),
        ("col", torch.int32, edges),
        ("edge_weight", float32, edges),
        ("edge_attr", float32, edges, None),
        ("graph_features", float32, len(data), None),
    ):
        tensor: Tensor | None = getattr(data, name)
        if tensor is None and name in ("edge_weight", "edge_attr", "graph_features"):
            continue
        if name == "edge_attr" and isinstance(tensor, Tensor) and tensor.dtype == torch.uint8:
            dtype = torch.uint8
        good = isinstance(tensor, Tensor) and (tensor.dtype, tensor.dim()) == (dtype, len(shape))
        sizes = zip(shape, getattr(tensor, "shape", ()), strict=False)
        if not good or any(expected not in (None, size) for expected, size in sizes):
            return f"{name} is no tensor of {dtype} and shape {shape}"
    for name, total, least in (("ptr", nodes, 1), ("rowptr", edges, 0)):
        offsets = getattr(data, name)
        good = len(offsets) > least and int(offsets[0]) == 0 and int(offsets[-1]) == total
        if not good or bool((offsets.diff() < least).any()):
            return f"{name} does not count up to {total}"
    # Each neighbour lies between the first and the last node of the graph of its row.
    counts = data.rowptr[data.ptr].diff()
    first, end = (part.repeat_interleave(counts) for part in (data.ptr[:-1], data.ptr[1:]))
    if bool(((data.col < first) | (data.col >= end)).any()):
        return "edges lead out of their graphs"
    for values in (data.x, data.edge_weight, data.edge_attr):
        if values is not None and not bool(values.isfinite().all()):
            return "features or edge weights are NaN or infinite"
    if data.edge_weight is not None and bool((data.edge_weight < 0).any()):
        return "edge weights are negative"
    if data.graph_features is not None and bool(data.graph_features.isinf().any()):
        return "graph-level features are infinite"
    per_graph = dict.fromkeys(("ids", "smiles", "groups"), len(data))
    lengths = {"feature_names": data.in_channels, **per_graph}
    lengths["graph_feature_names"] = data.graph_dim or 0
    for name in NAMES:
        values = getattr(data, name)
        if not all(isinstance(value, str) for value in values):
            return f"{name} are not all text"
        if name in lengths and len(values) not in (0, lengths[name]):
            return f"there are {len(values)} {name}, not {lengths[name]}"
    if not isinstance(data.name, str) or not isinstance(data.info, dict):
        return "its name is no text, or its info no dictionary"
    return _misfit_of_targets(data)


def _misfit_of_targets(data: GraphDataset) -> str:
    y = data.y
    if y is None:
        return "" if data.task is None else f"it has no targets for {data.task}"
    if data.task == "classification":
        named = len(data.class_names)
        if y.dtype != torch.int64 or y.shape != (len(data),):
            return "its classes are not one per graph"
        return "its classes have no names" if y.min() < 0 or 0 < named <= y.max() else ""
    if data.task in ("regression", "multilabel"):
        named = len(data.target_names)
        if y.dim() != 2 or len(y) != len(data) or named not in (0, y.shape[1]):
            return "its targets are not a row per graph and a column per name"
        infinite = y.dtype != torch.float32 or bool(torch.isinf(y).any())
        if data.task == "multilabel" and not bool((y.isnan() | (y == 0) | (y == 1)).all()):
            return "its labels are not 0 or 1"
        return "its targets are infinite, or not float32" if infinite else ""
    return f"its task is {data.task!r}"
