"""Node features out of node dictionaries, as networkx and node-link JSON keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from legs.data.errors import DataError
from legs.data.readers.base import Features
from legs.data.validate import Where

Nodes: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]  # graphs, their nodes, what each holds

# Held in node dictionaries for other purposes than to describe the node.
NOT_ATTRIBUTES = ("label", "x", "y", "id")


def attribute_names(nodes: Nodes) -> tuple[str, ...]:
    """Names of the numeric node attributes, in the order they are first seen.

    >>> attribute_names([[{"charge": 1, "label": 6}, {"mass": 2.0, "note": "a"}]])
    ('charge', 'mass')
    """
    seen: dict[str, None] = {}
    for graph in nodes:
        for node in graph:
            for name, value in node.items():
                if name not in seen and name not in NOT_ATTRIBUTES and isinstance(value, Real):
                    seen[name] = None
    return tuple(seen)


def number_block(nodes: Nodes, names: Sequence[str], where: Where) -> Features:
    """Numeric attributes as columns; every node must have each of them.

    >>> number_block([[{"a": 1, "b": 2.5}]], ["b", "a"], "graph {}".format).x
    tensor([[2.5000, 1.0000]])
    """
    rows = [
        [_number(node, name, where(i), k) for name in names]
        for i, graph in enumerate(nodes)
        for k, node in enumerate(graph)
    ]
    return Features(torch.tensor(rows, dtype=torch.float32), tuple(map(str, names)))


def vector_block(nodes: Nodes, name: str, where: Where) -> Features:
    """One attribute that holds all features of a node: a number or a vector.

    >>> vector_block([[{"x": [1, 2]}], [{"x": [3, 4]}]], "x", "graph {}".format).names
    ('x0', 'x1')
    """
    rows: list[Any] = []
    for i, graph in enumerate(nodes):
        for k, node in enumerate(graph):
            if name not in node:
                raise DataError(f"{where(i)}: node {k} has no attribute {name!r}")
            try:
                row = np.asarray(node[name], dtype=np.float32).reshape(-1)
            except (TypeError, ValueError):
                raise DataError(
                    f"{where(i)}: attribute {name!r} of node {k} is no vector of numbers"
                ) from None
            if rows and row.size != rows[0].size:
                raise DataError(
                    f"{where(i)}: attribute {name!r} of node {k} has {row.size} numbers, "
                    f"that of the first node {rows[0].size}"
                )
            if not np.isfinite(row).all():
                raise DataError(f"{where(i)}: attribute {name!r} of node {k} is NaN or infinite")
            rows.append(row)
    x = torch.from_numpy(np.stack(rows))
    return Features(x, tuple(f"{name}{c}" for c in range(x.shape[1])))


def one_hot_block(nodes: Nodes, name: str, where: Where) -> Features:
    """One attribute as one-hot columns: numbers by value, then names by alphabet.

    >>> one_hot_block([[{"label": "N"}, {"label": "C"}]], "label", "graph {}".format)
    Features(x=tensor([[0., 1.],
            [1., 0.]]), names=('label=C', 'label=N'))
    """
    values = []
    for i, graph in enumerate(nodes):
        for k, node in enumerate(graph):
            value = node.get(name)
            if not isinstance(value, (str, Real)) or value != value:
                raise DataError(
                    f"{where(i)}: node {k} has {name} {value!r}; every node needs a name or number"
                )
            values.append(value)
    classes = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    place = {value: c for c, value in enumerate(classes)}
    x = torch.zeros(len(values), len(classes))
    x[torch.arange(len(values)), torch.tensor([place[value] for value in values])] = 1
    return Features(x, tuple(f"{name}={value}" for value in classes))


def join_weights(graphs: Sequence[tuple[int, Any]]) -> Tensor | None:
    """Edge weights of many graphs, from the number of edges and the weights of each.

    Without weights a graph has ones; ``None`` where all weights are ones.
    """
    weights = [np.ones(count) if weight is None else weight for count, weight in graphs]
    joined = np.concatenate(weights).astype(np.float32)
    return None if (joined == 1).all() else torch.from_numpy(joined)


def _number(node: Mapping[str, Any], name: str, where: str, k: int) -> float:
    value = node.get(name)
    if not isinstance(value, Real) or not np.isfinite(float(value)):
        what = "is missing" if value is None else f"is {value!r}, not a finite number"
        raise DataError(
            f"{where}: attribute {name!r} of node {k} {what}; give every node the same "
            "attributes, or choose features='structure'"
        )
    return float(value)
