"""The size of graphs, which averages over their nodes do not show."""

from __future__ import annotations

import torch
from torch import Tensor


def graph_size(
    edge_index: Tensor,
    batch: Tensor | None,
    num_nodes: int,
    num_graphs: int = 1,
    edge_weight: Tensor | None = None,
    copies: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Numbers of nodes and edges of every graph, ``[graphs, 2]``.

    Args:
        edge_index: ``[2, edges]``, both directions of every edge, which counts once; a loop counts
            one half.
        batch: the graph of each node, or ``None`` for a single graph.
        num_nodes: number of nodes.
        num_graphs: number of graphs (default 1).
        edge_weight: with ``copies``, how many neighbours like its source the target has; else
            not used.
        copies: how many nodes each one stands for (default one; :func:`legs.data.merge_alike`).
        dtype: of the result (default float32).

    >>> triangle = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]])
    >>> graph_size(triangle, None, 3)
    tensor([[3., 3.]])
    """
    target = edge_index[1]
    if batch is None:
        batch = torch.zeros(num_nodes, dtype=torch.long, device=edge_index.device)
    nodes = torch.ones(num_nodes, dtype=dtype, device=edge_index.device)
    halves = torch.full(target.shape, 0.5, dtype=dtype, device=edge_index.device)
    if copies is not None:
        nodes = copies.to(dtype)
        halves = halves * nodes[target]
        halves = halves if edge_weight is None else halves * edge_weight.to(dtype)
    # Multiples of one half: their sum is the same in any order.
    empty = nodes.new_zeros(num_graphs)
    counts = empty.index_add(0, batch, nodes), empty.index_add(0, batch[target], halves)
    return torch.stack(counts, dim=1)
