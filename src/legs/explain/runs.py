"""Attributions of the predictions that the page of a run draws, kept in its folder."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from legs import io
from legs.explain.attributing import attribute
from legs.models import Network
from legs.report import folders
from legs.report.folders import EXPLAINED, GRAPHS, RESULTS, read_json, reading
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
        version of this package did not keep. Of a blend, its networks are explained.
    """
    folder = Path(folder)
    if not (folder / "model" / folders.MODEL).is_file():
        return None
    predictor = load_predictor(find_model(folder))
    answerers = getattr(predictor.answerer, "networks", [predictor.answerer])
    networks = [answerer for answerer in answerers if isinstance(answerer, Network)]
    members = [replace(predictor, answerer=network) for network in networks]
    if not members or not (folder / GRAPHS).is_file():
        return None
    names = _targets(predictor, targets, folder)
    model = folders.read_model(folder, folders.read_results(folder))  # before anything is computed
    with reading(folder / GRAPHS):
        graphs = drawn_graphs(folder / GRAPHS, networks[0].graph_dim)
    with reading(folder / GRAPHS, folders.CLEAR):
        rows = [
            {"place": index, "found": [_explain(members, graph, name) for name in names]}
            for index, graph in enumerate(graphs)
            if int(graph.num_nodes or 0) <= LARGEST
        ]
    content = {
        "kind": predictor.task.kind,
        "graphs": rows,
        "weights": model[folders.DIGEST][folders.WEIGHTS],
        "files": io.file_digests(folder, [GRAPHS]),
    }
    io.write_atomically(folder / EXPLAINED, json.dumps(io.with_digest(content)).encode())
    return folder / EXPLAINED


def explain_folder(folder: str | Path, targets: Sequence[str] = ()) -> Path | None:
    """Explains the run that the page of a folder shows in detail, unless that has been done.

    Args:
        folder: of ``legs train`` or ``legs demo``; of ``legs cv``, the model that was trained in
            its folder ``one-model``, if there is one.
        targets: as in :func:`explain_run`.
    """
    folder = io.expand_user(folder)
    kind, run = folders.kind_of(folder), folder
    if kind == "demo":
        run = folders.runs_in(folder)[0]
    elif kind == "cv":
        run = folder / folders.ONE
        if "scores" not in read_json(run / RESULTS):
            return None
    # Not again if the file is whole, and made by this model of these graphs.
    model = folders.read_model(run, folders.read_results(run))
    try:
        explained = folders.read_explained(run, model) or {}
    except folders.ReportError:
        message = f"{run / EXPLAINED} is damaged, or of another model; it is made again"
        warnings.warn(message, io.FileWarning, stacklevel=2)
        explained = {}
    current = "weights" in explained or (explained and not model)  # version 0.1.0 names no model
    return run / EXPLAINED if current and not targets else explain_run(run, targets)


def drawn_graphs(file: Path, graph_dim: int | None = None) -> list[Data]:
    """The best and worst predictions of a run from its ``shown.npz``, with node features.

    Of graph-level features the first ``graph_dim``: fingerprints, which networks of a blend do not
    read, come last.
    """
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
        if "edge_attr" in arrays:
            there, back = arrays["edge_attr"][:, edges]
            graph.edge_attr = torch.from_numpy(np.concatenate([there, back[no_loop]]))
        if "graph_features" in arrays:
            own = arrays["graph_features"][k : k + 1, :graph_dim]
            graph.graph_features = torch.from_numpy(own)
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
    if targets or task.kind == "multilabel":
        return targets or task.names[:1]
    # There is little to learn from why wrong predictions were made.
    assert task.deviation is not None
    with reading(folder, folders.CLEAR):
        scores = read_json(folder / RESULTS).get("scores", {}).get("test", {})
        errors = [np.inf if (e := scores.get(f"rmse:{n}")) is None else e for n in task.names]
        return [task.names[int(np.argmin(np.array(errors, dtype=float) / task.deviation.numpy()))]]


def _explain(members: Sequence[Predictor], graph: Data, target: str | None) -> Any:
    """The mean attribution of networks: that of their mean, as attributions are linear."""
    quality = {**QUALITY, "draws": math.ceil(QUALITY["draws"] / len(members))}
    found = []
    for member in members:
        found.append(asdict(attribute(member, graph, target, **quality)))
        target = target or found[0]["target"]  # one class
        del found[-1]["channels"]  # not drawn
    shares = found[0]
    for name in ("nodes", "value", "baseline", "gap"):
        shares[name] = np.mean([each[name] for each in found], axis=0).tolist()
    return json.loads(json.dumps(shares), parse_float=lambda digits: float(f"{float(digits):.5g}"))
