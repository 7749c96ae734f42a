"""What is kept of a finished cell of a regression study, as JSON values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.experiments.cells import Cell
from legs.experiments.importance import kept
from legs.experiments.references import REFERENCES
from legs.experiments.regression_cells import RegressionCell
from legs.experiments.rows import scales_of
from legs.training import CVResult
from legs.training.cv_grid import chosen_names
from legs.training.cv_measures import squared_error
from legs.training.fit import fingerprint, fingerprint_split
from legs.training.task import Task

Floats = npt.NDArray[np.float64]
DIGITS = 6


class Errors(NamedTuple):
    """Errors on the test graphs of one split, by target."""

    units: Floats  # mean squared error in the targets' own units, [targets]
    whitened: Floats  # the same, divided by the variance of the training graphs
    r2: Floats  # 1 minus the error's share of the variance of the test graphs


def test_errors(data: GraphDataset, split: Split, answers: Tensor) -> Errors:
    """Errors of answers for the test graphs of a split.

    Args:
        data: with numbers as targets.
        split: whose training graphs set the scale.
        answers: in original units, ``[test graphs, targets]``.
    """
    assert data.y is not None
    task = Task.of(data, torch.as_tensor(split.train))
    assert task.deviation is not None
    truth = data.y[torch.as_tensor(split.test)].double()
    units = squared_error(answers, truth).numpy()
    deviation = task.deviation.double().numpy()
    values = truth.numpy()
    spread = np.nanvar(values, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where the truth does not vary: 1 if it is met, else 0, as scikit-learn has it.
        r2 = np.where(spread > 0, 1 - units / spread, (units == 0).astype(float))
    return Errors(units, units / deviation**2, r2)


def regression_row(cell: Cell, result: CVResult, seconds: float) -> dict[str, Any]:
    """A finished cell.

    ``scores``, ``train`` and ``guess`` are mean squared errors of each test set, all counted as the
    cell says; ``by_target`` are those of whitened targets.

    Args:
        cell: which it was.
        result: its evaluation, of one method.
        seconds: that it took, all in all.
    """
    assert isinstance(cell, RegressionCell)
    (found,), data = result.methods, result.data
    splits = [group[0] for group in result.splits]
    errors = [
        test_errors(data, split, answers)
        for split, answers in zip(splits, found.predictions, strict=True)
    ]
    scales = [_variances(data, split) for split in splits]
    scores = [_scored(cell, one) for one in errors]
    guesses = [_scored(cell, test_errors(data, split, _mean(data, split))) for split in splits]
    row: dict[str, Any] = {
        "cell": cell.key,
        "data": cell.data,
        "method": cell.method,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "score": cell.score,
        "mean": _rounded(np.mean(scores)),
        "std": _rounded(np.std(scores)),
        "scores": _rounded(scores),
        "train": _rounded(_train(cell, found.measured.get("train_mse", []), scales)),
        "guess": _rounded(guesses),
        "r2": _rounded([np.nanmean(one.r2) for one in errors]),
        "targets": list(data.target_names),
        "by_target": _rounded([one.whitened for one in errors]),
        "graphs": len(data),
        "features": list(data.feature_names),
        # What the corrected t-test asks for.
        "test_fraction": float(
            np.mean([len(s.test) / (len(s.train) + len(s.validation)) for s in splits])
        ),
        "parameters": found.parameters,
        "models": found.models,
        "seconds": round(seconds, 2),
        "chosen": _chosen(cell, found.chosen),
        "way": found.way,
        "fingerprint": fingerprint(data),
        "splits": [fingerprint_split(split) for split in splits],
        "settings": cell.settings(),
    }
    if found.scales:
        row["scales"] = scales_of(found)
    if found.measured.get("importance"):
        row["importance"] = kept(cell.method, data.in_channels, found.measured["importance"])
    if data.groups:
        row["groups"] = group_errors(data, splits, found.predictions)
    return row


def group_errors(
    data: GraphDataset, splits: list[Split], predictions: list[Tensor]
) -> dict[str, dict[str, Any]]:
    """Errors in own units by the group of the graphs, over all test sets.

    Args:
        data: with one number as target, and groups.
        splits: one a test set.
        predictions: for its test graphs, ``[test graphs, 1]``.

    Returns:
        By group: ``mean`` of the target over all its graphs, how often they were ``tested``, and
        the sum of ``squares`` of the errors.
    """
    assert data.y is not None
    truth = data.y[:, 0].double().numpy()
    groups = np.asarray(data.groups)
    found = {
        str(name): {"mean": _rounded(truth[groups == name].mean()), "tested": 0, "squares": 0.0}
        for name in dict.fromkeys(data.groups)
    }
    for split, answers in zip(splits, predictions, strict=True):
        squares = (answers[:, 0].double().numpy() - truth[split.test]) ** 2
        for name, square in zip(groups[split.test], squares, strict=True):
            found[str(name)]["tested"] += 1
            found[str(name)]["squares"] += float(square)
    return {name: {**one, "squares": _rounded(one["squares"])} for name, one in found.items()}


def _chosen(cell: RegressionCell, numbers: list[int]) -> list[str]:
    if cell.method in REFERENCES and not any(cell.options.grid):
        return [""] * len(numbers)
    return chosen_names(cell.method, numbers, cell.options.grid)


def _scored(cell: RegressionCell, errors: Errors) -> float:
    return float(np.nanmean(errors.units if cell.score == "units" else errors.whitened))


def _variances(data: GraphDataset, split: Split) -> Floats:
    deviation = Task.of(data, torch.as_tensor(split.train)).deviation
    assert deviation is not None
    return np.asarray(deviation.double().numpy() ** 2, dtype=np.float64)


def _mean(data: GraphDataset, split: Split) -> Tensor:
    mean = Task.of(data, torch.as_tensor(split.train)).mean
    assert mean is not None
    return mean.expand(len(split.test), -1)


def _train(cell: RegressionCell, measured: list[Tensor], variances: list[Floats]) -> list[float]:
    """Training errors as the cell counts them; empty where they were not measured."""
    whitened = [one.double().mean(0).numpy() for one in measured]
    if cell.score == "units":
        whitened = [one * scale for one, scale in zip(whitened, variances, strict=True)]
    return [float(np.nanmean(one)) for one in whitened]


def _rounded(values: Any) -> Any:
    """Plain numbers with few digits; six that count, for errors may be small."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        return float(f"{float(array):.{DIGITS}g}")
    return [_rounded(value) for value in array]
