"""Fit a model to a data set, keep it, and score it on graphs it has not seen."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import Split, random_split, stratified_folds
from legs.models.saving import write_atomically
from legs.training.checkpoint import State
from legs.training.distributed import ALONE, Group
from legs.training.loop import Report
from legs.training.methods import check_method, fit_method
from legs.training.options import TrainingOptions
from legs.training.predictor import Predictor
from legs.training.raw_input import input_of
from legs.training.records import Records
from legs.training.results import write_results
from legs.training.scale_log import ScaleLog
from legs.training.task import Task


@dataclass(frozen=True)
class Fitted:
    """What :func:`fit` returns.

    Args:
        predictor: the model, ready for raw input.
        split: which graphs trained, validated and tested.
        scores: by part (``"train"``, ``"validation"``, ``"test"``) and name; ``"guess"`` holds the
            test scores of the most frequent class, or of the mean.
        state: history and best epoch.
        seconds: of training.
        trained: whether anything was left to train; not where a directory held the whole run.
    """

    predictor: Predictor
    split: Split
    scores: dict[str, dict[str, float]]
    state: State
    seconds: float
    trained: bool = True


def fit(
    data: GraphDataset,
    model: str = "legs-fcn",
    split: Split | None = None,
    options: TrainingOptions | None = None,
    *,
    model_options: dict[str, Any] | None = None,
    device: str = "cpu",
    directory: str | Path | None = None,
    report: Report = lambda row: None,
    command: str = "",
    group: Group = ALONE,
) -> Fitted:
    """Trains a model on a data set and scores it on its test graphs.

    Args:
        data: with targets.
        model: one of :func:`legs.training.methods` (default ``"legs-fcn"``).
        split: default: 80/10/10 at random, stratified for classes, by ``options.seed``.
        options: how to train.
        model_options: options of the network.
        device: where to train (default ``"cpu"``).
        directory: where to keep checkpoint, metrics, model, split, scores, predictions and what
            ``legs report`` shows. A run that was killed goes on from there with the same call.
        report: called with a row of losses after every epoch.
        command: the line that started the run, to be noted with its results.
        group: processes that train this model together (:func:`legs.training.joined`), each
            calling this; default this one alone. Only process 0 writes.

    >>> from legs.data import load
    >>> data = load("nci-5k", limit=100)
    >>> fitted = fit(data, "baseline", options=TrainingOptions(max_epochs=20))
    >>> fitted.predictor.predict(data[:2]).shape
    torch.Size([2, 10])
    """
    check_method(model)
    options = options or TrainingOptions()
    split = split if split is not None else default_split(data, options.seed)
    check_split(split, len(data))
    task = Task.of(data, torch.as_tensor(split.train), options.balanced)
    settings = {
        "model": model,
        "model_options": model_options or {},
        "training": options.to_json(),
        "data": fingerprint(data),
        "split": fingerprint_split(split),
    }
    folder = None if directory is None or group.rank else Path(directory)
    records, scales = Records(folder, settings), ScaleLog(folder)
    start = time.monotonic()
    noted = 0

    def note(row: dict[str, float]) -> None:
        nonlocal noted
        noted += 1
        records.add(row)
        scales.add(int(row["epoch"]))
        report(row)

    answerer, state = fit_method(
        model,
        data,
        split,
        task,
        options,
        model_options=model_options,
        device=device,
        checkpoint=folder and folder / "checkpoint.bin",
        settings=settings,
        report=note,
        watch=scales.watch,
        group=group,
    )
    seconds = time.monotonic() - start
    features = tuple(data.info.get("features", ()))
    predictor = Predictor(answerer, task, features, data.feature_names, model, input_of(data))
    answers = predictor.predict(data)
    scores = score(task, answers, data, split)
    # Methods that are not trained by epochs are fitted each time.
    fitted = Fitted(predictor, split, scores, state, seconds, bool(noted or not state.epoch))
    if folder is not None:
        predictor.save(folder / "model")
        parts = {name: part.tolist() for name, part in split._asdict().items()}
        write_atomically(folder / "split.json", json.dumps([parts]).encode())
        records.finish(state)
        scales.finish(state.best_epoch)
        write_results(folder, fitted, settings, data, answers, device=device, command=command)
    return fitted


def default_split(data: GraphDataset, seed: int = 0) -> Split:
    """80/10/10 at random; stratified by class where there are classes with ten graphs or more."""
    classes = data.y if data.task == "classification" else None
    if classes is not None and int(torch.bincount(classes).min()) >= 10:
        test, validation, *rest = stratified_folds(classes.numpy(), k=10, seed=seed)
        return Split(np.sort(np.concatenate(rest)), validation, test)
    return random_split(len(data), seed=seed)


def check_split(split: Split, graphs: int) -> None:
    """Graphs that exist, some to train and validate on, and none of them tested."""
    for name, part in split._asdict().items():
        if not len(part) and name != "test":
            raise DataError(f"the split has no {name} graphs")
        wrong = part[(part < 0) | (part >= graphs)]
        if len(wrong):
            raise DataError(f"the split names graph {wrong[0]}, but there are {graphs} graphs")
    seen = np.intersect1d(np.concatenate([split.train, split.validation]), split.test)
    if len(seen):
        raise DataError(f"graph {seen[0]} is in the test part of the split and in another")


def score(
    task: Task, answers: Tensor, data: GraphDataset, split: Split
) -> dict[str, dict[str, float]]:
    """Scores on each part of a split, and what a guess that ignores the graphs would get."""
    assert data.y is not None
    y = data.y
    parts = {name: torch.as_tensor(part) for name, part in split._asdict().items() if len(part)}
    found = {name: task.scores(answers[index], y[index]) for name, index in parts.items()}
    trained = y[parts["train"]]
    if task.kind == "classification":
        share = torch.bincount(trained, minlength=len(task.names)).float() / len(trained)
        guess = share.expand(len(y), -1)
    else:
        assert task.mean is not None
        guess = task.mean.expand(len(y), -1)
    if "test" in parts:
        found["guess"] = task.scores(guess[parts["test"]], y[parts["test"]])
    return found


def fingerprint(data: GraphDataset) -> str:
    """A short digest of graphs, features and targets."""
    digest = hashlib.sha256()
    for tensor in (data.x, data.ptr, data.rowptr, data.col, data.edge_weight, data.y):
        if tensor is not None:
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    digest.update(json.dumps([data.feature_names, data.class_names, data.target_names]).encode())
    return digest.hexdigest()[:16]


def fingerprint_split(split: Split) -> str:
    """A short digest of a split."""
    listed = {name: part.tolist() for name, part in split._asdict().items()}
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:16]
