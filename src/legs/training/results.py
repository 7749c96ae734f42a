"""What a finished run leaves for people and programs: scores, predictions, graphs to look at."""

from __future__ import annotations

import json
import math
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.io import csv_table, file_digest, file_digests, parse_json, read_file, with_digest
from legs.models.saving import WEIGHTS, versions, write_atomically
from legs.training.checkpoint import plain

if TYPE_CHECKING:
    from legs.training.fit import Fitted

RESULTS, PREDICTIONS = "results.json", "test_predictions.csv"
FILES = (PREDICTIONS, "metrics.csv", "split.json", "scales.jsonl", "shown.csv", "shown.npz")
ORIGIN = ("seconds", "command", "date", "machine", "versions")


def write_results(
    folder: Path,
    fitted: Fitted,
    settings: dict[str, Any],
    data: GraphDataset,
    answers: Tensor,
    *,
    device: str = "cpu",
    command: str = "",
) -> None:
    """Writes ``results.json``, ``test_predictions.csv`` and the graphs that a page shows.

    Args:
        folder: of the run.
        fitted: the model and its scores.
        settings: of the run.
        data: all graphs.
        answers: of the model for all graphs, ``[graphs, classes or targets]``.
        device: where it was trained.
        command: the line that started the run, if it was one.
    """
    # Imported here: these need pandas, and a model can be fitted without.
    from legs.training.shown import shown_of_run, write_shown
    from legs.training.tables import prediction_table

    task = fitted.predictor.task
    results = {
        "settings": plain(settings),
        "data": {
            "name": data.name,
            "graphs": len(data),
            "nodes": data.num_nodes,
            "edges": len(data.col) // 2,
            "features": list(data.feature_names),
            "molecules": bool(data.smiles),
        },
        "task": {"kind": task.kind, "names": list(task.names)},
        "split": {name: len(part) for name, part in fitted.split._asdict().items()},
        "parameters": fitted.predictor.num_parameters(),
        "epochs": fitted.state.epoch,
        "best_epoch": fitted.state.best_epoch,
        "seconds": round(fitted.seconds, 3),
        "scores": {
            part: {name: None if math.isnan(value) else value for name, value in found.items()}
            for part, found in fitted.scores.items()
        },
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_name(device),
        "versions": versions(),
    }
    if not fitted.trained:  # the run had ended before: how it came about stays as it was
        results |= _origin(folder / RESULTS)
    test = torch.as_tensor(fitted.split.test)
    if len(test):
        table = prediction_table(task, answers[test], data.subset(test))
        write_atomically(folder / PREDICTIONS, csv_table(table).encode())
    write_shown(folder, shown_of_run(fitted.predictor, data, fitted.split, answers))
    weights = folder / "model" / WEIGHTS
    if weights.is_file():
        results["weights"] = file_digest(weights)
    # Last, with digests of the others: a reader can tell whether they are still what was written.
    results["files"] = file_digests(folder, FILES)
    write_atomically(folder / RESULTS, json.dumps(with_digest(results), indent=1).encode())


def _origin(file: Path) -> dict[str, Any]:
    try:
        known = parse_json(read_file(file))
        return {name: known[name] for name in ORIGIN if name in known}
    except (OSError, ValueError, TypeError):
        return {}


def machine_name(device: str = "cpu") -> str:
    """What computed: the GPU, or the processor and its threads."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()}, {os.cpu_count()} cores"
