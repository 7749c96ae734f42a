from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

from legs.models.message_passing import Adjacency, Loops
from legs.models.network import Network, check_copies, pool
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
        check_copies(copies, self)
        with torch.autocast(x.device.type, enabled=False):  # sums over neighbors are not rounded
            states = self._node_states(x, edge_index, edge_weight, copies is not None)
            return pool(states, batch, batch_size, copies)

    def _node_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, merged: bool
    ) -> Tensor:
        states = self.scale(x)
        loops: Loops = "more" if merged else "every"
        adjacency = Adjacency.build(edge_index, edge_weight, len(states), states.dtype, loops)
        adjacency = adjacency.symmetric_norm()
        # L [H_0, …, H_l] W_l: every block is multiplied by L once, not once per layer.
        seen = [adjacency @ states]
        layers: list[Any] = [*self.layers, self.last]
        for layer in layers[:-1]:
            states = torch.tanh(F.linear(torch.cat(seen, dim=-1), layer.lin.weight, layer.bias))
            seen.append(adjacency @ self.dropout(states))
        last = layers[-1]
        return torch.tanh(F.linear(torch.cat(seen, dim=-1), last.lin.weight, last.bias))

    #: Layers are GCN's: every node is its own neighbor, once.
    counts_loops = False

    def describe(self) -> dict[str, Any]:
        return dict(self.description)
