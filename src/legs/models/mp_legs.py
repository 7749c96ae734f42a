from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import models

from legs.models.network import Graphs, Network
from legs.nn import FCN, InputScale, Scattering
from legs.nn.head import arguments


class MPLEGS(Network):
    """Learned scattering of hidden node states: message passing first, then LEGS.

    A GIN-style network (three layers of width 16 by default) makes node states; learned scattering
    of these, with moments, gives graph features; then the fully connected head.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        state_channels: width of the node states (default 16).
        num_layers: number of message-passing layers (default 3).
        hidden_channels: width of the head (default 128).
        dropout: in head and layers (default 0).
        scattering: further options of :class:`~legs.nn.Scattering`.

    >>> import torch
    >>> MPLEGS(2, 3).eval()(torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        state_channels: int = 16,
        num_layers: int = 3,
        hidden_channels: int = 128,
        dropout: float = 0.0,
        **scattering: Any,
    ) -> None:
        super().__init__()
        self.description = arguments(locals())
        self.scale = InputScale(in_channels)
        widths = (in_channels, state_channels, num_layers)
        norm = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
        self.layers = models.GIN(*widths, dropout=dropout, **norm)
        self.scattering = Scattering(state_channels, **scattering)
        self.head = FCN(self.scattering.out_channels, out_channels, hidden_channels, dropout)

    def _embed(self, graphs: Graphs) -> Tensor:
        states = self.layers(self.scale(graphs.x), graphs.edge_index)
        out: Tensor = self.scattering(states, *graphs[1:5])
        return out
