r"""Merges equivalent nodes, which no network of this package can distinguish.

Two nodes of a graph are *equivalent* if they have the same features and equally many neighbours of
every class: the classes :math:`c` of the coarsest such partition, by colour refinement. Whatever is
computed by passing numbers along edges is the same at all nodes of a class, so that one node may
stand for :math:`n_c`, with

.. math::
    W'_{cd} = \sum_{j \in d} W_{ij} \quad (i \in c)

neighbours in class :math:`d`. Sums over neighbours are then sums by :math:`W'`, sums over nodes are
weighted by :math:`n`, and nothing is lost but rounding. Leaves around a hub are equivalent, as are
the members of a clique: social networks shrink to a fraction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset, offsets

# Odd numbers without a pattern: neighbouring colours become numbers that have nothing in common.
_FACTORS = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


class Merged(NamedTuple):
    """Graphs of classes of nodes.

    Args:
        data: one node per class; edge weights are the numbers of neighbours :math:`W'`, which
            differ between the two directions of an edge, and loops lead from a class to itself.
            Classes with many neighbours come first in every graph.
        multiplicity: number of nodes in each class, ``[classes]``, as ``data.x``.
    """

    data: GraphDataset
    multiplicity: Tensor


def merge_equivalent(data: GraphDataset) -> Merged:
    """Merges equivalent nodes.

    Args:
        data: undirected graphs without edge weights; edge features are left out.

    >>> star = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    >>> data = GraphDataset.from_edges(torch.ones(4, 1), torch.tensor([0, 4]), star)
    >>> merged, multiplicity = merge_equivalent(data)
    >>> multiplicity, merged.whole().edge_index, merged.edge_weight
    (tensor([1., 3.]), tensor([[1, 0],
            [0, 1]]), tensor([3., 1.]))
    """
    if data.edge_weight is not None:
        raise ValueError(f"{data.name or 'this data set'} has edge weights; nodes are not merged")
    _, (col, row), _, graph, *_ = data.whole()
    kind, count = _equivalent(data, graph, row, col)
    first, by_first = _first_of(kind, count).sort()
    kind = by_first.argsort()[kind]  # numbered as they come, not by chance
    chosen = first[kind[row]] == row
    entries, weight = torch.unique(
        kind[row[chosen]] * count + kind[col[chosen]], return_counts=True
    )
    source, target = entries % max(count, 1), entries // max(count, 1)
    counts = torch.bincount(kind, minlength=count).to(data.x.dtype)
    sizes = torch.bincount(graph[first], minlength=len(data))
    merged = replace(data, x=data.x[first], ptr=offsets(sizes), edge_attr=None)
    merged, order = _renumbered(merged, graph[first], source, target, weight.to(data.x.dtype))
    return Merged(merged, counts[order])


def longest_first(data: GraphDataset) -> GraphDataset:
    """The same graphs, nodes of most neighbours first: rows of like length run faster together."""
    _, (col, row), weight, graph, *_ = data.whole()
    return _renumbered(data, graph, col, row, weight)[0]


def without_loops(data: GraphDataset) -> GraphDataset:
    """The same graphs, without edges from a node to itself; ``data`` itself where there are none.

    >>> edges = torch.tensor([[0, 0, 1], [0, 1, 0]])
    >>> graph = GraphDataset.from_edges(torch.rand(2, 1), torch.tensor([0, 2]), edges)
    >>> len(graph.col), without_loops(graph).col
    (3, tensor([1, 0], dtype=torch.int32))
    """
    _, (col, row), weight, *_ = data.whole()
    keep = row != col
    if bool(keep.all()):
        return data
    return replace(
        data,
        rowptr=offsets(torch.bincount(row[keep], minlength=data.num_nodes)),
        col=data.col[keep],
        edge_weight=None if weight is None else weight[keep],
        edge_attr=None if data.edge_attr is None else data.edge_attr[keep],
    )


def graph_hashes(data: GraphDataset) -> Tensor:
    """A hash per graph of structure, node features and edge weights, ``[graphs]``, int64.

    It does not depend on the order of the nodes. Graphs that colour refinement cannot distinguish
    within 16 rounds share a hash.
    """
    _, (col, row), weight, graph, *_ = data.whole()
    colour = _coloured(torch.zeros_like(graph), data.x + 0.0)  # -0.0 is 0.0
    if weight is not None:
        weight = _coloured(torch.zeros_like(row), weight[:, None])
    counts = [0]
    while len(counts) <= 16 and (count := len(colour.unique())) != counts[-1]:
        counts.append(count)
        colour = _next(colour, row, col, weight)
    return _mixed(data.sizes).index_add_(0, graph, _mixed(colour))


def _renumbered(
    data: GraphDataset, graph: Tensor, source: Tensor, target: Tensor, weight: Tensor | None
) -> tuple[GraphDataset, Tensor]:
    """Graphs of these edges, nodes with most neighbours first, and the order of the nodes."""
    count = data.num_nodes
    lengths = torch.bincount(target, minlength=count)
    order = (graph * (lengths.max() + 1 if count else 1) - lengths).argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(count, device=order.device)
    by_row = (place[target] * max(count, 1) + place[source]).argsort()
    renumbered = replace(
        data,
        x=data.x[order],
        rowptr=offsets(lengths[order]),
        col=place[source[by_row]].to(data.col.dtype),
        edge_weight=None if weight is None else weight[by_row],
        edge_attr=None if data.edge_attr is None else data.edge_attr[by_row],
    )
    return renumbered, order


def _equivalent(data: GraphDataset, graph: Tensor, row: Tensor, col: Tensor) -> tuple[Tensor, int]:
    """Number of every node's class, and of classes: colours, refined to the end."""
    colour, count = _coloured(_mixed(graph), data.x), 0
    classes, kind = torch.unique(colour, return_inverse=True)
    while count < len(classes) < len(graph):
        count = len(classes)
        colour = _next(colour, row, col)
        classes, kind = torch.unique(colour, return_inverse=True)
    # If two colours, of 64 bits, have collided, every node stands for itself.
    count, nodes = len(classes), torch.arange(len(graph), device=graph.device)
    twin = _first_of(kind, count)[kind]
    degree = data.rowptr.diff()
    same = (graph == graph[twin]) & (degree == degree[twin]) & (data.x == data.x[twin]).all(1)
    if bool(same.all()):
        around = (row * max(count, 1) + kind[col]).sort().values % max(count, 1)
        shift = data.rowptr[twin] - data.rowptr[:-1]
        there = torch.arange(len(row), device=row.device) + shift[row]
        if bool((around == around[there]).all()):
            return kind, count
    return nodes, len(nodes)


def _coloured(colour: Tensor, x: Tensor) -> Tensor:
    """Colours refined by the rows of ``x``."""
    bits = x.contiguous().view(torch.int64 if x.element_size() == 8 else torch.int32)
    for column in bits.T:
        colour = _mixed(colour + column)
    return colour


def _next(colour: Tensor, row: Tensor, col: Tensor, weight: Tensor | None = None) -> Tensor:
    """Colours refined by those of the neighbours, and by the weights of the edges to them."""
    near = _mixed(~colour)[col]
    near = near if weight is None else _mixed(near + weight)
    return _mixed(_mixed(colour) + torch.zeros_like(colour).index_add_(0, row, near))


def _mixed(numbers: Tensor) -> Tensor:
    """A hash of each number: every bit of the result depends on every bit of the number."""
    numbers = numbers + _FACTORS[2]  # else zero would stay zero
    numbers = (numbers ^ (numbers >> 31)) * _FACTORS[0]
    numbers = (numbers ^ (numbers >> 29)) * _FACTORS[1]
    return numbers ^ (numbers >> 32)


def _first_of(kind: Tensor, count: int) -> Tensor:
    """The first node of every class."""
    nodes = torch.arange(len(kind), device=kind.device)
    return kind.new_full((count,), len(kind)).scatter_reduce_(0, kind, nodes, "amin")
