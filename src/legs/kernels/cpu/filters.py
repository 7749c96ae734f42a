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
from legs.kernels.cpu.jit import entry, inner


def forward(theta: Tensor, channels: int) -> Tensor:
    """Filters ``[models, channels, J, m]`` of logits ``[models, J, m]``, equal for all channels."""
    out = torch.empty(theta.shape[0], channels, *theta.shape[1:], dtype=theta.dtype)
    fill_filters(array_of(theta), out.numpy())
    return out


def backward(theta: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the logits, from that of the filters."""
    logits = array_of(theta)
    out = np.empty_like(logits)
    _backward(logits, array_of(grad), out)
    return torch.from_numpy(out)


@inner
def _sorted_sums(theta, rows, sums, order):
    """Softmax of one model's logits, its sums in decreasing order, and which row each is of."""
    scales, steps = theta.shape
    for j in range(scales):
        top, total = theta[j].max(), theta.dtype.type(0)
        for t in range(steps):
            rows[j, t] = np.exp(theta[j, t] - top)
            total += rows[j, t]
        rows[j] /= total
        total = theta.dtype.type(0)
        for t in range(steps):
            sums[j, t] = total
            total += rows[j, t]
    for t in range(steps):
        # Insertion sort: the rows are nearly in order, and ties stay in theirs.
        for j in range(scales):
            value, k = sums[j, t], j
            while k > 0 and sums[k - 1, t] < value:
                sums[k, t], order[k, t] = sums[k - 1, t], order[k - 1, t]
                k -= 1
            sums[k, t], order[k, t] = value, j


@entry
def fill_filters(theta, out):
    """Writes the filters ``[models, channels, J, m]`` of logits."""
    rows, sums = np.empty_like(theta[0]), np.empty_like(theta[0])
    order = np.empty(rows.shape, np.int64)
    for model in range(theta.shape[0]):
        _sorted_sums(theta[model], rows, sums, order)
        for channel in range(out.shape[1]):
            out[model, channel, 0] = 1 - sums[0]
            out[model, channel, 1:] = sums[:-1] - sums[1:]


@entry
def _backward(theta, grad, out):
    models, scales, steps = theta.shape
    rows, sums = np.empty_like(theta[0]), np.empty_like(theta[0])
    order = np.empty(rows.shape, np.int64)
    for model in range(models):
        _sorted_sums(theta[model], rows, sums, order)
        by_filter = grad[model].sum(axis=0)
        for t in range(steps):
            above = theta.dtype.type(0)
            for j in range(scales - 1, -1, -1):
                sums[order[j, t], t] = above - by_filter[j, t]  # now their gradient
                above = by_filter[j, t]
        for j in range(scales):
            later, mean = theta.dtype.type(0), theta.dtype.type(0)
            for t in range(steps - 1, -1, -1):  # what is selected at a time is in all later sums
                out[model, j, t] = later
                later += sums[j, t]
                mean += out[model, j, t] * rows[j, t]
            out[model, j] = rows[j] * (out[model, j] - mean)
