"""Progress of a cross-validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from legs.training.stacked.trainer import Standing

if TYPE_CHECKING:
    from legs.training.cv.work import Unit

# Timing both strategies, networks, a support vector machine, an ensemble.
Step = Literal["trial", "networks", "machine", "ensemble"]


@dataclass(frozen=True)
class CVProgress:
    """Where a cross-validation is; ``str`` of it is a line for people."""

    method: str  # in training
    method_number: int  # among ``methods``, from 1
    methods: int
    settings: tuple[int, ...]  # of the grid, from 0, in training; several may share a stack
    grid: int  # number of settings
    step: Step
    first: int  # model in training among those of the method, from 1
    last: int
    method_models: int
    epoch: int  # of the models in training; 0 where unknown
    max_epochs: int
    models: int  # of all methods, settings and test sets
    done: int  # finished models, those of earlier runs included
    running: int  # models in training
    stopped: int  # models whose training has ended, but not that of others in their stack
    best_loss: float  # mean of the best validation losses in training; infinite before the first
    seconds: float  # since this run began
    seconds_left: float | None = None  # estimated, after the first epochs

    @property
    def completed(self) -> float:
        """Models done; a network in training counts by its epochs."""
        part = self.running * self.epoch / self.max_epochs if self.step == "networks" else 0
        return self.done + self.stopped + part

    def __str__(self) -> str:
        """One line."""
        if self.step == "trial":
            return f"{self.method}: timing both strategies"
        if self.step == "machine":
            return f"{self.method}: test set {self.first} of {self.method_models}"
        if self.step == "ensemble":
            return f"{self.method}: model {self.first} of {self.method_models}"
        line = f"{self.method}: models {self.first} to {self.last} of {self.method_models}, "
        line += f"epoch {self.epoch}, {self.running} running"
        return line + (f", best loss {self.best_loss:.4f}" if math.isfinite(self.best_loss) else "")


@dataclass
class Tracker:
    """Counts finished models and reports."""

    models: Mapping[str, int]  # of each method, in the order of the plan
    max_epochs: int
    grid: int  # number of settings
    send: Callable[[CVProgress], None]
    clock: Callable[[], float] = time.monotonic
    done: int = field(default=0, init=False)
    unit: Unit | None = field(default=None, init=False)
    start: tuple[float, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def begin(self, unit: Unit, running: int | None = None) -> None:
        """A unit is trained from now on; ``running`` models, if they do not report themselves."""
        self.unit = unit
        if running is not None or unit.step != "networks":
            self(Standing(0, 1 if running is None else running, 0, math.inf))

    def __call__(self, standing: Standing) -> None:
        """Reports how far the models in training are."""
        assert self.unit is not None
        unit, names, now = self.unit, list(self.models), self.clock()
        progress = CVProgress(
            method=unit.method,
            method_number=names.index(unit.method) + 1,
            methods=len(names),
            settings=unit.settings,
            grid=self.grid,
            step=unit.step,
            first=unit.first + 1,
            last=unit.first + len(unit.jobs),
            method_models=self.models[unit.method],
            epoch=standing.epoch,
            max_epochs=self.max_epochs,
            models=sum(self.models.values()),
            done=self.done,
            running=standing.running,
            stopped=standing.stopped,
            best_loss=standing.best,
            seconds=now - self.began,
        )
        completed = progress.completed
        if self.start is None:  # what was completed before is another run's
            self.start = (now, completed)
        start, before = self.start
        if completed > before:
            left = (now - start) / (completed - before) * (progress.models - completed)
            progress = replace(progress, seconds_left=left)
        self.send(progress)

    def end(self, models: int) -> None:
        """So many models are finished."""
        self.done += models
