"""The graphs that are timed: real batches, and made graphs of any size."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch, GraphDataset
from legs.data.errors import DataError

# By name; the first so many graphs are enough where a limit is set.
Loader = Callable[[str, int | None], GraphDataset]

STAND_IN = "nci-5k"
DEGREE = 10
GRAPH_NODES = 32
# Half of the neighbours in a lattice; the other half are opposite.
_OFFSETS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2))


def load_local(name: str, limit: int | None = None) -> GraphDataset:
    """A data set that is on this machine, with two structural features; nothing is downloaded."""
    from legs.data import load
    from legs.data.catalog.specs import locate, lookup

    spec = lookup(name)
    if spec is None or locate(spec) is None:
        raise DataError(f"{name} is not here (`legs datasets {name}` fetches it)")
    try:
        return load(name, features="structure", limit=limit)
    except ImportError as error:
        raise DataError(f"{name} cannot be read: {error}") from error


def pick(data: GraphDataset, count: int, seed: int) -> GraphBatch:
    """A batch of random graphs of a set; all of them where it has no more."""
    order = torch.randperm(len(data), generator=generator(seed))
    return data.batch(order[:count])


def generator(seed: int) -> torch.Generator:
    """A source of random numbers."""
    return torch.Generator().manual_seed(seed)


def random_graph(edges: int, seed: int = 0) -> Tensor:
    """A graph without locality, ``[2, edges]``: every node has ten neighbours anywhere.

    Made of five random permutations and their inverses, so it is symmetric; a neighbour may come
    twice, or be the node itself.

    >>> random_graph(1000).shape
    torch.Size([2, 1000])
    """
    nodes = max(1, edges // DEGREE)
    source = generator(seed)
    sources = []
    for _ in range(DEGREE // 2):
        forth = torch.randperm(nodes, generator=source)
        sources += [forth, torch.argsort(forth)]
    return _by_target(torch.stack(sources, dim=1))


def lattice(edges: int) -> Tensor:
    """A graph with locality, ``[2, edges]``: ten near neighbours in a plane closed to a torus.

    Nodes are numbered row by row. The lattice is as nearly square as the number of nodes divides.

    >>> lattice(10_000).shape
    torch.Size([2, 10000])
    """
    nodes = max(1, edges // DEGREE)
    height = next(rows for rows in range(math.isqrt(nodes), 0, -1) if nodes % rows == 0)
    width = nodes // height
    row = torch.arange(height).unsqueeze(1)
    column = torch.arange(width).unsqueeze(0)
    sources = [
        (row + sign * down) % height * width + (column + sign * right) % width
        for down, right in _OFFSETS
        for sign in (1, -1)
    ]
    return _by_target(torch.stack([s.flatten() for s in sources], dim=1))


def many_graphs(nodes: int, edges: int, channels: int, seed: int = 0) -> GraphBatch:
    """Random graphs of 32 nodes, all nodes with the same number of neighbours.

    ``nodes`` is a multiple of 32, ``edges``, in both directions, of twice the nodes.

    >>> many_graphs(nodes=64, edges=256, channels=3).edge_index.shape
    torch.Size([2, 256])
    """
    if nodes % GRAPH_NODES or edges % (2 * nodes) or edges < 2 * nodes:
        raise ValueError(
            f"nodes must be a multiple of {GRAPH_NODES} and edges of twice the nodes; got {nodes} "
            f"and {edges}"
        )
    source = generator(seed)
    batch = torch.arange(nodes) // GRAPH_NODES
    sources = []
    for _ in range(edges // (2 * nodes)):
        # Sorted within each graph: a permutation of its nodes.
        forth = torch.argsort(torch.rand(nodes, generator=source, dtype=torch.float64) + batch)
        sources += [forth, torch.argsort(forth)]
    x = torch.randn(nodes, channels, generator=source)
    edge_index = _by_target(torch.stack(sources, dim=1))
    return GraphBatch(x, edge_index, None, batch, nodes // GRAPH_NODES, None)


def as_batch(edge_index: Tensor, channels: int, seed: int = 0) -> GraphBatch:
    """One graph with random signals."""
    nodes = int(edge_index.max()) + 1
    x = torch.randn(nodes, channels, generator=generator(seed))
    return GraphBatch(x, edge_index, None, torch.zeros(nodes, dtype=torch.long), 1, None)


def _by_target(sources: Tensor) -> Tensor:
    """Edges from ``sources[i]`` to ``i``, sorted by target."""
    nodes, degree = sources.shape
    target = torch.arange(nodes).repeat_interleave(degree)
    return torch.stack([sources.flatten(), target])
