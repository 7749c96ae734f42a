"""Random forests and gradient boosting as arrays, fitted by scikit-learn.

Nothing is pickled: a loaded model predicts what the fitted one did, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from torch import Tensor

Floats = NDArray[np.float64]

# Columns that forests and boosting read, if there are more: the rest costs time, changes no score.
FOREST_COLUMNS, BOOSTING_COLUMNS = 512, 256
# Steps of a walk through trees that are taken at once: rows times trees.
_AT_ONCE = 1_000_000


@dataclass(eq=False)
class Trees:
    """Sums of binary trees, one sum per column of the targets; logits of it where ``logistic``.

    A row goes ``left`` where its ``feature`` is at most the ``threshold``; leaves lead to
    themselves. Nodes of all trees lie one after another.
    """

    feature: Tensor  # [nodes]
    threshold: Tensor  # [nodes]
    left: Tensor  # [nodes]
    right: Tensor  # [nodes]
    value: Tensor  # [nodes], zero but at leaves
    roots: Tensor  # [trees]
    column: Tensor  # [trees], of the targets
    offset: Tensor  # [columns]
    logistic: bool

    def predict(self, x: NDArray[np.float32]) -> Floats:
        """Predictions ``[rows, columns]`` from features ``[rows, features]``."""
        arrays = (self.feature, self.threshold, self.left, self.right, self.value)
        feature, threshold, left, right, value = (each.numpy() for each in arrays)
        out = np.tile(self.offset.numpy(), (len(x), 1))
        for rows in np.array_split(np.arange(len(x)), 1 + len(x) * len(self.roots) // _AT_ONCE):
            node = np.tile(self.roots.numpy(), (len(rows), 1))
            while True:
                goes_left = x[rows[:, None], feature[node]] <= threshold[node]
                after = np.where(goes_left, left[node], right[node])
                if (after == node).all():
                    break
                node = after
            for k in range(out.shape[1]):
                out[rows, k] += value[node[:, self.column.numpy() == k]].sum(1)
        return np.asarray(expit(out)) if self.logistic else out

    def check(self, features: int, columns: int) -> None:
        """Raises ``ValueError`` for arrays that are not trees on so many features."""
        nodes, trees = len(self.feature), len(self.roots)
        own = torch.arange(nodes)
        ends = (self.left == own) & (self.right == own)
        onward = (self.left > own) & (self.right > own)
        sizes = {len(each) for each in (self.threshold, self.left, self.right, self.value)}
        within = (
            (self.feature, features),
            *((each, nodes) for each in (self.left, self.right, self.roots)),
            (self.column, columns),
        )
        right = all(bool(((each >= 0) & (each < most)).all()) for each, most in within)
        sized = sizes == {nodes} and len(self.column) == trees and len(self.offset) == columns
        # Children come after their parents, so that every walk ends.
        if not (sized and right and bool((ends | onward).all())):
            raise ValueError("the arrays are no trees on the features of the model")


def fit_forest(x: NDArray[np.float32], y: Floats, trees: int, seed: int) -> Trees:
    """Extremely randomized trees, one forest per column of ``y``; NaN where missing.

    Labels and classes are regressed, as 0 and 1: leaves hold probabilities.
    """
    labels = bool(np.isin(y[~np.isnan(y)], (0, 1)).all())
    parts, offsets = [], []
    used = _important(x, y, FOREST_COLUMNS, seed)
    for k, (rows, target) in enumerate(_columns(y)):
        forest = ExtraTreesRegressor(
            trees,
            max_features="sqrt" if labels else 1 / 3,
            min_samples_leaf=2,
            random_state=seed,
            n_jobs=torch.get_num_threads(),
        ).fit(x[rows][:, used], target)
        for tree in (estimator.tree_ for estimator in forest.estimators_):
            leaf = tree.children_left < 0
            value = np.where(leaf, tree.value[:, 0, 0], 0) / trees
            children = (tree.children_left, tree.children_right)
            feature = used[np.maximum(tree.feature, 0)]
            parts.append((k, leaf, feature, tree.threshold, *children, value))
        offsets.append(0.0)
    return _joined(parts, offsets, logistic=False)


def fit_boosting(x: NDArray[np.float32], y: Floats, rounds: int, seed: int, labels: bool) -> Trees:
    """Gradient boosting, a model per column of ``y``: of continuous targets, or of ``labels``."""
    kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    options: dict[str, Any] = {"early_stopping": False, "random_state": seed}
    options |= {"max_features": 0.2, "min_samples_leaf": 10, "l2_regularization": 1.0}
    parts, offsets = [], []
    used = _important(x, y, BOOSTING_COLUMNS, seed)
    for k, (rows, target) in enumerate(_columns(y)):
        if len(np.unique(target)) < 2:  # nothing to boost
            share = float(target.mean()) if len(target) else 0.5
            offsets.append(np.log((share + 0.01) / (1.01 - share)) if labels else share)
            continue
        model: Any = kind(learning_rate=min(0.3, 15 / rounds), max_iter=rounds, **options).fit(
            x[rows][:, used], target
        )
        for (predictor,) in model._predictors:
            nodes = predictor.nodes
            leaf = nodes["is_leaf"].astype(bool)
            value = np.where(leaf, nodes["value"], 0)
            children = (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64))
            cut = nodes["num_threshold"]
            parts.append((k, leaf, used[nodes["feature_idx"]], cut, *children, value))
        offsets.append(float(np.ravel(model._baseline_prediction)[0]))
    return _joined(parts, offsets, logistic=labels)


def _important(x: NDArray[np.float32], y: Floats, most: int, seed: int) -> NDArray[np.int64]:
    """The ``most`` columns of ``x`` that a small forest of all targets finds most important."""
    if x.shape[1] <= most:
        return np.arange(x.shape[1])
    present = ~np.isnan(y)
    count = np.maximum(present.sum(0), 1)
    z = np.where(present, y, 0)
    z = np.where(present, z - z.sum(0) / count, 0)  # a missing target is an average one
    z /= np.maximum(np.sqrt((z**2).sum(0) / count), 1e-12)
    forest = ExtraTreesRegressor(50, max_features="sqrt", min_samples_leaf=2, random_state=seed)
    forest.fit(x, z if z.shape[1] > 1 else z[:, 0])
    order = np.argsort(-forest.feature_importances_, kind="stable")
    return np.sort(order[:most])


def _columns(y: Floats) -> Iterable[tuple[NDArray[np.int64], Floats]]:
    """The rows that have a value of each target, and these values."""
    for column in y.T:
        rows = np.flatnonzero(~np.isnan(column))
        yield rows, column[rows]


def _joined(parts: Sequence[tuple[Any, ...]], offsets: list[float], logistic: bool) -> Trees:
    """Trees from ``(column, leaf, feature, threshold, left, right, value)`` of each."""
    sizes = [len(part[1]) for part in parts]
    starts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    empty = np.zeros(0)
    leaf, feature, threshold, left, right, value = (
        np.concatenate([empty, *(part[place] for part in parts)]) for place in range(1, 7)
    )
    own, leaf = np.arange(len(leaf)), leaf.astype(bool)
    shift = np.repeat(starts, sizes)

    def children(side: Any) -> Tensor:
        return torch.from_numpy(np.where(leaf, own, side + shift).astype(np.int32))

    return Trees(
        feature=torch.from_numpy(np.where(leaf, 0, feature).astype(np.int32)),
        threshold=torch.from_numpy(np.where(leaf, 0, threshold)),
        left=children(left),
        right=children(right),
        value=torch.from_numpy(value),
        roots=torch.from_numpy(starts.astype(np.int32)),
        column=torch.tensor([part[0] for part in parts], dtype=torch.int32),
        offset=torch.tensor(offsets, dtype=torch.float64),
        logistic=logistic,
    )
