"""What explains the page of a run, kept in its folder: attributions, and how sure votes were."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from legs import io
from legs.explain.attributing import attribute
from legs.models import ModelError, Network
from legs.report import folders
from legs.report.folders import EXPLAINED, GRAPHS, RESULTS, read_json, reading
from legs.training.cv.protocol import stacks
from legs.training.cv.results import vote
from legs.training.cv.store import Store, file_names
from legs.training.predictor import Predictor, load_predictor
from legs.training.runs import find_model

# Larger graphs would take minutes.
LARGEST = 400
# Enough for a picture: a graph takes about a second.
QUALITY: dict[str, Any] = {"draws": 4, "tolerance": 0.01, "most": 300}


def explain_run(folder: str | Path, targets: Sequence[str] = ()) -> Path | None:
    """Explains the graphs that a run keeps to be shown, and writes ``explained.json``.

    Args:
        folder: of a run of ``legs train``.
        targets: of a regression, those to explain (default: the one that the model predicts best);
            of a classification, always the predicted class.

    Returns:
        The file; ``None`` if there is nothing to explain: no network, or graphs that an earlier
        version of this package did not keep.
    """
    folder = Path(folder)
    if not (folder / "model" / folders.MODEL).is_file():
        return None
    predictor = load_predictor(find_model(folder))
    if not isinstance(predictor.answerer, Network) or not (folder / GRAPHS).is_file():
        return None
    names = _targets(predictor, targets, folder)
    model = folders.read_model(folder, folders.read_results(folder))  # before anything is computed
    with reading(folder / GRAPHS):
        graphs = drawn_graphs(folder / GRAPHS)
    with reading(folder / GRAPHS, folders.CLEAR):
        rows = [
            {"place": index, "found": [_explain(predictor, graph, name) for name in names]}
            for index, graph in enumerate(graphs)
            if int(graph.num_nodes or 0) <= LARGEST
        ]
    content = {
        "kind": predictor.task.kind,
        "graphs": rows,
        "weights": model[folders.DIGEST][folders.WEIGHTS],
        "files": io.file_digests(folder, [GRAPHS]),
    }
    return _write(folder / EXPLAINED, content)


def _write(path: Path, content: dict[str, Any]) -> Path:
    io.write_atomically(path, json.dumps(io.with_digest(content)).encode())
    return path


def explain_folder(folder: str | Path, targets: Sequence[str] = ()) -> Path | None:
    """Explains the run that the page of a folder shows in detail, unless that has been done.

    Args:
        folder: of ``legs train`` or ``legs demo``. Of ``legs cv``, the model that was trained in
            its folder ``one-model``, if there is one; and how sure its predictions are is noted.
        targets: as in :func:`explain_run`.
    """
    folder = io.expand_user(folder)
    kind, run = folders.kind_of(folder), folder
    if kind == "demo":
        run = folders.runs_in(folder)[0]
    if kind != "cv":
        return _explained(run, targets)
    run, certainty = folder / folders.ONE, folder / folders.CERTAINTY
    explained = _explained(run, targets) if "scores" in read_json(run / RESULTS) else None
    try:
        read_json(certainty)
    except folders.ReportError:
        _warn(certainty)
        certainty.unlink()
    with reading(folder, folders.CLEAR):
        write_certainty(folder)
    return explained


def _explained(run: Path, targets: Sequence[str]) -> Path | None:
    """Explains a run unless its file is whole, and made by this model of these graphs."""
    model = folders.read_model(run, folders.read_results(run))
    try:
        explained = folders.read_explained(run, model) or {}
    except folders.ReportError:
        _warn(run / EXPLAINED)
        explained = {}
    current = "weights" in explained or (explained and not model)  # version 0.1.0 names no model
    return run / EXPLAINED if current and not targets else explain_run(run, targets)


def _warn(file: Path) -> None:
    message = f"{file} is damaged, or of another model; it is made again"
    warnings.warn(message, io.FileWarning, stacklevel=3)


def drawn_graphs(file: Path) -> list[Data]:
    """The best and worst predictions of a run from its ``shown.npz``, with node features."""
    arrays = io.read_arrays(file)
    graphs = []
    for k in range(int(arrays["best"]) + int(arrays["worst"])):
        nodes, edges = (slice(*arrays[name][k : k + 2]) for name in ("ptr", "edge_ptr"))
        pairs = arrays["edges"][edges].astype(np.int64)
        no_loop = pairs[:, 0] != pairs[:, 1]  # a loop has one direction
        both = np.concatenate([pairs, pairs[no_loop, ::-1]]).T.copy()
        graph = Data(x=torch.from_numpy(arrays["x"][nodes]), edge_index=torch.from_numpy(both))
        if "weights" in arrays:
            weight = arrays["weights"][edges]
            graph.edge_weight = torch.from_numpy(np.concatenate([weight, weight[no_loop]]))
        graphs.append(graph)
    return graphs


def _targets(predictor: Predictor, targets: Sequence[str], folder: Path) -> Sequence[str | None]:
    """What to explain: ``None`` for the predicted class."""
    task = predictor.task
    if task.kind == "classification":
        return [None]
    for name in targets:
        if name not in task.names:
            raise ValueError(f"the model predicts no {name!r}; it predicts {', '.join(task.names)}")
    if targets:
        return targets
    # There is little to learn from why wrong predictions were made.
    assert task.deviation is not None
    with reading(folder, folders.CLEAR):
        scores = read_json(folder / RESULTS).get("scores", {}).get("test", {})
        errors = [np.inf if (e := scores.get(f"rmse:{n}")) is None else e for n in task.names]
        return [task.names[int(np.argmin(np.array(errors, dtype=float) / task.deviation.numpy()))]]


def _explain(predictor: Predictor, graph: Data, target: str | None) -> dict[str, Any]:
    result = attribute(predictor, graph, target, **QUALITY)
    numbers = {"value": result.value, "baseline": result.baseline, "gap": result.gap}
    return {
        "target": result.target,
        **_rounded(numbers),
        "nodes": list(_rounded(dict(enumerate(result.nodes))).values()),
        "paths": _rounded(result.paths),
        "moments": _rounded(result.moments),
    }


def _rounded(values: dict[Any, float]) -> dict[Any, float]:
    return {name: float(f"{value:.5g}") for name, value in values.items()}


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
    run = folders.read_cv(folder)
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
    return _write(folder / folders.CERTAINTY, content)


def certainty(answers: Tensor) -> Tensor:
    """Mean of ``[models, graphs, classes]`` for the class that models vote for, ``[graphs]``."""
    return answers.mean(0).gather(1, vote(answers).unsqueeze(1)).squeeze(1)


def kept_answers(
    folder: Path, method: str, grid: list[dict[str, Any]], chosen: list[int]
) -> list[Tensor]:
    """Answers of the models behind the vote on each test set, ``[models, graphs, classes]`` each.

    ``chosen`` has the index, in the tuning ``grid``, of the setting of each test set.
    """
    settings = dict(io.parse_json((folder / "settings.json").read_bytes()))
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
