"""``legs.kernels.gpu.stacked.gather`` in PyTorch."""

import torch


def gather(rows, ends, x, row, col, weight, sizes):
    nodes, edges, fillers = sizes
    starts, (used, used_edges) = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]), ends[-1]
    free = nodes - used  # at least one

    graph, place = owners(ends[:, 0].contiguous(), nodes)
    inside = place < used
    node = torch.where(inside, (rows[:, 2] - starts[:, 0])[graph] + place, 0)
    new_x = torch.where(inside.unsqueeze(-1), x[node], 0)
    batch = torch.where(inside, graph, len(rows) - fillers + (place - used) * fillers // free)

    graph, place = owners(ends[:, 1].contiguous(), edges)
    inside = place < used_edges
    edge = torch.where(inside, (rows[:, 3] - starts[:, 1])[graph] + place, 0)
    shift = (starts[:, 0] - rows[:, 2])[graph]
    filler = used + (place - used_edges) * free // (edges - used_edges).clamp_min(1)
    edge_index = torch.where(inside, torch.stack([col[edge], row[edge]]) + shift, filler)
    return new_x, batch, edge_index, None if weight is None else weight[edge]


def owners(ends, capacity):
    """The graph of each place, given where graphs end, and the places."""
    place = torch.arange(capacity, device=ends.device)
    return torch.searchsorted(ends, place, right=True).clamp_max(len(ends) - 1), place
