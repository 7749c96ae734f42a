"""Some graphs of a cross-validation, kept small for a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from legs.io import file_digests, with_digest
from legs.models import create
from legs.models.saving import write_atomically
from legs.training.cv.results import CVResult, MethodResult
from legs.training.inputs import embed
from legs.training.shown import (
    DRAWN,
    GRAPHS,
    MOST,
    SEED,
    TABLE,
    Shown,
    extremes,
    write_shown,
)

SCALES = "scales.json"
SOURCE = "legs-fixed"
DIGITS = 4


def write_cv_shown(folder: str | Path, result: CVResult) -> None:
    """Writes what a page shows of a cross-validation beside its tables.

    Graphs on a map by fixed scattering, which needs no training; graphs that the best method gets
    right and wrong, those first on which most other methods agree; learned scales of each test set.

    Args:
        folder: of the cross-validation.
        result: of it.
    """
    folder = Path(folder)
    data = result.data
    lead, wrong = _wrongness(result)
    best, worst = extremes(wrong, DRAWN)
    rng = np.random.default_rng(SEED)
    rest = np.setdiff1d(np.arange(len(data)), [*best, *worst])
    room = max(MOST - len(best) - len(worst), 0)
    more = rest if len(rest) <= room else np.sort(rng.choice(rest, room, replace=False))
    chosen = np.concatenate([best, worst, more]).astype(np.int64)
    part = data.subset(chosen)
    network = create(SOURCE, data.in_channels, 2).eval()
    columns: dict[str, object] = {"id": part.ids or [str(k) for k in chosen]}
    if part.smiles:
        columns["smiles"] = part.smiles
    shown = Shown(
        pd.DataFrame(columns),
        chosen,
        np.full(len(chosen), 2, dtype=np.int8),  # every graph is tested once
        part.to_pyg(),
        len(best),
        len(worst),
        embed(network, part),
        SOURCE,
        [False] * (len(best) + len(worst)),
    )
    write_shown(folder, shown)
    about = {
        "lead": lead.method,
        "task": data.task,
        "names": list(data.class_names if data.task == "classification" else data.target_names),
        "scales": {
            method.method: [_mean(models) for models in method.scales]
            for method in result.methods
            if method.scales
        },
        "files": file_digests(folder, [GRAPHS, TABLE]),
    }
    write_atomically(folder / SCALES, json.dumps(with_digest(about)).encode())


def _mean(models: torch.Tensor) -> list[list[float]]:
    rounded: list[list[float]] = models.double().mean(0).numpy().round(DIGITS).tolist()
    return rounded


def _wrongness(result: CVResult) -> tuple[MethodResult, npt.NDArray[np.float64]]:
    """The best method, and how wrong it is about each graph; ties by how wrong the others are."""
    data = result.data
    assert data.y is not None
    classes = data.task == "classification"
    lead = max(result.methods, key=lambda m: m.mean if classes else -m.mean)
    others = np.zeros((len(result.methods), len(data)))
    for number, method in enumerate(result.methods):
        found = np.full(len(data), np.nan)
        for k, group in enumerate(result.splits):
            test = torch.as_tensor(group[0].test)
            if classes:
                found[group[0].test] = (method.predictions[k] != data.y[test]).double().numpy()
            else:
                spread = data.y[test].double().nan_to_num().std(0).clamp_min(1e-12)
                error = ((method.predictions[k] - data.y[test]) / spread).square().nanmean(1)
                found[group[0].test] = error.numpy()
        others[number] = found
    own = others[result.methods.index(lead)]
    return lead, own + 1e-3 * others.mean(0)
