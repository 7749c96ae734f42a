from __future__ import annotations

from torch import Tensor, nn

from legs.models.network import Graphs, Network
from legs.nn import InputScale
from legs.nn.head import arguments


class Baseline(Network):
    """Ignores the edges: node features averaged over nodes, linear, leaky ReLU, linear.

    Args:
        in_channels: number of node features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 128).
        dropout: after the activation (default 0).

    >>> import torch
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
