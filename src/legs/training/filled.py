"""Batches of one shape, whatever graphs are in them: a recorded step can gather them itself.

Nothing here looks at its data or waits for it: sizes of tensors depend on the room alone. What the
graphs leave free is filled with nodes without neighbours, in graphs that count nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch, GraphDataset
from legs.kernels import messages_cuda, stack_cuda
from legs.kernels.dispatch import chosen

# Graphs that take the nodes a batch is filled up with: one alone would be larger than any other,
# and all would wait for it.
FILLERS = 32
# Nodes come in multiples of this: sums over them are cut into equal parts (legs.kernels.linear).
EVEN = 64
# How large rooms are: the nodes and edges of a batch on average, and so many deviations more. What
# is left free costs as much as what is not. Three are room for nearly all random batches.
ROOMS = (3.0,)


class Room(NamedTuple):
    """How much fits in."""

    nodes: int
    edges: int


class FilledBatches:
    """Gathers batches of a data set into one of a few fixed rooms, at first the largest.

    Args:
        data: the data set, on the device where batches are wanted.
        graphs: in a batch at most.
        rooms: how many deviations larger than a batch on average each is (default:
            :data:`ROOMS`).
    """

    def __init__(
        self, data: GraphDataset, graphs: int, rooms: Sequence[float] | None = None
    ) -> None:
        self.data, self.graphs = data, graphs
        self.slots = graphs + FILLERS
        nodes = torch.arange(data.num_nodes, device=data.ptr.device, dtype=data.col.dtype)
        self.row = torch.repeat_interleave(nodes, data.rowptr.diff())
        starts, edges = data.ptr[:-1], data.rowptr[data.ptr]
        # Of each graph: nodes, edges, the first node and the first edge.
        self.rows = torch.stack([data.sizes, edges.diff(), starts, edges[:-1]], dim=1)
        # On the host too: whether a batch fits must be known without asking the GPU.
        self.host = self.rows[:, :2].T.cpu()
        self.rooms = [
            _room(self.host.double(), graphs, deviations)
            for deviations in sorted(ROOMS if rooms is None else rooms)
        ]
        self.number = len(self.rooms) - 1  # of the room in use

    @property
    def nodes(self) -> int:
        """There is room for so many, one of them at least not of the graphs."""
        return self.rooms[self.number].nodes

    @property
    def edges(self) -> int:
        """There is room for so many."""
        return self.rooms[self.number].edges

    def choose(self, index: Tensor) -> bool:
        """Goes to the smallest room for the graphs ``index`` (on the host).

        Returns:
            Whether none was large enough: the largest is larger now.
        """
        nodes, edges = self.host[:, index].sum(1).tolist()
        for number, room in enumerate(self.rooms):
            if nodes < room.nodes and edges <= room.edges:
                self.number = number
                return False
        self.number = len(self.rooms) - 1
        largest = self.rooms[-1]
        self.rooms[-1] = Room(max(largest.nodes, _even(nodes + 1)), max(largest.edges, edges))
        return True

    def gather(self, index: Tensor, valid: Tensor) -> GraphBatch:
        """The graphs ``index`` where they are ``valid``, ``[slots]`` both, and fillers.

        The batch has ``slots`` graphs; those that are not valid have no nodes, or filling ones.
        """
        data, rows = self.data, self.rows[index]
        counts = rows[:, :2] * valid.unsqueeze(-1)
        ends = counts.cumsum(0)
        if messages_cuda.applies(data.x) and chosen() != "reference":
            known = (data.x, self.row, data.col, data.edge_weight, self.nodes, self.edges, FILLERS)
            x, batch, edge_index, weight = stack_cuda.gather(rows, ends, *known)
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


def _deal(ends: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """Places of a room, and which group each is of, given where groups end."""
    place = torch.arange(room, device=ends.device)
    group = torch.searchsorted(ends, place, right=True).clamp_max(len(ends) - 1)
    return group, place


def _even(nodes: int) -> int:
    return -(-nodes // EVEN) * EVEN


def _room(counts: Tensor, batch: int, deviations: float) -> Room:
    """For the sums of a random batch, some deviations above their mean.

    Args:
        counts: nodes and edges of every graph, ``[2, graphs]``.
        batch: graphs in a batch.
        deviations: how many.
    """
    spread = counts.std(1) if counts.shape[1] > 1 else torch.zeros(2, dtype=counts.dtype)
    sums = counts.mean(1) * batch + deviations * spread * math.sqrt(batch)
    nodes, edges = (max(int(size), 0) + 8 for size in sums.tolist())
    return Room(_even(nodes), edges)
