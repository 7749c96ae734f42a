"""Checks of graphs and batches. They read all edges: once per data set, or while developing."""

from __future__ import annotations

import torch
from torch import Tensor


def check_graph(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Indices in range; weights of the right length, finite and non-negative.

    >>> check_graph(torch.tensor([[0, 7], [7, 0]]), None, num_nodes=3)
    Traceback (most recent call last):
    ...
    ValueError: edge_index names node 7, but there are 3 nodes (x has 3 rows)
    """
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must have shape [2, edges]; got {list(edge_index.shape)}")
    if edge_index.dtype != torch.long:
        raise ValueError(f"edge_index must hold 64-bit integers; got {edge_index.dtype}")
    if edge_index.numel():
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"edge_index names node {low if low < 0 else high}, but there are {num_nodes} "
                f"nodes (x has {num_nodes} rows)"
            )
    if edge_weight is None:
        return
    if edge_weight.shape != edge_index.shape[1:]:
        raise ValueError(
            f"edge_weight must have shape [{edge_index.shape[1]}], one weight per edge; "
            f"got {list(edge_weight.shape)}"
        )
    bad = ~(torch.isfinite(edge_weight) & (edge_weight >= 0))
    if bad.any():
        first = int(bad.nonzero()[0])
        a, b = edge_index[:, first].tolist()
        raise ValueError(
            f"edge_weight must be finite and non-negative; edge {first} ({a} to {b}) "
            f"has weight {float(edge_weight[first])}"
        )


def check_undirected(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Every edge has its reverse with the same weight (up to rounding).

    >>> check_undirected(torch.tensor([[0], [1]]), None, num_nodes=2)
    Traceback (most recent call last):
    ...
    ValueError: edge_index is directed: 0 to 1 has weight 1, 1 to 0 has 0. Scattering needs \
undirected graphs; list both directions, or symmetrise with \
torch_geometric.utils.to_undirected(edge_index, ...)
    """
    source, target = edge_index
    weight = torch.ones_like(source) if edge_weight is None else edge_weight.detach()
    weight = weight.double()
    both = torch.cat([source * num_nodes + target, target * num_nodes + source])
    keys, position = torch.unique(both, return_inverse=True)
    zeros = weight.new_zeros(keys.numel())
    there, back = (zeros.index_add(0, part, weight) for part in position.view(2, source.numel()))
    wrong = (there - back).abs() > 1e-5 * torch.maximum(there, back)
    if wrong.any():
        first = int(wrong.nonzero()[0])
        a, b = divmod(int(keys[first]), num_nodes)
        raise ValueError(
            f"edge_index is directed: {a} to {b} has weight {float(there[first]):g}, {b} to {a} "
            f"has {float(back[first]):g}. Scattering needs undirected graphs; list both "
            "directions, or symmetrise with torch_geometric.utils.to_undirected(edge_index, ...)"
        )


def check_batch(batch: Tensor, num_nodes: int, batch_size: int | None, edge_index: Tensor) -> None:
    """One sorted graph number per node, and no edges between graphs.

    >>> check_batch(torch.tensor([1, 0]), 2, None, torch.empty(2, 0, dtype=torch.long))
    Traceback (most recent call last):
    ...
    ValueError: batch must be sorted (nodes of a graph together); entry 1 is 0 after 1
    """
    if batch.shape != (num_nodes,):
        shape = list(batch.shape)
        raise ValueError(f"batch must have shape [{num_nodes}], one number per node; got {shape}")
    if batch.dtype != torch.long:
        raise ValueError(f"batch must hold 64-bit integers; got {batch.dtype}")
    falls = batch[1:] < batch[:-1]
    if falls.any():
        first = int(falls.nonzero()[0])
        raise ValueError(
            "batch must be sorted (nodes of a graph together); "
            f"entry {first + 1} is {int(batch[first + 1])} after {int(batch[first])}"
        )
    if int(batch[0]) < 0:
        raise ValueError(f"batch must not be negative; got {int(batch[0])}")
    if batch_size is not None and int(batch[-1]) >= batch_size:
        raise ValueError(f"batch names graph {int(batch[-1])}, but batch_size is {batch_size}")
    crossing = batch[edge_index[0]] != batch[edge_index[1]]
    if crossing.any():
        a, b = (int(end) for end in edge_index[:, crossing.nonzero()[0, 0]])
        raise ValueError(
            f"edge_index connects node {a} of graph {int(batch[a])} with node {b} of graph "
            f"{int(batch[b])}: check the offsets of the batch"
        )
