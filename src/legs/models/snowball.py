from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

from legs.models.message_passing import Adjacency, Loops
from legs.models.network import Graphs, Network
from legs.nn import InputScale
from legs.nn.head import arguments


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

    takes_multiplicity = True
    #: Whether a self-loop makes a node one of its own neighbors: it is one in any case, once.
    counts_loops = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        self.scale = InputScale(in_channels)
        widths = [in_channels + i * hidden_channels for i in range(num_layers + 1)]
        self.layers = nn.ModuleList(GCNConv(width, hidden_channels) for width in widths[:-1])
        self.last = GCNConv(widths[-1], hidden_channels)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden_channels, out_channels)

    def _embed(self, graphs: Graphs) -> Tensor:
        loops: Loops = "every" if graphs.multiplicity is None else "more"
        # Sums over neighbors are not rounded.
        with torch.autocast(graphs.x.device.type, enabled=False):
            states = self.scale(graphs.x)
            edges = (graphs.edge_index, graphs.edge_weight)
            adjacency = Adjacency.build(*edges, len(states), states.dtype, loops).symmetric_norm()
            # L [H_0, …, H_l] W_l: every block is multiplied by L once, not once per layer.
            blocks = [adjacency @ states]
            layers: list[Any] = [*self.layers, self.last]
            for layer in layers:
                inputs = torch.cat(blocks, dim=-1)
                states = torch.tanh(F.linear(inputs, layer.lin.weight, layer.bias))
                if layer is not self.last:
                    blocks.append(adjacency @ self.dropout(states))
            return graphs.mean(states)
