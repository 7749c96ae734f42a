"""The work of a cross-validation: units of models, run by an engine, kept in a store.

A unit is trained by one worker: networks or ensembles that share a stack, a few networks one after
another, or a support vector machine. Units do not depend on each other, and a model does not depend
on how units are cut, so the cut may follow the number of workers. Finished units are stored at
once; only what the store does not have is listed.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from legs.data.splits import Split
from legs.engine import Engine, LocalEngine
from legs.training.cv.models import (
    Checkpoints,
    Job,
    Report,
    Shared,
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

# Units of sequential networks per worker: the last to finish keeps the others waiting.
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

    def processes(self, shared: Shared) -> int:
        """Processes for such units where no engine was given; one is this process."""
        parallel = self.step == "networks" and self.strategy == "sequential"
        return shared.workers if parallel and shared.device == "cpu" else 1


class Group(NamedTuple):
    """Models of a method that may share a stack."""

    settings: list[int]  # they differ in the learning rate alone
    jobs: list[Job]  # by setting and split
    names: list[str]  # in the store, of the part that begins with each job


def train_unit(
    shared: Shared,
    unit: Unit,
    report: Report = lambda standing: None,
    checkpoints: Checkpoints = lambda part: None,
) -> list[Trained]:
    """Trains the models of a unit.

    Args:
        shared: what all units need.
        unit: the models.
        report: called now and then.
        checkpoints: the file for the state of a stack, by the name of the part (``""``: the stack).
    """
    method, jobs, stacked = unit.method, unit.jobs, unit.strategy == "stacked"
    if unit.step == "machine":
        return [fit_machine(job.split, shared) for job in jobs]
    if unit.step == "networks":
        file = checkpoints("") if stacked else None
        strategy = unit.strategy
        return train_networks(
            method, jobs, shared, strategy=strategy, report=report, checkpoint=file
        )
    if stacked:
        return train_ensembles(method, jobs, shared, report=report, checkpoints=checkpoints)
    return [fit_ensemble(method, job, shared, report) for job in jobs]


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

    def models(self) -> dict[str, int]:
        """Number of models of each method."""
        return {m: sum(len(group.jobs) for group in self.groups(m)) for m in self.methods}

    def groups(self, method: str) -> list[Group]:
        """All models of a method."""
        if method == "gs-svm":
            jobs = [Job(k, models[0], {}) for k, models in enumerate(self.planned)]
            return [Group([0], jobs, [f"gs-svm-{job.number}" for job in jobs])]
        grid, groups = self.options.grid, []
        splits = list(enumerate(split for models in self.planned for split in models))
        common = {} if method in ENSEMBLES else self.model_options
        for settings in stacks(grid):
            jobs = [Job(k, split, {**common, **grid[s]}) for s in settings for k, split in splits]
            if method not in ENSEMBLES:  # a file may hold many networks
                names = [f"{method}-{settings[0]}-{first}" for first in range(len(jobs))]
            elif grid == ({},):  # the name without a grid since version 0.1.0
                names = [f"{method}-{k}" for k, _ in splits]
            else:
                names = [f"{method}-{s}-{k}" for s in settings for k, _ in splits]
            groups.append(Group(settings, jobs, names))
        return groups

    def run(self, shared: Shared, tracker: Tracker, engine: Engine | None = None) -> None:
        """Trains what the store does not have.

        Where a GPU runs out of memory, the rest is trained in stacks of half the size.

        Args:
            shared: what all units need.
            tracker: counts finished models.
            engine: whose workers train (default: this process; networks that are trained
                sequentially on the CPU in ``shared.workers`` processes).
        """
        groups = [group for method in self.methods for group in self.groups(method)]
        tracker.done = sum(model is not None for group in groups for model in self._load(group))
        if self.strategy == "auto":
            self._choose_strategies(shared, tracker, engine)
        while True:
            units = [unit for m in self.methods for unit in self.units(m, shared, engine)]
            try:
                for processes, some in groupby(
                    units, lambda unit: 1 if engine else unit.processes(shared)
                ):
                    workers = LocalEngine(processes) if processes > 1 else None
                    self._run(list(some), shared, tracker, engine or workers)
                return
            except torch.OutOfMemoryError:
                largest = max(len(unit.jobs) for unit in units)
                if min(self.chunk, largest) == 1:
                    raise
                self.chunk = min(self.chunk, largest) // 2
            # Outside the except block: until its end the traceback holds tensors.
            gc.collect()
            torch.cuda.empty_cache()

    def _run(
        self, units: list[Unit], shared: Shared, tracker: Tracker, engine: Engine | None
    ) -> None:
        if engine is None:  # in this process, which can report epochs and resume a stack
            for unit in units:
                tracker.begin(unit)
                checkpoints = partial(self._checkpoint, unit)
                models = train_unit(shared, unit, report=tracker, checkpoints=checkpoints)
                self._save(unit, models, tracker)
            return
        left = len(units)
        tracker.begin(units[0], min(left, engine.workers))
        alone = replace(shared, workers=1)
        for number, models in engine.run(train_unit, alone, units, gpus=_gpus(shared)):
            left -= 1
            self._save(units[number], models, tracker)
            tracker.begin(units[number], min(left, engine.workers))

    def _save(self, unit: Unit, models: list[Trained], tracker: Tracker) -> None:
        if len(unit.names) == len(models):
            for name, model in zip(unit.names, models, strict=True):
                self.store.save(name, [model])
        else:
            self.store.save(unit.names[0], models)
        if unit.step == "ensemble" and unit.strategy == "stacked":
            for part in (*ENSEMBLES[unit.method], "head"):
                if (file := self._checkpoint(unit, part)) is not None:
                    file.unlink(missing_ok=True)
        tracker.end(len(models))

    def _checkpoint(self, unit: Unit, part: str) -> Path | None:
        name = f"{unit.names[0]}-{part}" if part else unit.names[0]
        return self.store.partial(name, len(unit.jobs))

    def _choose_strategies(self, shared: Shared, tracker: Tracker, engine: Engine | None) -> None:
        chosen = self.store.strategies()
        trials: dict[str, tuple[str, list[Job]]] = {}
        for method in self.methods:
            if method == "gs-svm" or method in ENSEMBLES:
                continue
            for settings, jobs, names in self.groups(method):
                key = f"{method}-{settings[0]}"
                if key not in chosen and None in self._load(Group(settings, jobs, names)):
                    trials[key] = method, jobs[:16]
                    unit = Unit(method, "trial", "stacked", tuple(settings), 0, jobs, [])
                    tracker.begin(unit, running=0)
        alone = shared if engine is None else replace(shared, workers=1)
        runs = (engine or LocalEngine(1)).run(
            choose_strategy, alone, list(trials.values()), gpus=_gpus(shared)
        )
        for number, strategy in runs:
            chosen[list(trials)[number]] = strategy
            self.store.save_strategies(chosen)

    def units(self, method: str, shared: Shared, engine: Engine | None = None) -> Iterator[Unit]:
        """Units of a method that are not in the store.

        Args:
            method: its name.
            shared: what all units need.
            engine: whose workers train.
        """
        step: Step = "ensemble" if method in ENSEMBLES else "networks"
        step = "machine" if method == "gs-svm" else step
        first = 0
        for group in self.groups(method):
            settings, jobs, names = group
            chosen: str | None = self.strategy
            if chosen == "auto":
                chosen = self.store.strategies().get(f"{method}-{settings[0]}")
            strategy: Strategy = "stacked" if chosen == "stacked" else "sequential"
            whole = Unit(method, step, strategy, (), first, jobs, names)
            size = self._size(whole, whole.processes(shared) if engine is None else engine.workers)
            each = len(jobs) // len(settings)
            missing = [k for k, model in enumerate(self._load(group)) if model is None]
            while missing:  # networks side by side share a file
                part = [k for i, k in enumerate(missing[:size]) if k == missing[0] + i]
                missing = missing[len(part) :]
                start, end = part[0], part[-1] + 1
                numbers = settings[start // each : (end - 1) // each + 1]
                yield replace(
                    whole,
                    settings=() if step == "machine" else tuple(numbers),
                    first=first + start,
                    jobs=jobs[start:end],
                    names=names[start : start + 1 if step == "networks" else end],
                )
            first += len(jobs)

    def _size(self, unit: Unit, workers: int) -> int:
        """Models of a unit of ``workers``, at most."""
        if unit.step == "machine" or (unit.step == "ensemble" and unit.strategy == "sequential"):
            return 1
        if unit.strategy == "sequential":
            if workers == 1:  # few: what is finished is kept, and there is no checkpoint
                return 2
            workers *= ROUNDS
        return max(1, min(self.chunk, math.ceil(len(unit.jobs) / workers)))

    def _load(self, group: Group) -> list[Trained | None]:
        """The models of a group, ``None`` where they are not finished.

        Files of earlier runs may hold any number of networks.
        """
        models: list[Trained | None] = []
        while len(models) < len(group.jobs):
            models += self.store.load(group.names[len(models)]) or [None]
        return models

    def results(self, method: str) -> list[list[list[Trained]]]:
        """Models of a method by setting, test set and rotation; all are finished."""
        sizes = [1 if method == "gs-svm" else len(models) for models in self.planned]
        by_setting = {}
        for group in self.groups(method):
            models = (model for model in self._load(group) if model is not None)
            for setting in group.settings:
                by_setting[setting] = [list(islice(models, size)) for size in sizes]
        return [by_setting[setting] for setting in sorted(by_setting)]


def _gpus(shared: Shared) -> int:
    """GPUs that a unit needs."""
    return int(shared.device.startswith("cuda"))
