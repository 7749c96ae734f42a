from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from legs.kernels import messages
from legs.models.gnn_fast import Sizes, check_copies, normalised, sizes_of
from legs.models.network import Network, graph_mean
from legs.models.snowball_fast import snowball
from legs.nn import InputScale


class Snowball(Network):
    r"""The snowball network: every layer sees the concatenation of all earlier ones.

    From `"Break the Ceiling: Stronger Multi-scale Deep Graph Convolutional Networks"
    <https://arxiv.org/abs/1906.02174>`_ (Luan et al., 2019),

    .. math::
        H_{l+1} = \tanh\big(L [H_0, H_1, \dots, H_l] W_l\big), \qquad
        C = L [H_0, \dots, H_n] W_C ,

    with :math:`L` GCN's normalised adjacency, mean pooling and a linear layer.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width of every layer (default 64).
        num_layers: number of snowball layers (default 3).
        dropout: after every layer (default 0).

    >>> Snowball(2, 3)(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    #: As for :class:`~legs.models.GNN`.
    regular_graphs: bool = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.description = {
            "in_channels": in_channels,
            "out_channels": out_channels,
            "hidden_channels": hidden_channels,
            "num_layers": num_layers,
            "dropout": dropout,
        }
        self.scale = InputScale(in_channels)
        widths = [in_channels + i * hidden_channels for i in range(num_layers + 1)]
        self.layers = nn.ModuleList(GCNConv(width, hidden_channels) for width in widths[:-1])
        self.last = GCNConv(widths[-1], hidden_channels)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_channels, out_channels)

    def embed(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        powers: Tensor | None = None,
        copies: Tensor | None = None,
    ) -> Tensor:
        """Pooled node states, ``[graphs, hidden_channels]``; ``copies`` as for a GNN."""
        check_copies(copies, self.training and self.dropout.p > 0)
        if copies is not None or self.is_fast(x, self.training):
            sizes = sizes_of(x, batch, batch_size)
            graphs = messages.make_graphs(edge_index, edge_weight, batch, *sizes, copies)
            with torch.autocast(x.device.type, enabled=False):  # as in a GNN
                return self._embed_fast(self.scale(x), graphs)
        states = self.scale(x)
        for layer in self.layers:
            new = torch.tanh(layer(states, edge_index, edge_weight))
            states = torch.cat([states, self.dropout(new)], dim=-1)
        states = torch.tanh(self.last(states, edge_index, edge_weight))
        return graph_mean(states, batch, batch_size)

    #: Layers are GCN's: every node is its own neighbour, once.
    counts_loops = False

    def is_fast(self, x: Tensor, training: bool) -> bool:
        """Whether :meth:`embed` takes the faster way for node features like ``x``."""
        return self.regular_graphs and messages.wanted(x)

    def _embed_fast(self, states: Tensor, graphs: messages.Graphs) -> Tensor:
        layers = [(layer.lin.weight, layer.bias) for layer in (*self.layers, self.last)]
        drops = []
        if self.training and self.dropout.p > 0:
            # From the states, so that every model that is mapped over draws its own.
            ones = torch.ones_like(states[:, :1]).expand(-1, layers[0][0].shape[0])
            drops = [self.dropout(ones) for _ in self.layers]
        sizes, scale = Sizes(graphs, states.dtype), normalised(graphs, states.dtype)["pre"]
        return snowball(states, graphs, scale, layers, sizes.counted(sizes.mean), drops)

    def describe(self) -> dict[str, Any]:
        return dict(self.description)
