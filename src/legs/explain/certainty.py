"""How sure the predictions of a cross-validation are, from the answers kept in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legs.io import parse_json, with_digest, write_atomically
from legs.models import ModelError
from legs.report.folders import CERTAINTY, read_cv
from legs.training.cv.protocol import stacks
from legs.training.cv.results import vote
from legs.training.cv.store import Store, file_names


def write_certainty(folder: str | Path) -> Path | None:
    """Writes ``certainty.json``: how sure the best method was of each of its predictions.

    The models of a cross-validation are not kept, but their answers are. The certainty of a
    prediction is the mean probability that the models which voted on it gave it.

    Args:
        folder: of ``legs cv``.

    Returns:
        The file; ``None`` for a regression, or if the answers are no longer there.
    """
    folder = Path(folder)
    run = read_cv(folder)
    if not run.classes or run.predictions is None:
        return None
    chosen = next(m for m in run.methods if m["method"] == run.lead)["chosen"]
    try:
        by_set = kept_answers(folder, run.lead, run.results["options"]["grid"], chosen)
    except (ModelError, OSError, ValueError):
        return None
    sure = torch.cat([certainty(answers) for answers in by_set]).tolist()
    if len(sure) != len(run.predictions):
        return None
    content = {"method": run.lead, "sure": [round(value, 4) for value in sure]}
    write_atomically(folder / CERTAINTY, json.dumps(with_digest(content)).encode())
    return folder / CERTAINTY


def certainty(answers: Tensor) -> Tensor:
    """The mean of ``[models, graphs, classes]`` for the class that models vote for, ``[graphs]``.

    >>> certainty(torch.tensor([[[0.6, 0.4]], [[0.1, 0.9]]]))
    tensor([0.6500])
    """
    return answers.mean(0).gather(1, vote(answers).unsqueeze(1)).squeeze(1)


def kept_answers(
    folder: Path, method: str, grid: list[dict[str, Any]], chosen: list[int]
) -> list[Tensor]:
    """Answers of the models behind the vote on each test set, ``[models, graphs, classes]`` each.

    ``chosen`` has the index, in the tuning ``grid``, of the setting of each test set.
    """
    settings = dict(parse_json((folder / "settings.json").read_bytes()))
    store = Store(folder, settings)
    count = len(chosen) if method == "gs-svm" else len(settings["splits"])
    models: dict[int, list[Tensor]] = {}
    for setting in set(chosen):
        group = [0] if method == "gs-svm" else next(g for g in stacks(grid) if setting in g)
        loaded = store.load_all(file_names(method, grid, group, count))
        answers = [model.answers for model in loaded if model is not None]
        if len(answers) < len(loaded):
            raise ModelError(f"{folder} does not hold all models of {method}")
        first = 0 if method == "gs-svm" else count * group.index(setting)
        models[setting] = answers[first : first + count]
    each = count // len(chosen)
    return [
        torch.stack(models[setting][number * each : (number + 1) * each])
        for number, setting in enumerate(chosen)
    ]
