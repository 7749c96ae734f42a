"""Scores of a cross-validation: votes, and the setting that each test set chose."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training.cv.protocol import CVOptions
from legs.training.cv.store import Trained
from legs.training.predictor import check_finite
from legs.training.task import Task


@dataclass(frozen=True)
class MethodResult:
    """The scores of a method."""

    method: str
    scores: list[float]  # by test set: accuracy of the vote, or MSE of standardized targets
    chosen: list[int]  # the setting of the grid that each test set's validation losses chose
    predictions: list[Tensor]  # by test set and graph: the voted class, or original units
    parameters: int  # learned, of one model
    models: int  # trained, behind the scores
    seconds: float  # of training
    strategy: str  # how they were trained
    # Of the models behind each test set's answer: selection matrices of learned scales,
    # ``[models, scales, steps]``; graph features, ``[models, graphs, features]``; results of
    # measures by name, ``[models, …]``.
    scales: list[Tensor] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)
    measured: dict[str, list[Tensor]] = field(default_factory=dict)
    losses: list[list[float]] = field(default_factory=list)  # mean validation, by setting and set

    @property
    def mean(self) -> float:
        """Mean over the test sets."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float:
        """Population standard deviation over the test sets, as the paper's."""
        return float(np.std(self.scores))


@dataclass(frozen=True)
class CVResult:
    """A finished cross-validation.

    Args:
        data: the data set.
        options: of the protocol.
        splits: by test set and model.
        methods: results of each.
        baseline: scores of the most frequent class, or of the mean, by test set.
        device: where models were trained.
    """

    data: GraphDataset
    options: CVOptions
    splits: list[list[Split]]
    methods: list[MethodResult]
    baseline: list[float]
    device: str = "cpu"

    @property
    def guess(self) -> list[float]:
        """Deprecated name of ``baseline``."""
        warnings.warn("guess is now baseline", DeprecationWarning, stacklevel=2)
        return self.baseline


def score_method(
    data: GraphDataset,
    planned: list[list[Split]],
    method: str,
    by_setting: list[list[list[Trained]]],
) -> MethodResult:
    """Chooses a setting for every test set by validation loss, and scores its models.

    ``planned`` are splits by test set and model, ``by_setting`` models by setting, too.
    """
    losses = [[float(np.mean([m.validation_loss for m in g])) for g in s] for s in by_setting]
    chosen = np.argmin(losses, axis=0).tolist()
    behind = [by_setting[best][k] for k, best in enumerate(chosen)]
    answers, scores = zip(*map(partial(_score, data), planned, behind), strict=True)
    everything = [m for s in by_setting for g in s for m in g]
    first = behind[0][0]  # settings may differ in width: parameters are those of its choice
    seconds = sum(m.seconds for m in everything)
    strategies = "+".join(sorted({m.strategy for m in everything}))
    counts = (first.parameters, len(everything), seconds, strategies)
    scales = _stacked([[m.scales for m in group] for group in behind])
    features = _stacked([[m.features for m in group] for group in behind])
    measured = {
        name: _stacked([[m.measured.get(name) for m in group] for group in behind])
        for name in first.measured
    }
    more = (scales, features, measured, losses)
    return MethodResult(method, list(scores), chosen, list(answers), *counts, *more)


def _score(data: GraphDataset, group: list[Split], models: list[Trained]) -> tuple[Tensor, float]:
    """The answer for a test set and its score."""
    assert data.y is not None
    test = group[0].test
    for model in models:
        check_finite(data, model.answers, test)
    answers = torch.stack([model.answers for model in models])
    if data.task == "classification":
        classes = vote(answers)
        return classes, float((classes == data.y[test]).double().mean())
    task = Task.of(data, torch.as_tensor(group[0].train))
    mean = answers.mean(0)
    return mean, task.scores(mean, data.y[test])["whitened_mse"]


def baseline_scores(data: GraphDataset, planned: list[list[Split]]) -> list[float]:
    """Scores of the most frequent class, or of the mean, on every test set."""
    assert data.y is not None
    scores = []
    for (train, _, test), *_ in planned:
        task = Task.of(data, torch.as_tensor(train))
        if task.mean is None:
            most = torch.bincount(data.y[train]).argmax()
            scores.append(float((data.y[test] == most).double().mean()))
        else:
            mean = task.mean.expand(len(test), -1)
            scores.append(task.scores(mean, data.y[test])["whitened_mse"])
    return scores


def _stacked(by_model: list[list[Tensor | None]]) -> list[Tensor]:
    """What models have kept besides their answers, by test set; empty if not all have."""
    groups = [[tensor for tensor in group if tensor is not None] for group in by_model]
    complete = list(map(len, groups)) == list(map(len, by_model))
    return [torch.stack(group) for group in groups] if complete else []


def vote(probabilities: Tensor) -> Tensor:
    """The class of each graph by majority of models; ``probabilities`` by model, graph and class.

    Ties are decided by the summed log-probabilities.

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

    Folds share training graphs, so the ``k`` scores of each method are not independent; the
    variance of the mean difference is taken as :math:`(1/k + f)\, s^2` with the ``test_fraction``
    :math:`f = n_\text{test} / n_\text{train}`.

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
