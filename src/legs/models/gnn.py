from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import models

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

    >>> import torch
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
        x, layer, merged = graphs.x, self.description["layer"], graphs.multiplicity is not None
        # Of merged nodes, weights are numbers of neighbors; else they count in GCN alone.
        weight = graphs.edge_weight if layer == "gcn" or merged else None
        loops: mp.Loops = "edges" if layer == "graphsage" else "more"
        if not self.counts_loops and not merged:
            loops = "every"
        with torch.autocast(x.device.type, enabled=False):  # sums over neighbors are not rounded
            rows = padded_rows(x)
            states: Tensor = self.scale(F.pad(x, (0, 0, 0, rows - len(x))))
            pool = mp.Pooling.build(graphs, rows, states.dtype, mean=layer != "gin")
            adjacency = mp.Adjacency.build(graphs.edge_index, weight, rows, states.dtype, loops)
            if layer == "gcn":
                adjacency = adjacency.symmetric_norm()
            elif layer == "graphsage":
                adjacency = adjacency.mean_norm()
            compute, (*convs, last) = LAYERS[layer][1], self.layers.convs
            for conv, norm in zip(convs, self.layers.norms, strict=False):
                states = mp.convolve(compute(conv, states, adjacency), norm)
                states = self.layers.dropout(states)
            return pool(compute(last, states, adjacency))

    @property
    def counts_loops(self) -> bool:
        """Whether a self-loop makes a node one of its own neighbors.

        In GCN and GAT every node is its own neighbor, with a self-loop or without.
        """
        return self.description["layer"] not in ("gcn", "gat")
