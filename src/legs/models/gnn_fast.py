"""PyG's message-passing networks by :mod:`legs.kernels.messages`: the same numbers, faster.

The parameters stay where they are, in PyG's modules. Two things are done in another order, and
differ by rounding only. Sums over neighbours are taken where rows are narrow: before a linear layer
that widens them. And what is linear between the last activation and the pooling is done to pooled
states: a last layer of GCN or GraphSAGE is a weighted sum over the nodes of a graph, whose weights
no parameter changes.

Where nodes stand for several that are alike, states are those of one of them. Edge weights count
its neighbours, and sums over the nodes of a graph count it as often as there are such.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from legs.kernels.linear import linear
from legs.kernels.messages import Graphs, aggregate, attend, norm_relu, pool


def embed_fast(layers: Any, kind: str, states: Tensor, graphs: Graphs) -> Tensor:
    """Pooled states of all graphs, ``[graphs, channels]``.

    Args:
        layers: a network of ``torch_geometric.nn.models`` with layer norm.
        kind: ``"gcn"``, ``"graphsage"``, ``"gat"`` or ``"gin"``.
        states: ``[nodes, in_channels]``.
        graphs: the batch.
    """
    way = KINDS[kind](graphs, states.dtype)
    *convs, last = layers.convs
    dropping = layers.training and layers.dropout.p > 0
    pooled = False
    for place, (conv, norm) in enumerate(zip(convs, layers.norms, strict=False), start=1):
        z, weight, bias = way.convolve(conv, states)
        # The states before the last layer are only pooled: they need not be written.
        share = None if dropping or place < len(convs) else way.share
        own = (norm.weight, norm.bias, bias)
        states = norm_relu(z, graphs, *own, weight=weight, eps=norm.eps, share=share)
        pooled = share is not None
        states = layers.dropout(states)
    if way.share is not None and not pooled:
        states = pool(states, graphs, way.share)
    return way.finish(last, states)


def check_copies(copies: Tensor | None, drops: bool) -> None:
    """Raises an error if nodes stand for several, and dropout would draw for every node by itself.

    Args:
        copies: how many nodes each one stands for, or ``None``.
        drops: whether there is dropout.
    """
    if copies is not None and drops:
        raise ValueError("nodes that stand for several would be dropped together: no dropout here")


def sizes_of(x: Tensor, batch: Tensor | None, batch_size: int | None) -> tuple[int, int]:
    """Numbers of nodes and graphs; looks at the data only if nobody says how many graphs."""
    if batch is None:
        return len(x), 1
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if len(batch) else 0
    return len(x), batch_size


# States, the weight that they are still to be multiplied by (if any) and the bias to be added.
Convolved = tuple[Tensor, Tensor | None, Tensor]


class Way(Protocol):
    """How one kind of layer is computed."""

    #: ``[nodes, shares]``: weights of the sums over nodes that :meth:`finish` takes; ``None`` if
    #: it takes the states of the nodes themselves.
    share: Tensor | None

    def __init__(self, graphs: Graphs, dtype: torch.dtype) -> None: ...

    def convolve(self, conv: Any, states: Tensor) -> Convolved:
        """States of the nodes after a layer, but for what is still to be done to them."""

    def finish(self, conv: Any, states: Tensor) -> Tensor:
        """The last layer and the pooling."""


class Sizes:
    """Sizes of the graphs as numbers to multiply with."""

    def __init__(self, graphs: Graphs, dtype: torch.dtype) -> None:
        self.graphs = graphs
        if graphs.copies is None:
            self.count = graphs.ptr.diff().to(dtype).unsqueeze(-1)
        else:
            # Whole numbers: their sum is the same in any order.
            copies = graphs.copies.to(dtype).unsqueeze(-1)
            self.count = copies.new_zeros(graphs.num_graphs, 1).index_add(0, graphs.batch, copies)
        self.present = self.count.clamp_max(1)  # a graph without nodes has a mean of zero
        self.mean = self.count.clamp_min(1).reciprocal().index_select(0, graphs.batch)

    def counted(self, share: Tensor) -> Tensor:
        """A share of one node, ``[nodes, shares]``, for all nodes that each stands for."""
        if self.graphs.copies is None:
            return share
        return share * self.graphs.copies.to(share.dtype).unsqueeze(-1)


def degrees(graphs: Graphs, dtype: torch.dtype, weighted: bool) -> Tensor:
    """Sums of edge weights where they count, else numbers of neighbours, ``[nodes]``."""
    if graphs.weights(weighted, dtype) is None:
        return graphs.rowptr.diff().to(dtype)
    ones = torch.ones(graphs.num_nodes, 1, dtype=dtype, device=graphs.col.device)
    return aggregate(ones, graphs, weighted=True).squeeze(-1)


def normalised(graphs: Graphs, dtype: torch.dtype) -> dict[str, Any]:
    """GCN's normalised adjacency, as arguments of :func:`~legs.kernels.messages.aggregate`."""
    scale = (degrees(graphs, dtype, weighted=True) + 1).rsqrt()
    return {"weighted": True, "pre": scale, "post": scale, "own": 1.0}


class GCNWay(Sizes):
    """Sums over neighbours and the node, by the roots of both degrees."""

    def __init__(self, graphs: Graphs, dtype: torch.dtype) -> None:
        super().__init__(graphs, dtype)
        self.adjacency = normalised(graphs, dtype)
        received = aggregate(self.mean, graphs, **self.adjacency)
        self.share: Tensor | None = self.counted(received)

    def convolve(self, conv: Any, states: Tensor) -> Convolved:
        weight = conv.lin.weight
        if weight.shape[1] < weight.shape[0]:
            return aggregate(states, self.graphs, **self.adjacency), weight, conv.bias
        z = linear(states, weight)
        return aggregate(z, self.graphs, **self.adjacency), None, conv.bias

    def finish(self, conv: Any, states: Tensor) -> Tensor:
        out: Tensor = states @ conv.lin.weight.t() + self.present * conv.bias
        return out


class SAGEWay(Sizes):
    """Means of neighbours, and the node, each through a linear layer."""

    def __init__(self, graphs: Graphs, dtype: torch.dtype) -> None:
        super().__init__(graphs, dtype)
        self.inverse = degrees(graphs, dtype, weighted=False).clamp_min(1).reciprocal()
        sent = aggregate(self.mean, graphs, pre=self.inverse)
        self.share: Tensor | None = self.counted(torch.cat([sent, self.mean], dim=-1))

    def convolve(self, conv: Any, states: Tensor) -> Convolved:
        parts, bias = [conv.lin_l.weight, conv.lin_r.weight], conv.lin_l.bias
        if parts[0].shape[1] < parts[0].shape[0]:
            received = aggregate(states, self.graphs, post=self.inverse)
            both = torch.cat([received, states.expand_as(received)], dim=-1)
            return both, torch.cat(parts, dim=1), bias
        both = linear(states, torch.cat(parts))
        return aggregate(both, self.graphs, post=self.inverse, side=True), None, bias

    def finish(self, conv: Any, states: Tensor) -> Tensor:
        weight = torch.cat([conv.lin_l.weight, conv.lin_r.weight], dim=1)
        out: Tensor = states @ weight.t() + self.present * conv.lin_l.bias
        return out


class GINWay(Sizes):
    """Sums over neighbours and the node, through two linear layers."""

    share: Tensor | None = None

    def hidden(self, conv: Any, states: Tensor, share: Tensor | None = None) -> Tensor:
        """Between the two linear layers."""
        summed = aggregate(states, self.graphs, own=1 + conv.eps)
        norm, first = conv.nn.norms[0], conv.nn.lins[0]
        own = (norm.weight, norm.bias, first.bias)
        known = {"weight": first.weight, "eps": norm.eps, "share": share}
        return norm_relu(summed, self.graphs, *own, **known)

    def convolve(self, conv: Any, states: Tensor) -> Convolved:
        last = conv.nn.lins[1]
        return self.hidden(conv, states), last.weight, last.bias

    def finish(self, conv: Any, states: Tensor) -> Tensor:
        last = conv.nn.lins[1]
        pooled = self.hidden(conv, states, self.counted(torch.ones_like(self.mean)))
        out: Tensor = pooled @ last.weight.t() + self.count * last.bias
        return out


class GATWay(Sizes):
    """Attention over neighbours and the node. Knows no dropout, which GAT has within attention."""

    share: Tensor | None = None

    def convolve(self, conv: Any, states: Tensor) -> Convolved:
        weight = conv.lin.weight
        by_head = weight.unflatten(0, (conv.heads, conv.out_channels))
        # Scores are linear in the states, too: two more rows a head of the same layer.
        att = torch.cat([conv.att_src, conv.att_dst]).unsqueeze(-1)
        scores = (by_head * att).sum(2).flatten(0, 1)
        u = linear(states, torch.cat([weight, scores]))
        return attend(u, self.graphs, conv.heads, conv.negative_slope), None, conv.bias

    def finish(self, conv: Any, states: Tensor) -> Tensor:
        z, _, bias = self.convolve(conv, states)
        return pool(z, self.graphs, self.counted(self.mean)) + self.present * bias


KINDS: dict[str, type[Way]] = {
    "gcn": GCNWay,
    "graphsage": SAGEWay,
    "gin": GINWay,
    "gat": GATWay,
}
