"""What a cross-validation found: votes, scores, and the setting that each test set chose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training.cv_plan import CVOptions
from legs.training.cv_store import Trained, answers_of
from legs.training.task import Task
from legs.training.votes import vote


@dataclass(frozen=True)
class MethodResult:
    """What a method reached.

    Args:
        method: its name.
        scores: of each test set: accuracy of the vote, or mean squared error of whitened targets.
        chosen: the setting of the grid that each test set's validation losses chose.
        predictions: of each test set, by graph: the voted class, or numbers in original units.
        parameters: learned, of one model.
        models: trained models behind the scores.
        seconds: of training.
        way: how they were trained.
        scales: of the models behind each test set's answer, the selection matrices of learned
            scales, ``[models, scales, steps]``; empty where there are none.
        features: of the same models, graph features ``[models, graphs, features]``, if kept.
    """

    method: str
    scores: list[float]
    chosen: list[int]
    predictions: list[Tensor]
    parameters: int
    models: int
    seconds: float
    way: str
    scales: list[Tensor] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)

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
    """A finished cross-validation."""

    data: GraphDataset
    options: CVOptions
    splits: list[list[Split]]
    methods: list[MethodResult]
    guess: list[float]


def score_method(
    data: GraphDataset,
    planned: list[list[Split]],
    method: str,
    by_setting: list[list[list[Trained]]],
) -> MethodResult:
    """Chooses a setting for every test set by validation loss, and scores its models.

    Args:
        data: with targets.
        planned: splits by test set and model.
        method: its name.
        by_setting: trained models by setting, test set and model.
    """
    chosen, scores, predictions = [], [], []
    for number, group in enumerate(planned):
        losses = [np.mean([m.validation_loss for m in s[number]]) for s in by_setting]
        best = int(np.argmin(losses))
        chosen.append(best)
        answer, score = _score(data, group, by_setting[best][number])
        predictions.append(answer)
        scores.append(score)
    everything = [m for s in by_setting for g in s for m in g]
    return MethodResult(
        method,
        scores,
        chosen,
        predictions,
        # Settings may differ in width: the number is that of the first test set's choice.
        by_setting[chosen[0]][0][0].parameters,
        len(everything),
        sum(m.seconds for m in everything),
        "+".join(sorted({m.way for m in everything})),
        _stacked([by_setting[best][k] for k, best in enumerate(chosen)], "scales"),
        _stacked([by_setting[best][k] for k, best in enumerate(chosen)], "features"),
    )


def guess_scores(data: GraphDataset, planned: list[list[Split]]) -> list[float]:
    """Scores of the most frequent class, or of the mean, on every test set."""
    assert data.y is not None
    scores = []
    for group in planned:
        train, test = torch.as_tensor(group[0].train), torch.as_tensor(group[0].test)
        task = Task.of(data, train)
        if task.kind == "classification":
            most = torch.bincount(data.y[train]).argmax()
            scores.append(float((data.y[test] == most).double().mean()))
        else:
            assert task.mean is not None
            guess = task.mean.expand(len(test), -1)
            scores.append(task.scores(guess, data.y[test])["whitened_mse"])
    return scores


def _score(data: GraphDataset, group: list[Split], models: list[Trained]) -> tuple[Tensor, float]:
    """The answer for a test set and its score."""
    assert data.y is not None
    test = torch.as_tensor(group[0].test)
    answers = answers_of(models)
    if data.task == "classification":
        classes = vote(answers)
        return classes, float((classes == data.y[test]).double().mean())
    task = Task.of(data, torch.as_tensor(group[0].train))
    mean = answers.mean(0)
    return mean, task.scores(mean, data.y[test])["whitened_mse"]


def _stacked(chosen: list[list[Trained]], name: Literal["scales", "features"]) -> list[Tensor]:
    """What the chosen models have kept beside their answers, by test set; empty if not all have."""
    found = [[getattr(model, name) for model in models] for models in chosen]
    if any(tensor is None for group in found for tensor in group):
        return []
    return [torch.stack(group) for group in found]
