"""From many models to one answer, and from many folds to one statement."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor


def vote(probabilities: Tensor) -> Tensor:
    """Majority vote of models, ties decided by the summed log-probabilities.

    Args:
        probabilities: ``[models, graphs, classes]``.

    Returns:
        The class of each graph, ``[graphs]``.

    >>> vote(torch.tensor([[[0.6, 0.4]], [[0.1, 0.9]]]))
    tensor([1])
    """
    classes = probabilities.shape[-1]
    votes = torch.nn.functional.one_hot(probabilities.argmax(-1), classes).sum(0)
    evidence = probabilities.double().clamp_min(1e-30).log().sum(0)
    tied = votes == votes.amax(-1, keepdim=True)
    return torch.where(tied, evidence, -torch.inf).argmax(-1)


class Comparison(NamedTuple):
    """A paired comparison of two methods over the same folds."""

    difference: float  # mean of first minus second
    t: float
    p: float  # two-sided


def corrected_t_test(first: list[float], second: list[float], test_fraction: float) -> Comparison:
    r"""The corrected resampled t-test of Nadeau and Bengio (2003).

    Folds share training graphs, so their scores are not independent; the variance of the mean
    difference is taken as :math:`(1/k + n_\text{test} / n_\text{train})\, s^2`.

    Args:
        first: scores of one method, a fold each.
        second: scores of the other on the same folds.
        test_fraction: :math:`n_\text{test} / n_\text{train}`.

    >>> corrected_t_test([0.8, 0.9, 0.85], [0.7, 0.8, 0.8], 1 / 9).p < 0.1
    True
    """
    difference = np.subtract(first, second)
    mean, folds = float(difference.mean()), len(difference)
    if folds < 2:
        return Comparison(mean, math.nan, math.nan)
    spread = float(difference.var(ddof=1)) * (1 / folds + test_fraction)
    if spread == 0:
        return Comparison(mean, math.copysign(math.inf, mean) if mean else 0.0, float(mean == 0))
    t = mean / math.sqrt(spread)
    return Comparison(mean, t, float(2 * stats.t.sf(abs(t), folds - 1)))
