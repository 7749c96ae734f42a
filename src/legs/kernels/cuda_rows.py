"""Graphs in compressed rows, on NVIDIA GPUs: ``sources/rows.cu``.

Sorting by PyTorch takes a dozen launches, more time than the scattering of a batch of molecules.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from legs.functional.sparse import row_pointers
from legs.kernels.cuda_launch import TYPES, Kernel

THREADS = 1024
MOST = 65_536  # nodes, and edges, that one block sorts faster than many launches would


@cache
def _compiled(dtype: torch.dtype, device: int, batched: bool, weighted: bool) -> Kernel:
    known = {"real": TYPES[dtype], "THREADS": THREADS}
    given = {"BATCHED": int(batched), "WEIGHTED": int(weighted)}
    return Kernel(("rows.cu",), "rows", device, {**known, **given})


def sorted_rows(
    edge_index: Tensor, weight: Tensor | None, batch: Tensor | None, nodes: int, graphs: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Edges sorted by row, those of a row in the order given.

    Args:
        edge_index: ``[2, edges]``.
        weight: ``[edges]`` or ``None``.
        batch: the graph of each node, sorted; ``None`` for a single graph.
        nodes: number of nodes.
        graphs: number of graphs.

    Returns:
        Offsets of rows ``[nodes + 1]``, columns ``[edges]``, weights, and offsets of graphs
        ``[graphs + 1]``.
    """
    edges = edge_index.shape[1]
    if max(nodes, edges) > MOST:
        row, order = torch.sort(edge_index[1], stable=True)
        sorted_weight = None if weight is None else weight.index_select(0, order)
        rowptr, col = row_pointers(row, nodes), edge_index[0].index_select(0, order)
        return rowptr, col, sorted_weight, graph_pointers(batch, nodes, graphs, edge_index)
    index, dtype = edge_index.contiguous(), torch.float32 if weight is None else weight.dtype
    sizes = [nodes + 1, edges, graphs + 1, nodes]
    rowptr, col, ptr, room = index.new_empty(sum(sizes)).split(sizes)
    nothing = index.new_empty(0)  # its address is null
    given = nothing if weight is None else weight.contiguous()
    made = None if weight is None else torch.empty_like(given)
    device = index.device.index
    kernel = _compiled(dtype, device, batch is not None, weight is not None)
    arguments = [index, given, nothing if batch is None else batch.contiguous(), rowptr, col]
    arguments += [nothing if made is None else made, ptr, room]
    with torch.cuda.device(device):
        kernel(1, THREADS, [*arguments, nodes, edges, graphs])
    return rowptr, col, made, ptr


def graph_pointers(batch: Tensor | None, nodes: int, graphs: int, like: Tensor) -> Tensor:
    """The first node of each graph, ``[graphs + 1]``, on the device of ``like``.

    >>> graph_pointers(torch.tensor([0, 0, 2]), 3, 3, torch.empty(0))
    tensor([0, 2, 2, 3])
    >>> graph_pointers(None, 3, 1, torch.empty(0))
    tensor([0, 3])
    """
    if batch is None:
        return torch.arange(2, device=like.device) * nodes
    return row_pointers(batch, graphs)
