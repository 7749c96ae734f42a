"""Methods of a cross-validation whose models are trained apart: machines and ensembles."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.training.cv_grid import Setting
from legs.training.cv_store import Trained
from legs.training.methods import fit_method
from legs.training.options import TrainingOptions
from legs.training.predictor import NetworkAnswerer
from legs.training.stack import Standing
from legs.training.svm import fit_svm
from legs.training.task import Task


def fit_machine(
    data: GraphDataset,
    split: Split,
    options: TrainingOptions,
    workers: int = 1,
    features: Tensor | None = None,
) -> Trained:
    """GS-SVM; it needs no validation graphs, and is trained on all that do not test.

    Args:
        data: with targets.
        split: of a test set.
        options: how to train.
        workers: processes for the choice of C and γ.
        features: of all graphs, if they are known already.
    """
    start = time.monotonic()
    train = torch.as_tensor(np.sort(np.concatenate([split.train, split.validation])))
    task = Task.of(data, train, options.balanced)
    validation = torch.as_tensor(split.validation)
    machine = fit_svm(data, task, train, validation, folds=3, workers=workers, features=features)
    answers = machine.answers(data.subset(split.test), task, 512)
    return Trained(answers, 0.0, 0, 0, machine.num_parameters(), time.monotonic() - start, "svm")


def fit_ensemble(
    method: str,
    data: GraphDataset,
    split: Split,
    options: TrainingOptions,
    setting: Setting,
    number: int,
    *,
    device: str = "cpu",
    report: Callable[[Standing], None] = lambda standing: None,
) -> Trained:
    """Two networks, then a common head.

    Args:
        method: the ensemble's name.
        data: with targets.
        split: of the model.
        options: how to train.
        setting: options of the head; ``lr`` among them is for all three.
        number: of the model; weights are drawn by it.
        device: where to train.
        report: called now and then.
    """
    start = time.monotonic()
    chosen = dict(setting)
    lr = chosen.pop("lr", options.lr)
    training = replace(options, seed=options.seed * 100_003 + number, lr=lr)
    task = Task.of(data, torch.as_tensor(split.train), training.balanced)
    best = math.inf

    def follow(row: dict[str, float]) -> None:
        nonlocal best
        if row["epoch"] == 1:  # the next network
            best = math.inf
        if "validation_loss" in row:
            best = min(best, row["validation_loss"])
            report(Standing(int(row["epoch"]), 1, 0, best, 0))

    answerer, state = fit_method(
        method, data, split, task, training, model_options=chosen, device=device, report=follow
    )
    assert isinstance(answerer, NetworkAnswerer)
    answers = answerer.answers(data.subset(split.test), task, 512)
    return Trained(
        answers,
        state.best_loss,
        state.best_epoch,
        state.epoch,
        answerer.num_parameters(),
        time.monotonic() - start,
        "single",
    )
