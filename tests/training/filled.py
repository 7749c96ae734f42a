"""``FilledBatches.gather`` in PyTorch."""

import torch

from legs.data.dataset import GraphBatch
from legs.training.stacked.replay import FILLERS


def gather(filled, index, valid):
    data, rows = filled.data, filled.rows[index]
    counts = rows[:, :2] * valid.unsqueeze(-1)
    ends = counts.cumsum(0)
    starts, (used, used_edges) = ends - counts, ends[-1]
    free = filled.nodes - used  # at least one

    graph, place = owners(ends[:, 0].contiguous(), filled.nodes)
    inside = place < used
    node = torch.where(inside, (rows[:, 2] - starts[:, 0])[graph] + place, 0)
    x = torch.where(inside.unsqueeze(-1), data.x[node], 0)
    batch = torch.where(inside, graph, len(rows) - FILLERS + (place - used) * FILLERS // free)

    graph, place = owners(ends[:, 1].contiguous(), filled.edges)
    inside = place < used_edges
    edge = torch.where(inside, (rows[:, 3] - starts[:, 1])[graph] + place, 0)
    shift = (starts[:, 0] - rows[:, 2])[graph]
    filler = used + (place - used_edges) * free // (filled.edges - used_edges).clamp_min(1)
    edges = torch.stack([data.col[edge], filled.row[edge]]) + shift
    edge_index = torch.where(inside, edges, filler)
    weight = None if filled.weight is None else filled.weight[edge]
    attr = None if data.edge_attr is None else filled._edge_attr(rows, ends, valid)
    own = None if data.graph_features is None else data.graph_features[index].to(x.dtype)
    return GraphBatch(x, edge_index, weight, batch, filled.slots, None, attr, own)


def owners(ends, capacity):
    """The graph of each place, given where graphs end, and the places."""
    place = torch.arange(capacity, device=ends.device)
    return torch.searchsorted(ends, place, right=True).clamp_max(len(ends) - 1), place
