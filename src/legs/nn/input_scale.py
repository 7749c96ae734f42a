from __future__ import annotations

import torch
from torch import Tensor, nn


class InputScale(nn.Module):
    r"""Standardises node features by the mean and deviation of the *training* nodes.

    .. math::
        y = (x - \mu) / \sigma

    Both are set once by :meth:`init_scale`, before training, and saved with the model. Features
    that do not vary in training are only shifted. Until then the layer does nothing.

    Args:
        in_channels: number of node features.

    >>> scale = InputScale(1)
    >>> scale.init_scale(torch.tensor([[1.0], [3.0]]))
    >>> scale(torch.tensor([[5.0]]))
    tensor([[3.]])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(in_channels))
        self.register_buffer("deviation", torch.ones(in_channels))

    @torch.no_grad()
    def init_scale(self, x: Tensor) -> None:
        """Takes mean and deviation from the training nodes ``[nodes, in_channels]``."""
        deviation, mean = torch.std_mean(x, dim=0, correction=0)
        varies = deviation > 1e-6 * x.abs().amax(0)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(varies, deviation, 1.0))

    def reset_parameters(self) -> None:
        """Back to doing nothing."""
        self.mean.zero_()
        self.deviation.fill_(1)

    def forward(self, x: Tensor) -> Tensor:
        """From and to ``[nodes, in_channels]``."""
        return (x - self.mean) / self.deviation
