"""Whether a data set that comes from a file is one: shapes, kinds, and edges that stay at home."""

from __future__ import annotations

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError

_KINDS = {
    "x": (torch.float32, 2),
    "ptr": (torch.int64, 1),
    "rowptr": (torch.int64, 1),
    "col": (torch.int32, 1),
    "edge_weight": (torch.float32, 1),
}
_WORDS = ("feature_names", "class_names", "target_names", "ids", "smiles", "groups")


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
    nodes, edges = len(data.x), len(data.col)
    _check_offsets("ptr", data.ptr, nodes, 1)
    _check_offsets("rowptr", data.rowptr, edges, 0)
    if len(data.rowptr) != nodes + 1:
        raise _fault(f"rowptr has {len(data.rowptr)} entries for {nodes} nodes")
    # Each neighbour lies between the first and the last node of the graph of its row.
    per_graph = data.rowptr[data.ptr].diff()
    first = torch.repeat_interleave(data.ptr[:-1], per_graph)
    last = torch.repeat_interleave(data.ptr[1:], per_graph)
    if bool(((data.col < first) | (data.col >= last)).any()):
        raise _fault("edges lead out of their graphs")
    if data.edge_weight is not None and (
        len(data.edge_weight) != edges
        or not bool((torch.isfinite(data.edge_weight) & (data.edge_weight >= 0)).all())
    ):
        raise _fault("edge weights are not one an edge, or negative, or not finite")
    if not bool(torch.isfinite(data.x).all()):
        raise _fault("node features are NaN or infinite")
    _check_words(data)
    _check_targets(data)
    return data


def _check_offsets(name: str, offsets: Tensor, total: int, least: int) -> None:
    good = len(offsets) > least and int(offsets[0]) == 0 and int(offsets[-1]) == total
    if not good or bool((offsets.diff() < least).any()):
        raise _fault(f"{name} does not count up to {total}")


def _check_words(data: GraphDataset) -> None:
    for name in _WORDS:
        if not all(isinstance(word, str) for word in getattr(data, name)):
            raise _fault(f"{name} are not all text")
    for name in ("ids", "smiles", "groups"):
        if len(getattr(data, name)) not in (0, len(data)):
            raise _fault(f"there are {len(getattr(data, name))} {name} for {len(data)} graphs")
    if len(data.feature_names) not in (0, data.in_channels):
        raise _fault(f"there are {len(data.feature_names)} names for {data.in_channels} features")
    if not isinstance(data.name, str) or not isinstance(data.info, dict):
        raise _fault("its name or description is none")


def _check_targets(data: GraphDataset) -> None:
    y = data.y
    if y is None:
        if data.task is not None:
            raise _fault(f"it has no targets for {data.task}")
        return
    if data.task == "classification":
        good = y.dtype == torch.int64 and y.shape == (len(data),)
        named = len(data.class_names)
        if not good or int(y.min()) < 0 or (named and int(y.max()) >= named):
            raise _fault("its classes are not one a graph, or have no names")
    elif data.task == "regression":
        named = len(data.target_names)
        if y.dim() != 2 or len(y) != len(data) or named not in (0, y.shape[1]):
            raise _fault("its targets are not one row a graph and one column a name")
        if y.dtype != torch.float32 or bool(torch.isinf(y).any()):
            raise _fault("its targets are infinite, or no numbers")
    else:
        raise _fault(f"its task is {data.task!r}")


def _fault(reason: str) -> DataError:
    return DataError(f"not a data set: {reason}")
