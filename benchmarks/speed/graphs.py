"""The graphs that are timed: real batches, and generated graphs of any size."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.packed import FOLDER, find_set
from legs.data.catalog.fetch import find
from legs.data.catalog.specs import NAMED, locate
from legs.data.dataset import GraphBatch, GraphDataset
from legs.data.errors import DataError

DEGREE = 10  # of nodes in a single large graph
GRAPH_NODES = 32  # in one of many graphs
# Half of the neighbours in a lattice; the other half are opposite.
_OFFSETS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2))


def load_local(name: str) -> GraphDataset:
    """A data set that is on this machine, with two structural features; nothing is downloaded."""
    if find(f"{FOLDER}/{name}.npz") is None and locate(NAMED[name]) is None:
        raise DataError(f"{name} is not here (`legs datasets {name}` fetches it)")
    return find_set(name, "structure")


def pick(data: GraphDataset, count: int, seed: int) -> Tensor:
    """The numbers of random graphs of a set; of all of them where it has no more."""
    return torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:count]


def random_graphs(
    nodes: int, edges: int, channels: int, seed: int = 0, size: int = GRAPH_NODES
) -> GraphBatch:
    """Graphs of ``size`` nodes, which all have the same number of neighbours anywhere in the graph.

    Made of random permutations and their inverses, so they are symmetric; a neighbour may come
    twice, or be the node itself. ``nodes`` is a multiple of ``size``, ``edges``, in both
    directions, of twice the nodes.

    >>> random_graphs(nodes=64, edges=256, channels=3).edge_index.shape
    torch.Size([2, 256])
    """
    if nodes % size or edges % (2 * nodes) or edges < 2 * nodes:
        raise ValueError(
            f"nodes must be a multiple of {size} and edges of twice the nodes; got {nodes} and "
            f"{edges}"
        )
    random = torch.Generator().manual_seed(seed)
    batch = torch.arange(nodes) // size
    sources = []
    for _ in range(edges // (2 * nodes)):
        # Sorted within each graph: a permutation of its nodes.
        forth = torch.argsort(torch.rand(nodes, generator=random, dtype=torch.float64) + batch)
        sources += [forth, torch.argsort(forth)]
    return _batch(torch.stack(sources, dim=1), channels, random, batch)


def random_graph(edges: int, channels: int, seed: int = 0) -> GraphBatch:
    """A graph without locality: every node has ten neighbours anywhere."""
    return random_graphs(edges // DEGREE, edges, channels, seed, size=edges // DEGREE)


def lattice(edges: int, channels: int, seed: int = 0) -> GraphBatch:
    """A graph with locality: every node has ten near neighbours in a plane closed to a torus.

    Nodes are numbered row by row. The lattice is as nearly square as the number of nodes divides.
    """
    nodes = edges // DEGREE
    height = next(rows for rows in range(math.isqrt(nodes), 0, -1) if nodes % rows == 0)
    width = nodes // height
    row, column = torch.arange(nodes) // width, torch.arange(nodes) % width
    sources = [
        (row + sign * down) % height * width + (column + sign * right) % width
        for down, right in _OFFSETS
        for sign in (1, -1)
    ]
    random = torch.Generator().manual_seed(seed)
    return _batch(torch.stack(sources, dim=1), channels, random, torch.zeros_like(row))


def _batch(sources: Tensor, channels: int, random: torch.Generator, batch: Tensor) -> GraphBatch:
    """Edges from ``sources[i]`` to ``i``, sorted by target, and random signals."""
    nodes, degree = sources.shape
    edge_index = torch.stack([sources.flatten(), torch.arange(nodes).repeat_interleave(degree)])
    x = torch.randn(nodes, channels, generator=random)
    return GraphBatch(x, edge_index, None, batch, int(batch[-1]) + 1, None)
