r"""Frame bounds of a filter bank, exactly.

In the norm :math:`\|x\|^2 = \sum_i x_i^2 / d_i` a bank with rows :math:`F` satisfies

.. math::
    \Big(\min_\lambda G\Big) \|x\|^2 \le \|\Phi_J x\|^2 + \sum_{j<J} \|\Psi_j x\|^2
    \le \Big(\max_\lambda G\Big) \|x\|^2, \qquad
    G(\lambda) = f_J^2 + \sum_{j=0}^{J-1} (f_j - f_{j+1})^2,

with :math:`f_0 = 1`, :math:`f_j(\lambda) = \sum_t F_{jt} \lambda^t` and :math:`\lambda` over the
spectrum :math:`[2\alpha - 1, 1]` of the lazy walk. The same holds for every operator that is
self-adjoint in its own norm (:mod:`legs.functional.operators`), over its spectrum. :math:`G` is a
polynomial, so its extremes are at the ends or where its derivative vanishes; the Chebyshev basis
makes root finding stable.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from legs.functional.operators import DiffusionOperator
from legs.functional.wavelets import wavelet_transform, wavelet_weights

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


def frame_bounds(
    cumulative: Tensor, laziness: float = 0.5, spectrum: tuple[float, float] | None = None
) -> tuple[float, float]:
    r"""Exact lower and upper frame bound of the bank over a spectrum.

    Args:
        cumulative: scales in cumulative form, ``[J, m]``.
        laziness: :math:`\alpha` of a walk with the spectrum :math:`[2\alpha - 1, 1]`.
        spectrum: of another operator (default: the walk's).

    >>> from legs.functional import cumulative_of_scales
    >>> lower, upper = frame_bounds(cumulative_of_scales([1, 2, 4, 8, 16], 16))
    >>> round(lower, 4), round(upper, 4)
    (0.1834, 1.0)
    """
    return _extremes(cumulative, spectrum or (2 * laziness - 1, 1.0), slice(None))


def paper_lower_bound(cumulative: Tensor, laziness: float = 0.5) -> float:
    r"""Theorem 1's constant :math:`C = \min_\lambda f_J(\lambda)^2 + (1 - f_1(\lambda))^2`.

    It bounds the exact lower bound from below, and depends on the first and last scale only.

    >>> from legs.functional import cumulative_of_scales
    >>> round(paper_lower_bound(cumulative_of_scales([1, 2, 4, 8, 16], 16)), 4)
    0.0276
    """
    return _extremes(cumulative, (2 * laziness - 1, 1.0), [0, -1])[0]


@torch.no_grad()
def invert_bank(
    bands: Tensor,
    operator: DiffusionOperator,
    cumulative: Tensor,
    tolerance: float | None = None,
    max_steps: int = 1000,
) -> Tensor:
    r"""The real signals whose bands are nearest to the given ones, by conjugate gradients.

    The least-squares inverse :math:`(B^* B)^{-1} B^*` of the bank :math:`B` in the operator's inner
    product (:math:`\|x\|^2 = \sum_i x_i^2 / d_i` for the paper's walk), in which its frame bounds
    :math:`C_l, C_u` hold: the error shrinks by
    :math:`(\sqrt\kappa - 1) / (\sqrt\kappa + 1)` per step, with :math:`\kappa = C_u / C_l`. For
    bands of a signal it is that signal.

    Args:
        bands: ``[nodes, J + 1, channels]``.
        operator: from :func:`~legs.functional.graph_operator`.
        cumulative: scales in cumulative form, ``[J, m]``, or ``[channels, J, m]``.
        tolerance: of the residual, relative (default: ten units in the last place).
        max_steps: at most so many steps (default 1000).

    Returns:
        ``[nodes, channels]``.

    >>> from legs.functional import cumulative_of_scales, graph_operator
    >>> operator = graph_operator("symmetric", torch.tensor([[0, 1], [1, 0]]), None, 2)
    >>> bank = cumulative_of_scales([1], 1)  # (I - P) x and P x, which are 0.5 and 1.5 here
    >>> invert_bank(torch.tensor([[[0.5], [1.5]], [[-0.5], [1.5]]]), operator, bank)
    tensor([[2.],
            [1.]])
    """
    weight = operator.metric.unsqueeze(-1)
    small = 10 * torch.finfo(bands.dtype).eps if tolerance is None else tolerance
    rows = torch.cat([wavelet_weights(cumulative), cumulative[..., -1:, :] - 1], dim=-2)
    rows = rows.to(bands.dtype)
    mix = "cft,nfc->tnc" if rows.dim() == 3 else "ft,nfc->tnc"

    def adjoint(values: Tensor) -> Tensor:
        states = torch.einsum(mix, rows, values)
        total = states[-1]
        for state in states.flip(0)[1:]:
            total = operator.adjoint(total) + state
        out = total - operator.adjoint(total) + values[:, -1]
        return out.real if out.is_complex() else out

    def bank(x: Tensor) -> Tensor:
        return wavelet_transform(x, operator, None, cumulative, lowpass=True).movedim(0, 1)

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


def _extremes(
    cumulative: Tensor, spectrum: tuple[float, float], bands: slice | list[int]
) -> tuple[float, float]:
    bank = cumulative.detach().to("cpu", torch.float64)
    left, right = spectrum
    if left >= 1:
        return 1.0, 1.0  # the walk stays: the bank is its low-pass, the identity

    def energy(points: Floats) -> Floats:
        eigenvalues = torch.from_numpy((right + left) / 2 + (right - left) / 2 * points)
        responses = filter_responses(bank, eigenvalues)[bands]
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
