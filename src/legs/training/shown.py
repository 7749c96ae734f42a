"""Some graphs of a run, kept small for a page: edges to draw, a map, node features to explain."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import PARTS, Split, canonical_smiles, find_groups, scaffolds
from legs.io import csv_table, file_digests, with_digest, write_atomically
from legs.models import create
from legs.training.inputs import embed
from legs.training.predictor import Predictor
from legs.training.task import Task, prediction_table

if TYPE_CHECKING:
    from legs.training.cv.results import CVResult, MethodResult

GRAPHS, TABLE, CV_SCALES = "shown.npz", "shown.csv", "scales.json"
# Points on a map, and graphs of each kind (best, worst) that are drawn and explained.
MOST, DRAWN = 400, 4
COMPONENTS = 50
# Of histograms: bars of each, and targets that have one. Skipped rows that are shown.
BINS, MOST_TARGETS, MOST_REASONS = 30, 20, 8
# Larger graphs are no picture: their edges are not kept.
LARGEST = 400
SEED = 0
DIGITS = 4
# Whose features place the graphs of a cross-validation on a map: it needs no training.
CV_SOURCE = "legs-fixed"

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def write_run_shown(
    folder: Path, predictor: Predictor, data: GraphDataset, split: Split, answers: Tensor
) -> None:
    """Writes what a page shows of a model: best and worst test graphs, then others of all parts."""
    assert data.y is not None
    loss = losses(predictor.task, answers[split.test], data.y[split.test])
    drawn = split.test[extremes(loss.numpy(), DRAWN)]
    numbers = _with_others(drawn, [split.test, split.validation, split.train])
    part = data.subset(numbers)
    parts = np.zeros(len(data), dtype=np.int8)
    for place, name in enumerate(PARTS):
        parts[getattr(split, name)] = place
    graphs = part.to_pyg()
    again = _as_written(data.subset(drawn), predictor, answers[drawn])
    graphs[: len(drawn)] = [a if b is None else b for a, b in zip(graphs, again, strict=False)]
    table = prediction_table(predictor.task, answers[numbers], part)
    _write(
        folder,
        table,
        graphs,
        predictor.embed(part),
        numbers=numbers,
        parts=parts[numbers],
        aligned=np.array([graph is not None for graph in again], dtype=bool),
    )


def describe_data(data: GraphDataset, split: Split) -> dict[str, Any]:
    """What a page says about the data: rows left out, duplicates, targets and scaffolds by part."""
    assert data.y is not None
    parts = {name: part for name, part in split._asdict().items() if len(part)}
    bad = data.info.get("bad", ())
    about: dict[str, Any] = {"salts": data.info.get("salts", 0), "skipped": len(bad)}
    about["reasons"] = [[str(cell)[:200] for cell in row] for row in bad[:MOST_REASONS]]
    groups = find_groups(data, "structure")
    about["structures"] = len(data) if groups is None else len(np.unique(groups))
    if groups is not None:
        about["copies"] = int(np.isin(groups[split.test], groups[split.train]).sum())
    targets = {}
    if data.task == "classification":
        counts = {n: data.y[p].bincount(minlength=len(data.class_names)) for n, p in parts.items()}
        at: Any = list(data.class_names)
        targets["class"] = {"at": at, **{name: count.tolist() for name, count in counts.items()}}
    labels = data.task == "multilabel"
    columns = () if data.task == "classification" else data.y.double().T[:MOST_TARGETS]
    for name, column in zip(data.target_names, columns, strict=False):
        bins: Any = [-0.5, 0.5, 1.5] if labels else BINS
        edges = np.histogram_bin_edges(column[~column.isnan()], bins)
        at = ["0", "1"] if labels else ((edges[1:] + edges[:-1]) / 2).tolist()
        counted = {part: np.histogram(column[rows], edges)[0] for part, rows in parts.items()}
        targets[name] = {"at": at, **{part: each.tolist() for part, each in counted.items()}}
    about["targets"] = targets
    if data.smiles and all(data.smiles) and find_spec("rdkit"):
        rings = np.array(scaffolds(canonical_smiles(data.smiles)))
        about["scaffolds"] = {name: len(np.unique(rings[part])) for name, part in parts.items()}
        if len(split.test):
            about["known_scaffold"] = float(np.isin(rings[split.test], rings[split.train]).mean())
    return about


def write_cv_shown(folder: str | Path, result: CVResult) -> None:
    """Writes what a page shows of a cross-validation beside its tables.

    Graphs on a map by fixed scattering; graphs that the best method gets right and wrong, those
    first on which most other methods agree; learned scales of each test set.
    """
    folder, data = Path(folder), result.data
    lead, wrong = _wrongness(result)
    drawn = extremes(wrong, DRAWN)
    numbers = _with_others(drawn, [np.arange(len(data))])
    part = data.subset(numbers)
    columns: dict[str, object] = {"id": part.ids or [str(k) for k in numbers]}
    if part.smiles:
        columns["smiles"] = part.smiles
    _write(
        folder,
        pd.DataFrame(columns),
        part.to_pyg(),
        embed(create(CV_SOURCE, data.in_channels, 2).eval(), part),
        numbers=numbers,
        parts=np.full(len(numbers), PARTS.index("test"), dtype=np.int8),  # each is tested once
        aligned=np.zeros(len(drawn), dtype=bool),
    )
    about = {
        "lead": lead.method,
        "task": data.task,
        "names": list(data.class_names if data.task == "classification" else data.target_names),
        "scales": {
            method.method: [
                models.double().mean(0).numpy().round(DIGITS).tolist() for models in method.scales
            ]
            for method in result.methods
            if method.scales
        },
        "files": file_digests(folder, [GRAPHS, TABLE]),
    }
    write_atomically(folder / CV_SCALES, json.dumps(with_digest(about)).encode())


def _write(
    folder: Path, table: pd.DataFrame, graphs: list[Data], features: Tensor, **arrays: Any
) -> None:
    """Writes ``shown.csv``, and ``shown.npz`` with these arrays.

    ``numbers`` of the graphs; ``parts`` as places in ``PARTS``; of the best and worst predictions,
    which come first, whether nodes are ``aligned`` with the SMILES.
    """
    places, share = principal_components(features.double().numpy(), COMPONENTS)
    drawn = len(arrays["aligned"])
    arrays |= {**_edges_of(graphs, drawn), "places": places.astype(np.float32)}
    arrays["best"] = arrays["worst"] = drawn // 2
    if drawn:
        arrays["x"] = torch.cat([graph.x for graph in graphs[:drawn]]).numpy()
        own = [graph.get("graph_features") for graph in graphs[:drawn]]
        if own[0] is not None:
            arrays["graph_features"] = torch.cat(own).numpy()
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, share=share, **arrays)
    write_atomically(folder / GRAPHS, content.getvalue())
    write_atomically(folder / TABLE, csv_table(table).encode())


def _wrongness(result: CVResult) -> tuple[MethodResult, Floats]:
    """The best method, and how wrong it is about each graph; ties by how wrong the others are."""
    data, classes = result.data, result.data.task == "classification"
    assert data.y is not None
    lead = max(result.methods, key=lambda m: -m.mean if data.task == "regression" else m.mean)
    wrong = np.full((len(result.methods), len(data)), np.nan)
    for row, method in zip(wrong, result.methods, strict=True):
        for predictions, models in zip(method.predictions, result.splits, strict=True):
            test = models[0].test
            y = data.y[test]
            if classes:
                row[test] = (predictions != y).double().numpy()
            else:
                spread = y.double().nan_to_num().std(0).clamp_min(1e-12)
                row[test] = ((predictions - y) / spread).square().nanmean(1).numpy()
    return lead, wrong[result.methods.index(lead)] + 1e-3 * wrong.mean(0)


def losses(task: Task, answers: Tensor, y: Tensor) -> Tensor:
    """The loss of each answer, ``[graphs]``."""
    if task.kind == "regression":
        out = task.targets(answers)
    else:
        out = answers.logit(1e-6) if task.kind == "multilabel" else answers.clamp_min(1e-12).log()
    total, weight = task.terms(out, task.targets(y))
    return total / weight


def extremes(loss: npt.NDArray[Any], most: int) -> Numbers:
    """Places of the least losses, then of as many largest ones, worst first; none is in both."""
    order = np.argsort(loss, kind="stable")
    order = order[np.isfinite(loss[order])]
    half = min(most, len(order) // 2)
    return np.concatenate([order[:half], order[::-1][:half]])


def principal_components(features: Floats, most: int) -> tuple[Floats, Floats]:
    """Scores of standardized features on components, and their shares of the variance."""
    spread = features.std(0)
    varies = spread > 1e-9 * (1 + np.abs(features).max(0, initial=0))
    scaled = (features[:, varies] - features[:, varies].mean(0)) / spread[varies]
    if not scaled.size:
        return np.zeros((len(features), 2)), np.zeros(2)
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    power = singular**2 / max(float((singular**2).sum()), 1e-300)
    # A picture needs two coordinates, whatever the features are.
    places = np.pad((left * singular)[:, :most], ((0, 0), (0, max(0, 2 - len(singular)))))
    return places, np.pad(power[:most], (0, max(0, 2 - len(power))))


def _with_others(drawn: Numbers, parts: Sequence[Numbers]) -> Numbers:
    """The drawn graphs, then some of each part at random, up to ``MOST``."""
    rng = np.random.default_rng(SEED)
    numbers = drawn
    for part in parts:
        rest = np.setdiff1d(part, numbers)
        most = max(MOST - len(numbers), 0)
        more = rest if len(rest) <= most else np.sort(rng.choice(rest, most, replace=False))
        numbers = np.concatenate([numbers, more])
    return numbers


def _as_written(data: GraphDataset, predictor: Predictor, answers: Tensor) -> list[Data | None]:
    """Molecules read again from their SMILES, so that nodes are in the order of its atoms.

    Files of other kinds list atoms in an order of their own. A molecule counts if the model says
    the same of it; ``None`` for one that does not, and for graphs that are no molecules.
    """
    nothing: list[Data | None] = [None] * len(data)
    if not data.smiles or not predictor.features:
        return nothing
    from legs.data.features.blocks import assemble
    from legs.data.readers.molecules import from_smiles

    hydrogens, weights = (bool(data.info.get(name)) for name in ("hydrogens", "bond_weights"))
    try:
        raw = from_smiles(data.smiles, hydrogens=hydrogens, bond_weights=weights)
        again = predictor.complete(assemble(raw, "+".join(predictor.features)))
        same = predictor.predict(again)
    except (DataError, ValueError):
        return nothing
    if len(same) != len(answers):
        return nothing
    close = ((same - answers).abs() <= 1e-3 * (1 + answers.abs())).all(1).tolist()
    return [again[k] if ok else None for k, ok in enumerate(close)]


def _edges_of(graphs: Sequence[Data], drawn: int) -> dict[str, npt.NDArray[Any]]:
    """Edges of all graphs, each once; ``ptr`` and ``edge_ptr`` say which nodes and edges are whose.

    Large graphs keep their edges only if they are ``drawn``: explaining needs them.
    """
    sizes, counts, pairs, weights = [0], [0], [np.zeros((0, 2))], []
    attributes: list[npt.NDArray[Any]] = []
    for place, graph in enumerate(graphs):
        nodes = int(graph.num_nodes or 0)
        source, target = graph.edge_index.numpy()
        once = source <= target if place < drawn or nodes <= LARGEST else source < 0
        sizes.append(nodes)
        counts.append(int(once.sum()))
        pairs.append(np.stack([source[once], target[once]], axis=1))
        weight = graph.get("edge_weight")
        weights.append((np.ones(len(source)) if weight is None else weight.numpy())[once])
        if place < drawn and graph.get("edge_attr") is not None:
            attr = graph.edge_attr.numpy()
            back = np.flatnonzero(source >= target)
            back = back[np.lexsort((target[back], source[back]))]
            attributes.append(np.stack([attr[once], attr[back]]))
    arrays = {
        "ptr": np.cumsum(sizes),
        "edge_ptr": np.cumsum(counts),
        "edges": np.concatenate(pairs).astype(np.int32),
    }
    if any(graph.get("edge_weight") is not None for graph in graphs):
        arrays["weights"] = np.concatenate(weights).astype(np.float32)
    if attributes:  # of each edge, there and back
        arrays["edge_attr"] = np.concatenate(attributes, axis=1).astype(np.float32)
    return arrays
