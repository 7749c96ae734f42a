"""Graphs read one by one: joined to a set, and node features out of their node dictionaries.

networkx and node-link JSON keep what they say of nodes in such dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from legs.data.errors import DataError
from legs.data.readers.base import Features
from legs.data.validate import LARGEST, Array, Where

T = TypeVar("T")
Nodes: TypeAlias = Sequence[Mapping[str, Any]]  # of a graph, what each holds

# Held in node dictionaries for other purposes than to describe the node.
NOT_ATTRIBUTES = ("label", "x", "y", "id")


class Graph(NamedTuple):
    """One graph."""

    num_nodes: int
    edge_index: Array  # [2, edges] int64, both directions
    edge_weight: Array | None = None  # [edges]


def join_graphs(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor, Tensor | None]:
    """Node offsets, edges and weights of many graphs, numbered through.

    Without weights a graph has ones; ``None`` where all weights are ones.
    """
    ptr = np.cumsum([0, *(graph.num_nodes for graph in graphs)], dtype=np.int64)
    shifted = [graph.edge_index + start for graph, start in zip(graphs, ptr[:-1], strict=True)]
    weight = None
    if any(graph.edge_weight is not None for graph in graphs):
        weight = np.concatenate(
            [np.ones(edges.shape[1]) if weight is None else weight for _, edges, weight in graphs]
        ).astype(np.float32)
    return (
        torch.from_numpy(ptr),
        torch.from_numpy(np.concatenate(shifted, axis=1)),
        None if weight is None or (weight == 1).all() else torch.from_numpy(weight),
    )


def attribute_names(graphs: Sequence[Nodes], aside: Sequence[str] = NOT_ATTRIBUTES) -> list[str]:
    """Names of the numeric node attributes, in the order they are first seen.

    >>> attribute_names([[{"charge": 1, "label": 6}, {"mass": 2.0, "note": "a"}]])
    ['charge', 'mass']
    """
    items = chain.from_iterable(node.items() for nodes in graphs for node in nodes)
    numeric = (name for name, value in items if name not in aside and isinstance(value, Real))
    return list(dict.fromkeys(numeric))


def node_numbers(nodes: Nodes, names: Sequence[str]) -> Array:
    """Numeric attributes of one graph, ``[nodes, names]``; every node must have each of them."""
    values: list[float] = []
    for k, node in enumerate(nodes):
        for name in names:
            value = node.get(name)
            # In float32, as it will be kept.
            if not isinstance(value, Real) or not abs(value) <= LARGEST:  # type: ignore[operator]
                what = f"is {repr(value)[:40]}, not a finite number"
                raise DataError(
                    f"attribute {name!r} of node {k} {'is missing' if value is None else what}; "
                    "give every node the same attributes, or choose features='structure'"
                )
            values.append(float(value))
    return np.array(values).reshape(len(nodes), len(names))


def number_block(graphs: Sequence[Nodes], names: Sequence[str], where: Where) -> Features:
    """Numeric attributes as columns.

    >>> number_block([[{"a": 1, "b": 2.5}]], ["b", "a"], "graph {}".format).x
    tensor([[2.5000, 1.0000]])
    """
    values = list(_each(graphs, lambda nodes: node_numbers(nodes, names), where))
    return Features(torch.from_numpy(np.concatenate(values)).float(), tuple(map(str, names)))


def vector_block(graphs: Sequence[Nodes], name: str, where: Where) -> Features:
    """One attribute that holds all features of a node: a number or a vector.

    >>> vector_block([[{"x": [1, 2]}], [{"x": [3, 4]}]], "x", "graph {}".format).names
    ('x0', 'x1')
    """
    rows: list[Array] = []

    def read(nodes: Nodes) -> None:
        for k, node in enumerate(nodes):
            if name not in node:
                raise DataError(f"node {k} has no attribute {name!r}")
            try:
                rows.append(np.asarray(node[name], dtype=np.float32).reshape(-1))
            except (TypeError, ValueError):
                raise DataError(f"attribute {name!r} of node {k} is no vector of numbers") from None
            fault = "" if np.isfinite(rows[-1]).all() else "is NaN or infinite"
            if rows[-1].size != rows[0].size:
                fault = f"has {rows[-1].size} numbers, that of the first node {rows[0].size}"
            if fault:
                raise DataError(f"attribute {name!r} of node {k} {fault}")

    list(_each(graphs, read, where))
    x = torch.from_numpy(np.stack(rows))
    return Features(x, tuple(f"{name}{c}" for c in range(x.shape[1])))


def _each(graphs: Sequence[Nodes], read: Callable[[Nodes], T], where: Where) -> Iterator[T]:
    """What ``read`` returns for each graph; its errors name the graph."""
    for i, nodes in enumerate(graphs):
        try:
            yield read(nodes)
        except DataError as error:
            raise DataError(f"{where(i)}: {error}") from None


def node_labels(nodes: Nodes, name: str = "label") -> list[Any]:
    """One attribute of every node of a graph, a name or a number."""
    for k, node in enumerate(nodes):
        value = node.get(name)
        if not isinstance(value, (str, Real)) or value != value:
            raise DataError(f"node {k} has {name} {value!r}; every node needs a name or number")
    return [node[name] for node in nodes]


def one_hot_block(graphs: Sequence[Nodes], name: str, where: Where) -> Features:
    """One attribute as one-hot columns: numbers by value, then names by alphabet.

    >>> one_hot_block([[{"label": "N"}, {"label": "C"}]], "label", "graph {}".format)
    Features(x=tensor([[0., 1.],
            [1., 0.]]), names=('label=C', 'label=N'))
    """
    values = list(chain.from_iterable(_each(graphs, lambda nodes: node_labels(nodes, name), where)))
    classes = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    place = {value: c for c, value in enumerate(classes)}
    x = torch.zeros(len(values), len(classes))
    x[torch.arange(len(values)), torch.tensor([place[value] for value in values])] = 1
    return Features(x, tuple(f"{name}={value}" for value in classes))
