"""The work of a cross-validation: units of models, run by an engine, kept in a store.

A unit is trained by one worker: networks or ensembles that share a stack, a few networks one after
another, or a support vector machine. Units do not depend on each other, and a model does not depend
on how units are cut, so the cut may follow the number of workers. Finished units are stored at
once; only what the store does not have is listed.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.engine import Engine, LocalEngine
from legs.training.cv.measures import Measure
from legs.training.cv.models import (
    Files,
    Job,
    Report,
    Strategy,
    choose_strategy,
    fit_ensemble,
    fit_machine,
    train_ensembles,
    train_networks,
)
from legs.training.cv.progress import Step, Tracker
from legs.training.cv.protocol import CVOptions, stacks
from legs.training.cv.store import Store, Trained
from legs.training.methods import ENSEMBLES
from legs.training.options import TrainingOptions
from legs.training.svm import scattering_features

# Units of sequential networks for each worker: the last to finish keeps the others waiting.
ROUNDS = 4


@dataclass(frozen=True)
class Unit:
    """Models that one worker trains.

    Args:
        method: its name.
        step: what is done.
        strategy: how networks and ensembles are trained.
        settings: numbers of the grid's settings.
        first: place of the first model among those of the method.
        jobs: one per model.
        names: in the store: one for all models, or one per model.
    """

    method: str
    step: Step
    strategy: Strategy
    settings: tuple[int, ...]
    first: int
    jobs: list[Job]
    names: list[str]


@dataclass(frozen=True)
class Shared:
    """What every unit needs; sent to workers once.

    Args:
        data: with targets.
        training: how to train.
        device: where to train.
        features: whether networks keep the features of all graphs.
        measures: of networks, by name.
        workers: processes for what is trained in this process.
    """

    data: GraphDataset
    training: TrainingOptions
    device: str = "cpu"
    features: bool = False
    measures: Mapping[str, Measure] = field(default_factory=dict)
    workers: int = 1

    @cached_property
    def scattering(self) -> Tensor:
        """Features of support vector machines."""
        return scattering_features(self.data)


def train_unit(
    shared: Shared,
    unit: Unit,
    report: Report = lambda standing: None,
    checkpoints: Files = lambda part: None,
) -> list[Trained]:
    """Trains the models of a unit.

    Args:
        shared: what all units need.
        unit: the models.
        report: called now and then.
        checkpoints: the file for the state of a stack, by the name of the part (``""``: the stack).
    """
    data, training, device = shared.data, shared.training, shared.device
    if unit.step == "machine":
        return [
            fit_machine(data, job.split, training, shared.workers, shared.scattering)
            for job in unit.jobs
        ]
    if unit.step == "networks":
        return train_networks(
            unit.method,
            unit.jobs,
            data,
            training,
            device=device,
            strategy=unit.strategy,
            report=report,
            checkpoint=checkpoints("") if unit.strategy == "stacked" else None,
            features=shared.features,
            measures=shared.measures,
        )
    if unit.strategy == "stacked":
        return train_ensembles(
            unit.method,
            unit.jobs,
            data,
            training,
            device=device,
            report=report,
            checkpoints=checkpoints,
        )
    return [
        fit_ensemble(unit.method, job, data, training, device=device, report=report)
        for job in unit.jobs
    ]


def try_strategies(shared: Shared, trial: tuple[str, str, list[Job]]) -> tuple[str, Strategy]:
    """The faster strategy for some networks: the key of a trial, and the strategy."""
    key, method, jobs = trial
    return key, choose_strategy(
        method, jobs, shared.data, shared.training, device=shared.device, workers=shared.workers
    )


@dataclass
class Work:
    """All models of a cross-validation.

    Args:
        methods: names.
        planned: splits by test set and model.
        options: of the cross-validation.
        model_options: of every network.
        store: of finished models.
        strategy: how networks and ensembles are trained; ``"auto"`` times both for networks.
        chunk: models trained at once at most.
    """

    methods: list[str]
    planned: list[list[Split]]
    options: CVOptions
    model_options: dict[str, Any]
    store: Store
    strategy: Strategy | Literal["auto"]
    chunk: int

    def __post_init__(self) -> None:
        self.splits = [split for group in self.planned for split in group]
        self.stacks = stacks(self.options.grid)

    def models(self) -> dict[str, int]:
        """Number of models of each method."""
        every = len(self.splits) * len(self.options.grid)
        return {m: len(self.planned) if m == "gs-svm" else every for m in self.methods}

    def run(self, shared: Shared, tracker: Tracker, engine: Engine | None = None) -> None:
        """Trains what the store does not have.

        Where a GPU runs out of memory, the rest is trained in stacks of half the size.

        Args:
            shared: what all units need.
            tracker: counts finished models.
            engine: whose workers train (default: this process; networks that are trained
                sequentially on the CPU in ``shared.workers`` processes).
        """
        every = [model for m in self.methods for models in self.finished(m) for model in models]
        tracker.done = sum(model is not None for model in every)
        if self.strategy == "auto":
            self._choose_strategies(shared, tracker, engine)
        while True:
            units = [unit for m in self.methods for unit in self.units(m, shared, engine)]
            try:
                for elsewhere, some in groupby(
                    units, lambda unit: engine is not None or _parallel(unit, shared)
                ):
                    if elsewhere:
                        workers = engine or LocalEngine(shared.workers)
                        self._run(list(some), shared, tracker, workers)
                    else:
                        self._run_here(list(some), shared, tracker)
                return
            except torch.OutOfMemoryError:
                largest = max(len(unit.jobs) for unit in units)
                if min(self.chunk, largest) == 1:
                    raise
                self.chunk = min(self.chunk, largest) // 2
            # Outside the except block: until its end the traceback holds tensors.
            gc.collect()
            torch.cuda.empty_cache()

    def _run_here(self, units: list[Unit], shared: Shared, tracker: Tracker) -> None:
        for unit in units:
            tracker.begin(unit)
            here = partial(train_unit, report=tracker, checkpoints=partial(self._checkpoint, unit))
            for _, models in LocalEngine(1).run(here, shared, [unit]):
                self._save(unit, models)
                tracker.end(len(models))

    def _run(self, units: list[Unit], shared: Shared, tracker: Tracker, engine: Engine) -> None:
        left = len(units)
        tracker.begin(units[0], min(left, engine.workers))
        gpus = 1 if shared.device.startswith("cuda") else 0
        alone = replace(shared, workers=1)
        for number, models in engine.run(train_unit, alone, units, gpus=gpus):
            self._save(units[number], models)
            tracker.end(len(models))
            left -= 1
            tracker.begin(units[number], min(left, engine.workers))

    def _save(self, unit: Unit, models: list[Trained]) -> None:
        if len(unit.names) == len(models):
            for name, model in zip(unit.names, models, strict=True):
                self.store.save(name, [model])
        else:
            self.store.save(unit.names[0], models)
        if unit.method in ENSEMBLES and unit.strategy == "stacked":
            for part in (*ENSEMBLES[unit.method], "head"):
                if (file := self._checkpoint(unit, part)) is not None:
                    file.unlink(missing_ok=True)

    def _checkpoint(self, unit: Unit, part: str) -> Path | None:
        name = f"{unit.names[0]}-{part}" if part else unit.names[0]
        return self.store.partial(name, len(unit.jobs))

    def _choose_strategies(self, shared: Shared, tracker: Tracker, engine: Engine | None) -> None:
        chosen = self.store.strategies()
        trials = []
        for method in self.methods:
            if method == "gs-svm" or method in ENSEMBLES:
                continue
            by_setting = self.finished(method)
            for group in self.stacks:
                key, jobs = f"{method}-{group[0]}", self._jobs(group)
                left = any(model is None for setting in group for model in by_setting[setting])
                if left and key not in chosen:
                    trials.append((key, method, jobs[:16]))
                    unit = Unit(method, "trial", "stacked", tuple(group), 0, jobs, [])
                    tracker.begin(unit, running=0)
        alone = shared if engine is None else replace(shared, workers=1)
        gpus = 1 if shared.device.startswith("cuda") else 0
        runs = (engine or LocalEngine(1)).run(try_strategies, alone, trials, gpus=gpus)
        for _, (key, strategy) in runs:
            chosen[key] = strategy
            self.store.save_strategies(chosen)

    def units(self, method: str, shared: Shared, engine: Engine | None = None) -> Iterator[Unit]:
        """Units of a method that are not in the store.

        Args:
            method: its name.
            shared: what all units need.
            engine: whose workers train.
        """
        if method == "gs-svm":
            for k, group in enumerate(self.planned):
                if self.store.load(f"gs-svm-{k}") is None:
                    job = Job(k, group[0], {})
                    yield Unit(method, "machine", "sequential", (), k, [job], [f"gs-svm-{k}"])
        elif method in ENSEMBLES:
            yield from self._ensembles(method, 1 if engine is None else engine.workers)
        else:
            first = 0
            for settings in self.stacks:
                yield from self._networks(method, settings, first, shared, engine)
                first += len(settings) * len(self.splits)

    def _ensembles(self, method: str, workers: int) -> Iterator[Unit]:
        strategy: Strategy = "stacked" if self.strategy == "stacked" else "sequential"
        for group in self.stacks:
            left = []
            for setting in group:
                for k, split in enumerate(self.splits):
                    name = self._ensemble_name(method, setting, k)
                    if self.store.load(name) is None:
                        job = Job(k, split, self.options.grid[setting])
                        left.append((setting, setting * len(self.splits) + k, job, name))
            size = self._share(len(left), workers) if strategy == "stacked" else 1
            for start in range(0, len(left), size):
                settings, places, jobs, names = zip(*left[start : start + size], strict=True)
                chosen = tuple(dict.fromkeys(settings))
                yield Unit(method, "ensemble", strategy, chosen, places[0], list(jobs), list(names))

    def _networks(
        self, method: str, group: list[int], before: int, shared: Shared, engine: Engine | None
    ) -> Iterator[Unit]:
        jobs = self._jobs(group)
        chosen: str | None = self.strategy
        if chosen == "auto":
            chosen = self.store.strategies().get(f"{method}-{group[0]}")
        strategy: Strategy = "stacked" if chosen == "stacked" else "sequential"
        if engine is not None:
            workers = engine.workers
        else:
            workers = 1 if strategy == "stacked" or shared.device != "cpu" else shared.workers
        if strategy == "stacked":
            size = self._share(len(jobs), workers)
        else:  # few models: what is finished is kept, and there is no checkpoint
            size = 2 if workers == 1 else self._share(len(jobs), ROUNDS * workers)
        for first, end, models in self._parts(method, group, size):
            if models is None:
                settings = group[first // len(self.splits) : (end - 1) // len(self.splits) + 1]
                names = [_part_name(method, group, first)]
                some = jobs[first:end]
                place = before + first
                yield Unit(method, "networks", strategy, tuple(settings), place, some, names)

    def _parts(
        self, method: str, group: list[int], size: int
    ) -> Iterator[tuple[int, int, list[Trained] | None]]:
        """Networks in parts: their range among those of ``group``, and the models if finished.

        Parts that an earlier run has finished may be of any size.
        """
        first, count = 0, len(group) * len(self.splits)
        while first < count:
            models = self.store.load(_part_name(method, group, first))
            end = first + (1 if models is None else len(models))
            while models is None and end < min(first + size, count):
                if self.store.load(_part_name(method, group, end)) is not None:
                    break
                end += 1
            yield first, end, models
            first = end

    def finished(self, method: str) -> list[list[Trained | None]]:
        """Models of a method by setting, each in the order of the splits."""
        if method == "gs-svm":
            machines = [self.store.load(f"gs-svm-{k}") for k in range(len(self.planned))]
            return [[models[0] if models else None for models in machines]]
        count = len(self.splits)
        by_setting: list[list[Trained | None]] = [[] for _ in self.options.grid]
        for group in self.stacks:
            if method in ENSEMBLES:
                for setting in group:
                    names = [self._ensemble_name(method, setting, k) for k in range(count)]
                    by_setting[setting] = [m[0] if m else None for m in map(self.store.load, names)]
                continue
            every: list[Trained | None] = []
            for first, end, models in self._parts(method, group, 1):
                every += models or [None] * (end - first)
            for place, setting in enumerate(group):
                by_setting[setting] = every[place * count : (place + 1) * count]
        return by_setting

    def results(self, method: str) -> list[list[list[Trained]]]:
        """Models of a method by setting, test set and rotation; all are finished."""
        sizes = [1 if method == "gs-svm" else len(group) for group in self.planned]
        ends = list(accumulate(sizes))
        found = []
        for models in self.finished(method):
            every = [model for model in models if model is not None]
            found.append([every[end - n : end] for end, n in zip(ends, sizes, strict=True)])
        return found

    def _jobs(self, group: list[int]) -> list[Job]:
        """Networks of settings that differ in learning rate alone, by setting."""
        return [
            Job(k, split, {**self.model_options, **self.options.grid[setting]})
            for setting in group
            for k, split in enumerate(self.splits)
        ]

    def _share(self, models: int, parts: int) -> int:
        return max(1, min(self.chunk, math.ceil(models / parts)))

    def _ensemble_name(self, method: str, setting: int, number: int) -> str:
        plain = self.options.grid == ({},)  # the name without a grid since version 0.1.0
        return f"{method}-{number}" if plain else f"{method}-{setting}-{number}"


def _part_name(method: str, group: list[int], first: int) -> str:
    """Of networks in the store: those from number ``first`` of settings that share a stack."""
    return f"{method}-{group[0]}-{first}"


def _parallel(unit: Unit, shared: Shared) -> bool:
    """Whether a unit is trained by other processes where no engine was given."""
    several = shared.workers > 1 and shared.device == "cpu"
    return several and unit.step == "networks" and unit.strategy == "sequential"
