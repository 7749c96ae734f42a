from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from legs.kernels.gpu.stacked import linear
from legs.models import message_passing as mp
from legs.models.deep import DeepNetwork
from legs.models.network import Graphs

Layer = Literal["gcn", "sage", "gat", "gin"]
HEADS = 4


class DeepGNN(DeepNetwork):
    r"""Message passing in the network of :class:`DeepLEGS`: only the layer is another.

    .. math::
        h_0 = W x, \qquad h_{l+1} = h_l + \mathrm{ReLU}\big(N\, W_l\, \mathrm{ReLU}(
        N\, \mathrm{layer}_l(h_l))\big)

    The layers, with :math:`\mathcal{N}(i)` the neighbors of node i:

    - ``"gcn"``: :math:`W \sum_{j \in \mathcal{N}(i) \cup i} m_{ij} / \sqrt{d_i d_j}`
    - ``"sage"``: :math:`W [\mathrm{mean}_{j \in \mathcal{N}(i)}\, m_{ij},\, h_i]`
    - ``"gin"``: :math:`W \big((1 + \epsilon) h_i + \sum_{j \in \mathcal{N}(i)} m_{ij}\big)`, with
      :math:`\epsilon` learned; the block's two linear maps are its MLP
    - ``"gat"``: :class:`~torch_geometric.nn.GATConv` with four heads

    where :math:`m_{ij} = h_j`. With edge features, :math:`m_{ij} = \mathrm{ReLU}(h_j + W_e e_{ij})`
    (GIN is then :class:`~torch_geometric.nn.GINEConv`); GAT has them in its scores. Those of
    self-loops that GCN and GAT add are zero. Edge weights count in GCN alone.

    Args:
        layer: ``"gcn"``, ``"sage"``, ``"gat"`` or ``"gin"``.
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 64); for GAT a multiple of 4.
        num_layers: number of layers (default 3).
        dropout: in the head (default 0.2).
        readout: statistics of the nodes, see :class:`~legs.nn.Readout` (default mean, maximum and
            log-sum).
        head_channels: width of the head (default: ``hidden_channels``).
        norm: ``"batch"`` (default) or ``"layer"``.
        edge_dim: number of edge features (default ``None``: none are read).
        graph_dim: number of graph-level features (default ``None``: none are read).
        layer_dropout: after every layer (default 0).

    >>> model = DeepGNN("gin", 2, 3).eval()
    >>> model(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        layer: Layer,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        dropout: float = 0.2,
        readout: Sequence[str] = ("mean", "max", "logsum"),
        head_channels: int | None = None,
        norm: Literal["batch", "layer"] = "batch",
        edge_dim: int | None = None,
        graph_dim: int | None = None,
        layer_dropout: float = 0.0,
    ) -> None:
        sizes = (in_channels, out_channels, hidden_channels, num_layers, dropout)
        rest = (head_channels, norm, edge_dim, graph_dim, layer_dropout)
        super().__init__(*sizes, readout, *rest, layer=layer)

    def _conv(self, channels: int, **options: Any) -> nn.Module:
        return MessageConv(channels, **options)

    @property
    def takes_multiplicity(self) -> bool:
        """Sums over neighbors are the same at equivalent nodes, which edge features are not."""
        return self.edge_dim is None

    @property
    def counts_loops(self) -> bool:
        """Whether a self-loop makes a node one of its own neighbors."""
        return self.description["layer"] not in mp.LOOPED

    def _prepared(self, states: Tensor, graphs: Graphs) -> Any:
        edge_attr = graphs.edge_attr
        if self.edge_dim is not None and edge_attr is None:
            raise ValueError(f"edge_attr is missing: the network has edge_dim={self.edge_dim}")
        layer = self.description["layer"]
        adjacency = mp.adjacency_of(layer, graphs, len(states), states.dtype)
        if self.edge_dim is None or edge_attr is None:
            return adjacency, None
        return adjacency, adjacency.in_order(edge_attr.to(states.dtype))

    def _layer(
        self, conv: Any, states: Tensor, prepared: Any, graphs: Graphs
    ) -> tuple[Tensor, Tensor | None]:
        out: tuple[Tensor, Tensor | None] = conv(states, *prepared)
        return out


class MessageConv(nn.Module):
    """A layer of :class:`DeepGNN`: new states without the bias, and the bias."""

    def __init__(self, channels: int, layer: Layer, edge_dim: int | None, bias: bool) -> None:
        super().__init__()
        self.layer = layer
        self.lin_edge: nn.Linear | None = None
        if layer == "gat":
            if channels % HEADS:
                raise ValueError(f"hidden_channels must be a multiple of {HEADS}; got {channels}")
            options: dict[str, Any] = {"edge_dim": edge_dim, "fill_value": 0.0, "bias": bias}
            self.attention = GATConv(channels, channels // HEADS, HEADS, **options)
            return
        if layer not in ("gcn", "sage", "gin"):
            raise ValueError(f'layer must be "gcn", "sage", "gat" or "gin"; got {layer!r}')
        self.lin = nn.Linear(channels * (2 if layer == "sage" else 1), channels, bias)
        if layer == "gin":
            self.eps = nn.Parameter(torch.zeros(1))
        if edge_dim is not None:
            self.lin_edge = nn.Linear(edge_dim, channels)

    def reset_parameters(self) -> None:
        """Draws the weights again."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]
        if self.layer == "gin":
            nn.init.zeros_(self.eps)

    def forward(
        self, states: Tensor, adjacency: mp.Adjacency, edge_attr: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """``edge_attr``: in the order of the matrix."""
        if self.layer == "gat":
            ((_, sums, _),), bias = mp.gat(self.attention, states, adjacency, edge_attr)
            return sums, bias
        if self.lin_edge is None:
            sums = adjacency @ states
        else:
            neighbors = states.index_select(0, adjacency.pattern.col)
            sums = adjacency.add((neighbors + self.lin_edge(edge_attr)).relu())
        if self.layer == "sage":
            sums = torch.cat([sums, states], dim=-1)
        elif self.layer == "gin":
            sums = sums + (1 + self.eps) * states
        return linear(sums, self.lin.weight), self.lin.bias
