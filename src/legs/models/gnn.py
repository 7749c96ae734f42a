"""Networks to compare with: message passing, and none."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv, models

from legs.kernels.gpu.stacked import padded_rows
from legs.models import message_passing as mp
from legs.models.network import Graphs, Network
from legs.nn import InputScale
from legs.nn.head import arguments

Layer = Literal["gcn", "graphsage", "gat", "gin"]

# PyG's network, which holds the parameters, and how its layers are computed.
LAYERS: dict[str, tuple[Any, Any]] = {
    "gcn": (models.GCN, mp.gcn),
    "graphsage": (models.GraphSAGE, mp.sage),
    "gat": (models.GAT, mp.gat),
    "gin": (models.GIN, mp.gin),
}


class GNN(Network):
    """A message-passing network with the parameters of PyG's layers: layers, pooling, linear.

    Node features are standardised by the training set, every layer is followed by layer norm (no
    statistics over the batch) and ReLU. GIN pools by sums, as its paper does, the others by means.

    Args:
        layer: ``"gcn"``, ``"graphsage"``, ``"gat"`` (four heads) or ``"gin"``.
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 64).
        num_layers: number of layers (default 3).
        dropout: after every layer (default 0).

    >>> model = GNN("gin", in_channels=2, out_channels=3)
    >>> model(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    takes_multiplicity = True

    def __init__(
        self,
        layer: Layer,
        in_channels: int,
        out_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        options: dict[str, Any] = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
        if layer == "gat":
            options["heads"] = 4
        self.scale = InputScale(in_channels)
        widths = (in_channels, hidden_channels, num_layers)
        self.layers = LAYERS[layer][0](*widths, dropout=dropout, **options)
        self.head = nn.Linear(hidden_channels, out_channels)

    def _embed(self, graphs: Graphs) -> Tensor:
        x, layer = graphs.x, self.description["layer"]
        rows = padded_rows(x)
        states: Tensor = self.scale(F.pad(x, (0, 0, 0, rows - len(x))))
        pool = mp.Pooling.build(graphs, rows, states.dtype, mean=layer != "gin")
        adjacency = mp.adjacency_of(layer, graphs, rows, states.dtype)
        compute, (*convs, last) = LAYERS[layer][1], self.layers.convs
        for conv, norm in zip(convs, self.layers.norms, strict=False):
            states = mp.convolve(compute(conv, states, adjacency), norm)
            states = self.layers.dropout(states)
        return pool(compute(last, states, adjacency))

    @property
    def counts_loops(self) -> bool:
        """Whether a self-loop makes a node one of its own neighbors."""
        return self.description["layer"] not in mp.LOOPED


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
        states = self.scale(graphs.x)
        adjacency = mp.adjacency_of("gcn", graphs, len(states), states.dtype)
        # L [H_0, …, H_l] W_l: every block is multiplied by L once, not once per layer.
        blocks = [adjacency @ states]
        layers: list[Any] = [*self.layers, self.last]
        for layer in layers:
            inputs = torch.cat(blocks, dim=-1)
            states = torch.tanh(F.linear(inputs, layer.lin.weight, layer.bias))
            if layer is not self.last:
                blocks.append(adjacency @ self.dropout(states))
        return graphs.mean(states)


class Baseline(Network):
    """Ignores the edges: node features averaged over nodes, linear, leaky ReLU, linear.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 128).
        dropout: after the activation (default 0).

    >>> Baseline(2, 3)(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self, in_channels: int, out_channels: int, hidden_channels: int = 128, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        # Scaling after averaging is the same as before it, and leaves the average to be done once.
        self.head = nn.Sequential(
            InputScale(in_channels),
            nn.Linear(in_channels, hidden_channels),
            nn.LeakyReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_channels, out_channels),
        )

    def _embed(self, graphs: Graphs) -> Tensor:
        return graphs.mean(graphs.x)
