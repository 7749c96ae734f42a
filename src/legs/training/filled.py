"""Batches of one shape, whatever graphs are in them: a recorded step can gather them itself.

Nothing here looks at its data or waits for it: sizes of tensors depend on the room alone. What the
graphs leave free is filled with nodes without neighbours, in graphs that count nowhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch, GraphDataset

# Graphs that take the nodes a batch is filled up with: one alone would be larger than any other,
# and all would wait for it.
FILLERS = 32


class FilledBatches:
    """Gathers batches of a data set into a fixed room.

    Args:
        data: the data set, on the device where batches are wanted.
        graphs: in a batch at most.
    """

    def __init__(self, data: GraphDataset, graphs: int) -> None:
        self.data, self.graphs = data, graphs
        self.slots = graphs + FILLERS
        self.sizes = data.sizes
        self.first_edge = data.rowptr[data.ptr[:-1]]
        self.edge_counts = data.rowptr[data.ptr].diff()
        nodes = torch.arange(data.num_nodes, device=data.ptr.device)
        self.row = torch.repeat_interleave(nodes, data.rowptr.diff())
        # On the host too: whether a batch fits must be known without asking the GPU.
        self.host = torch.stack([self.sizes, self.edge_counts]).cpu()
        self.nodes, self.edges = (_room(counts.double(), graphs) for counts in self.host)

    def grow(self, index: Tensor) -> bool:
        """Makes room for the graphs ``index`` (on the host); whether that was needed."""
        nodes, edges = self.host[:, index].sum(1).tolist()
        if nodes < self.nodes and edges <= self.edges:
            return False
        self.nodes, self.edges = max(self.nodes, nodes + 1), max(self.edges, edges)
        return True

    def gather(self, index: Tensor, valid: Tensor) -> GraphBatch:
        """The graphs ``index`` where they are ``valid``, ``[slots]`` both, and fillers.

        The batch has ``slots`` graphs; those that are not valid have no nodes, or filling ones.
        """
        data = self.data
        sizes = self.sizes[index] * valid
        graph, place, inside, ends = _deal(sizes, self.nodes)
        starts = data.ptr[index]
        node = torch.where(inside, starts[graph] + place, 0)
        x = torch.where(inside.unsqueeze(-1), data.x[node], 0)
        spare = torch.arange(self.nodes, device=x.device) - ends[-1]
        free = self.nodes - ends[-1]  # at least one
        batch = torch.where(inside, graph, self.graphs + spare * FILLERS // free)

        graph, place, inside, edge_ends = _deal(self.edge_counts[index] * valid, self.edges)
        edge = torch.where(inside, self.first_edge[index][graph] + place, 0)
        shift = (ends - sizes - starts)[graph]
        # What is left over: edges from a filling node to itself, no node with very many of them, in
        # the order of their targets as all edges are.
        idle = torch.arange(self.edges, device=x.device) - edge_ends[-1]
        filler = ends[-1] + idle * free // (self.edges - edge_ends[-1]).clamp_min(1)
        source = torch.where(inside, data.col[edge] + shift, filler)
        target = torch.where(inside, self.row[edge] + shift, filler)
        weight = None if data.edge_weight is None else data.edge_weight[edge]
        return GraphBatch(x, torch.stack([source, target]), weight, batch, self.slots, None)


def _deal(counts: Tensor, room: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Deals places out to groups of so many: whose each is, which of its places, if any's; ends."""
    ends = counts.cumsum(0)
    place = torch.arange(room, device=counts.device)
    group = torch.searchsorted(ends, place, right=True).clamp_max(len(counts) - 1)
    return group, place - (ends - counts)[group], place < ends[-1], ends


def _room(counts: Tensor, batch: int) -> int:
    """Room for nearly all random batches: mean and three deviations of their sum.

    What is left free costs as much as what is not, and to record a step anew now and then is cheap.
    """
    spread = float(counts.std()) if len(counts) > 1 else 0.0
    return int(float(counts.mean()) * batch + 3 * spread * math.sqrt(batch)) + 8
