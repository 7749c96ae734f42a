"""Runs one cell, and what is kept of it: one JSON file."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import r2_score
from torch import Tensor

from benchmarks.provenance import provenance
from legs import io
from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.data.statistics import check
from legs.functional.scales import harden_scales
from legs.io import FileError, one_writer, parse_json, write_atomically
from legs.models.saving import ModelError
from legs.training import CVResult, TrainingError, cross_validate
from legs.training.cv.cross_validation import CVProgress
from legs.training.cv.results import MethodResult
from legs.training.fit import fingerprint, fingerprint_split
from legs.training.task import Task
from reproduction.baselines import BASELINES, baseline_result
from reproduction.exchange import exchange_facts
from reproduction.importance import importance_facts, path_importance, squared_error, train_mse
from reproduction.plan import Cell, Request

Row = dict[str, Any]
# On a GPU all models of a cell at once, both learning rates; fewer where memory does not suffice.
GPU_CHUNK, CPU_CHUNK = 180, 90
_TEXTS = "cell data method variant device machine date experiment command commit"
_OTHERS = {"versions": dict, "settings": dict, "quick": bool, "seed": int, "seconds": (int, float)}
KINDS = dict.fromkeys(_TEXTS.split(), str) | _OTHERS
SCORES = {"mean": (int, float), "std": (int, float), "scores": list, "guess": list}


def read_cell(file: Path) -> Row:
    """The result of a cell; an error where the file is damaged."""
    try:
        content = parse_json(file.read_bytes())
        if not isinstance(content, dict) or "sha256" not in content:
            raise ValueError("it has no checksum")
        for name, kind in (KINDS | (SCORES if "mean" in content else {})).items():
            if not isinstance(content.get(name), kind):
                raise ValueError(f"it has no {name}")
        return io.check_digest(content, file)
    except FileError as error:
        raise ModelError(str(error)) from error
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{file} is damaged: {error}; delete it to run this cell again") from error


def read_cells(folder: Path) -> dict[str, Row]:
    """The finished cells of a folder, by key."""
    rows = [read_cell(file) for file in sorted((folder / "cells").glob("*.json"))]
    return {row["cell"]: row for row in rows}


def write_cell(folder: Path, row: Row) -> None:
    """Keeps a finished cell."""
    file = folder / "cells" / f"{row['cell']}.json"
    with io.writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(io.with_digest(row), ensure_ascii=False)
    write_atomically(file, f"{text}\n".encode())


def run_cell(
    name: str,
    request: Request,
    cell: Cell,
    report: Callable[[CVProgress], None] = lambda progress: None,
    workers: int | None = None,
) -> Row:
    """Runs a cell of an experiment in a folder of its own, where it resumes if interrupted."""
    with one_writer(request.folder / "cells" / cell.key) as place:
        watch = Stopwatch(place / "seconds.json")

        def tick(progress: CVProgress) -> None:
            watch.save(every=5)
            report(progress)

        try:
            if cell.score == "statistics":
                row = statistics_row(cell)
            else:
                row = row_of(cell, _cross_validated(request, cell, place, tick, workers))
        finally:
            seconds = watch.save()
    return {
        "experiment": name,
        "quick": request.quick,
        "seed": request.seed,
        "command": request.command,
        **row,
        "seconds": round(seconds, 2),
        "settings": cell.settings(),
        **provenance(request.device, request.at_once),
    }


class Stopwatch:
    """Time spent on a cell, over all runs that worked on it, also those that were killed."""

    def __init__(self, file: Path) -> None:
        self.file, self.before = file, 0.0
        with suppress(OSError, ValueError, TypeError):  # nothing depends on the time
            self.before = float(parse_json(file.read_bytes()))
        self.start = self.saved = time.monotonic()

    def save(self, every: float = 0) -> float:
        """Writes the time if it was not written for ``every`` seconds, and returns it."""
        now = time.monotonic()
        seconds = self.before + now - self.start
        if now - self.saved >= every:
            self.saved = now
            write_atomically(self.file, json.dumps(seconds).encode())
        return seconds


def _cross_validated(
    request: Request,
    cell: Cell,
    place: Path,
    report: Callable[[CVProgress], None],
    workers: int | None,
) -> CVResult:
    data = cell.load()
    splits = cell.splits(data)
    if cell.method in BASELINES:
        assert splits is not None
        return baseline_result(cell.method, data, splits, cell.options)
    gpu = request.device.startswith("cuda")
    measures = {"train_mse": train_mse, "importance": path_importance} if cell.is_error else {}
    try:
        with warnings.catch_warnings():
            # Of functorch, about operations without a batching rule of their own.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            return cross_validate(
                data,
                [cell.method],
                cell.options,
                splits=splits,
                group_by=None,  # the published partitions
                directory=place,
                device=request.device,
                strategy="stacked" if gpu else "auto",
                workers=workers or os.cpu_count() or 1,
                chunk=GPU_CHUNK if gpu else CPU_CHUNK,
                keep_features=cell.embedded,
                measures=measures,
                progress=report,
            )
    except torch.OutOfMemoryError:
        raise TrainingError(
            f"the memory of {request.device} does not suffice to train one model; "
            "try --device cpu or a smaller --at-once"
        ) from None


def statistics_row(cell: Cell) -> Row:
    """Statistics of a data set, of all graphs."""
    ((ours, _),) = check([cell.data])
    statistics = {name: value for name, value in ours._asdict().items() if name != "name"}
    names = {"cell": cell.key, "data": cell.data, "method": "", "variant": ""}
    return {**names, "statistics": statistics}


def row_of(cell: Cell, result: CVResult) -> Row:
    """What is kept of a finished cell, as JSON values.

    Accuracies are in percent. ``guess`` has the scores of the majority class or the mean predictor.
    """
    (trained,), data = result.methods, result.data
    splits = [group[0] for group in result.splits]
    names = ("data", "method", "variant", "protocol")
    row: Row = {"cell": cell.key, **{name: getattr(cell, name) for name in names}}
    if cell.score == "losses":  # nothing of the test sets
        rates = [setting["lr"] for setting in cell.options.grid]
        return {**row, "rates": rates, "losses": rounded(trained.losses), "models": trained.models}
    if cell.is_error:
        row |= error_scores(cell, data, splits, trained)
    else:
        scores = [100 * score for score in trained.scores]
        row |= {"mean": round(float(np.mean(scores)), 4), "std": round(float(np.std(scores)), 4)}
        row |= {"scores": np.round(scores, 4).tolist()}
        row |= {"guess": [round(100 * score, 4) for score in result.baseline]}
        assert data.y is not None
        row["truth"] = [class_string(data.y[split.test]) for split in splits]
        row["predicted"] = [class_string(classes) for classes in trained.predictions]
    shares = [len(s.test) / (len(s.train) + len(s.validation)) for s in splits]
    no_choice = cell.method in BASELINES and not any(cell.options.grid)
    settings = trained.settings(cell.options.grid)
    row |= {
        "graphs": len(data),
        "features": list(data.feature_names),
        "test_fraction": float(np.mean(shares)) if cell.is_error else shares[0],
        "parameters": trained.parameters,
        "models": trained.models,
        "chosen": [""] * len(trained.chosen) if no_choice else settings,
        "way": trained.strategy,
        "fingerprint": fingerprint(data),
    }
    if trained.scales:
        row["scales"] = scales_of(trained)
    if trained.measured.get("importance"):
        measured = trained.measured["importance"]
        row["importance"] = importance_facts(cell.method, data.in_channels, measured)
    if cell.is_error and data.groups:
        row["groups"] = group_errors(data, splits, trained.predictions)
    if cell.embedded:
        row["exchange"] = exchange_facts(result)
    return row


def class_string(classes: Tensor) -> str:
    """Classes of graphs, one character for each: 0 to 9, then letters.

    >>> class_string(torch.tensor([0, 2, 10]))
    '02a'
    """
    return "".join(np.base_repr(number, 36).lower() for number in classes.tolist())


def error_scores(
    cell: Cell, data: GraphDataset, splits: list[Split], trained: MethodResult
) -> dict[str, Any]:
    """Errors on the test graphs of every split, and those of the mean predictor."""
    scores, guesses, r2, by_target, variances = [], [], [], [], []
    for split, answers in zip(splits, trained.predictions, strict=True):
        task = Task.of(data, torch.as_tensor(split.train))
        assert data.y is not None and task.mean is not None and task.deviation is not None
        variance = task.deviation.double().numpy() ** 2
        truth = data.y[torch.as_tensor(split.test)].double()
        units = squared_error(answers, truth).numpy()
        guess = squared_error(task.mean.expand(len(truth), -1), truth).numpy()
        scale = 1.0 if cell.score == "units" else variance
        scores.append(float(np.nanmean(units / scale)))
        guesses.append(float(np.nanmean(guess / scale)))
        by_target.append(units / variance)
        variances.append(variance / scale)
        r2.append(r2_score(truth, answers.double()))
    measured = trained.measured.get("train_mse", [])
    train = [
        float(np.nanmean(one.double().mean(0).numpy() * scale))
        for one, scale in zip(measured, variances, strict=False)
    ]
    return {
        "score": cell.score,
        "mean": rounded(np.mean(scores)),
        "std": rounded(np.std(scores)),
        "scores": rounded(scores),
        "train": rounded(train),
        "guess": rounded(guesses),
        "r2": rounded(r2),
        "targets": list(data.target_names),
        "by_target": rounded(by_target),
        "splits": [fingerprint_split(split) for split in splits],
    }


def group_errors(
    data: GraphDataset, splits: list[Split], predictions: list[Tensor]
) -> dict[str, dict[str, Any]]:
    """By group: mean target of its graphs, how often they were tested, sum of squared errors."""
    assert data.y is not None
    tested = np.concatenate([split.test for split in splits])
    errors = torch.cat([answers[:, 0].double() for answers in predictions]) - data.y[tested, 0]
    groups, squares = np.asarray(data.groups), pd.Series(errors.numpy() ** 2)
    means = pd.Series(data.y[:, 0].double().numpy()).groupby(groups, sort=False).mean()
    sums = squares.groupby(groups[tested]).agg(["size", "sum"]).reindex(means.index, fill_value=0)
    return {
        str(name): {"mean": rounded(mean), "tested": int(count), "squares": rounded(square)}
        for name, mean, count, square in zip(means.index, means, *sums.T.to_numpy(), strict=True)
    }


def scales_of(trained: MethodResult) -> dict[str, Any]:
    """Of each test set the mean selection matrix; of each model the mean diffusion times, and the
    nearest increasing whole scales."""
    models = torch.cat(trained.scales).double()
    times = torch.arange(1, models.shape[-1] + 1, dtype=torch.float64)
    means = torch.stack([group.double().mean(0) for group in trained.scales])
    return {
        # Adding zero turns -0.0 into 0.
        "weights": (means.numpy().round(4) + 0.0).tolist(),
        "expected": ((models @ times).numpy().round(4) + 0.0).tolist(),
        "hardened": [list(harden_scales(weights)) for weights in models],
    }


def rounded(values: Any) -> Any:
    """Plain numbers with six significant digits."""
    return np.vectorize(lambda value: float(f"{value:.6g}"), otypes=[float])(values).tolist()
