"""From ``experiments.yaml`` and a request to the cells of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from benchmarks.packed import SCAFFOLDS, find_set
from legs.data.catalog.specs import lookup
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.splits import (
    Indices,
    Split,
    group_numbers,
    random_split,
    rotations,
    scaffold_split,
    stratified_folds,
)
from legs.data.statistics import paper_statistics
from legs.models.catalogue import nearest
from legs.training import CVOptions, TrainingOptions
from legs.training.checkpoint import plain
from legs.training.methods import ENSEMBLES, check_method
from reproduction.baselines import BASELINES

ERRORS = ("whitened", "units")  # scores that are errors
SPLITTINGS = {
    "random": "80/10/10 at random",
    "scaffold": "80/10/10 by scaffold",
    "targets": "whole targets left out",
}
# Options of training that a protocol may set.
TRAINING = TrainingOptions.__dataclass_fields__.keys() - {"seed"}
_SAMPLE_SEED, _SHUFFLE_SEED = 0, 7


@dataclass(frozen=True)
class Request:
    """How an experiment is to be run: the options of ``legs reproduce``."""

    folder: Path  # for results; a run that was interrupted resumes from it
    quick: bool = False  # a small run, minutes on two cores; not the paper's protocol
    datasets: tuple[str, ...] = ()  # default: those of the experiment
    models: tuple[str, ...] = ()  # methods; default: those of the experiment
    device: str = "cpu"
    rotations: int | None = None  # models per test set; default: those of the experiment
    seed: int = 0  # of partitions, weights and batches
    minutes: float | None = None  # start no cell after so many
    reuse: tuple[Path, ...] = ()  # folders whose finished cells are taken, if settings are the same
    at_once: int = 1  # cells at a time, each in a process of its own; they share the device
    command: str = ""  # for the record

    @property
    def partial(self) -> bool:
        """Whether only some cells are checked, with another seed or protocol than the paper's."""
        return self.seed != 0 or self.rotations is not None


@cache
def document() -> dict[str, Any]:
    """``experiments.yaml``."""
    text = (Path(__file__).parent / "experiments.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def experiment(name: str, quick: bool = False) -> dict[str, Any]:
    """The description of an experiment, defaults filled in."""
    experiments = document()["experiments"]
    if name not in experiments:
        raise ValueError(f"no experiment is called {name!r}{nearest(name, list(experiments))}")
    own = experiments[name]
    defaults = document()["defaults"]["error" if own["score"] in ERRORS else own["score"]]
    spec = _merged(defaults, own)
    if quick:
        spec = _merged(spec, spec.get("quick", {}))
    return {"name": name, "variants": {"": {}}, "methods": [""], "protocol": {}, **spec}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the second's values first; descriptions of protocols and quick runs are merged, too."""
    nested = {
        name: _merged(first[name], second[name])
        for name in ("protocol", "quick")
        if name in first and name in second
    }
    return {**first, **second, **nested}


@dataclass(frozen=True)
class Cell:
    """One method on one data set."""

    data: str
    method: str  # of legs.training.methods, or one of BASELINES
    score: str = "accuracy"  # see experiments.yaml
    options: CVOptions = field(default_factory=CVOptions)
    variant: str = ""  # what else distinguishes it from other cells of the table
    features: str = "structure"
    limit: int | None = None  # at most so many graphs
    shuffled: bool = False  # whether labels are shuffled
    embedded: bool = False  # whether graph features of every network are kept
    splitting: str = "random"  # of regression studies

    @property
    def is_error(self) -> bool:
        """Whether its score is an error, and smaller is better."""
        return self.score in ERRORS

    @property
    def key(self) -> str:
        """Its name among the cells of a table, and of its file."""
        words = "".join(c if c.isalnum() or c == "_" else " " for c in self.variant).split()
        return "-".join(filter(None, [self.data, self.method, *words]))

    @property
    def title(self) -> str:
        """Its name for people."""
        return ", ".join(filter(None, [self.data, self.method, self.variant]))

    @property
    def models(self) -> int:
        """Number of models it trains."""
        options = self.options
        if self.score == "statistics":
            return 1
        if self.is_error:
            sets = options.folds if self.splitting == "targets" else len(options.seeds)
            return sets * len(options.grid)
        many = 1 if self.method == "gs-svm" else self.rotations * len(options.grid)
        return options.folds * many

    @property
    def rotations(self) -> int:
        """Models per test set and setting."""
        most = self.options.folds - self.options.test_folds
        return min(most, self.options.rotations or most)

    @property
    def protocol(self) -> str:
        """How it is evaluated, in words."""
        options = self.options
        if self.is_error:
            by_target = self.splitting == "targets"
            sets = f"{options.folds} folds" if by_target else f"{len(options.seeds)} seeds"
            words = f"{sets}, {SPLITTINGS[self.splitting]}"
        else:
            many = 1 if self.method == "gs-svm" else self.rotations
            words = f"{options.folds} test sets × {many} model{'s' * (many > 1)}"
        if self.limit is not None:
            words += f", {self.limit} graphs, {options.training.max_epochs} epochs at most"
        return words

    @property
    def work(self) -> float:
        """How much there is to do: models times nodes and edges of their graphs."""
        printed = paper_statistics().get(self.data)
        entry = lookup(self.data)
        graphs, size = float((entry and entry.graphs) or 1000), 100.0
        if printed is not None:
            graphs = float(printed["graphs"])
            size = float(printed["nodes"]) + float(printed["edges"])
        return self.models * min(graphs, self.limit or graphs) * size

    def settings(self) -> dict[str, Any]:
        """Everything that its result depends on, as JSON values."""
        settings: dict[str, Any] = {"data": self.data}
        if self.score == "statistics":
            return settings
        for name in ("method", "features", "limit", "shuffled"):
            settings[name] = getattr(self, name)
        settings["options"] = self.options.to_json()
        if self.embedded:
            settings["embedded"] = True
        if self.is_error:
            settings |= {"splitting": self.splitting, "score": self.score}
        return plain(settings)

    def load(self) -> GraphDataset:
        """Its graphs."""
        data = find_set(self.data, self.features)
        task = "regression" if self.is_error else "classification"
        if data.y is None or data.task != task:
            raise DataError(f"{self.data} has no targets for {task}")
        if self.limit is not None and self.limit < len(data):
            if self.is_error:
                order = np.random.default_rng(_SAMPLE_SEED).permutation(len(data))
                data = data.subset(np.sort(order[: self.limit]))
            else:  # often sorted by class, so the first graphs would be of one
                parts = -(-len(data) // self.limit)
                data = data.subset(stratified_folds(data.y.numpy(), k=parts)[0])
        if self.shuffled:
            assert data.y is not None
            generator = torch.Generator().manual_seed(_SHUFFLE_SEED)
            data = replace(data, y=data.y[torch.randperm(len(data), generator=generator)])
        return data

    def splits(self, data: GraphDataset) -> list[Split] | None:
        """One per test set, the same for every method; ``None`` for those of the options."""
        if not self.is_error:
            return None
        options = self.options
        if self.splitting == "targets":
            targets = len(set(data.groups))
            if targets < 3:
                raise DataError(f"{self.data} has {targets} targets; at least three are needed")
            folds = min(options.folds, targets)
            parts = group_folds(data.groups, k=folds, seed=options.training.seed)
            return [group[0] for group in rotations(parts, rotations=1)]
        if self.splitting == "random":
            return [random_split(len(data), seed=seed) for seed in options.seeds]
        return [self._scaffold_split(data, seed) for seed in options.seeds]

    def _scaffold_split(self, data: GraphDataset, seed: int) -> Split:
        packed = data.info.get(SCAFFOLDS, {}).get(str(seed))
        if packed is not None and len(packed) == len(data):
            return Split(*(np.flatnonzero(np.asarray(packed) == part) for part in range(3)))
        if not data.smiles:
            raise DataError(f"{self.data} has no SMILES and no scaffold split for seed {seed} here")
        return scaffold_split(data.smiles, seed=seed)


def cells_of(spec: Mapping[str, Any], request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    if request.rotations is not None and spec["score"] != "accuracy":
        raise ValueError("--rotations is for tables of accuracies")
    if request.models and spec["score"] == "statistics":
        raise ValueError(f"--models is for experiments that train; {spec['name']} does not")
    methods = _methods(spec, request)
    return [
        _cell(spec, request, data, method, variant, own)
        for data in _datasets(spec, request)
        for variant, own in spec["variants"].items()
        for method in methods
    ]


def listed(spec: Mapping[str, Any], request: Request) -> list[Cell]:
    """All cells that the page lists, whether they were run or not."""
    everything = replace(request, datasets=tuple(spec["datasets"]), models=())
    return cells_of({**spec, "methods": spec.get("listed", spec["methods"])}, everything)


def _datasets(spec: Mapping[str, Any], request: Request) -> list[str]:
    listed_sets = experiment(spec["name"])["datasets"]
    if not request.datasets:
        return list(spec["datasets"])
    names = {name: lookup(name) for name in request.datasets}
    for name, entry in names.items():
        if entry is None or entry.name not in listed_sets:
            raise ValueError(f"--datasets takes some of {', '.join(listed_sets)}; got {name!r}")
    wanted = {entry.name for entry in names.values() if entry is not None}
    return [name for name in listed_sets if name in wanted]


def _methods(spec: Mapping[str, Any], request: Request) -> list[str]:
    listed_methods = list(spec["methods"])
    if not request.models:
        return listed_methods
    for name in request.models:
        if name not in listed_methods:
            check_method(name)
        if name in ("gs-svm", *ENSEMBLES) and spec["score"] in ERRORS:
            raise ValueError(f"{name} classifies; {spec['name']} is about regression")
    if "gs-svm" in request.models and (spec["score"] == "losses" or spec.get("embedded")):
        raise ValueError("gs-svm has no learning rate and no features of its own here")
    wanted = list(dict.fromkeys(request.models))
    others = [name for name in wanted if name not in listed_methods]
    return [name for name in listed_methods if name in wanted] + others


def _cell(
    spec: Mapping[str, Any],
    request: Request,
    data: str,
    method: str,
    variant: str,
    own: Mapping[str, Any],
) -> Cell:
    spec = _merged(_merged(spec, own), spec.get("by_data", {}).get(data, {}))
    if spec["score"] == "statistics":
        return Cell(data, "", "statistics")
    protocol, features = spec["protocol"], spec["features"]
    if not isinstance(features, str):  # by data set and group
        features = features.get(data, features.get(group_of(data)))
    chosen = {name: value for name, value in protocol.items() if name in TRAINING}
    training = TrainingOptions(seed=request.seed, **chosen)
    one = document()["one_model"]
    models = protocol["rotations"] if request.rotations is None else request.rotations
    if request.rotations is None and data in one["datasets"] and method in one["methods"]:
        models = 1
    seeds = CVOptions.seeds
    if spec["score"] in ERRORS:
        seeds = tuple(request.seed * protocol["seeds"] + k for k in range(protocol["seeds"]))
    return Cell(
        data,
        method,
        spec["score"],
        CVOptions(
            protocol["folds"],
            models,
            protocol.get("test_folds", 1),
            seeds=seeds,
            training=training,
            grid=_grid(spec, request, data, method),
        ),
        variant=variant.format(seed=request.seed),
        features=features,
        limit=protocol.get("limit"),
        shuffled=spec.get("shuffled", False),
        embedded=spec.get("embedded", False),
        splitting=spec.get("splitting", "random"),
    )


def group_of(data: str) -> str:
    """The group of a data set, biochemical or social; empty for others."""
    return next((name for name, sets in document()["groups"].items() if data in sets), "")


def _grid(
    spec: Mapping[str, Any], request: Request, data: str, method: str
) -> tuple[dict[str, Any], ...]:
    grids = spec.get("grids", {})
    if method in BASELINES or method == "gs-svm":  # GS-SVM chooses C and γ on folds of its own
        return tuple(grids.get(method, ({},)))
    if data in spec.get("large", ()) and method in spec["chosen"]:
        return (spec["chosen"][method],)
    if grid := grids.get(method, grids.get("networks")):
        return tuple(grid)
    rates = spec["protocol"]["rates"]
    if not request.quick and not spec.get("untuned"):
        tuned = document()["tuned"].get(group_of(data), {}).get(method)
        rates = rates if tuned is None else [tuned]
    return tuple({"lr": rate} for rate in rates)


def group_folds(groups: Sequence[Any], k: int = 10, seed: int = 0) -> list[Indices]:
    """``k`` parts of about the same size that keep groups whole."""
    number, sizes = group_numbers(groups)
    fold = np.empty(len(sizes), dtype=np.int64)
    filled = np.zeros(k, dtype=np.int64)
    for group in np.lexsort((np.random.default_rng(seed).random(len(sizes)), -sizes)):
        fold[group] = np.argmin(filled)
        filled[fold[group]] += sizes[group]
    return [np.flatnonzero(fold[number] == i) for i in range(k)]
