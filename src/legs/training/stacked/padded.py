"""Batches of one shape, whatever graphs are in them: a recorded step can gather them itself.

Nothing here waits for its data: sizes of tensors depend on the capacity alone. What the graphs
leave free is filled with nodes without neighbours, in graphs that count nowhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch, GraphDataset
from legs.kernels.gpu import gather, launch

# Graphs that take the nodes a batch is filled up with: one alone would be larger than any other,
# and all would wait for it.
FILLERS = 32


class FilledBatches:
    """Gathers batches of at most ``graphs`` graphs of a data set into tensors of fixed size."""

    def __init__(self, data: GraphDataset, graphs: int) -> None:
        self.data, self.graphs = data, graphs
        self.slots = graphs + FILLERS
        nodes = torch.arange(data.num_nodes, device=data.ptr.device, dtype=data.col.dtype)
        self.row = torch.repeat_interleave(nodes, data.rowptr.diff())
        starts, edges = data.ptr[:-1], data.rowptr[data.ptr]
        # Of each graph: nodes, edges, the first node and the first edge.
        self.rows = torch.stack([data.sizes, edges.diff(), starts, edges[:-1]], dim=1)
        # On the host too: whether a batch fits must be known without asking the GPU.
        self.host = self.rows[:, :2].T.cpu()
        self.nodes, self.edges = (_capacity(counts.double(), graphs) for counts in self.host)
        self.average = round(float(self.host[0].double().mean()) * graphs)

    @property
    def spare(self) -> int:
        """Nodes that fill a batch of average size up."""
        return self.nodes - self.average

    def grow(self, index: Tensor) -> bool:
        """Makes space for the graphs ``index`` (on the host); whether that was needed."""
        nodes, edges = self.host[:, index].sum(1).tolist()
        if nodes < self.nodes and edges <= self.edges:
            return False
        self.nodes, self.edges = max(self.nodes, nodes + 1), max(self.edges, edges)
        return True

    def gather(self, index: Tensor, valid: Tensor) -> GraphBatch:
        """The graphs ``index`` where they are ``valid``, ``[slots]`` both, and fillers.

        The batch has ``slots`` graphs; those that are not valid have no nodes, or filling ones.
        """
        data, rows = self.data, self.rows[index]
        counts = rows[:, :2] * valid.unsqueeze(-1)
        ends = counts.cumsum(0)
        if launch.applies(data.x):
            sizes = (self.nodes, self.edges, FILLERS)
            x, batch, edge_index, weight = gather.gather(
                rows, ends, data.x, self.row, data.col, data.edge_weight, *sizes
            )
            return GraphBatch(x, edge_index, weight, batch, self.slots, None)
        starts, (used, used_edges) = ends - counts, ends[-1]
        free = self.nodes - used  # at least one

        graph, place = _deal(ends[:, 0].contiguous(), self.nodes)
        inside = place < used
        node = torch.where(inside, (rows[:, 2] - starts[:, 0])[graph] + place, 0)
        x = torch.where(inside.unsqueeze(-1), data.x[node], 0)
        batch = torch.where(inside, graph, self.graphs + (place - used) * FILLERS // free)

        graph, place = _deal(ends[:, 1].contiguous(), self.edges)
        inside = place < used_edges
        edge = torch.where(inside, (rows[:, 3] - starts[:, 1])[graph] + place, 0)
        shift = (starts[:, 0] - rows[:, 2])[graph]
        # What is left over: edges from a filling node to itself, no node with very many of them, in
        # the order of their targets as all edges are.
        idle = (self.edges - used_edges).clamp_min(1)
        filler = used + (place - used_edges) * free // idle
        ends_of_edges = torch.stack([data.col[edge], self.row[edge]])
        edge_index = torch.where(inside, ends_of_edges + shift, filler)
        weight = None if data.edge_weight is None else data.edge_weight[edge]
        return GraphBatch(x, edge_index, weight, batch, self.slots, None)


def _deal(ends: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """All places, and which group each is of, given where groups end."""
    place = torch.arange(capacity, device=ends.device)
    group = torch.searchsorted(ends, place, right=True).clamp_max(len(ends) - 1)
    return group, place


def _capacity(counts: Tensor, batch: int) -> int:
    """Enough for nearly all random batches: mean and three deviations of their sum.

    What is left free costs as much as what is not, and recording a step again is cheap.
    """
    spread = float(counts.std()) if len(counts) > 1 else 0.0
    return int(float(counts.mean()) * batch + 3 * spread * math.sqrt(batch)) + 8
