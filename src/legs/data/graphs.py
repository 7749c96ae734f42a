"""Graphs of other data: point clouds and hypergraphs.

For features of edges as channels there is ``torch_geometric.transforms.LineGraph``: its nodes are
the edges, with ``edge_attr`` as ``x``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from legs.data.readers.structures import knn_graph


def point_graph(points: Tensor, k: int = 10, sigma: float | None = None) -> tuple[Tensor, Tensor]:
    r"""The graph of the ``k`` nearest neighbors of points ``[points, dimensions]``.

    Args:
        points: ``[points, dimensions]``.
        k: number of neighbors (default 10); an edge joins either's neighbors, in both directions.
        sigma: of the weights :math:`e^{-r^2 / 2 \sigma^2}` (default: the median distance).

    Returns:
        ``edge_index`` ``[2, edges]`` and weights ``[edges]``.

    >>> point_graph(torch.tensor([[0.0], [1.0], [3.0]]), k=1, sigma=1.0)
    (tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]]), tensor([0.6065, 0.6065, 0.1353, 0.1353]))
    """
    edges = knn_graph(points.detach().cpu().double().numpy(), k)
    edge_index = torch.from_numpy(edges).to(points.device)
    distance = (points[edge_index[0]] - points[edge_index[1]]).norm(dim=1)
    width = sigma if sigma is not None else (distance.median() if len(distance) else 1.0)
    if not width > 0:
        raise ValueError(f"sigma must be positive; got {float(width)} (the default: the median)")
    return edge_index, torch.exp(-((distance / width) ** 2) / 2)


def hypergraph(x: Tensor, hyperedge_index: Tensor) -> tuple[Tensor, Tensor]:
    """A hypergraph as the bipartite graph of its nodes and hyperedges.

    Args:
        x: signals of the nodes, ``[nodes, channels]``.
        hyperedge_index: node and hyperedge of every membership, ``[2, memberships]``, as PyG's
            ``HypergraphConv`` takes them.

    Returns:
        Signals ``[nodes + hyperedges, channels]``, the mean of its nodes on a hyperedge, and
        ``edge_index`` with both directions. Nodes come first.

    >>> x, members = torch.tensor([[1.0], [3.0]]), torch.tensor([[0, 1], [0, 0]])
    >>> hypergraph(x, members)
    (tensor([[1.],
            [3.],
            [2.]]), tensor([[0, 1, 2, 2],
            [2, 2, 0, 1]]))
    """
    node, edge = hyperedge_index
    count = int(edge.max()) + 1 if edge.numel() else 0
    means = scatter(x[node], edge, dim_size=count, reduce="mean")
    both = torch.stack([node, edge + len(x)])
    return torch.cat([x, means]), torch.cat([both, both.flip(0)], dim=1)
