"""The demonstration: ten properties of real molecules, predicted by LEGS and by others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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


class Row(NamedTuple):
    """How one model did on molecules it has not seen."""

    model: str
    parameters: int
    whitened_mse: float
    r2: float
    seconds: float


class Demo(NamedTuple):
    """Results of the demonstration; ``skipped`` counts lines that RDKit cannot read."""

    molecules: int
    skipped: int
    train: int
    test: int
    targets: tuple[str, ...]
    guess: Row
    rows: tuple[Row, ...]
    directory: Path


def is_demo(folder: Path) -> bool:
    """Whether a folder holds runs of the demonstration and nothing else."""
    names = {path.name for path in contents(folder)}
    return names <= set(MODELS) or has_keys(folder / FILE, ("command",))


def run(
    directory: str | Path,
    limit: int | None = None,
    *,
    progress: Callable[[str, int, int], None] = lambda model, epoch, epochs: None,
) -> Demo:
    """Trains every model of the demonstration on the compounds inside RDKit's package.

    80 % of the molecules train, 10 % choose the best weights, 10 % test.

    Args:
        directory: for the runs, one folder per model.
        limit: read only so many molecules (default: all).
        progress: called with the model, its epoch and the number of epochs.
    """
    folder, rows = Path(directory), []
    data = load("nci-5k", features=FEATURES, limit=limit)
    for model in MODELS:

        def report(row: dict[str, float], model: str = model) -> None:
            progress(model, int(row["epoch"]), OPTIONS.max_epochs)

        fitted = fit(data, model, options=OPTIONS, directory=folder / model, report=report)
        mse, r2 = (fitted.scores["test"][name] for name in ("whitened_mse", "r2"))
        rows.append(Row(model, fitted.predictor.num_parameters(), mse, r2, fitted.seconds))
    mse, r2 = (fitted.scores["guess"][name] for name in ("whitened_mse", "r2"))
    return Demo(
        molecules=len(data),
        skipped=int(data.info.get("bad_rows", 0)),
        train=len(fitted.split.train),
        test=len(fitted.split.test),
        targets=data.target_names,
        guess=Row("mean predictor", 0, mse, r2, 0.0),
        rows=tuple(rows),
        directory=folder,
    )
