"""Run folders: the names of their files, and what a report reads from them."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from legs import io
from legs.report.theme import Floats

RESULTS, EXPLAINED, DEMO = "results.json", "explained.json", "demo.json"
PREDICTIONS = "test_predictions.csv"
GRAPHS, MODEL, WEIGHTS = "shown.npz", "model.json", "weights.safetensors"
# Of the graphs that are shown, see legs.training.shown.
ARRAYS = {"numbers", "parts", "ptr", "edge_ptr", "edges", "places", "share", "best", "worst"}
# Columns that are text, whatever they look like: a class may be called 1, or NA.
TEXT = ("id", "smiles", "prediction", "truth")
# A run of legs train inside the folder of a cross-validation; its model is explained.
ONE = "one-model"
DIGEST = "sha256"
# Errors that say what is wrong already.
CLEAR = (io.BoundedError, ImportError, MemoryError, OSError)
MADE = "run the command that made it again"
# The model of a demonstration that is shown in detail comes first.
DEMO_ORDER = ("legs-deep", "legs-fcn", "legs-fixed", "gcn", "baseline")
# A folder that no page can be made of; the message says why.
ReportError = io.FileError


@dataclass(frozen=True)
class Shown:
    """Graphs kept for display; the best and worst predictions come first."""

    table: pd.DataFrame  # one row per graph: id, smiles of molecules, and the predictions
    arrays: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays["numbers"])

    @property
    def drawn(self) -> dict[str, range]:
        """Indices of the best and of the worst predictions."""
        best, worst = (int(self.arrays[name]) for name in ("best", "worst"))
        return {"best": range(best), "worst": range(best, best + worst)}

    def graph(self, index: int) -> tuple[npt.NDArray[np.int32], int]:
        """Edges and number of nodes of a graph."""
        (start, end), (first, last) = (
            self.arrays[name][index : index + 2].tolist() for name in ("ptr", "edge_ptr")
        )
        return self.arrays["edges"][first:last], end - start

    def smiles(self, index: int) -> str:
        """SMILES of a graph; empty if it is no molecule."""
        return str(self.table["smiles"].iloc[index]) if "smiles" in self.table else ""

    def is_aligned(self, index: int) -> bool:
        """Whether nodes of a drawn graph are known to be in the order of its SMILES."""
        return bool(self.arrays["aligned"][index : index + 1].any())


@dataclass(frozen=True)
class Scales:
    """Learned scales over epochs or test sets."""

    labels: list[int]  # epochs, or test sets
    weights: Floats  # F of each, [states, scales, steps]
    laziness: Floats  # of each, the mean over channels

    @property
    def means(self) -> Floats:
        """Mean diffusion times, ``[states, scales]``."""
        times = np.arange(1, self.weights.shape[-1] + 1)
        return np.asarray(self.weights @ times, dtype=np.float64)


@dataclass
class Run:
    """A folder of ``legs train``; whatever it does not contain is ``None``."""

    folder: Path
    results: dict[str, Any]
    history: pd.DataFrame | None = None
    predictions: pd.DataFrame | None = None
    scales: Scales | None = None
    shown: Shown | None = None
    explained: dict[str, Any] | None = None
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        task = self.results["task"]
        self.method = str(self.results["settings"]["model"])
        self.classes = bool(task["kind"] == "classification")
        self.labels = bool(task["kind"] == "multilabel")
        self.names = [str(name) for name in task["names"]]
        self.molecules = bool(self.results["data"].get("molecules"))
        # The epoch whose weights were kept; 0 if unknown.
        self.best_epoch = int(self.results.get("best_epoch") or 0)

    def scores(self, part: str) -> dict[str, Any]:
        """Scores of a part; empty if there are none."""
        return dict(self.results["scores"].get(part, {}))

    def size(self, part: str) -> int:
        """Number of graphs in a part; 0 if unknown."""
        return int(self.results.get("split", {}).get(part) or 0)

    @property
    def fixed_scales(self) -> Scales | None:
        """The scales of a model whose scales are fixed; ``None`` if it has none."""
        options = self.model.get("network", {}).get("description", {}).get("scattering")
        if not isinstance(options, dict) or not isinstance(options.get("scales"), list):
            return None
        weights = np.zeros((len(options["scales"]), int(options["steps"])))
        weights[np.arange(len(weights)), np.array(options["scales"]) - 1] = 1
        return Scales([0], weights[None], np.array([0.5]))

    @cached_property
    def explanations(self) -> dict[int, dict[str, Any]]:
        """Attributions of the drawn graphs, by index."""
        if self.shown is None or self.explained is None:
            return {}
        rows = [row for row in self.explained["graphs"] if row["found"]]
        first = {int(row["place"]): row["found"][0] for row in rows}
        return {k: one for k, one in first.items() if len(one["nodes"]) == self.shown.graph(k)[1]}


@dataclass
class CrossValidation:
    """A folder of ``legs cv``; ``one`` is a single model, if one was trained inside."""

    folder: Path
    results: dict[str, Any]
    predictions: pd.DataFrame | None
    shown: Shown | None
    about: dict[str, Any]
    one: Run | None = None

    def __post_init__(self) -> None:
        columns = [] if self.predictions is None else [str(c) for c in self.predictions]
        self.molecules = self.shown is not None and bool(self.shown.smiles(0))
        task = self.about.get("task")
        self.classes = bool(task == "classification" if task else "truth" in columns)
        targets = [c.removeprefix("truth:") for c in columns if c.startswith("truth:")]
        self.names = [str(name) for name in self.about.get("names", targets)]  # of classes as well
        sign = -1 if self.classes else 1
        # The best first; the lead is the one whose predictions are shown.
        self.methods = sorted(self.results["methods"], key=lambda m: sign * float(m["mean"]))
        methods = [str(m["method"]) for m in self.methods]
        self.lead = methods[methods.index(self.about.get("lead") or methods[0])]
        # By method, the mean over the models of each test set.
        self.scales: dict[str, Scales] = {}
        for name, sets in self.about.get("scales", {}).items():
            numbers = list(range(1, len(sets) + 1))
            weights = np.array(sets, dtype=np.float64)
            self.scales[str(name)] = Scales(numbers, weights, np.full(len(sets), 0.5))

    @property
    def answers(self) -> pd.DataFrame | None:
        """Predictions of the best method, in the form of those of ``legs train``."""
        if (table := self.predictions) is None:
            return None
        others = [f"probability:{m['method']}" for m in self.methods if m["method"] != self.lead]
        names = {self.lead: "prediction"}
        names |= {c: c.removeprefix(f"{self.lead}:") for c in map(str, table) if c not in names}
        return table.drop(columns=others, errors="ignore").rename(columns=names)


@contextmanager
def reading(path: Path, others: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Names a file or folder that is damaged, whatever error but ``others`` its readers raise."""
    try:
        yield
    except others:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise ReportError(f"{path} is damaged: {type(error).__name__}: {reason}; {MADE}") from error


def read_json(path: Path, warn: bool = False) -> dict[str, Any]:
    """A JSON file without its checksum, which is verified; empty if there is no file.

    ``warn`` of a missing checksum: version 0.1.0 wrote none.
    """
    if not path.is_file():
        return {}
    try:
        content = io.parse_json(path.read_bytes())
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from error
    if warn and isinstance(content, dict) and DIGEST not in content:
        lacking = f"{path} has no checksum, as an earlier version wrote it"
        warnings.warn(f"{lacking}; damage would go unnoticed", io.FileWarning, stacklevel=1)
    return io.check_digest(content, path, MADE)


def read_results(folder: Path, name: str = RESULTS) -> dict[str, Any]:
    """``results.json`` of a run, or a file like it, with the files verified that it names."""
    results = read_json(folder / name, warn=True)
    io.check_files(folder, results.get("files", {}))
    return results


def read_table(path: Path, text: tuple[str, ...] = ()) -> pd.DataFrame | None:
    """A CSV file, with columns of text if it has them; ``None`` if there is none."""
    if not path.is_file():
        return None
    with reading(path):
        empty: Any = {"keep_default_na": False, "na_values": [""]} if text else {}
        return io.plain_cells(pd.read_csv(path, dtype=dict.fromkeys(text, "string"), **empty))


def read_train(folder: Path) -> Run:
    """Reads a folder of ``legs train``."""
    results = read_results(folder)
    model = read_model(folder, results)
    with reading(folder, CLEAR):
        return Run(
            folder,
            results,
            read_table(folder / "metrics.csv"),
            _read_predictions(folder / PREDICTIONS, results.get("task", {})),
            read_scales(folder / "scales.jsonl"),
            read_shown(folder),
            read_explained(folder, model),
            model,
        )


def _read_predictions(path: Path, task: Mapping[str, Any]) -> pd.DataFrame | None:
    """Test predictions by the names that ``shown.csv`` has for them, and 0.1.0 had everywhere."""
    if task.get("kind") != "classification":
        names = {"measured:": "truth:", "predicted:": ""}
        if (table := read_table(path, TEXT)) is None:
            return None
        if task.get("kind") == "multilabel":
            table.columns = [re.sub("^(probability:.*)=1$", r"\1", str(c)) for c in table]
    else:
        target = [*task.get("targets", []), "class"][0]
        names = {f"predicted:{target}": "prediction", f"measured:{target}": "truth"}
        if (table := read_table(path, (*TEXT, *names))) is None:
            return None
        names[f"probability:{target}="] = "probability:"
    for old, new in names.items():
        table.columns = [re.sub(f"^{re.escape(old)}", new, str(c)) for c in table]
    return table


def read_cv(folder: Path) -> CrossValidation:
    """Reads a folder of ``legs cv``."""
    results = read_results(folder)
    text = (*TEXT, *(str(m["method"]) for m in results["methods"]))
    one = folder / ONE
    return CrossValidation(
        folder,
        results,
        read_table(folder / "predictions.csv", text),
        about=read_results(folder, "scales.json"),  # verifies the graphs
        shown=read_shown(folder),
        one=read_train(one) if "scores" in read_json(one / RESULTS) else None,
    )


def read_model(folder: Path, results: dict[str, Any]) -> dict[str, Any]:
    """The description of a run's model, verified with its weights; empty if there is none."""
    path = folder / "model" / MODEL
    if not path.is_file():
        return {}
    with reading(path):
        description = dict(io.parse_json(path.read_bytes()))
        digests = description[DIGEST]
        weights = digests[WEIGHTS]
    # Models of early versions have a checksum of their weights alone.
    if MODEL in digests:
        io.check_digest({**description, DIGEST: digests[MODEL]}, path, MADE)
    io.check_files(path.parent, {WEIGHTS: weights})
    io.check_weights(folder / RESULTS, results, weights)
    return description


def read_explained(folder: Path, model: dict[str, Any]) -> dict[str, Any] | None:
    """``explained.json`` of a run, by its model if that was kept; ``None`` if there is none."""
    explained = read_json(folder / EXPLAINED, warn=True)
    if "weights" not in explained:  # of version 0.1.0
        return explained or None
    weights = model[DIGEST][WEIGHTS] if model else explained["weights"]
    files = io.file_digests(folder, [GRAPHS])
    if (weights, files) != (explained["weights"], explained.get("files")):
        path = folder / EXPLAINED
        raise ReportError(f"{path} explains another model; delete it, legs report makes it again")
    return explained


def read_scales(path: Path) -> Scales | None:
    """``scales.jsonl`` of a run; ``None`` if there is none."""
    if not path.is_file():
        return None
    rows = {}
    with reading(path):
        for line in path.read_text(encoding="utf-8").splitlines():
            # Half a line may be left by a run that was killed.
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                row = io.parse_json(line)
                rows[int(row["epoch"])] = row
        epochs = sorted(rows)
        weights = np.array([rows[epoch]["weights"] for epoch in epochs], dtype=np.float64)
        if rows and weights.ndim != 3:
            raise ValueError("scales that are no tables")
        laziness = np.array([np.mean(rows[epoch].get("laziness", 0.5)) for epoch in epochs])
    return Scales(epochs, weights, laziness) if rows else None


def read_shown(folder: Path) -> Shown | None:
    """``shown.npz`` and ``shown.csv`` of a run; ``None`` if there are none."""
    table = read_table(folder / "shown.csv", TEXT)
    if table is None or not (folder / GRAPHS).is_file():
        return None
    with reading(folder / GRAPHS):
        arrays = io.read_arrays(folder / GRAPHS)
        if lacking := ARRAYS - set(arrays):
            raise KeyError(*lacking)
        return Shown(table, arrays)


def kind_of(folder: Path) -> str:
    """The kind of a folder: ``"train"``, ``"cv"`` or ``"demo"``."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder of a run")
    results = read_json(folder / RESULTS)
    if {"methods", "guess", "options"} <= results.keys():
        return "cv"
    if _is_train(results):
        return "train"
    if runs := runs_in(folder):
        if (folder / DEMO).is_file():
            return "demo"
        command = f"legs report {shlex.quote(str(runs[0]))}"
        raise ReportError(f"{folder} is no run itself, but contains {len(runs)}: {command}")
    if any(folder.glob("*checkpoint.bin")) or (folder / "models").is_dir():
        raise ReportError(f"{folder} holds a run that has not ended; run the same command again")
    if (folder / "cells").is_dir():
        raise ReportError(f"legs reproduce writes a page of its own: {folder / 'results.md'}")
    raise ReportError(f"{folder} holds no run: a folder of legs train, cv or demo has {RESULTS}")


def _is_train(results: dict[str, Any]) -> bool:
    """Whether this is ``results.json`` of ``legs train``; other programs use that name, too."""
    return isinstance(results.get("scores"), dict) and {"settings", "data"} <= results.keys()


def runs_in(folder: Path) -> list[Path]:
    """Folders of ``legs train`` inside a folder; of a demo, the one shown in detail first."""
    models = {}
    for path in sorted(folder.glob(f"*/{RESULTS}")):
        if _is_train(results := read_json(path)):
            with reading(path):
                models[path.parent] = str(results["settings"]["model"])
    rank = {name: k for k, name in enumerate(DEMO_ORDER)}
    return sorted(models, key=lambda path: rank.get(models[path], len(rank)))
