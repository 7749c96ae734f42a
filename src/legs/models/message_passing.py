r"""Message passing on one sparse product, with the parameters of PyG's layers.

Every layer is a product :math:`S h` of a sparse matrix with the node states
(:func:`legs.functional.sparse.spmm`), which maps over models and never writes messages. What is
linear after the last activation is applied to pooled states, of which there are fewer. Attention,
whose matrix is learned, gathers messages where there is no kernel for it.

Nodes may stand for several equivalent ones (:func:`legs.data.merge_equivalent`): edge weights are
then numbers of neighbors, and pooling counts every node by its multiplicity.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from legs import functional as fn
from legs.functional.sparse import Pattern, build_pattern, row_pointers, sort_indices, spmm
from legs.kernels.csr import product
from legs.kernels.gpu import launch, stacked
from legs.kernels.gpu.stacked import linear, norm_relu
from legs.models.network import Graphs

Loops = Literal["edges", "every", "more"]
# Layers in which every node is its own neighbor, with a self-loop or without.
LOOPED = ("gcn", "gat")


class Adjacency(NamedTuple):
    """A batch of graphs as a sparse matrix: row :math:`i` holds the edges that end in node i."""

    pattern: Pattern
    values: Tensor  # [entries]
    order: Tensor | None = None  # [entries] which edge each entry is; self-loops come after edges

    @staticmethod
    def build(
        edge_index: Tensor,
        edge_weight: Tensor | None,
        nodes: int,
        dtype: torch.dtype,
        loops: Loops = "edges",
    ) -> Adjacency:
        """The edges, and self-loops as ``loops`` says.

        ``"edges"``: those in ``edge_index`` only; ``"every"``: one per node, with the weight of its
        self-loop or else 1; ``"more"``: one more per node, of weight 1, since self-loops of merged
        graphs are edges to other nodes.
        """
        source, target = edge_index
        weight = torch.ones_like(source) if edge_weight is None else edge_weight.detach()
        weight = weight.to(dtype)
        if loops != "edges":
            own = weight.new_ones(nodes)
            if loops == "every":
                loop = (source == target).to(dtype)
                zeros = torch.zeros_like(own)
                has_loop = zeros.index_add(0, target, loop) > 0
                own = torch.where(has_loop, zeros.index_add(0, target, weight * loop), 1)
                weight = weight * (1 - loop)
            index = torch.arange(nodes, device=source.device)
            source, target = torch.cat([source, index]), torch.cat([target, index])
            weight = torch.cat([weight, own])
        pattern, order = build_pattern(target, source, nodes, nodes)
        return Adjacency(pattern._replace(product=product), weight.index_select(0, order), order)

    def sums(self) -> Tensor:
        """Sums of values by row, ``[nodes]``."""
        zeros = self.values.new_zeros(self.pattern.rowptr.shape[0] - 1)
        return zeros.index_add(0, self.pattern.row, self.values)

    def symmetric_norm(self) -> Adjacency:
        r"""GCN's :math:`D^{-1/2} (W + I) D^{-1/2}`."""
        degree = self.sums()
        scale = torch.where(degree > 0, degree, torch.inf).rsqrt()
        return self._replace(values=scale[self.pattern.row] * scale[self.pattern.col] * self.values)

    def mean_norm(self) -> Adjacency:
        """Rows divided by their sums."""
        return self._replace(values=self.values / self.sums().clamp_min(1)[self.pattern.row])

    def transposed(self, weights: Tensor) -> Tensor:
        r""":math:`S^\top w`, ``[nodes]``."""
        entries = self.values * weights.index_select(0, self.pattern.row)
        return torch.zeros_like(weights).index_add(0, self.pattern.col, entries)

    def in_order(self, edge_attr: Tensor) -> Tensor:
        """Edge features, ``[edges, channels]``, by entry; zero for added self-loops."""
        assert self.order is not None
        loops = len(self.values) - len(edge_attr)
        return F.pad(edge_attr, (0, 0, 0, loops)).index_select(0, self.order)

    def add(self, messages: Tensor) -> Tensor:
        """Sums of messages, one per entry, weighted by the values, ``[nodes, channels]``."""
        every = torch.arange(len(self.values) + 1, device=self.values.device)
        rowptr, row, entry = self.pattern.rowptr, self.pattern.row, every[:-1]
        by_entry = Pattern(rowptr, row, entry, entry, every, entry, row, entry, product)
        return Adjacency(by_entry, self.values) @ messages

    def __matmul__(self, states: Tensor) -> Tensor:
        multiply = stacked.spmm if launch.applies(states) and states.numel() else spmm
        return multiply(self.pattern, self.values, states)


def adjacency_of(layer: str, graphs: Graphs, nodes: int, dtype: torch.dtype) -> Adjacency:
    """The matrix by which a layer multiplies node states; edge weights count in GCN alone."""
    merged = graphs.multiplicity is not None
    # Of merged nodes, weights are numbers of neighbors.
    weight = graphs.edge_weight if layer == "gcn" or merged else None
    loops: Loops = "edges" if layer not in LOOPED else "more" if merged else "every"
    matrix = Adjacency.build(graphs.edge_index, weight, nodes, dtype, loops)
    if layer == "gcn":
        return matrix.symmetric_norm()
    return matrix.mean_norm() if layer in ("sage", "graphsage") else matrix


class Pooling(NamedTuple):
    """Weighted sums over the nodes of graphs."""

    batch: Tensor  # [nodes]
    pattern: Pattern  # of the matrix [graphs, nodes] that adds up nodes
    weights: Tensor  # [nodes]

    @staticmethod
    def build(graphs: Graphs, nodes: int, dtype: torch.dtype, mean: bool) -> Pooling:
        """Means over the nodes of each graph, zero without nodes; or sums.

        Nodes above those of ``graphs`` have weight zero.
        """
        batch, num_graphs = graphs.segments()
        weights = torch.ones_like(batch) if graphs.multiplicity is None else graphs.multiplicity
        weights = weights.to(dtype)
        if mean:
            count = fn.graph_sum(weights, batch, num_graphs).clamp_min(1)
            weights = weights / count.index_select(0, batch)
        more = (0, nodes - len(batch))
        batch, weights = F.pad(batch, more), F.pad(weights, more)
        row, order = sort_indices(batch, num_graphs)
        every = torch.arange(nodes + 1, device=batch.device)
        place = every[:-1].scatter(0, order, every[:-1])
        by_row = (row_pointers(row, num_graphs), row, order, place)
        return Pooling(batch, Pattern(*by_row, every, every[:-1], batch, order, product), weights)

    def __call__(self, layer: Layer) -> Tensor:
        """Pooled states of a layer, ``[graphs, channels]``."""
        terms, bias = layer
        graphs = self.pattern.rowptr.shape[0] - 1
        total = fn.graph_sum(self.weights, self.batch, graphs).unsqueeze(-1) * bias
        for adjacency, states, weight in terms:
            # How much every node counts in the sums of weighted rows of S h.
            counts = self.weights if adjacency is None else adjacency.transposed(self.weights)
            sums = Adjacency(self.pattern, counts.index_select(0, self.pattern.col)) @ states
            total = total + (sums if weight is None else F.linear(sums, weight))
        return total


# What a layer adds up (a sparse matrix times states times a weight, where there are such), and its
# bias.
Layer = tuple[list[tuple[Adjacency | None, Tensor, Tensor | None]], Tensor]


def convolve(layer: Layer, norm: Any) -> Tensor:
    """States of a layer followed by layer norm and ReLU, ``[nodes, channels]``."""
    terms, bias = layer
    parts = []
    for adjacency, states, weight in terms:
        # The sparse product comes where rows are narrow.
        narrow = weight is not None and weight.shape[1] < weight.shape[0]
        if adjacency is not None and narrow:
            states = adjacency @ states
        if weight is not None:
            states = linear(states, weight)
        if adjacency is not None and not narrow:
            states = adjacency @ states
        parts.append(states)
    return normed(sum(parts[1:], parts[0]), bias, norm)


def gcn(conv: Any, states: Tensor, adjacency: Adjacency) -> Layer:
    """:class:`~torch_geometric.nn.GCNConv`."""
    return [(adjacency, states, conv.lin.weight)], conv.bias


def sage(conv: Any, states: Tensor, adjacency: Adjacency) -> Layer:
    """:class:`~torch_geometric.nn.SAGEConv`."""
    own = (None, states, conv.lin_r.weight)
    return [(adjacency, states, conv.lin_l.weight), own], conv.lin_l.bias


def gin(conv: Any, states: Tensor, adjacency: Adjacency) -> Layer:
    """:class:`~torch_geometric.nn.GINConv`."""
    first, last = conv.nn.lins
    sums = adjacency @ states + states
    hidden = normed(linear(sums, first.weight), first.bias, conv.nn.norms[0])
    return [(None, hidden, last.weight)], last.bias


def gat(conv: Any, states: Tensor, adjacency: Adjacency, edge_attr: Tensor | None = None) -> Layer:
    """:class:`~torch_geometric.nn.GATConv`; edge weights are multiplicities.

    ``edge_attr``: features of the entries of the matrix.
    """
    weight = conv.lin.weight
    hidden, parts = linear(states, weight), weight.unflatten(0, (conv.heads, -1))
    attention = torch.cat([conv.att_src, conv.att_dst]).unsqueeze(-1)
    scores = linear(states, (attention * parts).sum(2).flatten(0, 1))
    source, target = scores.split(conv.heads, dim=-1)
    drops = conv.training and conv.dropout > 0
    if launch.applies(states) and not drops and edge_attr is None and 32 % conv.heads == 0:
        matrix = (adjacency.values, adjacency.pattern)
        sums = stacked.attend(hidden, source, target, *matrix, conv.negative_slope)
        return [(None, sums, None)], conv.bias
    row, col = adjacency.pattern.row, adjacency.pattern.col
    score = source.index_select(0, col) + target.index_select(0, row)
    if edge_attr is not None:
        parts = conv.lin_edge.weight.unflatten(0, (conv.heads, -1))
        score = score + edge_attr @ (conv.att_edge.unsqueeze(-1) * parts).sum(2).squeeze(0).mT
    score = F.leaky_relu(score, conv.negative_slope)
    lowest = torch.full_like(source, -torch.inf)
    rows = row.unsqueeze(-1).expand_as(score)
    largest = lowest.scatter_reduce(0, rows, score.detach(), "amax")
    share = (score - largest.index_select(0, row)).exp() * adjacency.values.unsqueeze(-1)
    share = share / torch.zeros_like(source).index_add(0, row, share).index_select(0, row)
    share = F.dropout(share, conv.dropout, conv.training).unsqueeze(-1)
    hidden = hidden.unflatten(-1, (conv.heads, -1))
    messages = share * hidden.index_select(0, col)
    sums = torch.zeros_like(hidden).index_add(0, row, messages).flatten(-2)
    return [(None, sums, None)], conv.bias


def normed(states: Tensor, bias: Tensor, norm: Any) -> Tensor:
    """ReLU after layer norm (:class:`~torch_geometric.nn.LayerNorm` over channels) after a bias."""
    return norm_relu(states, bias, norm.weight, norm.bias, norm.eps)
