"""Cross-validation by the paper's protocol: units of models, run by an engine, kept in a store.

A unit is trained by one worker: networks or ensembles that share a stack, a few networks one after
another, or a support vector machine. Units do not depend on each other, and a model does not depend
on how units are cut, so the cut may follow the number of workers. Finished units are stored at
once; only what the store does not have is listed.
"""

from __future__ import annotations

import gc
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

import torch

from legs.data.dataset import GraphDataset
from legs.data.splits import GroupBy, Split, save_splits
from legs.data.validate import check_values
from legs.engine import Engine, LocalEngine
from legs.io import one_writer
from legs.training.cv import models as training
from legs.training.cv.models import Job, Measure, Shared, Strategy
from legs.training.cv.protocol import CVOptions, check_grid, plan_splits, stacks
from legs.training.cv.results import (
    VALIDATION,
    CVResult,
    baseline_scores,
    check_metric,
    score_method,
)
from legs.training.cv.store import Store, Trained, is_store
from legs.training.fit import SplitKind, fingerprint, fingerprint_split
from legs.training.methods import ENSEMBLES
from legs.training.stacked.trainer import Standing

# Units of sequential networks per worker: the last to finish keeps the others waiting.
ROUNDS = 4
# Networks with nothing to learn before the head: a stack of heads pays on CPUs, too.
# On CPUs: heads on fixed features, and scales that one kernel computes for all models.
STACKED = ("baseline", "legs-fixed", "legs-fcn", "legs-rbf", "legs-attn-fcn")


@dataclass(frozen=True)
class Unit:
    """Models that one worker trains."""

    method: str
    strategy: Strategy  # of networks and ensembles
    jobs: list[Job]  # one per model

    @property
    def step(self) -> Literal["networks", "machine", "ensemble"]:
        """What is trained."""
        if self.method == "gs-svm":
            return "machine"
        return "ensemble" if self.method in ENSEMBLES else "networks"


@dataclass(frozen=True)
class CVProgress:
    """Where a cross-validation is; ``str`` of it are a few lines for people."""

    unit: Unit  # in training
    standing: Standing  # of its models
    methods: list[str]
    options: CVOptions
    models: int  # of all methods, settings and test sets
    done: int  # finished models, those of earlier runs included

    @property
    def settings(self) -> list[int]:
        """Of the grid, from 0, in training; several may share a stack."""
        return [] if self.unit.step == "machine" else sorted({j.setting for j in self.unit.jobs})

    @property
    def completed(self) -> float:
        """Models done; a network in training counts by its epochs."""
        epoch, running, stopped, _ = self.standing
        if self.unit.step != "networks":  # a part that has stopped is not a finished ensemble
            return self.done
        return self.done + stopped + running * epoch / self.options.training.max_epochs

    def __str__(self) -> str:
        """What is trained, how many models, how far: lines that fit beside a progress bar."""
        method, (epoch, running, stopped, best) = self.unit.method, self.standing
        lines = [f"{method} (method {self.methods.index(method) + 1} of {len(self.methods)})"]
        if (count := len(self.options.grid)) > 1 and (settings := self.settings):
            numbers = ", ".join(str(number + 1) for number in settings)
            lines[0] += f", setting{'s' * (len(settings) > 1)} {numbers} of {count}"
        counts = f"{self.done:,} done, {running} running, {stopped} stopped"
        lines.append(f"{self.models:,} models: {counts}")
        rest = [f"epoch {epoch} of {self.options.training.max_epochs}"] if epoch else []
        rest += [f"best loss {best:.4f}"] if math.isfinite(best) else []
        return "\n".join(lines + [", ".join(rest)] * bool(rest))


def cross_validate(
    data: GraphDataset,
    methods: list[str],
    options: CVOptions | None = None,
    *,
    splits: list[Split] | SplitKind | None = None,
    group_by: GroupBy = "auto",
    model_options: dict[str, Any] | None = None,
    directory: str | Path | None = None,
    device: str = "cpu",
    strategy: Strategy | Literal["auto"] = "auto",
    workers: int | None = None,
    chunk: int = 90,
    keep_features: bool = False,
    measures: Mapping[str, Measure] | None = None,
    progress: Callable[[CVProgress], None] = lambda facts: None,
    engine: Engine | None = None,
    way: str | None = None,
    metric: str | None = None,
) -> CVResult:
    """Cross-validates methods on the same partitions.

    Args:
        data: with targets.
        methods: names, as :func:`legs.training.methods` lists them.
        options: the protocol (default: the paper's).
        splits: a user's own, one per test set; or ``"random"`` (default) or ``"scaffold"``:
            molecules with the same ring system stay together.
        group_by: which graphs belong in one part of a split, see
            :func:`legs.data.splits.find_groups` (default: duplicates, unless the data set was
            loaded by name). A user's own splits are checked, with a warning.
        model_options: options for every network.
        directory: where to keep results. A run that was killed resumes there. A folder that holds
            other files is refused.
        device: where to train (default ``"cpu"``).
        strategy: ``"stacked"`` trains models of one architecture at once, ``"sequential"`` one
            after another; ``"auto"`` (default) stacks on GPUs, and networks of fixed features.
        workers: processes for sequential training on the CPU (default: one per core).
        chunk: models trained at once at most.
        keep_features: whether results hold the graph features of every network (default: no).
        measures: functions of every trained network, its inputs and all targets, by name, whose
            results are kept (default: none).
        progress: called now and then with :class:`~legs.training.cv.cross_validation.CVProgress`.
        engine: whose workers train, such as those of a cluster (default: this process, one method
            after another).
        metric: the score of validation graphs that chooses a setting of the grid, such as
            ``"roc_auc"`` or ``"mae:T"``, see :meth:`legs.training.task.Task.scores` (default: the
            validation loss).
        way: deprecated name of ``strategy``, with ``"single"`` for ``"sequential"``.
    """
    if way is not None:
        warnings.warn("way= is now strategy=", DeprecationWarning, stacklevel=2)
        strategy = {"single": "sequential"}.get(way, way)  # type: ignore[assignment]
    if strategy not in ("auto", "stacked", "sequential"):
        raise ValueError(f"strategy is 'auto', 'stacked' or 'sequential'; got {strategy!r}")
    options = options or CVOptions()
    methods = list(dict.fromkeys(methods))
    check_grid(methods, options.grid)
    check_values(data)
    planned = plan_splits(data, options, splits, group_by)
    flat = [split for group in planned for split in group]
    settings: dict[str, Any] = {
        "data": fingerprint(data),
        "options": options.to_json(),
        "model_options": model_options or {},
        "splits": [fingerprint_split(split) for split in flat],
    }
    measures = dict(measures or {})
    if metric is not None:
        check_metric(data, flat[0], metric)
        if any(name in ENSEMBLES for name in methods):
            raise ValueError("a metric chooses settings of single networks, not of ensembles")
        measures[VALIDATION] = partial(training.validation_score, metric)
        settings["metric"] = metric
    if measures:
        settings["measures"] = sorted(measures)
    if keep_features:
        settings["features"] = True
        measures["features"] = partial(training.graph_features, data)
    folder = None if directory is None else Path(directory)
    with nullcontext() if folder is None else one_writer(folder, is_store):
        store = Store(folder, settings)
        if folder is not None and not (folder / "splits.json").exists():
            save_splits(folder / "splits.json", flat)
        processes = workers or os.cpu_count() or 1
        shared = Shared(data, options.training, device, measures, processes)
        plan = (methods, planned, options, model_options or {})
        work = Work(*plan, store, shared, strategy, chunk, engine, progress)
        work.run()
        scored = [score_method(data, planned, name, work.results(name)) for name in methods]
    return CVResult(data, options, planned, scored, baseline_scores(data, planned), device)


def default_strategy(method: str, device: str) -> Strategy:
    """What is faster as a rule: on a CPU, all cores are busy with one network each."""
    return "stacked" if method in STACKED or device.startswith("cuda") else "sequential"


def train_unit(
    shared: Shared,
    unit: Unit,
    report: Callable[[Unit, Standing], None] = lambda unit, standing: None,
    checkpoints: Callable[[Unit, str], Path | None] = lambda unit, part: None,
) -> list[Trained]:
    """Trains the models of a unit; ``checkpoints`` are those of :mod:`legs.training.cv.models`."""
    send = partial(report, unit)
    if unit.step == "machine":
        send(Standing(0, 1, 0, math.inf))
        return [training.fit_machine(job.split, shared) for job in unit.jobs]
    train = training.train_networks if unit.step == "networks" else training.train_ensembles
    files = partial(checkpoints, unit)
    return train(unit.method, unit.jobs, shared, unit.strategy, send, files)


@dataclass
class Work:
    """All models of a cross-validation."""

    methods: list[str]
    planned: list[list[Split]]  # by test set and model
    options: CVOptions
    model_options: dict[str, Any]  # of every network
    store: Store
    shared: Shared
    strategy: Strategy | Literal["auto"]
    chunk: int  # models trained at once at most
    # Whose workers train. Without one this process does; networks that are trained sequentially on
    # the CPU are, by ``shared.workers`` processes.
    engine: Engine | None
    progress: Callable[[CVProgress], None]

    def __post_init__(self) -> None:
        self.models = sum(len(jobs) for method in self.methods for jobs in self.jobs(method))
        self.done = 0  # finished models, those of earlier runs included

    def jobs(self, method: str) -> list[list[Job]]:
        """All models of a method, by setting and split."""
        if method == "gs-svm":  # one for each test set, whatever the grid is
            tests = enumerate(models[0] for models in self.planned)
            return [[Job(k, split, {}, 0, f"gs-svm-{k}") for k, split in tests]]
        ensemble, grid = method in ENSEMBLES, self.options.grid
        common = {} if ensemble else self.model_options
        splits = [split for models in self.planned for split in models]
        by_setting = []
        for number, setting in enumerate(grid):
            # The names since version 0.1.0.
            name = method if ensemble and list(grid) == [{}] else f"{method}-{number}"
            by_setting.append(
                [
                    Job(k, split, {**common, **setting}, number, f"{name}-{k}")
                    for k, split in enumerate(splits)
                ]
            )
        return by_setting

    def load(self, jobs: list[Job]) -> list[Trained | None]:
        """Models of a setting; ``None`` for those that are not finished."""
        return self.store.load_all([job.name for job in jobs])

    def run(self) -> None:
        """Trains what the store does not have.

        Where a GPU runs out of memory, the rest is trained in stacks of half the size.
        """
        parts = [self.load(jobs) for method in self.methods for jobs in self.jobs(method)]
        self.done = sum(model is not None for models in parts for model in models)
        while True:
            units = [unit for method in self.methods for unit in self.units(method)]
            try:
                for workers, some in groupby(units, self._workers):
                    self._run(list(some), workers)
                return
            except torch.OutOfMemoryError:
                largest = max(len(unit.jobs) for unit in units)
                if min(self.chunk, largest) == 1:
                    raise
                self.chunk = min(self.chunk, largest) // 2
            # Outside the except block: until its end the traceback holds tensors.
            gc.collect()
            torch.cuda.empty_cache()

    def _workers(self, unit: Unit) -> int:
        """How many units such as this are trained at once; 1 may be this process."""
        if self.engine is not None:
            return self.engine.workers
        parallel = unit.step == "networks" and unit.strategy == "sequential"
        return self.shared.workers if parallel and self.shared.device == "cpu" else 1

    def _run(self, units: list[Unit], workers: int) -> None:
        work: Callable[[Shared, Unit], list[Trained]] = train_unit
        engine, shared = self.engine or LocalEngine(workers), replace(self.shared, workers=1)
        if self.engine is None and workers == 1:  # it can report epochs, and resume a stack
            work = partial(train_unit, report=self._report, checkpoints=self._checkpoint)
            shared = self.shared
        left = len(units)
        self._report(units[0], Standing(0, min(left, workers), 0, math.inf))
        gpus = int(shared.device.startswith("cuda"))
        for number, models in engine.run(work, shared, units, gpus=gpus):
            left -= 1
            self._save(units[number], models)
            self._report(units[number], Standing(0, min(left, workers), 0, math.inf))

    def _report(self, unit: Unit, standing: Standing) -> None:
        counts = (self.models, self.done)
        self.progress(CVProgress(unit, standing, self.methods, self.options, *counts))

    def _save(self, unit: Unit, models: list[Trained]) -> None:
        # The first at last: with it go the states of the unit, which have its name.
        for job, model in reversed([*zip(unit.jobs, models, strict=True)]):
            self.store.save(job.name, model)
        self.done += len(models)

    def _checkpoint(self, unit: Unit, part: str) -> Path | None:
        name = unit.jobs[0].name
        return self.store.partial(f"{name}-{part}" if part else name, len(unit.jobs))

    def units(self, method: str) -> Iterator[Unit]:
        """Units of a method that are not in the store."""
        strategy = self.strategy
        if strategy == "auto":
            strategy = default_strategy(method, self.shared.device)
        by_setting = self.jobs(method)
        for settings in stacks(self.options.grid) if method != "gs-svm" else [[0]]:
            jobs = [job for setting in settings for job in by_setting[setting]]
            size = self._size(Unit(method, strategy, jobs))
            models = [model for setting in settings for model in self.load(by_setting[setting])]
            jobs = [job for job, model in zip(jobs, models, strict=True) if model is None]
            for start in range(0, len(jobs), size):
                yield Unit(method, strategy, jobs[start : start + size])

    def _size(self, unit: Unit) -> int:
        """Into how many models at a time a unit is cut, so that all workers have some."""
        workers = self._workers(unit)
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
        found = (iter(filter(None, self.load(jobs))) for jobs in self.jobs(method))
        return [[list(islice(models, size)) for size in sizes] for models in found]
