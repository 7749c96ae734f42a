from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from legs.kernels.gpu import launch, stacked


class GraphBatchNorm(nn.Module):
    r"""Batch norm over graph features that may leave graphs out of its statistics.

    .. math::
        y = \gamma\, \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta

    As :class:`torch.nn.BatchNorm1d`, with a mask: only graphs under the mask enter :math:`\mu` and
    :math:`\sigma^2` (and the running averages used in evaluation), all graphs are normalised. So
    many models can share a batch in which each of them trains on other graphs. With fewer than two
    graphs under the mask the running averages serve.

    None of :math:`N` values is farther than :math:`\sqrt{N - 1}` standard deviations from their
    mean (Samuelson's inequality). Features beyond that are unlike those of all training graphs: of
    a molecule with a new element, for example. In evaluation they are clamped to that bound
    (:meth:`bound_by`), to keep the inputs of the next layers in the range of training.

    Within :func:`synchronized` the statistics are those of the graphs of all processes, each graph
    with the same weight, as of one process with the whole batch.

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
    reach: Tensor  # deviations from the mean that count, in evaluation

    def __init__(self, in_channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.synchronized = False
        self.weight = nn.Parameter(torch.ones(in_channels))
        self.bias = nn.Parameter(torch.zeros(in_channels))
        self.register_buffer("running_mean", torch.zeros(in_channels))
        self.register_buffer("running_var", torch.ones(in_channels))
        self.register_buffer("reach", torch.tensor(float("inf")))

    def bound_by(self, graphs: int) -> None:
        """Clamps features in evaluation to what so many training graphs can have.

        >>> norm = GraphBatchNorm(1)
        >>> norm.bound_by(101)
        >>> norm.eval()(torch.tensor([[9.0], [1e6]])).detach().round().T
        tensor([[ 9., 10.]])
        """
        self.reach.fill_(math.sqrt(max(graphs - 1, 1)))

    def reset_parameters(self) -> None:
        """Forgets weights, running averages and bound."""
        self.reach.fill_(float("inf"))
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, mask: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalises ``[graphs, in_channels]``, or nodes in place of graphs.

        ``mask`` (``[graphs]``): the graphs to take statistics of, by ``True`` or one; default all.
        ``relu``: whether ReLU follows.
        """
        if not self.training:
            away, variance = x - self.running_mean, self.running_var + self.eps
            most = self.reach * torch.sqrt(variance)
            # An overflow is not merely far away: it becomes NaN.
            away = torch.where(away.isfinite(), away.clamp(-most, most), torch.nan)
            out = away * (self.weight * torch.rsqrt(variance)) + self.bias
            return out.relu() if relu else out
        share = x.new_ones(x.shape[0]) if mask is None else mask.to(x.dtype)
        layer = (self.weight, self.bias, self.running_mean, self.running_var)
        plain = self.synchronized or torch.compiler.is_compiling() or x.dtype != self.weight.dtype
        if not plain and x.numel() and launch.applies(x):
            options = {"eps": self.eps, "momentum": self.momentum}
            return stacked.batch_norm(x, share, *layer, **options, relu=relu)
        mean, variance = self._statistics(x, share)
        out = (x - mean) * (self.weight * torch.rsqrt(variance + self.eps)) + self.bias
        return out.relu() if relu else out

    def _statistics(self, x: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        count = self._total(share.sum())
        share = (share / count.clamp_min(1)).unsqueeze(-1)
        mean = self._total((share * x).sum(0))
        variance = self._total((share * (x - mean).square()).sum(0))
        # No Python branch on the count: it differs from model to model in a shared batch.
        enough = count > 1
        with torch.no_grad():
            unbiased = variance * (count / (count - 1).clamp_min(1))
            step = self.momentum * enough.to(x.dtype)
            self.running_mean += step * (mean - self.running_mean)
            self.running_var += step * (unbiased - self.running_var)
        mean = torch.where(enough, mean, self.running_mean)
        return mean, torch.where(enough, variance, self.running_var)

    def _total(self, part: Tensor) -> Tensor:
        """The sum over all processes."""
        if not self.synchronized or not dist.is_initialized() or dist.get_world_size() == 1:
            return part
        from torch.distributed.nn.functional import all_reduce  # differentiable

        total: Tensor = all_reduce(part)
        return total

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Older models have no bound.
        state.setdefault(f"{prefix}reach", torch.tensor(float("inf"), dtype=self.reach.dtype))
        super()._load_from_state_dict(state, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}"


@contextmanager
def synchronized(module: nn.Module) -> Iterator[None]:
    """Within it, every :class:`GraphBatchNorm` of ``module`` sees the graphs of all processes.

    For :class:`torch.nn.parallel.DistributedDataParallel`, where each process has a part of the
    batch. All processes must call the module equally often.

    >>> norm = GraphBatchNorm(3)
    >>> with synchronized(norm):
    ...     norm(torch.rand(4, 3)).shape
    torch.Size([4, 3])
    """
    norms = [m for m in module.modules() if isinstance(m, GraphBatchNorm) and not m.synchronized]
    for norm in norms:
        norm.synchronized = True
    try:
        yield
    finally:
        for norm in norms:
            norm.synchronized = False
