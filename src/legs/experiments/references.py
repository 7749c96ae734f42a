"""What needs no network: means, and the fingerprints a chemist would try first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import Split
from legs.experiments.fingerprints import FOREST_GRID, RIDGE_GRID, fit_forest, fit_ridge, morgan
from legs.training import CVOptions, CVResult
from legs.training.cv_grid import Setting
from legs.training.cv_measures import squared_error
from legs.training.cv_scores import MethodResult, guess_scores
from legs.training.task import Task

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class Fitted(NamedTuple):
    """A fitted reference."""

    predict: Callable[[Indices], Floats]  # whitened predictions for graphs, [graphs, targets]
    parameters: int


class Known(NamedTuple):
    """A reference by name."""

    words: str
    prepare: Callable[[GraphDataset], Any]  # what is done once for a data set
    # From what was prepared, training graphs, their whitened targets, a setting and a seed.
    fit: Callable[[Any, Indices, Floats, Setting, int], Fitted]
    grid: tuple[Setting, ...] = ({},)


def _fit_mean(graphs: int, train: Indices, target: Floats, setting: Setting, seed: int) -> Fitted:
    mean = np.nanmean(target, axis=0)
    return Fitted(lambda index: np.broadcast_to(mean, (len(index), len(mean))), len(mean))


def _groups(data: GraphDataset) -> npt.NDArray[Any]:
    if not data.groups:
        raise DataError(f"{data.name} does not say which graphs belong to one target")
    return np.asarray(data.groups)


def _fit_target_mean(
    groups: npt.NDArray[Any], train: Indices, target: Floats, setting: Setting, seed: int
) -> Fitted:
    """Of a target that was not trained on nothing is known: the mean of all stands for it."""
    own = groups[train]
    means: dict[str, Floats] = {
        str(name): np.nanmean(target[own == name], axis=0) for name in np.unique(own)
    }
    usual: Floats = np.nanmean(target, axis=0)
    return Fitted(
        lambda index: np.stack([means.get(str(name), usual) for name in groups[index]]),
        len(means) * len(usual),
    )


REFERENCES = {
    "mean": Known("the mean of the training graphs", len, _fit_mean),
    "target-mean": Known(
        "the mean of the training graphs of the same target (of all, where it has none)",
        _groups,
        _fit_target_mean,
    ),
    "morgan-ridge": Known(
        "ridge regression on Morgan fingerprints",
        morgan,
        lambda *given: Fitted(*fit_ridge(*given)),
        RIDGE_GRID,
    ),
    "morgan-forest": Known(
        "random forest on Morgan fingerprints",
        morgan,
        lambda *given: Fitted(*fit_forest(*given)),
        FOREST_GRID,
    ),
}


def reference_result(
    method: str, data: GraphDataset, splits: Sequence[Split], options: CVOptions
) -> CVResult:
    """A reference on every split, its setting chosen on validation error, as networks' are.

    Args:
        method: a key of :data:`REFERENCES`.
        data: with numbers as targets.
        splits: one a test set.
        options: of the cell; ``grid`` holds the settings.
    """
    assert data.y is not None
    known, start = REFERENCES[method], time.monotonic()
    prepared = known.prepare(data)
    scores, chosen, predictions, trained, parameters = [], [], [], [], []
    for number, split in enumerate(splits):
        task = Task.of(data, torch.as_tensor(split.train))
        target = task.targets(data.y).double().numpy()
        seed = options.training.seed * 100_003 + number
        found = [
            known.fit(prepared, split.train, target[split.train], setting, seed)
            for setting in options.grid
        ]
        losses = [_error(one, split.validation, target) for one in found]
        best = found[int(np.argmin(losses))]
        chosen.append(int(np.argmin(losses)))
        answers = task.answers(torch.from_numpy(np.array(best.predict(split.test))))
        predictions.append(answers)
        scores.append(task.scores(answers, data.y[torch.as_tensor(split.test)])["whitened_mse"])
        own = torch.from_numpy(np.array(best.predict(split.train)))
        trained.append(squared_error(own, torch.from_numpy(target[split.train]))[None])
        parameters.append(best.parameters)
    planned = [[split] for split in splits]
    method_result = MethodResult(
        method,
        scores,
        chosen,
        predictions,
        parameters[0],
        len(splits) * len(options.grid),
        time.monotonic() - start,
        "reference",
        measured={"train_mse": trained},
    )
    return CVResult(data, options, planned, [method_result], guess_scores(data, planned))


def _error(fitted: Fitted, index: Indices, target: Floats) -> float:
    predicted = torch.from_numpy(np.array(fitted.predict(index)))
    return float(squared_error(predicted, torch.from_numpy(target[index])).nanmean())
