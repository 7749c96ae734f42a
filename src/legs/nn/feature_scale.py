from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

# Deviations from the mean: a fingerprint's rare bits would outweigh everything else.
FARTHEST = 5.0
SAME, FEWEST = 0.9999, 10  # correlation, and graphs: fewer may agree by chance
CONSTANT, TARGET = 1, 2
_LARGEST = torch.finfo(torch.float32).max


class FeatureScale(nn.Module):
    r"""Imputes, standardizes and clips graph-level features by those of the *training* graphs.

    .. math::
        y = (\min(\max(x, l), h) - \mu) / \sigma

    with the training median for what is missing (not finite), and :math:`l, h` the training range,
    at most five deviations :math:`\sigma` from the mean :math:`\mu`. Features that are constant in
    training, or equal to a target (up to scale, by correlation), are dropped: their columns are
    zero. All is set once by :meth:`init_scale` and saved with the model as buffers. Until then only
    missing values change, to zero.

    Args:
        in_channels: number of graph-level features.

    >>> scale = FeatureScale(2)
    >>> scale.init_scale(torch.tensor([[1.0, 7.0], [3.0, 7.0], [float("nan"), 7.0]]))
    >>> scale(torch.tensor([[9.0, 8.0], [float("nan"), 7.0]]))
    tensor([[ 1.4142,  0.0000],
            [-0.7071,  0.0000]])
    >>> scale.dropped(["a", "b"])
    {'constant': ['b'], 'equal to a target': []}
    """

    median: Tensor
    mean: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor
    reason: Tensor  # why a feature is dropped, 0 if it is not

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        for name in ("median", "mean", "deviation", "low", "high"):
            self.register_buffer(name, torch.zeros(in_channels))
        self.register_buffer("reason", torch.zeros(in_channels, dtype=torch.int8))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to doing nothing."""
        for name, value in (("median", 0.0), ("mean", 0.0), ("deviation", 1.0), ("reason", 0)):
            getattr(self, name).fill_(value)
        self.low.fill_(-_LARGEST)
        self.high.fill_(_LARGEST)

    @torch.no_grad()
    def init_scale(self, x: Tensor, y: Tensor | None = None) -> None:
        """Takes everything from training graphs.

        Args:
            x: their features, ``[graphs, in_channels]``.
            y: their targets, ``[graphs, targets]``, NaN where missing; default: no feature is
                compared with them.
        """
        x = torch.where(x.isfinite(), x.double(), torch.nan)
        median = x.nanmedian(0).values.nan_to_num(0.0)
        x = torch.where(x.isnan(), median, x)
        deviation, mean = torch.std_mean(x, dim=0, correction=0)
        varies = deviation > 1e-6 * x.abs().amax(0)
        self.reason.copy_(torch.where(varies, 0, CONSTANT))
        for target in () if y is None else y.double().unbind(1):
            same = _correlation(x[~target.isnan()], target[~target.isnan()]).abs() > SAME
            self.reason.copy_(torch.where(varies & same, TARGET, self.reason))
        self.median.copy_(median)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(varies, deviation, 1.0))
        self.low.copy_(torch.maximum(x.amin(0), mean - FARTHEST * deviation))
        self.high.copy_(torch.minimum(x.amax(0), mean + FARTHEST * deviation))

    def dropped(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Which features of these names are dropped, by reason."""
        reasons = self.reason.tolist()
        return {
            text: [name for name, reason in zip(names, reasons, strict=True) if reason == number]
            for number, text in ((CONSTANT, "constant"), (TARGET, "equal to a target"))
        }

    def forward(self, x: Tensor) -> Tensor:
        """From and to ``[graphs, in_channels]``."""
        x = torch.where(x.isfinite(), x, self.median)
        x = torch.minimum(torch.maximum(x, self.low), self.high)
        return torch.where(self.reason == 0, (x - self.mean) / self.deviation, 0.0)


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's, of every column of ``x`` with ``y``; zero where one does not vary."""
    if len(y) < FEWEST:
        return x.new_zeros(x.shape[1])
    x, y = x - x.mean(0), y - y.mean()
    norms = x.norm(dim=0) * y.norm()
    return torch.where(norms > 0, y @ x / norms.clamp_min(1e-300), 0.0)
