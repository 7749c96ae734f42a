r"""Integrated gradients along a straight line, with adaptive steps.

.. math::
    A_i = (x_i - x'_i) \int_0^1 \frac{\partial f}{\partial x_i}\big(x' + a (x - x')\big)\, da,
    \qquad \sum_i A_i = f(x) - f(x') .

The line is cut into panels. The shares of a panel must sum to the difference of :math:`f` between
its ends, which shows how accurate the panel is; inaccurate ones are cut again. Near zero, cuts are
geometric: skewness and kurtosis do not depend on the size of a signal, so they change where a
signal emerges from nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Absolute values and activations have kinks: few points on many panels beat many on few.
POINTS = 4
START = (0.0, 1 / 64, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
# The first cut of a panel that starts at zero; after a few of them every float is reached.
LEAP = 1000.0

# Points a, [points] -> values f [points] and shares of df/da, [points, ...].
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


class Integral(NamedTuple):
    """Over a part of the line: shares of a difference, and ``difference - sum(shares)``."""

    left: float
    right: float
    shares: Tensor
    gap: float

    def halves(self) -> list[tuple[float, float]]:
        """Where to cut, were it inaccurate."""
        left, right = self.left, self.right
        middle = math.sqrt(left * right) if right > 4 * left else (left + right) / 2
        middle = middle if left else right / LEAP
        return [(left, middle), (middle, right)]


def integrate(evaluate: Evaluate, tolerance: float = 1e-6, most: int = 4000) -> Integral:
    """Shares of the difference between the two ends of a line.

    Panels are cut until the sum of shares misses the difference by at most ``tolerance``, or there
    were ``most`` evaluations.

    >>> integral = integrate(lambda a: (a**2, 2 * a.unsqueeze(1) * torch.tensor([0.25, 0.75])))
    >>> integral.shares, round(integral.gap, 9)
    (tensor([0.2500, 0.7500], dtype=torch.float64), 0.0)
    """
    panels = _measure(evaluate, list(pairwise(START)))
    count = len(panels) * (POINTS + 2)
    while sum(abs(panel.gap) for panel in panels) > tolerance and count < most:
        panels.sort(key=lambda panel: abs(panel.gap))
        # The most accurate panels stay, up to half of the tolerance; the others are cut.
        errors = accumulate(abs(panel.gap) for panel in panels)
        good = sum(error <= tolerance / 2 for error in errors)
        cuts = [half for panel in panels[good:] for half in panel.halves()]
        panels = panels[:good] + _measure(evaluate, cuts)
        count += len(cuts) * (POINTS + 2)
    shares = torch.stack([panel.shares for panel in panels]).sum(0)
    return Integral(0.0, 1.0, shares, sum(panel.gap for panel in panels))


def _measure(evaluate: Evaluate, spans: list[tuple[float, float]]) -> list[Integral]:
    """Gauss-Legendre quadrature on each span, with the values at its ends."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    at = [[*(a + (b - a) * (p + 1) / 2 for p in points), a, b] for a, b in spans]
    values, slopes = evaluate(torch.tensor(at).double().flatten())
    panels = []
    parts = zip(values.view(len(spans), -1), slopes.split(POINTS + 2), strict=True)
    for (left, right), (value, slope) in zip(spans, parts, strict=True):
        weight = torch.as_tensor(weights * (right - left) / 2)
        shares = torch.tensordot(weight, slope[:POINTS].double(), dims=1)
        panels.append(Integral(left, right, shares, float(value[-1] - value[-2] - shares.sum())))
    return panels
