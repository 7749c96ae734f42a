r"""Frame bounds of a filter bank, exactly.

In the norm :math:`\|x\|^2 = \sum_i x_i^2 / d_i` a bank with rows :math:`F` satisfies

.. math::
    \Big(\min_\lambda G\Big) \|x\|^2 \le \|\Phi_J x\|^2 + \sum_{j<J} \|\Psi_j x\|^2
    \le \Big(\max_\lambda G\Big) \|x\|^2, \qquad
    G(\lambda) = f_J^2 + \sum_{j=0}^{J-1} (f_j - f_{j+1})^2,

with :math:`f_0 = 1`, :math:`f_j(\lambda) = \sum_t F_{jt} \lambda^t` and :math:`\lambda` over the
spectrum :math:`[2\alpha - 1, 1]` of the lazy walk. :math:`G` is a polynomial, so its extremes are
at the ends or where its derivative vanishes; the Chebyshev basis makes root finding stable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from legs.functional.wavelets import wavelet_weights

Floats = npt.NDArray[np.float64]


def filter_responses(cumulative: Tensor, eigenvalues: Tensor) -> Tensor:
    r"""Frequency responses of :math:`\Psi_0, \dots, \Psi_{J-1}, \Phi_J`.

    Args:
        cumulative: scales in cumulative form, ``[J, m]``.
        eigenvalues: points :math:`\lambda`, ``[points]``.

    Returns:
        ``[J + 1, points]``.

    >>> from legs.functional import cumulative_of_scales
    >>> filter_responses(cumulative_of_scales([1, 2], 2), torch.tensor([0.0, 0.5, 1.0]))
    tensor([[1.0000, 0.5000, 0.0000],
            [0.0000, 0.2500, 0.0000],
            [0.0000, 0.2500, 1.0000]])
    """
    times = torch.arange(cumulative.shape[-1], device=cumulative.device)
    powers = eigenvalues.unsqueeze(0) ** times.unsqueeze(-1)
    wavelets = (wavelet_weights(cumulative) @ powers) * (1 - eigenvalues)
    return torch.cat([wavelets, 1 - wavelets.sum(0, keepdim=True)])


def frame_bounds(cumulative: Tensor, laziness: float = 0.5) -> tuple[float, float]:
    r"""Exact lower and upper frame bound of the bank over :math:`[2\alpha - 1, 1]`.

    >>> from legs.functional import cumulative_of_scales
    >>> lower, upper = frame_bounds(cumulative_of_scales([1, 2, 4, 8, 16], 16))
    >>> round(lower, 4), round(upper, 4)
    (0.1834, 1.0)
    """
    return _extremes(cumulative, laziness, ends_only=False)


def paper_lower_bound(cumulative: Tensor, laziness: float = 0.5) -> float:
    r"""Theorem 1's constant :math:`C = \min_\lambda f_J(\lambda)^2 + (1 - f_1(\lambda))^2`.

    It bounds the exact lower bound from below, and depends on the first and last scale only.

    >>> from legs.functional import cumulative_of_scales
    >>> round(paper_lower_bound(cumulative_of_scales([1, 2, 4, 8, 16], 16)), 4)
    0.0276
    """
    return _extremes(cumulative, laziness, ends_only=True)[0]


@torch.no_grad()
def invert_bank(
    bands: Tensor,
    bank: Callable[[Tensor], Tensor],
    metric: Tensor,
    tolerance: float | None = None,
    max_steps: int = 1000,
) -> Tensor:
    r"""The signals whose bands are nearest to the given ones, by conjugate gradients.

    The least-squares inverse :math:`(B^* B)^{-1} B^*` of a bank :math:`B` in the inner product
    :math:`\langle x, y \rangle = \sum_i m_i x_i y_i`, in which its frame bounds :math:`C_l, C_u`
    hold: the error shrinks by :math:`(\sqrt\kappa - 1) / (\sqrt\kappa + 1)` per step, with
    :math:`\kappa = C_u / C_l`. For bands of a signal it is that signal.

    Args:
        bands: ``[nodes, bands, channels]``.
        bank: the linear map from signals ``[nodes, channels]`` to bands.
        metric: :math:`m`, ``[nodes]``: one over the degrees for the paper's walk.
        tolerance: of the residual, relative (default: ten units in the last place).
        max_steps: at most so many steps (default 1000).

    Returns:
        ``[nodes, channels]``.

    >>> doubled = torch.tensor([[[1.0], [1.0]], [[2.0], [4.0]]])  # the second one is no bank's
    >>> invert_bank(doubled, lambda x: torch.stack([x, x], dim=1), torch.ones(2))
    tensor([[1.],
            [3.]])
    """
    weight = metric.unsqueeze(-1)
    small = 10 * torch.finfo(bands.dtype).eps if tolerance is None else tolerance

    def adjoint(values: Tensor) -> Tensor:
        with torch.enable_grad():
            signal = torch.zeros_like(values[:, 0]).requires_grad_()
            (change,) = torch.autograd.grad(bank(signal), signal, values * weight.unsqueeze(-1))
        return change / weight

    def inner(a: Tensor, b: Tensor) -> Tensor:
        return (weight * a * b).sum(0)

    residual = adjoint(bands)
    x, direction = torch.zeros_like(residual), residual
    size = first = inner(residual, residual)
    for _ in range(max_steps):
        if bool((size <= small**2 * first).all()):
            break
        image = adjoint(bank(direction))
        step = size / inner(direction, image).clamp_min(torch.finfo(x.dtype).tiny)
        x, residual = x + step * direction, residual - step * image
        before, size = size, inner(residual, residual)
        direction = residual + size / before.clamp_min(torch.finfo(x.dtype).tiny) * direction
    return x


def _extremes(cumulative: Tensor, laziness: float, ends_only: bool) -> tuple[float, float]:
    bank = cumulative.detach().to("cpu", torch.float64)
    left = 2 * laziness - 1
    if left >= 1:
        return 1.0, 1.0  # the walk stays: the bank is its low-pass, the identity

    def energy(points: Floats) -> Floats:
        eigenvalues = torch.from_numpy((1 + left) / 2 + (1 - left) / 2 * points)
        responses = filter_responses(bank, eigenvalues)
        if ends_only:
            responses = responses[[0, -1]]
        return np.asarray((responses**2).sum(0).numpy(), dtype=np.float64)

    degree = 2 * bank.shape[-1]
    coefficients: Floats = chebyshev.chebinterpolate(energy, degree)  # type: ignore[arg-type]
    # High powers need far fewer coefficients than their degree; the rest is rounding.
    significant = np.flatnonzero(np.abs(coefficients) > 1e-17)
    coefficients = coefficients[: significant[-1] + 1]
    critical = np.real(chebyshev.chebroots(chebyshev.chebder(coefficients)))
    # Of a complex root, the real part is merely one more point to evaluate.
    points = np.concatenate([[-1.0, 1.0], np.clip(critical, -1.0, 1.0)])
    values = energy(points)
    return float(values.min()), float(values.max())
