"""Fit a model to a data set, keep it, and score it on graphs it has not seen."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from legs.data import splits
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError, write_bad_rows
from legs.data.loading import reading_options
from legs.data.splits import GroupBy, Split, canonical_smiles, find_groups, warn_about_leaks
from legs.data.validate import check_values
from legs.models import Ensemble, Network, create
from legs.training import runs
from legs.training.auto import Blend, described, fit_blend
from legs.training.calibration import half_widths
from legs.training.checkpoint import State
from legs.training.distributed import ALONE, Group
from legs.training.inputs import Inputs, embed, unchecked, with_read_features
from legs.training.loop import Report, train
from legs.training.methods import BLENDS, ENSEMBLES, check_names, initialized, with_dims
from legs.training.neighbors import Neighbors
from legs.training.options import TrainingOptions
from legs.training.predictor import Predictor, encode_keys, graph_keys
from legs.training.svm import ScatteringSVM, fit_svm
from legs.training.task import Task

SplitKind = Literal["random", "scaffold", "column"]


@dataclass(frozen=True)
class Fitted:
    """What :func:`fit` returns.

    Args:
        predictor: the model, ready for raw input.
        split: which graphs trained, validated and tested.
        scores: by part (``"train"``, ``"validation"``, ``"test"``) and name; ``"guess"`` holds the
            test scores of a baseline: the most frequent class, or the mean. Of ``auto`` and its
            candidates, those of training and validation graphs are out-of-fold.
        state: history and best epoch.
        seconds: of training.
        trained: whether anything was left to train; not where a directory held the whole run.
        coverage: of the test values of continuous targets, the share within the 90 % intervals.
    """

    predictor: Predictor
    split: Split
    scores: dict[str, dict[str, float]]
    state: State
    seconds: float
    trained: bool = True
    coverage: float | None = None


def fit(
    data: GraphDataset,
    model: str = "legs-fcn",
    split: Split | SplitKind | str | None = None,
    options: TrainingOptions | None = None,
    *,
    model_options: dict[str, Any] | None = None,
    device: str = "cpu",
    directory: str | Path | None = None,
    report: Report = lambda row: None,
    command: str = "",
    group: Group = ALONE,
    group_by: GroupBy = "auto",
) -> Fitted:
    """Trains a model on a data set and scores it on its test graphs.

    Args:
        data: with targets.
        model: one of :func:`legs.training.methods` (default ``"legs-fcn"``).
        split: graphs for training, validation and testing; or ``"random"`` (default),
            ``"scaffold"``, ``"column"`` or a file, see :func:`legs.training.default_split`, by
            ``options.seed``.
        options: how to train.
        model_options: options of the network. One that can read edge features, such as bonds, or
            graph-level features, such as descriptors, does so where there are any, unless
            ``edge_dim`` or ``graph_dim`` is ``None`` here.
        device: where to train (default ``"cpu"``).
        directory: where to keep checkpoint, metrics, model, split, scores, predictions and what
            ``legs report`` shows; and ``bad_rows.csv``, if rows of the data set were skipped. A
            run that was killed resumes there with the same call. A folder that holds other files
            is refused.
        report: called with a row of losses after every epoch.
        command: the line that started the run, to be noted with its results.
        group: processes that train this model together (:func:`legs.training.joined`), each
            calling this; default this one alone. Only process 0 writes.
        group_by: which graphs belong in one part of a split, see
            :func:`legs.data.splits.find_groups` (default: duplicates, unless the data set was
            loaded by name). A given split is checked, with a warning.

    >>> from legs.data import load
    >>> data = load("nci-5k", limit=100)
    >>> fitted = fit(data, "baseline", options=TrainingOptions(max_epochs=20))
    >>> fitted.predictor.predict(data[:2]).shape
    torch.Size([2, 10])
    """
    start = time.monotonic()
    options, model_options = options or TrainingOptions(), model_options or {}
    check_names(model, model_options)
    if model in BLENDS:
        data = described(data)
    else:
        model_options = with_dims(model, model_options, data)
        dims = model_options.get("edge_dim"), model_options.get("graph_dim")
        if data.graph_dim is not None and "graph_dim" not in model_options:
            raise ValueError(f"{model} reads no graph-level features; legs-deep does")
        data = with_read_features(data, *dims)
    groups = find_groups(data, group_by)
    if split is None or isinstance(split, str):
        split = default_split(data, options.seed, kind=split or "random", group_by=groups)
    check_split(split, len(data))
    warn_about_leaks([split], groups)
    check_values(data)
    task = Task.of(data, torch.as_tensor(split.train), options.balanced)
    settings = {
        "model": model,
        "model_options": model_options,
        "training": options.to_json(),
        "data": fingerprint(data),
        "split": fingerprint_split(split),
    }
    writes = directory is not None and not group.rank
    if writes and find_spec("pandas") is None:
        raise ImportError("the tables of a run directory need pip install 'torch-legs[cli]'")
    with runs.run_directory(directory or "") if writes else nullcontext() as folder:
        if folder is not None:
            runs.clear_failed_start(folder)
        records = runs.Records(folder, settings, report)
        if folder is not None and data.info.get("bad"):  # not before the settings were checked
            write_bad_rows(folder / runs.BAD_ROWS, data.info["bad"])
        began = time.monotonic()
        place = torch.device(device) if group.size == 1 else group.device
        answerer, state = _fit_method(
            model, model_options, data, split, task, options, place, records, group, groups, start
        )
        seconds = time.monotonic() - began
        if isinstance(answerer, Blend):  # with what was done before it resumed
            seconds = answerer.candidates[-1]["seconds"]
        used = data.subset(np.concatenate([split.train, split.validation]))
        features = (tuple(data.info.get("features", ())), data.feature_names)
        keys = encode_keys(graph_keys(used))
        near = Neighbors.of(data.subset(split.train))
        reading = reading_options(data)
        predictor = Predictor(answerer, task, *features, model, reading, keys, near)
        answers = predictor.predict(data)
        # Graphs that no model was trained on, and that chose little.
        rows = np.setdiff1d(split.validation, split.train)
        if isinstance(answerer, Blend) and answerer.out_of_fold is not None:
            rows, answers_out_of_fold = answerer.out_of_fold
            answers[rows] = answers_out_of_fold
        assert data.y is not None
        coverage: float | None = None
        if task.kind == "regression":
            widths = half_widths(answers[rows], data.y[rows])
            predictor = replace(predictor, half_widths=widths)
            error = (answers - data.y)[split.test].abs()
            inside = error <= torch.tensor([math.nan if w is None else w for w in widths])
            counted = ~error.isnan() & torch.tensor([w is not None for w in widths])
            coverage = float(inside[counted].double().mean()) if bool(counted.any()) else None
        scores = task.scores_by_part(answers, data.y, split)
        # Methods that are not trained by epochs are fitted each time.
        trained = bool(records.epochs or not state.epoch)
        fitted = Fitted(predictor, split, scores, state, seconds, trained, coverage)
        records.write_results(fitted, data, answers, device, command)
        return fitted


def _fit_method(
    name: str,
    model_options: dict[str, Any],
    data: GraphDataset,
    split: Split,
    task: Task,
    options: TrainingOptions,
    device: torch.device,
    records: runs.Records,
    group: Group,
    groups: splits.Indices | None,
    start: float,
) -> tuple[Network | ScatteringSVM | Blend, State]:
    """Trains a method; ``model_options`` of ensembles are those of the head."""
    train_index = torch.as_tensor(split.train)
    if name in (*BLENDS, "gs-svm"):
        if options.metric is not None:
            raise ValueError(
                f"a metric decides when a network stops; {name} has no epochs to choose"
            )
        if group.size > 1:
            raise ValueError(f"{name} is not trained in batches; use one process")
    if name in BLENDS:
        more: dict[str, Any] = {"groups": groups, "device": device, "report": records.report}
        more |= {"checkpoint": records.checkpoint, "settings": records.settings, "start": start}
        return fit_blend(name, data, task, split, options, **model_options, **more), State()
    if name == "gs-svm":
        validation_index = torch.as_tensor(split.validation)
        return fit_svm(data, task, train_index, validation_index, seed=options.seed), State()
    assert data.y is not None
    y, converted = data.y.to(device), data.with_x(data.x.to(options.dtype), data.feature_names)

    def fit_network(build: Callable[[], Network], part: str = "") -> tuple[Network, State]:
        network = initialized(build, data, train_index, options.seed)
        if records.folder is not None:
            network.describe()  # raises for what cannot be saved, before it is trained
        network.to(device, options.dtype)
        inputs = Inputs(converted, network, device)
        records.watch(network)
        with unchecked(network):
            state = train(
                *(network, inputs, y, split, task, options),
                checkpoint=records.checkpoint(part),
                settings=records.settings,
                report=records.add,
                group=group,
            )
        records.save_scales(state)
        return network.to("cpu", torch.float32), state

    channels, outputs = data.in_channels, len(task.names)
    if name not in ENSEMBLES:
        return fit_network(partial(create, name, channels, outputs, **model_options))
    parts = [
        fit_network(partial(create, part, channels, outputs), part)[0].eval()
        for part in ENSEMBLES[name]
    ]
    width = sum(embed(part, data.subset([0])).shape[1] for part in parts)
    return fit_network(partial(Ensemble, parts[0], parts[1], width, outputs, **model_options))


def default_split(
    data: GraphDataset,
    seed: int = 0,
    *,
    kind: SplitKind | str = "random",
    group_by: GroupBy = "auto",
) -> Split:
    """80/10/10, with every class in proportion where there are ten graphs or more of each.

    Args:
        data: the data set.
        seed: of the split (default 0).
        kind: ``"random"`` (default) or ``"scaffold"``: molecules with the same ring system stay
            together; or ``"column"``: as the table's column of parts has it
            (``load(..., split_column=)``), with a tenth of the training graphs to validate where
            none do. Or a ``.json`` file with one split, which is read.
        group_by: which graphs stay together, see :func:`legs.data.splits.find_groups`.
    """
    if Path(kind).suffix.lower() == ".json":
        split, *more = splits.load_splits(kind, graphs=len(data))
        if more:
            raise DataError(f"{kind} holds {1 + len(more)} splits; a run takes one")
        return split
    classes = data.y if data.task == "classification" else None
    if kind == "scaffold":
        names = None if classes is None else np.array(data.class_names)[classes.numpy()]
        return splits.scaffold_split(main_smiles(data), seed=seed, y=names)
    if kind not in ("random", "column"):
        raise DataError(f"a split is random, scaffold, column or a .json file, not {kind!r}")
    groups = find_groups(data, group_by)
    if kind == "column":
        if not (part_of := data.info.get("split")):
            raise DataError(f"{data.name} was read without a split column (split_column=)")
        parts = np.array([part_of[name] for name in data.ids])
        split = Split(*(np.flatnonzero(parts == name) for name in splits.PARTS))
        if len(split.validation) or not len(split.train):
            return split
        labels = np.arange(len(data)) if groups is None else groups
        y = None if classes is None else classes[split.train]
        train, held = splits.balanced_group_folds(labels[split.train], [0.9, 0.1], y, seed)
        return Split(split.train[train], split.train[held], split.test)
    if groups is not None:
        shares = splits.part_sizes(len(data)) / len(data)
        return Split(*splits.balanced_group_folds(groups, shares, classes, seed))
    if classes is not None and int(torch.bincount(classes).min()) >= 10:
        test, validation, *rest = splits.stratified_folds(classes.numpy(), k=10, seed=seed)
        return Split(np.sort(np.concatenate(rest)), validation, test)
    return splits.random_split(len(data), seed=seed)


def main_smiles(data: GraphDataset) -> list[str]:
    """SMILES of the largest fragments; an error where the graphs are not molecules."""
    if not data.smiles:
        raise DataError(f"{data.name}: a scaffold split needs molecules")
    return canonical_smiles(data.smiles)


def check_split(split: Split, graphs: int) -> None:
    """Graphs that exist, some to train and validate on, and none of them tested."""
    for name, part in split._asdict().items():
        if not len(part) and name != "test":
            raise DataError(f"the split has no {name} graphs")
        for graph in part[(part < 0) | (part >= graphs)]:
            raise DataError(f"the split names graph {graph}, but there are {graphs} graphs")
    for graph in np.intersect1d(np.concatenate([split.train, split.validation]), split.test):
        raise DataError(f"graph {graph} is in the test part of the split and in another")


def fingerprint(data: GraphDataset) -> str:
    """A short digest of graphs, features and targets."""
    digest = hashlib.sha256()
    # Bonds follow from molecules, and were not in the digests of 0.1.0, whose runs resume.
    attr = None if data.smiles else data.edge_attr
    tensors = (data.x, data.ptr, data.rowptr, data.col, data.edge_weight, data.y, attr)
    for tensor in (*tensors, data.graph_features):
        if tensor is not None:
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    names = [data.feature_names, data.class_names, data.target_names]
    names += [data.graph_feature_names] if data.graph_feature_names else []
    digest.update(json.dumps(names).encode())
    return digest.hexdigest()[:16]


def fingerprint_split(split: Split) -> str:
    """A short digest of a split."""
    parts = {name: part.tolist() for name, part in split._asdict().items()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
