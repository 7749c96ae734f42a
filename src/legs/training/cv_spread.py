"""A cross-validation on an engine: groups of models are trained by its workers, and kept here.

What is not in the store yet is cut into units that do not depend on each other. A unit's models are
the same to the last bit however the plan is cut, so the cut may follow the number of workers; a
unit is kept as soon as it is done. Workers need no disk of ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from legs.data.dataset import GraphDataset
from legs.engine import Engine
from legs.training.cv_apart import fit_ensemble, fit_machine
from legs.training.cv_ensembles import train_ensembles
from legs.training.cv_grid import stacks
from legs.training.cv_measures import Measure
from legs.training.cv_plan import CVOptions
from legs.training.cv_progress import Step
from legs.training.cv_store import Trained
from legs.training.members import Job, choose_way, train_members
from legs.training.methods import ENSEMBLES
from legs.training.stack import Standing
from legs.training.svm import scattering_features

if TYPE_CHECKING:
    from legs.training.cv_runner import Runner

# Units of models one by one for each worker: the last to end keeps the others waiting.
ROUNDS = 4


@dataclass(frozen=True)
class Shared:
    """What every unit needs."""

    data: GraphDataset
    options: CVOptions
    device: str
    features: bool
    measures: Mapping[str, Measure]


@dataclass(frozen=True)
class Unit:
    """Models that one worker trains.

    Args:
        method: its number in the plan.
        name: of the method.
        step: what is to be done.
        way: how to train networks.
        settings: of the grid.
        place: of the first model among those of the method.
        jobs: one a model.
        names: in the store: one for all models, or one a model.
    """

    method: int
    name: str
    step: Step
    way: Literal["stacked", "single"]
    settings: tuple[int, ...]
    place: int
    jobs: list[Job]
    names: list[str]


def spread(runner: Runner, engine: Engine) -> None:
    """Trains what a runner's store does not have; afterwards the runner finds all of it there.

    Args:
        runner: of the plan; its store has a directory.
        engine: whose workers train.
    """
    if runner.store.directory is None:
        raise ValueError("an engine keeps what is done in a directory; name one")
    shared = Shared(runner.data, runner.options, runner.device, runner.features, runner.measures)
    gpus = 1 if runner.device.startswith("cuda") else 0
    if runner.way == "auto":
        _try_ways(runner, engine, shared, gpus)
    units = [
        unit
        for number in range(len(runner.tracker.paces))
        for unit in _units(runner, engine, number)
    ]
    if not units:
        return
    left, before = len(units), runner.tracker.clock()
    _tell(runner, units[0], min(left, engine.workers))
    for place, models in engine.run(train_unit, shared, units, gpus=gpus):
        unit = units[place]
        if len(unit.names) == len(models):
            for name, model in zip(unit.names, models, strict=True):
                runner.store.save(name, [model])
        else:
            runner.store.save(unit.names[0], models)
        left, now = left - 1, runner.tracker.clock()
        pace = runner.tracker.paces[unit.method]
        work = pace.work_of(models)
        pace.done += len(models)
        pace.work += work
        # Units are done beside each other: the time since the last one is what this one cost.
        pace.measured, pace.seconds = pace.measured + work, pace.seconds + now - before
        before = now
        _tell(runner, unit, min(left, engine.workers))


def train_unit(shared: Shared, unit: Unit) -> list[Trained]:
    """The models of a unit; what an engine's workers do."""
    training = shared.options.training
    if unit.step == "machine":
        features = scattering_features(shared.data)
        return [fit_machine(shared.data, job.split, training, 1, features) for job in unit.jobs]
    if unit.step == "networks":
        return train_members(
            unit.name,
            unit.jobs,
            shared.data,
            training,
            device=shared.device,
            way=unit.way,
            features=shared.features,
            measures=shared.measures,
        )
    if unit.way == "stacked":
        return train_ensembles(unit.name, unit.jobs, shared.data, training, device=shared.device)
    return [
        fit_ensemble(
            unit.name,
            shared.data,
            job.split,
            training,
            job.options,
            job.number,
            device=shared.device,
        )
        for job in unit.jobs
    ]


def try_way(shared: Shared, trial: tuple[str, str, list[Job]]) -> tuple[str, str]:
    """Which way a worker trains networks faster: the key of a trial, and the way."""
    key, method, jobs = trial
    training = shared.options.training
    return key, choose_way(method, jobs, shared.data, training, device=shared.device)


def _try_ways(runner: Runner, engine: Engine, shared: Shared, gpus: int) -> None:
    known = runner.store.notes()
    trials = []
    for pace in runner.tracker.paces:
        if pace.name == "gs-svm" or pace.name in ENSEMBLES or pace.done == pace.models:
            continue
        for group in stacks(runner.options.grid):
            key = runner.way_key(pace.name, group)
            if key not in known:
                trials.append((key, pace.name, runner.jobs(group)[:16]))
    for _, (key, way) in engine.run(try_way, shared, trials, gpus=gpus):
        known[key] = way
        runner.store.note(known)


def _units(runner: Runner, engine: Engine, number: int) -> Iterator[Unit]:
    """The units of a method that are not in the store."""
    method = runner.tracker.paces[number].name
    if method == "gs-svm":
        yield from _machines(runner, number)
    elif method in ENSEMBLES:
        yield from _ensembles(runner, engine, number, method)
    else:
        before = 0
        for group in stacks(runner.options.grid):
            yield from _networks(runner, engine, number, method, group, before)
            before += len(group) * len(runner.flat)


def _machines(runner: Runner, number: int) -> Iterator[Unit]:
    for k, group in enumerate(runner.planned):
        name = f"gs-svm-{k}"
        if runner.store.load(name) is None:
            jobs = [Job(k, group[0], {})]
            yield Unit(number, "gs-svm", "machine", "single", (), k, jobs, [name])


def _ensembles(runner: Runner, engine: Engine, number: int, method: str) -> Iterator[Unit]:
    way: Literal["stacked", "single"] = "stacked" if runner.way == "stacked" else "single"
    for group in stacks(runner.options.grid):
        todo = []
        for setting in group:
            for k, split in enumerate(runner.flat):
                name = runner.ensemble_name(method, setting, k)
                if runner.store.load(name) is None:
                    job = Job(k, split, runner.options.grid[setting])
                    todo.append((setting, setting * len(runner.flat) + k, job, name))
        size = _share(len(todo), engine.workers, runner.chunk) if way == "stacked" else 1
        for start in range(0, len(todo), size):
            settings, places, jobs, names = zip(*todo[start : start + size], strict=True)
            chosen = tuple(dict.fromkeys(settings))
            yield Unit(number, method, "ensemble", way, chosen, places[0], list(jobs), list(names))


def _networks(
    runner: Runner, engine: Engine, number: int, method: str, group: list[int], before: int
) -> Iterator[Unit]:
    jobs = runner.jobs(group)
    way = runner.way
    if way == "auto":
        known = runner.store.notes().get(runner.way_key(method, group))
        way = "stacked" if known == "stacked" else "single"
    parts = engine.workers if way == "stacked" else ROUNDS * engine.workers
    size = _share(len(jobs), parts, runner.chunk)
    first = 0
    while first < len(jobs):
        part = runner.store.load(runner.part_name(method, group, first))
        if part is not None:
            first += len(part)
            continue
        end = first + 1
        # Up to what an earlier run, which may have cut otherwise, has done already.
        while end < min(first + size, len(jobs)):
            if runner.store.load(runner.part_name(method, group, end)) is not None:
                break
            end += 1
        models = len(runner.flat)
        settings = tuple(group[first // models : (end - 1) // models + 1])
        names = [runner.part_name(method, group, first)]
        yield Unit(
            number, method, "networks", way, settings, before + first, jobs[first:end], names
        )
        first = end


def _share(models: int, parts: int, most: int) -> int:
    return max(1, min(most, math.ceil(models / parts)))


def _tell(runner: Runner, unit: Unit, running: int) -> None:
    runner.tracker.begin(unit.method, unit.settings, unit.step, unit.place, len(unit.jobs))
    runner.tracker(Standing(0, running, 0, math.inf, 0))
