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
from legs.functional.sparse import Pattern, build_pattern, spmm
from legs.kernels.csr import product
from legs.kernels.gpu import launch
from legs.kernels.gpu import spmm as gpu
from legs.kernels.gpu.dense import linear, norm_relu
from legs.models.network import Graphs

Loops = Literal["edges", "every", "more"]


class Adjacency(NamedTuple):
    """A batch of graphs as a sparse matrix: row :math:`i` holds the edges that end in node i."""

    pattern: Pattern
    values: Tensor  # [entries]

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
        if edge_weight is None:
            weight = torch.ones(source.shape[0], dtype=dtype, device=source.device)
        else:
            weight = edge_weight.detach().to(dtype)
        if loops != "edges":
            own = torch.ones(nodes, dtype=dtype, device=source.device)
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
        return Adjacency(pattern._replace(product=product), weight.index_select(0, order))

    def sums(self) -> Tensor:
        """Sums of values by row, ``[nodes]``."""
        zeros = self.values.new_zeros(self.pattern.rowptr.shape[0] - 1)
        return zeros.index_add(0, self.pattern.row, self.values)

    def symmetric_norm(self) -> Adjacency:
        r"""GCN's :math:`D^{-1/2} (W + I) D^{-1/2}`."""
        degree = self.sums()
        scale = torch.where(degree > 0, degree, torch.inf).rsqrt()
        edges = scale.index_select(0, self.pattern.row) * scale.index_select(0, self.pattern.col)
        return self._replace(values=edges * self.values)

    def mean_norm(self) -> Adjacency:
        """Rows divided by their sums."""
        degree = self.sums().clamp_min(1)
        return self._replace(values=self.values / degree.index_select(0, self.pattern.row))

    def transposed_sums(self, weights: Tensor) -> Tensor:
        r"""How much every node counts in :math:`\sum_i w_i (S h)_i`, ``[nodes]``."""
        entries = self.values * weights.index_select(0, self.pattern.row)
        return torch.zeros_like(weights).index_add(0, self.pattern.col, entries)

    def __matmul__(self, states: Tensor) -> Tensor:
        multiply = gpu.spmm if launch.applies(states) and states.numel() else spmm
        return multiply(self.pattern, self.values, states)


class Pooling(NamedTuple):
    """Weighted sums over the nodes of graphs."""

    batch: Tensor  # [nodes]
    num_graphs: int
    weights: Tensor  # [nodes]

    @staticmethod
    def build(graphs: Graphs, dtype: torch.dtype, mean: bool = True) -> Pooling:
        """Means over the nodes of each graph, zero without nodes; or sums."""
        batch, num_graphs = graphs.segments()
        weights = torch.ones_like(batch) if graphs.multiplicity is None else graphs.multiplicity
        pooling = Pooling(batch, num_graphs, weights.to(dtype))
        if mean:
            count = pooling.totals.squeeze(-1).clamp_min(1)
            pooling = pooling._replace(weights=pooling.weights / count.index_select(0, batch))
        return pooling

    def pad(self, nodes: int) -> Pooling:
        """Appends nodes of weight zero."""
        more = (0, nodes - len(self.batch))
        return self._replace(batch=F.pad(self.batch, more), weights=F.pad(self.weights, more))

    @property
    def totals(self) -> Tensor:
        """Sums of the weights, ``[graphs, 1]``."""
        return fn.graph_sum(self.weights, self.batch, self.num_graphs).unsqueeze(-1)

    def __call__(self, states: Tensor, weights: Tensor | None = None) -> Tensor:
        """Sums ``[graphs, channels]``, by default with the weights of this pooling."""
        weights = self.weights if weights is None else weights
        if launch.applies(states) and states.numel():
            return gpu.pool(states, self.batch, self.num_graphs, weights)
        return fn.graph_sum(states, self.batch, self.num_graphs, weights)


def normed(states: Tensor, bias: Tensor, norm: Any) -> Tensor:
    """ReLU after layer norm (:class:`~torch_geometric.nn.LayerNorm` over channels) after a bias."""
    return norm_relu(states, bias, norm.weight, norm.bias, norm.eps)


class GCN:
    """Layers of :class:`~torch_geometric.nn.GCNConv`."""

    @staticmethod
    def convolve(conv: Any, states: Tensor, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        """New states, but for the bias, and the bias."""
        weight = conv.lin.weight
        if weight.shape[1] < weight.shape[0]:  # the sparse product comes where rows are narrow
            return linear(adjacency @ states, weight), conv.bias
        return adjacency @ linear(states, weight), conv.bias

    @staticmethod
    def pooled(conv: Any, states: Tensor, adjacency: Adjacency, pool: Pooling) -> Tensor:
        """A layer and the pooling of its states, ``[graphs, channels]``."""
        sums = pool(states, adjacency.transposed_sums(pool.weights))
        out: Tensor = F.linear(sums, conv.lin.weight) + pool.totals * conv.bias
        return out


class GraphSAGE:
    """Layers of :class:`~torch_geometric.nn.SAGEConv`."""

    @staticmethod
    def convolve(conv: Any, states: Tensor, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        neighbors = linear(adjacency @ states, conv.lin_l.weight)
        return neighbors + linear(states, conv.lin_r.weight), conv.lin_l.bias

    @staticmethod
    def pooled(conv: Any, states: Tensor, adjacency: Adjacency, pool: Pooling) -> Tensor:
        neighbors = pool(states, adjacency.transposed_sums(pool.weights))
        own = F.linear(pool(states), conv.lin_r.weight) + pool.totals * conv.lin_l.bias
        out: Tensor = F.linear(neighbors, conv.lin_l.weight) + own
        return out


class GIN:
    """Layers of :class:`~torch_geometric.nn.GINConv`; the matrix has the node's own weight, 1."""

    @staticmethod
    def _hidden(conv: Any, states: Tensor, adjacency: Adjacency) -> Tensor:
        first = conv.nn.lins[0]
        return normed(linear(adjacency @ states, first.weight), first.bias, conv.nn.norms[0])

    @staticmethod
    def convolve(conv: Any, states: Tensor, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        last = conv.nn.lins[1]
        return linear(GIN._hidden(conv, states, adjacency), last.weight), last.bias

    @staticmethod
    def pooled(conv: Any, states: Tensor, adjacency: Adjacency, pool: Pooling) -> Tensor:
        last = conv.nn.lins[1]
        sums = pool(GIN._hidden(conv, states, adjacency))
        out: Tensor = F.linear(sums, last.weight) + pool.totals * last.bias
        return out


class GAT:
    """Layers of :class:`~torch_geometric.nn.GATConv`; edge weights are multiplicities."""

    @staticmethod
    def convolve(conv: Any, states: Tensor, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        weight = conv.lin.weight
        hidden, parts = linear(states, weight), weight.unflatten(0, (conv.heads, -1))
        attention = torch.cat([conv.att_src, conv.att_dst]).unsqueeze(-1)
        scores = linear(states, (attention * parts).sum(2).flatten(0, 1))
        source, target = scores.split(conv.heads, dim=-1)
        drops = conv.training and conv.dropout > 0
        if launch.applies(states) and not drops and 32 % conv.heads == 0:
            from legs.kernels.gpu.attention import attend

            matrix = (adjacency.values, adjacency.pattern)
            return attend(hidden, source, target, *matrix, conv.negative_slope), conv.bias
        row, col = adjacency.pattern.row, adjacency.pattern.col
        score = source.index_select(0, col) + target.index_select(0, row)
        score = F.leaky_relu(score, conv.negative_slope)
        lowest = torch.full_like(source, -torch.inf)
        rows = row.unsqueeze(-1).expand_as(score)
        largest = lowest.scatter_reduce(0, rows, score.detach(), "amax")
        share = (score - largest.index_select(0, row)).exp() * adjacency.values.unsqueeze(-1)
        share = share / torch.zeros_like(source).index_add(0, row, share).index_select(0, row)
        share = F.dropout(share, conv.dropout, conv.training).unsqueeze(-1)
        hidden = hidden.unflatten(-1, (conv.heads, -1))
        messages = share * hidden.index_select(0, col)
        return torch.zeros_like(hidden).index_add(0, row, messages).flatten(-2), conv.bias

    @staticmethod
    def pooled(conv: Any, states: Tensor, adjacency: Adjacency, pool: Pooling) -> Tensor:
        sums, bias = GAT.convolve(conv, states, adjacency)
        return pool(sums) + pool.totals * bias
