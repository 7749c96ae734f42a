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

from legs.data.dataset import GraphDataset

# Odd numbers without a pattern: neighbouring colours become numbers that have nothing in common.
_FACTORS = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


class Merged(NamedTuple):
    """Graphs of classes of nodes.

    Args:
        data: a node a class; edge weights are the numbers of neighbours :math:`W'`, which differ
            between the two directions of an edge, and loops lead from a class to itself. Classes
            with many neighbours come first in every graph.
        copies: multiplicity: number of nodes in each class, ``[classes]``, as ``data.x``.
    """

    data: GraphDataset
    copies: Tensor


def merge_alike(data: GraphDataset) -> Merged:
    """Merges equivalent nodes.

    Args:
        data: undirected graphs without edge weights.

    >>> star = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    >>> data = GraphDataset.from_edges(torch.ones(4, 1), torch.tensor([0, 4]), star)
    >>> merged, copies = merge_alike(data)
    >>> copies, merged.whole().edge_index, merged.edge_weight
    (tensor([1., 3.]), tensor([[1, 0],
            [0, 1]]), tensor([3., 1.]))
    """
    if data.edge_weight is not None:
        raise ValueError(f"{data.name or 'this data set'} has edge weights; nodes are not merged")
    graph, row = _owners(data)
    kind, count = _checked(data, graph, row, *_refined(data, graph, row))
    first, by_first = _first_of(kind, count).sort()
    kind = by_first.argsort()[kind]  # numbered as they come, not by chance
    chosen = first[kind[row]] == row
    entries, weight = torch.unique(
        kind[row[chosen]] * count + kind[data.col.long()[chosen]], return_counts=True
    )
    source, target = entries % max(count, 1), entries // max(count, 1)
    counts = torch.bincount(kind, minlength=count).to(data.x.dtype)
    sizes = torch.bincount(graph[first], minlength=len(data))
    ptr = torch.cat([data.ptr.new_zeros(1), sizes.cumsum(0)])
    merged = replace(data, x=data.x[first], ptr=ptr)
    weight = weight.to(data.x.dtype)
    found, order = _renumbered(merged, graph[first], source, target, weight)
    return Merged(found, counts[order])


def longest_first(data: GraphDataset) -> GraphDataset:
    """The same graphs, with the nodes of most neighbours first in each.

    Loops over rows run faster where those of like length come together.

    >>> path = GraphDataset.from_edges(
    ...     torch.tensor([[0.0], [1.0], [2.0]]),
    ...     torch.tensor([0, 3]),
    ...     torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    ... )
    >>> longest_first(path).x.T, longest_first(path).col
    (tensor([[1., 0., 2.]]), tensor([1, 2, 0, 0], dtype=torch.int32))
    """
    graph, row = _owners(data)
    return _renumbered(data, graph, data.col.long(), row, data.edge_weight)[0]


def without_loops(data: GraphDataset) -> GraphDataset:
    """The same graphs, without edges from a node to itself; ``data`` itself where there are none.

    >>> graph = GraphDataset.from_edges(
    ...     torch.rand(2, 1), torch.tensor([0, 2]), torch.tensor([[0, 0, 1], [0, 1, 0]])
    ... )
    >>> len(graph.col), without_loops(graph).col
    (3, tensor([1, 0], dtype=torch.int32))
    """
    _, row = _owners(data)
    kept = row != data.col
    if bool(kept.all()):
        return data
    lengths = torch.bincount(row[kept], minlength=data.num_nodes)
    return replace(
        data,
        rowptr=torch.cat([data.ptr.new_zeros(1), lengths.cumsum(0)]),
        col=data.col[kept],
        edge_weight=None if data.edge_weight is None else data.edge_weight[kept],
    )


def graph_hashes(data: GraphDataset, rounds: int = 16) -> Tensor:
    """A hash per graph of structure, node features and edge weights, ``[graphs]``, int64.

    It does not depend on the order of the nodes. Graphs that colour refinement cannot tell apart
    within ``rounds`` rounds share a hash.

    >>> path = torch.tensor([[0, 1, 1, 2, 3, 4, 3, 5], [1, 0, 2, 1, 4, 3, 5, 3]])
    >>> data = GraphDataset.from_edges(torch.ones(6, 1), torch.tensor([0, 3, 6]), path)
    >>> len(graph_hashes(data).unique())
    1
    """
    graph, row = _owners(data)
    colour, weight = _coloured(torch.zeros_like(graph), data.x + 0.0), None  # -0.0 is 0.0
    if data.edge_weight is not None:
        weight = _coloured(torch.zeros_like(row), data.edge_weight[:, None])
    count = 0
    for _ in range(rounds):
        classes = len(colour.unique())
        if classes == count:
            break
        count = classes
        colour = _next(colour, row, data.col.long(), weight)
    return _mixed(data.sizes).index_add_(0, graph, _mixed(colour))


def _owners(data: GraphDataset) -> tuple[Tensor, Tensor]:
    """The graph of each node, and the node of each entry of a row."""
    device = data.ptr.device
    graph = torch.repeat_interleave(torch.arange(len(data), device=device), data.sizes)
    nodes = torch.arange(data.num_nodes, device=device)
    return graph, torch.repeat_interleave(nodes, data.rowptr.diff())


def _renumbered(
    data: GraphDataset, graph: Tensor, source: Tensor, target: Tensor, weight: Tensor | None
) -> tuple[GraphDataset, Tensor]:
    """Graphs of given edges, whose nodes of most neighbours come first; and which node is where."""
    count = data.num_nodes
    lengths = torch.bincount(target, minlength=count)
    order = (graph * (lengths.max() + 1 if count else 1) - lengths).argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(count, device=order.device)
    by_row = (place[target] * max(count, 1) + place[source]).argsort()
    found = replace(
        data,
        x=data.x[order],
        rowptr=torch.cat([data.ptr.new_zeros(1), lengths[order].cumsum(0)]),
        col=place[source[by_row]].to(data.col.dtype),
        edge_weight=None if weight is None else weight[by_row],
    )
    return found, order


def _refined(data: GraphDataset, graph: Tensor, row: Tensor) -> tuple[Tensor, int]:
    """Number of every node's class, and of classes, after colours have been refined to the end."""
    colour = _coloured(_mixed(graph), data.x)
    found, kind = torch.unique(colour, return_inverse=True)
    col = data.col.long()
    while len(found) < len(graph):
        colour = _next(colour, row, col)
        finer, kind = torch.unique(colour, return_inverse=True)
        if len(finer) == len(found):
            break
        found = finer
    return kind, len(found)


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
    """Numbers of 64 bits in which every bit of the given ones counts."""
    numbers = numbers + _FACTORS[2]  # else zero would stay zero
    numbers = (numbers ^ (numbers >> 31)) * _FACTORS[0]
    numbers = (numbers ^ (numbers >> 29)) * _FACTORS[1]
    return numbers ^ (numbers >> 32)


def _checked(
    data: GraphDataset, graph: Tensor, row: Tensor, kind: Tensor, count: int
) -> tuple[Tensor, int]:
    """The classes, if all nodes of each are equivalent indeed; else every node by itself.

    Colours are numbers of 64 bits: that two different ones meet is next to impossible, not
    impossible.
    """
    twin = _first_of(kind, count)[kind]
    degree = data.rowptr.diff()
    same = (graph == graph[twin]) & (degree == degree[twin]) & (data.x == data.x[twin]).all(1)
    if bool(same.all()):
        around = (row * max(count, 1) + kind[data.col.long()]).sort().values % max(count, 1)
        shift = data.rowptr[twin] - data.rowptr[:-1]
        there = torch.arange(len(row), device=row.device) + shift[row]
        if bool((around == around[there]).all()):
            return kind, count
    return torch.arange(len(graph), device=graph.device), len(graph)


def _first_of(kind: Tensor, count: int) -> Tensor:
    """The first node of every class."""
    nodes = torch.arange(len(kind), device=kind.device)
    first = torch.full((count,), len(kind), dtype=torch.long, device=kind.device)
    return first.scatter_reduce_(0, kind, nodes, "amin")
