"""Gaussian process regression on tables of molecules: descriptors and counts of substructures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from torch import Tensor

Floats = NDArray[np.float64]
Single = NDArray[np.float32]

# Rows that the likelihood of one target is computed on; of several targets fewer, so that it takes
# as long. Each of some hundred settings needs a Cholesky factor.
MOST_TUNED = 600
START, RANGE = (-1.0, -1.0, -2.0, -3.0), (-7.0, 4.0)
_LARGEST_COUNT = 20
_CHUNK = 1_000


@dataclass(eq=False)
class GaussianProcess:
    r"""The posterior mean of a Gaussian process per column of the targets.

    .. math::
        k(a, b) = e^{\theta_0} \exp(-e^{\theta_1} \lVert a_d - b_d \rVert^2 / D) + e^{\theta_2}
        \frac{\sum_i \min(a_i, b_i)}{\sum_i \max(a_i, b_i)}

    with :math:`D` standardized features :math:`a_d` and counts :math:`a_i`; :math:`e^{\theta_3}` is
    the variance of the noise.
    """

    dense: Tensor  # of the training rows, [rows, features]
    counts: Tensor  # likewise, [rows, bins]
    theta: Tensor  # [columns, 4]
    dual: Tensor  # [rows, columns]; zero where a target is missing
    offset: Tensor  # [columns]

    def predict(self, dense: Single, counts: Single) -> Floats:
        """Predictions ``[rows, columns]``."""
        out = [np.empty((0, len(self.theta)))]
        own = (self.dense.numpy(), self.counts.numpy())
        dual, theta = self.dual.numpy(), self.theta.numpy()
        for start in range(0, len(dense), _CHUNK):
            rows = slice(start, start + _CHUNK)
            parts = (_distance(dense[rows], own[0]), _overlap(counts[rows], own[1]))
            columns = [_kernel(t, *parts) @ a for t, a in zip(theta, dual.T, strict=True)]
            out.append(np.stack(columns, axis=1) + self.offset.numpy())
        return np.concatenate(out)

    def check(self, features: int, bins: int, columns: int) -> None:
        """Raises ``ValueError`` for arrays that do not fit together."""
        rows = len(self.dense)
        shapes = ((rows, features), (rows, bins), (columns, 4), (rows, columns), (columns,))
        tensors = (self.dense, self.counts, self.theta, self.dual, self.offset)
        if any(tuple(t.shape) != shape for t, shape in zip(tensors, shapes, strict=True)):
            raise ValueError("the arrays are no Gaussian process on the features of the model")


class Gram:
    """What the kernels of all rows have in common, computed once for all folds."""

    def __init__(self, dense: Single, counts: Single, y: Floats) -> None:
        self.dense, self.counts, self.y = dense, counts, y
        self.parts = (_distance(dense, dense), _overlap(counts, counts))
        self.theta = np.tile(START, (y.shape[1], 1))

    def tune(self, seed: int) -> Gram:
        """Sets the parameters of each column."""
        self.theta = np.stack([self._tuned(column, seed) for column in self.y.T])
        return self

    def _tuned(self, y: Floats, seed: int) -> Floats:
        """Maximizes the marginal likelihood of some of the rows."""
        most = int(MOST_TUNED / self.y.shape[1] ** (1 / 3))
        rows = np.random.default_rng(seed).permutation(np.flatnonzero(~np.isnan(y)))[:most]
        if len(rows) < 2 or (deviation := y[rows].std()) == 0:
            return np.array(START)
        target = (y[rows] - y[rows].mean()) / deviation
        parts = [part[np.ix_(rows, rows)] for part in self.parts]

        def loss(theta: Floats) -> float:
            factor = cho_factor(_noisy(theta, *parts), lower=True)
            fitted = 0.5 * target @ cho_solve(factor, target)
            return float(fitted + np.log(np.diag(factor[0])).sum())

        more: Any = {"bounds": [RANGE] * len(START), "options": {"maxiter": 20}}
        best = minimize(loss, np.array(START), method="L-BFGS-B", **more)
        return np.asarray(best.x)

    def fit(self, rows: NDArray[np.int64], most: int | None = None) -> GaussianProcess:
        """Fitted to some of the rows; the others of more than ``most`` columns are left out."""
        dual, offset = np.zeros((len(rows), self.y.shape[1])), np.zeros(self.y.shape[1])
        for k, theta in enumerate(self.theta[:most]):
            present = np.flatnonzero(~np.isnan(self.y[rows, k]))
            if not len(present):
                continue
            own = rows[present]
            offset[k] = self.y[own, k].mean()
            kernel = _noisy(theta, *(part[np.ix_(own, own)] for part in self.parts))
            dual[present, k] = cho_solve(cho_factor(kernel), self.y[own, k] - offset[k])
        arrays: Any = (self.dense[rows], self.counts[rows], self.theta, dual, offset)
        return GaussianProcess(*map(torch.from_numpy, arrays))


def _kernel(theta: Floats, distance: Floats, overlap: Floats) -> Floats:
    near = np.exp(theta[0] - np.exp(theta[1]) * distance)
    return np.asarray(near + np.exp(theta[2]) * overlap)


def _noisy(theta: Floats, distance: Floats, overlap: Floats) -> Floats:
    kernel = _kernel(theta, distance, overlap)
    kernel[np.diag_indices_from(kernel)] += np.exp(theta[3])
    return kernel


def _distance(a: Single, b: Single) -> Floats:
    """Mean squared differences of features, ``[rows of a, rows of b]``."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    norms = (first**2).sum(1)[:, None] + (second**2).sum(1)
    return np.asarray(np.maximum(norms - 2 * first @ second.T, 0) / max(a.shape[1], 1))


def _overlap(a: Single, b: Single) -> Floats:
    """Σ min / Σ max of counts; zero without any."""
    a, b = (np.minimum(each, _LARGEST_COUNT) for each in (a, b))
    least = np.zeros((len(a), len(b)), dtype=np.float32)
    # min(x, y) is the number of levels that both reach.
    for level in range(1, 1 + int(max(b.max(initial=0), 0))):
        columns = (b >= level).any(0)
        reached = [(each[:, columns] >= level).astype(np.float32) for each in (a, b)]
        least += reached[0] @ reached[1].T
    most = a.sum(1, dtype=np.float64)[:, None] + b.sum(1, dtype=np.float64) - least
    return np.asarray(least / np.maximum(most, 1.0), dtype=np.float64)
