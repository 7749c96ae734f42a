from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import models

from legs.kernels import messages
from legs.models.gnn_fast import check_copies, embed_fast, sizes_of
from legs.models.network import Network, graph_mean, graph_sum
from legs.nn import InputScale

Layer = Literal["gcn", "graphsage", "gat", "gin"]

LAYERS: dict[str, Any] = {
    "gcn": models.GCN,
    "graphsage": models.GraphSAGE,
    "gat": models.GAT,
    "gin": models.GIN,
}


class GNN(Network):
    """A message-passing network on PyG's layers: layers, pooling, linear.

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

    #: Whether all graphs that come are known to be undirected, their edges sorted by target, and
    #: without loops unless :attr:`counts_loops`; training knows that of its data set. Only then
    #: there is a faster way than PyG's.
    regular_graphs: bool = False

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
        self.description: dict[str, Any] = {
            "layer": layer,
            "in_channels": in_channels,
            "out_channels": out_channels,
            "hidden_channels": hidden_channels,
            "num_layers": num_layers,
            "dropout": dropout,
        }
        options: dict[str, Any] = {"heads": 4} if layer == "gat" else {}
        self.scale = InputScale(in_channels)
        self.layers = LAYERS[layer](
            in_channels,
            hidden_channels,
            num_layers,
            dropout=dropout,
            norm="layer_norm",
            norm_kwargs={"mode": "node"},
            **options,
        )
        self.pool = graph_sum if layer == "gin" else graph_mean
        self.weighted = layer in ("gcn",)
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
        """Pooled node states, ``[graphs, hidden_channels]``.

        ``copies`` tells how many nodes each one stands for, where nodes that are alike have been
        merged (:func:`legs.data.merge_alike`), and edge weights are numbers of neighbours. PyG's
        layers cannot count them: such graphs always go the faster way, and must be fit for it.
        """
        # Only GCN's layers know edge weights; numbers of neighbours count in all of them.
        weight = edge_weight if self.weighted or copies is not None else None
        check_copies(copies, self.training and self.description["dropout"] > 0)
        if copies is not None or self.is_fast(x, self.training):
            sizes = sizes_of(x, batch, batch_size)
            graphs = messages.make_graphs(edge_index, weight, batch, *sizes, copies)
            # As scattering does: kernels compute in the type of the states.
            with torch.autocast(x.device.type, enabled=False):
                return embed_fast(self.layers, self.description["layer"], self.scale(x), graphs)
        return self.pool(
            self.layers(self.scale(x), edge_index, edge_weight=weight), batch, batch_size
        )

    @property
    def counts_loops(self) -> bool:
        """Whether an edge from a node to itself makes it one of its own neighbours.

        For GCN and GAT every node is one of them, once, with such an edge (without weight) or not.
        """
        return self.description["layer"] not in ("gcn", "gat")

    def is_fast(self, x: Tensor, training: bool) -> bool:
        """Whether :meth:`embed` takes the faster way for node features like ``x``."""
        drops = training and self.description["dropout"] > 0
        inside = self.description["layer"] == "gat" and drops  # GAT drops attention, too
        return self.regular_graphs and messages.wanted(x) and not inside

    def describe(self) -> dict[str, Any]:
        return dict(self.description)
