r"""Layer norm and ReLU of every node's state, and sums over graphs, in one pass over the rows.

.. math::
    y = \mathrm{ReLU}(\gamma \hat z + \beta), \qquad
    \hat z = \frac{z + b - \mu}{\sqrt{\sigma^2 + \epsilon}}

with mean and variance over the channels of a row. For the gradient :math:`g` of :math:`y`, zero
where :math:`y` is, and :math:`h = \gamma g`,

.. math::
    \partial\gamma = \sum g \hat z, \quad \partial\beta = \sum g, \quad
    \partial z = \frac{h - \overline{h} - \hat z\, \overline{h \hat z}}{\sqrt{\sigma^2 + \epsilon}},
    \quad \partial b = \sum \partial z .

All arrays are those of one model, ``[rows, channels]``. Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legs.kernels.cpu_jit import inlined, summing


@inlined
def _normalise(z: Any, bias: Any, eps: Any, i: int, row: Any) -> Any:
    """Writes the standardised row, and gives one over its deviation."""
    channels = z.shape[1]
    zero = z.dtype.type(0)
    total, squares = zero, zero
    for c in range(channels):
        row[c] = z[i, c] + bias[c]
        total += row[c]
    mean = total / z.dtype.type(channels)
    for c in range(channels):
        row[c] -= mean
        squares += row[c] * row[c]
    scale = z.dtype.type(1) / np.sqrt(squares / z.dtype.type(channels) + eps)
    for c in range(channels):
        row[c] *= scale
    return scale


@inlined
def _relu(number: Any) -> Any:
    """Unlike with ``max``, what is not a number stays so, and is noticed."""
    return number * 0 if number < 0 else number


@summing
def norm_rows(
    z: Any, bias: Any, gamma: Any, beta: Any, eps: Any, out: Any, first: int, last: int
) -> None:
    """States of the rows from ``first`` to before ``last``."""
    for i in range(first, last):
        row = out[i]
        _normalise(z, bias, eps, i, row)
        for c in range(row.size):
            row[c] = _relu(row[c] * gamma[c] + beta[c])


@summing
def norm_pooled(
    z: Any,
    bias: Any,
    gamma: Any,
    beta: Any,
    eps: Any,
    share: Any,
    ptr: Any,
    out: Any,
    first: int,
    last: int,
) -> None:
    """Sums over some graphs of their states, by shares, ``out[graph, share * channels + c]``."""
    channels, zero = z.shape[1], z.dtype.type(0)
    row = np.empty(channels, z.dtype)
    for graph in range(first, last):
        out[graph, :] = zero
        for i in range(ptr[graph], ptr[graph + 1]):
            _normalise(z, bias, eps, i, row)
            for c in range(channels):
                row[c] = _relu(row[c] * gamma[c] + beta[c])
            for s in range(share.shape[1]):
                for c in range(channels):
                    out[graph, s * channels + c] += share[i, s] * row[c]


@summing
def pooled(h: Any, share: Any, ptr: Any, out: Any, first: int, last: int) -> None:
    """Sums over some graphs of rows as they are."""
    channels = h.shape[1]
    for graph in range(first, last):
        out[graph, :] = h.dtype.type(0)
        for i in range(ptr[graph], ptr[graph + 1]):
            for s in range(share.shape[1]):
                for c in range(channels):
                    out[graph, s * channels + c] += share[i, s] * h[i, c]


@inlined
def _gradient(grad: Any, share: Any, graph: Any, i: int, row: Any) -> None:
    """Of the state of a row, from that of the rows, or of sums over graphs if there are shares."""
    if share.shape[1] == 0:
        for c in range(row.size):
            row[c] = grad[i, c]
        return
    for c in range(row.size):
        row[c] = share[i, 0] * grad[graph[i], c]
    for s in range(1, share.shape[1]):
        for c in range(row.size):
            row[c] += share[i, s] * grad[graph[i], s * row.size + c]


@summing
def spread(grad: Any, share: Any, graph: Any, out: Any, first: int, last: int) -> None:
    """The adjoint of :func:`pooled`, for some rows."""
    for i in range(first, last):
        _gradient(grad, share, graph, i, out[i])


@summing
def norm_backward(
    grad: Any,
    z: Any,
    bias: Any,
    gamma: Any,
    beta: Any,
    eps: Any,
    share: Any,
    graph: Any,
    out: Any,
    terms: Any,
    first: int,
    last: int,
) -> None:
    """Gradients of some rows; added up in ``terms``, those of gamma, beta and the bias."""
    channels, zero = z.shape[1], z.dtype.type(0)
    row = np.empty(channels, z.dtype)
    of_gamma, of_beta, of_bias = terms[0], terms[1], terms[2]
    for i in range(first, last):
        found = out[i]
        scale = _normalise(z, bias, eps, i, row)
        _gradient(grad, share, graph, i, found)
        # Short loops over few arrays: only these become vectors.
        for c in range(channels):
            found[c] = zero if row[c] * gamma[c] + beta[c] <= zero else found[c]
        for c in range(channels):
            of_gamma[c] += found[c] * row[c]
        for c in range(channels):
            of_beta[c] += found[c]
        mean, along = zero, zero
        for c in range(channels):
            found[c] *= gamma[c]
            mean += found[c]
        for c in range(channels):
            along += found[c] * row[c]
        mean /= z.dtype.type(channels)
        along /= z.dtype.type(channels)
        for c in range(channels):
            found[c] = scale * (found[c] - mean - row[c] * along)
        for c in range(channels):
            of_bias[c] += found[c]
