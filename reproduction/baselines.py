"""Regression without networks: means, and Morgan fingerprints as a chemist would try first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.features.molecule_features import molecule_features
from legs.data.splits import Split
from legs.training import CVOptions, CVResult
from legs.training.cv.results import MethodResult, baseline_scores
from legs.training.task import Task
from reproduction.importance import squared_error

BASELINES = ("mean", "target-mean", "morgan-ridge", "morgan-forest")
Array = np.ndarray[Any, Any]


class GroupMean:
    """The mean of the training graphs of the same group; of all, for a group without any."""

    def __init__(self, groups: Array, y: Array) -> None:
        self.mean = y.mean(0)
        self.means = {name: y[groups == name].mean(0) for name in np.unique(groups)}

    def predict(self, groups: Array) -> Array:
        return np.stack([self.means.get(name, self.mean) for name in groups])


def inputs_of(method: str, data: GraphDataset) -> Array:
    """What a baseline reads of every graph."""
    if method == "mean":
        return np.zeros(len(data))  # one group
    if method == "target-mean":
        if not data.groups:
            raise DataError(f"{data.name} does not say which graphs belong to one target")
        return np.asarray(data.groups)
    if not data.smiles:
        raise DataError(f"{data.name} has no SMILES here; fingerprints need them")
    return molecule_features(data.smiles, fingerprint="morgan")


def fit(method: str, x: Array, y: Array, setting: dict[str, Any], seed: int) -> tuple[Any, int]:
    """A fitted baseline with ``predict``, and its number of parameters."""
    if method in ("mean", "target-mean"):
        model = GroupMean(x, y)
        return model, len(model.means) * y.shape[1]
    if method == "morgan-ridge":
        ridge = Ridge(**setting).fit(x.astype(np.float64), y)
        return ridge, int(ridge.coef_.size + np.size(ridge.intercept_))
    forest = RandomForestRegressor(
        setting["trees"], max_features=setting["features"], random_state=seed, n_jobs=-1
    )
    forest.fit(x, y if y.shape[1] > 1 else y[:, 0])
    return forest, sum(tree.tree_.node_count for tree in forest.estimators_)


def baseline_result(
    method: str, data: GraphDataset, splits: Sequence[Split], options: CVOptions
) -> CVResult:
    """A baseline on every split, its setting chosen on validation error as networks' are."""
    assert data.y is not None
    start, x = time.monotonic(), inputs_of(method, data)
    scores, chosen, predictions, trained, sizes = [], [], [], [], []
    for number, split in enumerate(splits):
        task = Task.of(data, torch.as_tensor(split.train))
        target = task.targets(data.y).double()
        seed = options.training.seed * 100_003 + number
        train = (x[split.train], target[split.train].numpy())
        fitted = [fit(method, *train, setting, seed) for setting in options.grid]

        def predicted(model: Any, part: Array) -> torch.Tensor:
            return torch.from_numpy(np.asarray(model.predict(x[part])).reshape(len(part), -1))

        losses = [
            float(squared_error(predicted(m, split.validation), target[split.validation]).nanmean())
            for m, _ in fitted
        ]
        best = int(np.argmin(losses))
        model, size = fitted[best]
        answers = task.answers(predicted(model, split.test))
        chosen.append(best)
        sizes.append(size)
        predictions.append(answers)
        scores.append(task.scores(answers, data.y[torch.as_tensor(split.test)])["whitened_mse"])
        trained.append(squared_error(predicted(model, split.train), target[split.train])[None])
    planned = [[split] for split in splits]
    models, seconds = len(splits) * len(options.grid), time.monotonic() - start
    facts = (method, scores, chosen, predictions, sizes[0], models, seconds, "baseline")
    result = MethodResult(*facts, measured={"train_mse": trained})
    return CVResult(data, options, planned, [result], baseline_scores(data, planned))
