r"""The filters of learned scales on the CPU, and the gradient of the logits: plain loops.

.. math::
    F = \mathrm{softmax}(\Theta), \qquad c_j(t) = \sum_{s \le t} F_{js}, \qquad
    f_j(t) = c_{(j-1)}(t) - c_{(j)}(t)

with the sums :math:`c` of every time :math:`t` sorted, the largest first, after
:math:`c_{(0)} \equiv 1`. See :mod:`legs.kernels.bank`. Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legs.kernels.cpu_jit import entry, inner


@inner
def _softmax(logits: Any, row: Any) -> None:
    top, total = logits[0], logits.dtype.type(0)
    for t in range(1, logits.size):
        top = max(top, logits[t])
    for t in range(logits.size):
        row[t] = np.exp(logits[t] - top)
        total += row[t]
    for t in range(logits.size):
        row[t] /= total


@entry
def forward(theta: Any, filters: Any, rows: Any, order: Any) -> None:
    """Filters of logits, ``[models, channels, J, m]``; softmax and order for the way back.

    Args:
        theta: ``[models, J, m]``.
        filters: written; the same for all channels.
        rows: written, the softmax of ``theta``.
        order: written: whose sum is at each place of each time.
    """
    models, scales, steps = theta.shape
    sums = np.empty((scales, steps), theta.dtype)
    for model in range(models):
        for j in range(scales):
            _softmax(theta[model, j], rows[model, j])
            total = theta.dtype.type(0)
            for t in range(steps):
                sums[j, t] = total
                total += rows[model, j, t]
        for t in range(steps):
            # Insertion: the rows are nearly in order, and those that tie stay in theirs.
            for j in range(scales):
                value, k = sums[j, t], j
                while k > 0 and sums[k - 1, t] < value:
                    sums[k, t] = sums[k - 1, t]
                    order[model, k, t] = order[model, k - 1, t]
                    k -= 1
                sums[k, t] = value
                order[model, k, t] = j
            before = theta.dtype.type(1)
            for j in range(scales):
                for channel in range(filters.shape[1]):
                    filters[model, channel, j, t] = before - sums[j, t]
                before = sums[j, t]


@entry
def backward(grad: Any, rows: Any, order: Any, out: Any) -> None:
    """Gradient of the logits, ``[models, J, m]``.

    Args:
        grad: of the filters, ``[models, channels, J, m]``.
        rows: of :func:`forward`.
        order: of :func:`forward`.
        out: written.
    """
    models, scales, steps = rows.shape
    sums = np.empty((scales, steps), rows.dtype)  # gradients of these
    for model in range(models):
        for t in range(steps):
            above = rows.dtype.type(0)
            for j in range(scales - 1, -1, -1):
                here = rows.dtype.type(0)
                for channel in range(grad.shape[1]):
                    here += grad[model, channel, j, t]
                sums[order[model, j, t], t] = above - here
                above = here
        for j in range(scales):
            later, mean = rows.dtype.type(0), rows.dtype.type(0)
            for t in range(steps - 1, -1, -1):  # what is chosen for a time counts in later sums
                change = later
                later += sums[j, t]
                sums[j, t] = change
                mean += change * rows[model, j, t]
            for t in range(steps):
                out[model, j, t] = rows[model, j, t] * (sums[j, t] - mean)
