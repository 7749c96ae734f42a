r"""Integrated gradients along a straight line, as fine as they need to be.

.. math::
    A_i = (x_i - x'_i) \int_0^1 \frac{\partial f}{\partial x_i}\big(x' + a (x - x')\big)\, da,
    \qquad \sum_i A_i = f(x) - f(x') .

The line is cut into panels. On each of them the sum is known, :math:`f` at its end minus :math:`f`
at its start, so whether a panel was integrated well enough shows at once, and those that were not
are cut again. Next to zero cuts are geometric: skewness and kurtosis do not depend on the size of a
signal, so all they say changes where a signal emerges from nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

# Absolute values and activations have kinks: few points on many panels beat many on few.
POINTS = 4
START = (0.0, 1 / 64, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
# From zero the next cut is so much nearer; with a few of them no float is out of reach.
LEAP = 1000.0

# Points a, [points] -> values f [points] and shares of df/da, [points, ...].
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Integral:
    """What :func:`integrate` found.

    Args:
        shares: of the difference, in the shape of what was moved.
        start: the value at the baseline.
        end: the value at the graph.
        gap: what the shares do not add up to: ``end - start - sum(shares)``.
        evaluations: of the function.
    """

    shares: Tensor
    start: float
    end: float
    gap: float
    evaluations: int


@dataclass(frozen=True)
class _Panel:
    left: float
    right: float
    shares: Tensor
    values: tuple[float, float]

    @property
    def error(self) -> float:
        return abs(self.values[1] - self.values[0] - float(self.shares.sum()))

    def halves(self) -> tuple[tuple[float, float], tuple[float, float]]:
        left, right = self.left, self.right
        if left == 0:
            middle = right / LEAP
        elif right > 4 * left:
            middle = math.sqrt(left * right)
        else:
            middle = (left + right) / 2
        return (left, middle), (middle, right)


def integrate(evaluate: Evaluate, tolerance: float = 1e-6, most: int = 4000) -> Integral:
    """Shares out the difference between the two ends of a line.

    Args:
        evaluate: values and shares of the derivative at points between 0 and 1.
        tolerance: by how much the sum of shares may miss the difference (default 1e-6).
        most: evaluations after which nothing is cut any more (default 4,000).

    >>> found = integrate(lambda a: (a**2, 2 * a.unsqueeze(1) * torch.tensor([0.25, 0.75])))
    >>> found.shares, round(found.gap, 9)
    (tensor([0.2500, 0.7500], dtype=torch.float64), 0.0)
    """
    panels = _measure(evaluate, list(pairwise(START)))
    count = len(panels) * (POINTS + 2)
    while sum(panel.error for panel in panels) > tolerance and count < most:
        panels.sort(key=lambda panel: panel.error)
        # As many of the best as may miss half of what is allowed stay; the others are cut.
        missed = list(accumulate(panel.error for panel in panels))
        good = sum(total <= tolerance / 2 for total in missed)
        cuts = [half for panel in panels[good:] for half in panel.halves()]
        panels = panels[:good] + _measure(evaluate, cuts)
        count += len(cuts) * (POINTS + 2)
    shares = torch.stack([panel.shares for panel in panels]).sum(0)
    start = next(panel.values[0] for panel in panels if panel.left == 0)
    end = next(panel.values[1] for panel in panels if panel.right == 1)
    return Integral(shares, start, end, end - start - float(shares.sum()), count)


def _measure(evaluate: Evaluate, spans: list[tuple[float, float]]) -> list[_Panel]:
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    at = [[left + (right - left) * (p + 1) / 2 for p in points] for left, right in spans]
    every = torch.tensor([[*inner, *span] for inner, span in zip(at, spans, strict=True)]).double()
    values, slopes = evaluate(every.flatten())
    values = values.view(len(spans), -1)
    slopes = slopes.view(len(spans), POINTS + 2, *slopes.shape[1:])[:, :POINTS].double()
    panels = []
    for k, (left, right) in enumerate(spans):
        weight = torch.as_tensor(weights * (right - left) / 2)
        shares = torch.tensordot(weight, slopes[k], dims=1)
        panels.append(_Panel(left, right, shares, (float(values[k, -2]), float(values[k, -1]))))
    return panels
