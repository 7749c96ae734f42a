"""The filters of learned scales on GPUs: ``filters.cu``. In PyTorch, a dozen launches each way.

See :mod:`legs.kernels.cpu.filters`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legs.kernels.gpu import launch

THREADS = 64


def forward(theta: Tensor, channels: int) -> Tensor:
    """Filters ``[models, channels, J, m]`` of logits ``[models, J, m]``, equal for all channels."""
    return _run(theta, channels)[0]


def backward(theta: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the logits, from that of the filters."""
    return _run(theta, grad.shape[1], grad)[1]


def _run(theta: Tensor, channels: int, grad: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Filters; and the softmax of the logits, or their gradient."""
    models, scales, steps = theta.shape
    filters = theta.new_empty(models, channels, scales, steps)
    rows, order = theta.new_empty(theta.shape), theta.new_empty(theta.shape, dtype=torch.int32)
    constants = {"C": channels, "J": scales, "M": steps}
    args = [theta, grad, filters, rows, order]
    launch.run("filters", "filters", theta, models, THREADS, args, **constants)
    return filters, rows
