r"""The filters of learned scales, and the gradient of the logits.

.. math::
    F = \mathrm{softmax}(\Theta), \qquad c_j(t) = \sum_{s < t} F_{js}, \qquad
    f_j(t) = c_{(j-1)}(t) - c_{(j)}(t)

with the sums :math:`c` at every time :math:`t` sorted in decreasing order, after
:math:`c_{(0)} \equiv 1`: :func:`legs.functional.select_scales` (ordered) and
:func:`~legs.functional.wavelet_weights`. In PyTorch these are a dozen small operations each way.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from legs.kernels.cpu.graph import array_of
from legs.kernels.cpu.jit import entry


def forward(theta: Tensor, channels: int) -> Tensor:
    """Filters ``[models, channels, J, m]`` of logits ``[models, J, m]``, equal for all channels."""
    out = torch.empty(theta.shape[0], channels, *theta.shape[1:], dtype=theta.dtype)
    _run(array_of(theta), None, out.numpy())
    return out


def backward(theta: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the logits, from that of the filters."""
    out = torch.empty(theta.shape, dtype=theta.dtype)
    _run(array_of(theta), array_of(grad), out.unsqueeze(1).numpy())
    return out


@entry
def _run(theta, grad, out):
    """Writes filters, or from their gradient that of the logits."""
    (models, scales, steps), zero = theta.shape, theta.dtype.type(0)
    rows, sums = np.empty_like(theta[0]), np.empty_like(theta[0])
    order = np.empty(rows.shape, np.int64)
    for model in range(models):
        for j in range(scales):
            top, total, before = theta[model, j].max(), zero, zero
            for t in range(steps):
                rows[j, t] = np.exp(theta[model, j, t] - top)
                total += rows[j, t]
            rows[j] /= total
            for t in range(steps):
                sums[j, t] = before
                before += rows[j, t]
        for t in range(steps):
            # Insertion sort: the rows are nearly in order, and ties stay in theirs.
            for j in range(scales):
                value, k = sums[j, t], j
                while k > 0 and sums[k - 1, t] < value:
                    sums[k, t], order[k, t] = sums[k - 1, t], order[k - 1, t]
                    k -= 1
                sums[k, t], order[k, t] = value, j
        if grad is None:
            for channel in range(out.shape[1]):
                out[model, channel, 0] = 1 - sums[0]
                out[model, channel, 1:] = sums[:-1] - sums[1:]
            continue
        by_filter = grad[model].sum(axis=0)
        for t in range(steps):
            above = zero
            for j in range(scales - 1, -1, -1):
                sums[order[j, t], t] = above - by_filter[j, t]  # now their gradient
                above = by_filter[j, t]
        change = out[model, 0]
        for j in range(scales):
            later, mean = zero, zero
            for t in range(steps - 1, -1, -1):  # what is selected at a time is in all later sums
                change[j, t] = later
                later += sums[j, t]
                mean += change[j, t] * rows[j, t]
            change[j] = rows[j] * (change[j] - mean)
