"""What runs leave in their folders, read for a page."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from legs.files import BoundedError, FileError, check_digest, check_files, parse_json, read_arrays

RESULTS = "results.json"
DIGEST = "sha256"
MADE = "run the command that made it again"
Floats = npt.NDArray[np.float64]


class ReportError(BoundedError):
    """A folder that no page can be made of; the message says why."""


@dataclass(frozen=True)
class Shown:
    """Graphs that a run keeps to be looked at; the best and worst predictions come first.

    Args:
        table: a row a graph: ``id``, ``smiles`` of molecules, and what was predicted.
        numbers: of the graphs in the data set, ``[graphs]``.
        parts: 0 trained, 1 validated, 2 tested, ``[graphs]``.
        ptr: where nodes of each graph begin, ``[graphs + 1]``.
        edge_ptr: where its edges begin, ``[graphs + 1]``.
        edges: pairs of nodes within a graph, ``[edges, 2]``.
        places: components of the graphs' features, ``[graphs, components]``.
        share: of the variance that each component holds.
        best: number of best predictions.
        worst: number of worst ones.
        aligned: of these, whether nodes are in the order of the SMILES' atoms.
        source: the method whose features they are.
    """

    table: pd.DataFrame
    numbers: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int8]
    ptr: npt.NDArray[np.int64]
    edge_ptr: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int32]
    places: Floats
    share: Floats
    best: int
    worst: int
    aligned: list[bool]
    source: str

    def __len__(self) -> int:
        return len(self.numbers)

    def graph(self, place: int) -> tuple[npt.NDArray[np.int32], int]:
        """Edges and number of nodes of a graph."""
        edges = self.edges[self.edge_ptr[place] : self.edge_ptr[place + 1]]
        return edges, int(self.ptr[place + 1] - self.ptr[place])

    def smiles(self, place: int) -> str:
        """SMILES of a graph; empty if it is no molecule."""
        return str(self.table["smiles"].iloc[place]) if "smiles" in self.table else ""

    def name(self, place: int) -> str:
        """What the user's file calls a graph."""
        return str(self.table["id"].iloc[place])


@dataclass(frozen=True)
class Scales:
    """How learned scales moved.

    Args:
        labels: of the states: epochs, or test sets.
        weights: ``F`` of each, ``[states, scales, steps]``.
        laziness: of each, the mean over channels, ``[states]``.
    """

    labels: list[int]
    weights: Floats
    laziness: Floats


@dataclass(frozen=True)
class Run:
    """What a folder of ``legs train`` holds; what it does not is ``None``, and listed."""

    folder: Path
    results: dict[str, Any]
    history: pd.DataFrame
    predictions: pd.DataFrame | None = None
    scales: Scales | None = None
    shown: Shown | None = None
    explained: dict[str, Any] | None = None
    model: dict[str, Any] = field(default_factory=dict)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file; empty if there is none."""
    if not path.is_file():
        return {}
    try:
        known = parse_json(path.read_bytes())
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from error
    if not isinstance(known, dict):
        raise ReportError(f"{path} is damaged: it holds no table")
    try:  # tables that do not say so have no digest, or one of another kind
        return check_digest(known, path, MADE) if isinstance(known.get(DIGEST), str) else known
    except FileError as error:
        raise ReportError(str(error)) from error


def read_results(folder: Path) -> dict[str, Any]:
    """``results.json`` of a run, after a look at the files whose digests it holds."""
    known = read_json(folder / RESULTS)
    try:
        check_files(folder, known.get("files", {}))
    except FileError as error:
        raise ReportError(f"{error}; {MADE}") from error
    return known


def read_table(path: Path, words: tuple[str, ...] = ()) -> pd.DataFrame | None:
    """A CSV file; ``None`` if there is none.

    Args:
        path: of the file.
        words: columns that are text, whatever they look like (a class may be called 1, or NA).
    """
    if not path.is_file():
        return None
    with _reading(path):
        with path.open(newline="", encoding="utf-8") as file:
            names = next(csv.reader(file), [])
        text = {name: "string" for name in names if name in words}
        empty = [""] if text else None
        return pd.read_csv(path, dtype=text, keep_default_na=not text, na_values=empty)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Names the file, whatever its readers have against it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise ReportError(f"{path} is damaged: {type(error).__name__}: {told}; {MADE}") from error


def read_train(folder: Path) -> Run:
    """Reads a folder of ``legs train``."""
    results = read_results(folder)
    history = read_table(folder / "metrics.csv")
    words = ("id", "smiles", "prediction", "truth")
    return Run(
        folder,
        results,
        pd.DataFrame(columns=["epoch", "train_loss"]) if history is None else history,
        read_table(folder / "test_predictions.csv", words),
        read_scales(folder / "scales.jsonl"),
        read_shown(folder, words),
        read_json(folder / "explained.json") or None,
        read_json(folder / "model" / "model.json"),
    )


def read_scales(path: Path) -> Scales | None:
    """``scales.jsonl`` of a run; ``None`` if there is none."""
    if not path.is_file():
        return None
    rows = {}
    with _reading(path):
        lines = path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        try:
            row = parse_json(line)
            rows[int(row["epoch"])] = row
        # Half a line, left by a run that was killed.
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
    if not rows:
        return None
    epochs = sorted(rows)
    with _reading(path):
        weights = np.array([rows[epoch]["weights"] for epoch in epochs], dtype=np.float64)
        if weights.ndim != 3:
            raise ValueError("scales that are no tables")
        laziness = np.array([np.mean(rows[epoch].get("laziness", 0.5)) for epoch in epochs])
    return Scales(epochs, weights, laziness)


def read_shown(folder: Path, words: tuple[str, ...] = ("id", "smiles")) -> Shown | None:
    """``shown.npz`` and ``shown.csv`` of a run; ``None`` if there are none."""
    table = read_table(folder / "shown.csv", words)
    if table is None or not (folder / "shown.npz").is_file():
        return None
    with _reading(folder / "shown.npz"):
        arrays = read_arrays(folder / "shown.npz")
        return Shown(
            table,
            arrays["numbers"],
            arrays["parts"],
            arrays["ptr"],
            arrays["edge_ptr"],
            arrays["edges"],
            arrays["places"].astype(np.float64),
            arrays["share"],
            int(arrays["best"]),
            int(arrays["worst"]),
            arrays["aligned"].tolist(),
            str(arrays["source"]),
        )


def kind_of(folder: Path) -> str:
    """What a folder is of: ``"train"``, ``"cv"``, ``"reproduce"`` or ``"demo"``."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder of a run")
    known = read_json(folder / RESULTS)
    if "experiment" in known:
        return "reproduce"
    if "methods" in known:
        return "cv"
    if "scores" in known:
        return "train"
    if runs_in(folder):
        return "demo"
    if any(folder.glob("*checkpoint.bin")) or (folder / "models").is_dir():
        raise ReportError(f"{folder} holds a run that has not ended; run the same command again")
    raise ReportError(
        f"{folder} holds no run: a folder of legs train, cv, reproduce or demo has {RESULTS}"
    )


def runs_in(folder: Path) -> list[Path]:
    """Folders of ``legs train`` inside a folder."""
    return sorted(
        path.parent for path in folder.glob(f"*/{RESULTS}") if "scores" in read_json(path)
    )
