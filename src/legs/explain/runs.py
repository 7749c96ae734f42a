"""Attributions for the best and worst predictions of a run, kept in its folder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from legs.explain.attributing import Attribution, attribute
from legs.explain.certainty import write_certainty
from legs.io import FileWarning, expand_user, file_digests, read_arrays, with_digest
from legs.models import Network
from legs.models.saving import DESCRIPTION, WEIGHTS, write_atomically
from legs.report.folders import (
    CERTAINTY,
    CLEAR,
    DIGEST,
    EXPLAINED,
    ONE,
    RESULTS,
    ReportError,
    kind_of,
    ordered_runs,
    read_json,
    read_model,
    read_results,
    reading,
)
from legs.training.predictor import Predictor, load_predictor
from legs.training.runs import find_model
from legs.training.shown import GRAPHS

FILE = EXPLAINED
# Larger graphs would take minutes.
LARGEST = 400
# Enough for a picture: a graph takes about a second.
QUALITY = {"draws": 4, "tolerance": 0.01, "most": 300}
DIGITS = 5


def explain_run(folder: str | Path, targets: Sequence[str] = ()) -> Path | None:
    """Explains the graphs that a run keeps to be shown, and writes ``explained.json``.

    Args:
        folder: of a run of ``legs train``.
        targets: numbers to explain (default: the one that the model predicts best); of classes
            always the predicted one.

    Returns:
        The file; ``None`` where there is nothing to explain: no network, or graphs that an earlier
        version of this package did not keep.
    """
    folder = Path(folder)
    if not (folder / "model" / DESCRIPTION).is_file():
        return None
    predictor = load_predictor(find_model(folder))
    if not isinstance(predictor.answerer, Network) or not (folder / GRAPHS).is_file():
        return None
    names = _wanted(predictor, targets, folder)
    weights = _weights(folder)  # before anything is computed
    with reading(folder / GRAPHS):
        graphs = drawn_graphs(folder / GRAPHS)
    with reading(folder / GRAPHS, CLEAR):
        found = [
            {"place": place, "found": [_kept(_explain(predictor, graph, name)) for name in names]}
            for place, graph in enumerate(graphs)
            if int(graph.num_nodes or 0) <= LARGEST
        ]
    known = {
        "kind": predictor.task.kind,
        "graphs": found,
        "weights": weights,
        "files": file_digests(folder, [GRAPHS]),
    }
    write_atomically(folder / FILE, json.dumps(with_digest(known)).encode())
    return folder / FILE


def explain_folder(folder: str | Path, targets: Sequence[str] = ()) -> Path | None:
    """Explains the run that the page of a folder shows in detail, unless that has been done.

    Args:
        folder: of ``legs train`` or ``legs demo``. Of ``legs cv``, the model that was trained in
            its folder ``one-model``, if there is one; and how sure its answers are is noted. Of
            others nothing is explained.
        targets: as in :func:`explain_run`.
    """
    folder = expand_user(folder)
    kind = kind_of(folder)
    if kind == "cv":
        one = folder / ONE
        made = _explained(one, targets) if "scores" in read_json(one / RESULTS) else None
        certainty = folder / CERTAINTY
        if not _whole(certainty):
            certainty.unlink()
        if not _newer(certainty, folder / RESULTS):
            with reading(folder, CLEAR):
                write_certainty(folder)
        return made
    if kind == "demo":
        folder = ordered_runs(folder)[0]
    elif kind != "train":
        return None
    return _explained(folder, targets)


def _explained(folder: Path, targets: Sequence[str]) -> Path | None:
    return folder / FILE if not targets and _current(folder) else explain_run(folder, targets)


def _current(folder: Path) -> bool:
    """Whether the graphs of a run have been explained by its model, and the file is whole."""
    if not _whole(folder / FILE):
        return False
    known = read_json(folder / FILE)
    if "weights" not in known:  # of version 0.1.0
        return _newer(folder / FILE, folder / GRAPHS)
    files = file_digests(folder, [GRAPHS])
    return _weights(folder) in (None, known["weights"]) and bool(known.get("files") == files)


def _whole(file: Path) -> bool:
    """Whether a file is as it was written, or is missing; a warning if it is damaged."""
    try:
        read_json(file)
    except ReportError:
        warnings.warn(f"{file} is damaged; it is made again", FileWarning, stacklevel=2)
        return False
    return True


def _weights(folder: Path) -> str | None:
    """The digest of the weights of a run's model; ``None`` if the model was deleted."""
    model = read_model(folder, read_results(folder))
    return str(model[DIGEST][WEIGHTS]) if model else None


def _newer(file: Path, source: Path) -> bool:
    there = file.is_file() and source.is_file()
    return there and file.stat().st_mtime >= source.stat().st_mtime


def drawn_graphs(file: Path) -> list[Data]:
    """The best and worst predictions of a run, with their node features.

    Args:
        file: ``shown.npz`` of the run.
    """
    arrays = read_arrays(file)
    count = int(arrays["best"]) + int(arrays["worst"])
    if not count:
        return []
    ptr, edge_ptr, edges, x = (arrays[name] for name in ("ptr", "edge_ptr", "edges", "x"))
    weights = arrays.get("weights")
    graphs = []
    for k in range(count):
        span = slice(edge_ptr[k], edge_ptr[k + 1])
        pairs = edges[span].astype(np.int64)
        there = pairs[:, 0] != pairs[:, 1]  # a loop has one direction
        both = np.concatenate([pairs, pairs[there, ::-1]]).T.copy()
        graph = Data(x=torch.from_numpy(x[ptr[k] : ptr[k + 1]]), edge_index=torch.from_numpy(both))
        if weights is not None:
            weight = weights[span]
            graph.edge_weight = torch.from_numpy(np.concatenate([weight, weight[there]]))
        graphs.append(graph)
    return graphs


def _explain(predictor: Predictor, graph: Data, name: str | None) -> Attribution:
    return attribute(predictor, graph, name, **QUALITY)  # type: ignore[arg-type]


def _wanted(predictor: Predictor, targets: Sequence[str], folder: Path) -> list[str | None]:
    task = predictor.task
    if task.kind == "classification":
        return [None]
    for name in targets:
        if name not in task.names:
            raise ValueError(f"the model predicts no {name!r}; it predicts {', '.join(task.names)}")
    if targets:
        return list(targets)
    # Reasons for answers that are wrong anyway tell little.
    assert task.deviation is not None
    scores = _scores(folder)
    error = {
        name: scores.get(f"rmse:{name}", np.inf) / float(deviation)
        for name, deviation in zip(task.names, task.deviation, strict=True)
    }
    return [min(error, key=lambda name: error[name])]


def _scores(folder: Path) -> dict[str, float]:
    try:
        known = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return {k: v for k, v in known["scores"]["test"].items() if v is not None}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}


def _kept(found: Attribution) -> dict[str, Any]:
    return {
        "target": found.target,
        "value": _rounded(found.value),
        "baseline": _rounded(found.baseline),
        "gap": _rounded(found.gap),
        "nodes": [_rounded(value) for value in found.nodes.tolist()],
        "paths": {name: _rounded(value) for name, value in found.paths.items()},
        "moments": {name: _rounded(value) for name, value in found.moments.items()},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
