"""The demonstration: ten properties of real molecules, predicted by LEGS and by others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from legs.data import load
from legs.io import contents, has_keys
from legs.training.fit import fit
from legs.training.options import TrainingOptions

MODELS = ("legs-fcn", "legs-fixed", "gcn", "baseline")
FILE = "demo.json"
# One-hot atom types, as the paper's molecules have them.
FEATURES = "atoms"
# Enough to see who is ahead, few enough for two minutes on two cores.
OPTIONS = TrainingOptions(max_epochs=30, validate_every=3, patience=15, lr=3e-3)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Row:
    """How one model did on molecules it has not seen."""

    model: str
    parameters: int
    whitened_mse: float
    r2: float
    seconds: float


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; ``skipped`` counts lines that RDKit cannot read."""

    molecules: int
    skipped: int
    train: int
    test: int
    targets: tuple[str, ...]
    guess: Row
    rows: tuple[Row, ...]
    directory: Path
    seconds: float


def is_demo(folder: Path) -> bool:
    """Whether a folder holds runs of the demonstration and nothing else."""
    names = {path.name for path in contents(folder)}
    return names <= set(MODELS) or has_keys(folder / FILE, ("command",))


def run(
    directory: str | Path,
    limit: int | None = None,
    *,
    progress: Progress = lambda model, epoch, epochs: None,
) -> Demo:
    """Trains every model of the demonstration on the compounds inside RDKit's package.

    80 % of the molecules train, 10 % choose the best weights, 10 % test.

    Args:
        directory: for the runs, one folder a model.
        limit: read only so many molecules (default: all).
        progress: called with the model, its epoch and the number of epochs.
    """
    start = time.monotonic()
    data = load("nci-5k", features=FEATURES, limit=limit)
    rows = []
    for model in MODELS:

        def report(row: dict[str, float], model: str = model) -> None:
            progress(model, int(row["epoch"]), OPTIONS.max_epochs)

        fitted = fit(data, model, options=OPTIONS, directory=Path(directory) / model, report=report)
        scores = fitted.scores["test"]
        rows.append(
            Row(
                model,
                fitted.predictor.num_parameters(),
                scores["whitened_mse"],
                scores["r2"],
                fitted.seconds,
            )
        )
    guess = fitted.scores["guess"]
    return Demo(
        molecules=len(data),
        skipped=int(data.info.get("bad_rows", 0)),
        train=len(fitted.split.train),
        test=len(fitted.split.test),
        targets=data.target_names,
        guess=Row("mean predictor", 0, guess["whitened_mse"], guess["r2"], 0.0),
        rows=tuple(rows),
        directory=Path(directory),
        seconds=time.monotonic() - start,
    )
