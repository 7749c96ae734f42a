from __future__ import annotations

from torch import Tensor, nn

from legs.nn.batch_norm import GraphBatchNorm
from legs.nn.head import Head, arguments


class FCN(Head):
    """The fully connected head: batch norm, linear, leaky ReLU, linear.

    Args:
        in_channels: number of graph features.
        out_channels: number of classes or targets.
        hidden_channels: width (default 128).
        dropout: after the activation (default 0).

    >>> import torch
    >>> FCN(128, 2)(torch.rand(4, 128)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self, in_channels: int, out_channels: int, hidden_channels: int = 128, dropout: float = 0.0
    ) -> None:
        super().__init__(arguments(locals()))
        self.norm = GraphBatchNorm(in_channels)
        self.hidden = nn.Linear(in_channels, hidden_channels)
        self.activation = nn.LeakyReLU()
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = self.activation(self.hidden(self.norm(x, mask)))
        out: Tensor = self.out(self.dropout(hidden))
        return out
