"""Small graphs for tests, as PyG ``Data`` with both directions of every edge."""

import torch
from torch import Tensor
from torch_geometric.data import Data


def undirected(pairs: Tensor, num_nodes: int) -> Data:
    """A graph from ``[edges, 2]`` undirected edges."""
    edges = torch.cat([pairs.T, pairs.T.flip(0)], dim=1)
    return Data(edge_index=edges, num_nodes=num_nodes)


def path_graph(size: int) -> Data:
    nodes = torch.arange(size)
    return undirected(torch.stack([nodes[:-1], nodes[1:]], dim=1), size)


def ring(size: int) -> Data:
    nodes = torch.arange(size)
    return undirected(torch.stack([nodes, nodes.roll(1)], dim=1), size)


def random_graph(size: int, generator: torch.Generator, density: float = 0.4) -> Data:
    adjacency = (torch.rand(size, size, generator=generator) < density).triu(1)
    return undirected(adjacency.nonzero(), size)


def star(leaves: int) -> Data:
    center = torch.zeros(leaves, dtype=torch.long)
    return undirected(torch.stack([center, torch.arange(leaves) + 1], dim=1), leaves + 1)
