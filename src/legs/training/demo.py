"""The demonstration: ten properties of real molecules, predicted by LEGS and by others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from legs.data import GraphDataset, load
from legs.io import contents, has_keys
from legs.training.fit import Fitted, fit
from legs.training.options import TrainingOptions

MODELS = ("legs-fcn", "legs-fixed", "gcn", "baseline")
FILE = "demo.json"
# One-hot atom types, as the paper's molecules have them.
FEATURES = "atoms"
# Enough to see who is ahead, few enough for two minutes on two cores.
OPTIONS = TrainingOptions(max_epochs=30, validate_every=3, patience=15, lr=3e-3)


def is_demo(folder: Path) -> bool:
    """Whether a folder holds runs of the demonstration and nothing else."""
    names = {path.name for path in contents(folder)}
    return names <= set(MODELS) or has_keys(folder / FILE, ("command",))


def run(
    directory: str | Path,
    limit: int | None = None,
    *,
    progress: Callable[[str, int, int], None] = lambda model, epoch, epochs: None,
) -> tuple[GraphDataset, dict[str, Fitted]]:
    """Trains every model of the demonstration on the compounds inside RDKit's package.

    80 % of the molecules train, 10 % choose the best weights, 10 % test. The directory gets a
    folder per model. Returns the molecules, and the trained models by name.
    """
    data = load("nci-5k", features=FEATURES, limit=limit)
    fitted = {}
    for model in MODELS:

        def report(row: dict[str, float], model: str = model) -> None:
            progress(model, int(row["epoch"]), OPTIONS.max_epochs)

        folder = Path(directory) / model
        fitted[model] = fit(data, model, options=OPTIONS, directory=folder, report=report)
    return data, fitted
