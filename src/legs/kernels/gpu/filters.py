"""The filters of learned scales on GPUs: ``filters.cu``. In PyTorch, a dozen launches each way.

See :mod:`legs.kernels.cpu.filters`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legs.kernels.gpu import launch

THREADS = 64


def _run(name: str, theta: Tensor, channels: int, tensors: list[Tensor]) -> None:
    models, scales, steps = theta.shape
    constants = {"THREADS": THREADS, "C": channels, "J": scales, "M": steps}
    launch.run("filters", f"filters_{name}", theta, models, THREADS, tensors, **constants)


def _forward(theta: Tensor, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Filters, and for backward the softmax of the logits and the order of its sums."""
    models, scales, steps = theta.shape
    filters = theta.new_empty(models, channels, scales, steps)
    rows, order = theta.new_empty(theta.shape), theta.new_empty(theta.shape, dtype=torch.int32)
    _run("forward", theta, channels, [theta.contiguous(), filters, rows, order])
    return filters, rows, order


def forward(theta: Tensor, channels: int) -> Tensor:
    """Filters ``[models, channels, J, m]`` of logits ``[models, J, m]``, equal for all channels."""
    return _forward(theta, channels)[0]


def backward(theta: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the logits, from that of the filters."""
    _, rows, order = _forward(theta, grad.shape[1])
    out = torch.empty_like(rows)
    _run("backward", theta, grad.shape[1], [grad.contiguous(), rows, order, out])
    return out
