from __future__ import annotations

import torch
from torch import Tensor, nn

from legs.kernels import batch_norm


class GraphBatchNorm(nn.Module):
    r"""Batch norm over graph features that may leave graphs out of its statistics.

    .. math::
        y = \gamma\, \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta

    As :class:`torch.nn.BatchNorm1d`, with a mask: only graphs under the mask enter :math:`\mu` and
    :math:`\sigma^2` (and the running averages used in evaluation), all graphs are normalised. So
    many models can share a batch in which each of them trains on other graphs. With fewer than two
    graphs under the mask the running averages serve.

    Args:
        in_channels: number of features.
        eps: :math:`\epsilon` (default 1e-5).
        momentum: of the running averages (default 0.1).

    >>> norm = GraphBatchNorm(3)
    >>> norm(torch.rand(4, 3), mask=torch.tensor([True, True, True, False])).shape
    torch.Size([4, 3])
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, in_channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(in_channels))
        self.bias = nn.Parameter(torch.zeros(in_channels))
        self.register_buffer("running_mean", torch.zeros(in_channels))
        self.register_buffer("running_var", torch.ones(in_channels))

    def reset_parameters(self) -> None:
        """Forgets weights and running averages."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalises ``[graphs, in_channels]``.

        ``mask`` (``[graphs]``) names the graphs to take statistics of, by ``True`` or one; default
        all.
        """
        if not self.training:
            mean, variance = self.running_mean, self.running_var
        elif batch_norm.applies(x, self.weight):
            mask = x.new_ones(x.shape[0]) if mask is None else mask.to(x.dtype)
            layer = (self.weight, self.bias, self.running_mean, self.running_var)
            return batch_norm.batch_norm(x, mask, *layer, self.eps, self.momentum)
        else:
            mean, variance = self._statistics(x, mask)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (x - mean) * scale + self.bias

    def _statistics(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        share = x.new_ones(x.shape[0]) if mask is None else mask.to(x.dtype)
        count = share.sum()
        share = (share / count.clamp_min(1)).unsqueeze(-1)
        mean = (share * x).sum(0)
        variance = (share * (x - mean).square()).sum(0)
        # No Python branch on the count: it differs from model to model in a shared batch.
        enough = count > 1
        with torch.no_grad():
            unbiased = variance * (count / (count - 1).clamp_min(1))
            step = self.momentum * enough.to(x.dtype)
            self.running_mean += step * (mean - self.running_mean)
            self.running_var += step * (unbiased - self.running_var)
        # Where there were not enough, the averages are what they were.
        return (
            torch.where(enough, mean, self.running_mean),
            torch.where(enough, variance, self.running_var),
        )

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}"
