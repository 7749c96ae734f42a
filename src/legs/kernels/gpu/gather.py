"""Batches of graphs of one shape: ``gather.cu``. In PyTorch, dozens of small launches.

Nothing is read back to the host: training steps can be recorded as CUDA graphs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from legs.kernels.gpu import launch

THREADS, EACH = 256, 4  # per block; numbers per thread


def gather(
    rows: Tensor,
    ends: Tensor,
    x: Tensor,
    row: Tensor,
    col: Tensor,
    weight: Tensor | None,
    nodes: int,
    edges: int,
    fillers: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Graphs in a batch of fixed size: :class:`legs.training.stacked.padded.FilledBatches`.

    Args:
        rows: nodes, edges, first node and first edge of each graph, ``[slots, 4]``.
        ends: nodes and edges of all graphs up to each, ``[slots, 2]``.
        x: node features of the data set, ``[all nodes, channels]``.
        row: of its edges, int32.
        col: of its edges, int32.
        weight: of its edges, or ``None``.
        nodes: of the batch.
        edges: of the batch.
        fillers: graphs at the end that take the nodes left over.

    Returns:
        Node features, the graph of each node, edges ``[2, edges]`` and their weights.
    """
    slots, channels = len(rows), x.shape[1]
    new_x, batch = x.new_empty(nodes, channels), rows.new_empty(nodes)
    index, null = rows.new_empty(2, edges), x.new_empty(0)  # an empty tensor: a null pointer
    new_weight = None if weight is None else weight.new_empty(edges)
    args: list[Any] = [rows.contiguous(), ends.contiguous(), x.contiguous(), row, col]
    args += [null if weight is None else weight, new_x, batch, index[0], index[1]]
    args += [null if new_weight is None else new_weight, slots, nodes, edges]
    constants = {"THREADS": THREADS, "CHANNELS": channels, "FILLERS": fillers}
    constants["WEIGHTED"] = int(weight is not None)
    kind = launch.TYPES[x.dtype if weight is None else weight.dtype]
    blocks = -(-(nodes * channels + edges) // (THREADS * EACH))
    launch.run("gather", "gather", x, blocks, THREADS, args, of_weights=kind, **constants)
    return new_x, batch, index, new_weight
