r"""The filter bank of diffusion wavelets.

For scales in cumulative form (:mod:`legs.functional.scales`), with :math:`c_0 \equiv 1`,

.. math::
    \Psi_j x = \sum_{t=0}^{m-1} \big(c_j(t) - c_{j+1}(t)\big)\, P^t y, \qquad
    \Phi_J x = x - \sum_{t=0}^{m-1} \big(1 - c_J(t)\big)\, P^t y, \qquad y = (I - P)\, x .

This is summation by parts of :math:`\Psi_j = \sum_t (F_{jt} - F_{j+1,t}) P^t`: the Laplacian comes
first, then diffusion. It costs the same, is exactly zero for constant signals on regular graphs and
loses ten times fewer digits in float32. For stochastically ordered rows the weights are
non-negative, which bounds the bank by one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legs.functional.diffusion import Walk, diffusions, high_pass
from legs.functional.operators import DiffusionOperator


def wavelet_weights(cumulative: Tensor) -> Tensor:
    r"""Weights :math:`c_j(t) - c_{j+1}(t)` of the wavelets, ``[J, m]``, from ``[J, m]``.

    >>> from legs.functional.scales import cumulative_of_scales
    >>> wavelet_weights(cumulative_of_scales([1, 3], steps=3))
    tensor([[1., 0., 0.],
            [0., 1., 1.]])
    """
    first = torch.ones_like(cumulative[..., :1, :])
    extended = torch.cat([first, cumulative], dim=-2)
    return extended[..., :-1, :] - extended[..., 1:, :]


def wavelet_transform(
    x: Tensor,
    walk: Walk | DiffusionOperator,
    laziness: Tensor | float | None,
    cumulative: Tensor,
    *,
    wavelets: bool = True,
    lowpass: bool = False,
) -> Tensor:
    r"""Applies the bank: :math:`\Psi_0 x, \dots, \Psi_{J-1} x` and, if asked for, :math:`\Phi_J x`.

    Args:
        x: signals, ``[nodes, ..., channels]``.
        walk: from :func:`~legs.functional.random_walk`, or a diffusion operator
            (:func:`~legs.functional.graph_operator`).
        laziness: :math:`\alpha` of a walk, one value or ``[channels]``; operators have their own.
        cumulative: scales in cumulative form, ``[J, m]``, or ``[channels, J, m]``.
        wavelets: whether to return the wavelets (default ``True``).
        lowpass: whether to append the low-pass (default ``False``).

    Returns:
        ``[filters, nodes, ..., channels]``.

    >>> from legs.functional import cumulative_of_scales, random_walk
    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> bank = cumulative_of_scales([1, 2], steps=2)
    >>> out = wavelet_transform(torch.tensor([[1.0], [0.0]]), walk, 0.5, bank, lowpass=True)
    >>> out.squeeze(-1)
    tensor([[ 0.5000, -0.5000],
            [ 0.0000,  0.0000],
            [ 0.5000,  0.5000]])
    """
    weights = [wavelet_weights(cumulative)] if wavelets else []
    if lowpass:
        weights.append(cumulative[..., -1:, :] - 1)
    rows = torch.cat(weights, dim=-2)
    states = _differences(x, walk, laziness, cumulative.shape[-1])
    rows = rows.to(states.dtype)
    if rows.dim() == 3:
        out = torch.einsum("cft,t...c->f...c", rows, states)
    else:
        out = torch.tensordot(rows, states, dims=([-1], [0]))
    if lowpass:
        out = torch.cat([out[:-1], (out[-1] + x).unsqueeze(0)])
    return out


def _differences(
    x: Tensor, walk: Walk | DiffusionOperator, laziness: Tensor | float | None, steps: int
) -> Tensor:
    r""":math:`(I - P) x, \dots, P^{\mathrm{steps} - 1} (I - P) x` along a new first axis."""
    if isinstance(walk, Walk):
        assert laziness is not None
        return diffusions(high_pass(x, walk, laziness), walk, laziness, steps)
    states = [x - walk.apply(x)]
    for _ in range(steps - 1):
        states.append(walk.apply(states[-1]))
    return torch.stack(states)
