"""A run on disk: its directory, with one writer at a time, and the files in it."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from legs import io
from legs.data.dataset import GraphDataset
from legs.data.errors import is_bad_rows
from legs.models import ModelError
from legs.models.saving import DESCRIPTION, LARGEST_DESCRIPTION, WEIGHTS, versions
from legs.nn import Scattering
from legs.training.calibration import LEVEL
from legs.training.checkpoint import State, keep_settings, plain, read_checksummed, read_json
from legs.training.methods import equal_to_target
from legs.training.task import prediction_table, public_columns

if TYPE_CHECKING:
    from legs.training.fit import Fitted

CHECKPOINT = "checkpoint.bin"
BAD_ROWS = "bad_rows.csv"
SETTINGS, METRICS, SCALES = "settings.json", "metrics.jsonl", "scales.jsonl"
RESULTS, PREDICTIONS = "results.json", "test_predictions.csv"
FILES = (PREDICTIONS, "metrics.csv", "split.json", SCALES, "shown.csv", "shown.npz")
# Keys of the settings of a run; see legs.training.fit.
SETTINGS_KEYS = ("model", "model_options", "training", "data", "split")
# What a run that had ended before keeps of its results when it is scored again.
ORIGIN = ("seconds", "command", "date", "machine", "versions")
LOSSES = ("train_loss", "validation_loss")
DIGITS = 4


@contextmanager
def run_directory(path: str | Path) -> Iterator[Path]:
    """The directory of a run, made if need be; refused if it has a writer, or files of others."""
    with io.one_writer(io.expand_user(path), is_run) as folder, io.writing(folder):
        yield folder


def is_run(folder: Path) -> bool:
    """Whether what a folder holds is a run, or rows that a run could not use."""
    return (
        io.has_keys(folder / SETTINGS, SETTINGS_KEYS)
        or io.has_keys(folder / "model" / DESCRIPTION, ("format", "sha256"))
        or any(_is_checkpoint(path) for path in folder.glob(f"*{CHECKPOINT}"))
        or all(path.name == BAD_ROWS and is_bad_rows(path) for path in io.contents(folder))
    )


def _is_checkpoint(path: Path) -> bool:
    with suppress(OSError, ModelError):
        return bool(read_checksummed(path, "state"))
    return False


def run_method(folder: Path) -> str | None:
    """The method of a run that is to be resumed; ``None`` where a folder holds none."""
    with suppress(OSError, ModelError, KeyError):
        return str(read_json(folder / SETTINGS)["model"])
    return None


def clear_failed_start(folder: Path) -> None:
    """Removes what a run left that ended before its first checkpoint: it cannot be resumed."""
    if any(folder.glob(f"*{CHECKPOINT}")) or (folder / "model").exists():
        return
    if io.has_keys(folder / SETTINGS, SETTINGS_KEYS):
        for name in (METRICS, SCALES, SETTINGS):
            (folder / name).unlink(missing_ok=True)


def find_model(path: str | Path) -> Path:
    """The model's directory: ``path`` itself, or ``model`` in the directory of a run."""
    folder = io.expand_user(path)
    for place in (folder, folder / "model"):
        if (place / DESCRIPTION).is_file():
            if place != folder:
                _check_owner(folder)
            return place
    if not folder.exists():
        raise ModelError(f"{folder}: no such run or model directory")
    if any(folder.glob(f"*{CHECKPOINT}")):
        raise ModelError(
            f"{folder} holds a run that has not ended; run the same legs train command again"
        )
    raise ModelError(f"{folder} holds no model: {DESCRIPTION} is missing")


def _check_owner(folder: Path) -> None:
    """Raises :class:`ModelError` if the model in the directory of a run is another run's."""
    file = folder / RESULTS
    if not file.is_file():
        return
    results = read_json(file, f"use {folder / 'model'} for the model alone")
    try:
        content = io.read_file(folder / "model" / DESCRIPTION, LARGEST_DESCRIPTION)
        digest = io.parse_json(content)["sha256"][WEIGHTS]
    except (ValueError, KeyError, TypeError):
        return  # of the description, whose reader says so
    try:
        io.check_weights(file, results, digest)
    except io.FileError as error:
        raise ModelError(str(error)) from error


def run_files(path: str | Path) -> list[Path]:
    """The files of a model, and of the run that it belongs to."""
    model = find_model(path)
    names = (*FILES, BAD_ROWS) if model.name == "model" else ()
    return [*sorted(model.iterdir()), *(model.parent / name for name in names)]


def choose_device(name: str) -> str:
    """``"cpu"``, ``"cuda"``, or for ``"auto"`` the faster one that is available."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ValueError("PyTorch finds no CUDA device here; use device='cpu'")
    return ("cuda" if available else "cpu") if name == "auto" else name


class Records:
    """What a run writes, for people and for other programs; nothing without a folder.

    Losses go to ``metrics.jsonl``, at the end to ``metrics.csv``, and to ``tensorboard/`` if it
    is installed. Learned scales are kept with the losses of an epoch, and go to ``scales.jsonl`` at
    the end: ``F`` (``weights``) and ``laziness`` per epoch, from epoch 0, the start. A folder with
    other settings is refused.
    """

    def __init__(
        self,
        folder: Path | None,
        settings: dict[str, Any],
        report: Callable[[dict[str, float]], None] = lambda row: None,
    ) -> None:
        self.folder, self.settings, self.report = folder, settings, report
        self.epochs = 0  # of this process
        self.scattering: Scattering | None = None
        self.start: dict[str, Any] = {}  # scales of epoch 0
        self.board: Any = None
        if folder is None:
            return
        keep_settings(folder, settings)
        content = io.read_file(folder / METRICS) if (folder / METRICS).exists() else b"\n"
        if not content.endswith(b"\n"):  # half a line of a killed run
            io.write_atomically(folder / METRICS, content[: content.rfind(b"\n") + 1])
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"))

    def watch(self, network: nn.Module) -> None:
        """Follows the scales of a network that is about to be trained, if it learns any.

        Some methods train several networks; the first with learned scales counts.
        """
        if self.scattering is None:
            layers = (m for m in network.modules() if isinstance(m, Scattering))
            self.scattering = next((m for m in layers if m.selection.learned), None)
            self.start = self._scales()

    def checkpoint(self, part: str = "") -> Path | None:
        """The file of a checkpoint, of a part of an ensemble by its name."""
        return self.folder and self.folder / (f"{part}-{CHECKPOINT}" if part else CHECKPOINT)

    def add(self, row: dict[str, Any]) -> None:
        """Writes the losses of an epoch, reports them, and adds the scales to the row."""
        self.epochs += 1
        losses = dict(row)
        if self.folder is not None:
            io.append(self.folder / METRICS, json.dumps(losses) + "\n")
            for name in row.keys() & set(LOSSES) if self.board else ():
                self.board.add_scalar(name, row[name], int(row["epoch"]))
            row |= self._scales()
        self.report(losses)

    def _scales(self) -> dict[str, Any]:
        module = self.scattering
        # Scales that are frozen, under the common head of two networks, have been noted before.
        theta = None if module is None else module.selection.theta
        if module is None or theta is None or not theta.requires_grad:
            return {}
        laziness = torch.as_tensor(module.walk.laziness)
        return {"weights": _rounded(module.scale_weights()), "laziness": _rounded(laziness)}

    def save_scales(self, state: State) -> None:
        """Takes the scales out of the history of a trained network, and writes them, if any."""
        rows = [{"epoch": 0, **self.start}]
        for row in state.history:
            if "weights" in row:
                scales = {name: row.pop(name) for name in self.start}
                rows.append({"epoch": row["epoch"], **scales})
        if self.folder is not None and len(rows) > 1:
            _write_lines(self.folder / SCALES, rows)

    def finish(self, folder: Path, state: State) -> None:
        """Writes the whole history; a run that was killed may have noted some epochs twice."""
        import pandas as pd  # a model can be fitted without

        if self.board is not None:
            self.board.close()
        table = pd.DataFrame(state.history, columns=["epoch", *LOSSES])
        io.write_atomically(folder / "metrics.csv", io.csv_table(table).encode())
        _write_lines(folder / METRICS, state.history)

    def write_results(
        self, fitted: Fitted, data: GraphDataset, answers: Tensor, device: str, command: str
    ) -> None:
        """Writes the model, its split, history, scores and predictions, and what a page shows.

        ``answers`` are the model's for all graphs of ``data``, ``[graphs, classes or targets]``.
        """
        if self.folder is None:
            return
        # Imported here: it needs pandas, and a model can be fitted without.
        from legs.training.shown import describe_data, write_run_shown

        folder, task, test = self.folder, fitted.predictor.task, fitted.split.test
        fitted.predictor.save(folder / "model")
        parts = {name: part.tolist() for name, part in fitted.split._asdict().items()}
        io.write_atomically(folder / "split.json", json.dumps([parts]).encode())
        self.finish(folder, fitted.state)
        results = {
            "settings": plain(self.settings),
            "data": {
                "name": data.name,
                "graphs": len(data),
                "nodes": data.num_nodes,
                "edges": len(data.col) // 2,
                "features": list(data.feature_names),
                "molecules": bool(data.smiles),
                **describe_data(data, fitted.split),
            },
            "task": {
                "kind": task.kind,
                "names": list(task.names),
                "targets": list(data.target_names),
            },
            "split": {name: len(part) for name, part in fitted.split._asdict().items()},
            "parameters": fitted.predictor.num_parameters(),
            "epochs": fitted.state.epoch,
            "best_epoch": fitted.state.best_epoch,
            "seconds": round(fitted.seconds, 3),
            "scores": {
                part: {name: None if math.isnan(value) else value for name, value in scores.items()}
                for part, scores in fitted.scores.items()
            },
            "command": command,
            **origin(device),
        }
        answerer: Any = fitted.predictor.answerer
        if candidates := getattr(answerer, "candidates", None):
            results["candidates"] = candidates
        if any(fitted.predictor.half_widths):
            widths = dict(zip(task.names, fitted.predictor.half_widths, strict=True))
            intervals = {"level": LEVEL, "half_widths": widths, "coverage": fitted.coverage}
            results["intervals"] = intervals
        scale = getattr(answerer, "scale" if candidates else "graph_scale", None)
        if scale is not None and (equal := equal_to_target(scale, data)):
            results["dropped"] = equal
        if not fitted.trained:  # the run had ended before: how it came about stays as it was
            with suppress(OSError, ValueError, TypeError):
                before = io.parse_json(io.read_file(folder / RESULTS))
                results |= {name: before[name] for name in ORIGIN if name in before}
        if len(test):
            table = prediction_table(task, answers[test], data.subset(test))
            name = [*data.target_names, "class"][0]
            table = public_columns(task, table, name, fitted.predictor.half_widths)
            io.write_atomically(folder / PREDICTIONS, io.csv_table(table).encode())
        write_run_shown(folder, fitted.predictor, data, fitted.split, answers)
        results["weights"] = io.file_digest(folder / "model" / WEIGHTS)
        # Last, with digests of the others: a reader sees whether they are still what was written.
        results["files"] = io.file_digests(folder, FILES)
        content = json.dumps(io.with_digest(results), indent=1)
        io.write_atomically(folder / RESULTS, content.encode())


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    io.write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _rounded(tensor: Tensor) -> Any:
    # In float64: in float32 the digits would come back.
    return tensor.detach().double().cpu().numpy().round(DIGITS).tolist()


def origin(device: str = "cpu") -> dict[str, Any]:
    """When and by what something was computed: the GPU, or the processor and its threads."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    if device.startswith("cuda"):
        machine = str(torch.cuda.get_device_name(device))
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, "machine": machine, "versions": versions()}
