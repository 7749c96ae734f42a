"""The work of a cross-validation: units of models, run by an engine, kept in a store.

A unit is trained by one worker: networks or ensembles that share a stack, a few networks one after
another, or a support vector machine. Units do not depend on each other, and a model does not depend
on how units are cut, so the cut may follow the number of workers. Finished units are stored at
once; only what the store does not have is listed.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from legs.data.splits import Split
from legs.engine import Engine, LocalEngine
from legs.training.cv import models as training
from legs.training.cv.models import Checkpoints, Job, Report, Shared, Strategy, choose_strategy
from legs.training.cv.progress import CVProgress, Step, Tracker
from legs.training.cv.protocol import CVOptions, stacks
from legs.training.cv.store import Store, Trained, file_names
from legs.training.methods import ENSEMBLES

# Units of sequential networks per worker: the last to finish keeps the others waiting.
ROUNDS = 4


@dataclass(frozen=True)
class Unit:
    """Models that one worker trains."""

    method: str
    step: Step
    strategy: Strategy  # of networks and ensembles
    settings: tuple[int, ...]  # numbers of the grid's settings
    first: int  # place of the first model among those of the method
    jobs: list[Job]  # one per model
    names: list[str]  # in the store: one for all models, or one per model

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
    """Trains the models of a unit; ``checkpoints("")`` is the file of a stack of networks."""
    method, jobs, stacked = unit.method, unit.jobs, unit.strategy == "stacked"
    if unit.step == "machine":
        return [training.fit_machine(job.split, shared) for job in jobs]
    if unit.step == "networks":
        file = checkpoints("") if stacked else None
        return training.train_networks(method, jobs, shared, unit.strategy, report, file)
    if stacked:
        return training.train_ensembles(method, jobs, shared, report, checkpoints)
    return [training.fit_ensemble(method, job, shared, report) for job in jobs]


@dataclass
class Work:
    """All models of a cross-validation."""

    methods: list[str]
    planned: list[list[Split]]  # by test set and model
    options: CVOptions
    model_options: dict[str, Any]  # of every network
    store: Store
    shared: Shared
    strategy: Strategy | Literal["auto"]  # "auto" times both for networks
    chunk: int  # models trained at once at most
    # Whose workers train. Without one this process does; networks that are trained sequentially on
    # the CPU are, by ``shared.workers`` processes.
    engine: Engine | None
    progress: Callable[[CVProgress], None]

    def __post_init__(self) -> None:
        models = {m: sum(len(group.jobs) for group in self.groups(m)) for m in self.methods}
        epochs, settings = self.shared.training.max_epochs, len(self.options.grid)
        self.tracker = Tracker(models, epochs, settings, self.progress)
        self.gpus = int(self.shared.device.startswith("cuda"))  # that a worker needs

    def groups(self, method: str) -> list[Group]:
        """All models of a method."""
        if method == "gs-svm":
            jobs = [Job(k, models[0], {}) for k, models in enumerate(self.planned)]
            return [Group([0], jobs, file_names(method, (), (), len(jobs)))]
        grid, groups = self.options.grid, []
        splits = list(enumerate(split for models in self.planned for split in models))
        common = {} if method in ENSEMBLES else self.model_options
        for settings in stacks(grid):
            jobs = [Job(k, split, {**common, **grid[s]}) for s in settings for k, split in splits]
            groups.append(Group(settings, jobs, file_names(method, grid, settings, len(splits))))
        return groups

    def run(self) -> None:
        """Trains what the store does not have.

        Where a GPU runs out of memory, the rest is trained in stacks of half the size.
        """
        names = [group.names for method in self.methods for group in self.groups(method)]
        self.tracker.done = sum(m is not None for some in names for m in self.store.load_all(some))
        if self.strategy == "auto":
            self._choose_strategies()
        while True:
            units = [unit for method in self.methods for unit in self.units(method)]
            try:
                for processes, some in groupby(
                    units, lambda unit: 1 if self.engine else unit.processes(self.shared)
                ):
                    workers = LocalEngine(processes) if processes > 1 else None
                    self._run(list(some), self.engine or workers)
                return
            except torch.OutOfMemoryError:
                largest = max(len(unit.jobs) for unit in units)
                if min(self.chunk, largest) == 1:
                    raise
                self.chunk = min(self.chunk, largest) // 2
            # Outside the except block: until its end the traceback holds tensors.
            gc.collect()
            torch.cuda.empty_cache()

    def _run(self, units: list[Unit], engine: Engine | None) -> None:
        if engine is None:  # this process, which can report epochs and resume a stack
            for unit in units:
                self.tracker.begin(unit)
                files = partial(self._checkpoint, unit)
                models = train_unit(self.shared, unit, report=self.tracker, checkpoints=files)
                self._save(unit, models)
            return
        left = len(units)
        self.tracker.begin(units[0], min(left, engine.workers))
        alone = replace(self.shared, workers=1)
        for number, models in engine.run(train_unit, alone, units, gpus=self.gpus):
            left -= 1
            self._save(units[number], models)
            self.tracker.begin(units[number], min(left, engine.workers))

    def _save(self, unit: Unit, models: list[Trained]) -> None:
        groups = [[model] for model in models] if len(unit.names) == len(models) else [models]
        for name, group in zip(unit.names, groups, strict=True):
            self.store.save(name, group)
        if unit.step == "ensemble" and unit.strategy == "stacked":
            for part in (*ENSEMBLES[unit.method], "head"):
                if (file := self._checkpoint(unit, part)) is not None:
                    file.unlink(missing_ok=True)
        self.tracker.end(len(models))

    def _checkpoint(self, unit: Unit, part: str) -> Path | None:
        name = f"{unit.names[0]}-{part}" if part else unit.names[0]
        return self.store.partial(name, len(unit.jobs))

    def _choose_strategies(self) -> None:
        chosen = self.store.strategies()
        trials: dict[str, tuple[str, list[Job]]] = {}
        for method in self.methods:
            if method == "gs-svm" or method in ENSEMBLES:
                continue
            for group in self.groups(method):
                key = f"{method}-{group.settings[0]}"
                if key not in chosen and None in self.store.load_all(group.names):
                    trials[key] = method, group.jobs[:16]
                    settings = tuple(group.settings)
                    unit = Unit(method, "trial", "stacked", settings, 0, group.jobs, [])
                    self.tracker.begin(unit, running=0)
        shared = self.shared if self.engine is None else replace(self.shared, workers=1)
        engine, tasks = self.engine or LocalEngine(1), list(trials.values())
        for number, strategy in engine.run(choose_strategy, shared, tasks, gpus=self.gpus):
            chosen[list(trials)[number]] = strategy
            self.store.save_strategies(chosen)

    def units(self, method: str) -> Iterator[Unit]:
        """Units of a method that are not in the store."""
        step: Step = "ensemble" if method in ENSEMBLES else "networks"
        step = "machine" if method == "gs-svm" else step
        first = 0
        for settings, jobs, names in self.groups(method):
            chosen: str | None = self.strategy
            if chosen == "auto":
                chosen = self.store.strategies().get(f"{method}-{settings[0]}")
            strategy: Strategy = "stacked" if chosen == "stacked" else "sequential"
            whole = Unit(method, step, strategy, (), first, jobs, names)
            size, each = self._size(whole), len(jobs) // len(settings)
            models = self.store.load_all(names)
            missing = [k for k, model in enumerate(models) if model is None]
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

    def _size(self, unit: Unit) -> int:
        """Into how many models at a time a unit is cut, so that all workers have some."""
        workers = self.engine.workers if self.engine else unit.processes(self.shared)
        if unit.step == "machine" or (unit.step == "ensemble" and unit.strategy == "sequential"):
            return 1
        if unit.strategy == "sequential":
            if workers == 1:  # few: what is finished is kept, and there is no checkpoint
                return 2
            workers *= ROUNDS
        return max(1, min(self.chunk, math.ceil(len(unit.jobs) / workers)))

    def results(self, method: str) -> list[list[list[Trained]]]:
        """Models of a method by setting, test set and rotation; all are finished."""
        sizes = [1 if method == "gs-svm" else len(models) for models in self.planned]
        by_setting = {}
        for group in self.groups(method):
            models = (model for model in self.store.load_all(group.names) if model is not None)
            for setting in group.settings:
                by_setting[setting] = [list(islice(models, size)) for size in sizes]
        return [by_setting[setting] for setting in sorted(by_setting)]
