"""Follows a cross-validation: what is done, how long it took, how long the rest may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from legs.training.cv_progress import CVProgress, Step
from legs.training.cv_store import Trained
from legs.training.stack import Standing


@dataclass
class Pace:
    """What is known of one method's models and their time.

    Args:
        name: of the method.
        models: of it in the plan.
        epochs: a model takes at most; ``None`` where a model is one piece of work.
    """

    name: str
    models: int
    epochs: int | None
    done: int = 0
    # Work (epochs; or models, where they are one piece) of finished models, of what was measured
    # in this run, and of what earlier runs noted.
    work: int = 0
    measured: int = 0
    seconds: float = 0.0
    kept: int = 0
    kept_seconds: float = 0.0

    def work_of(self, models: Sequence[Trained]) -> int:
        """Work behind finished models."""
        return len(models) if self.epochs is None else sum(m.epochs for m in models)


@dataclass
class _Part:
    """Models in training."""

    settings: tuple[int, ...]
    step: Step
    first: int
    count: int
    start: float
    standing: Standing | None = None
    before: int = 0  # work that was done when this run came to it

    @property
    def now(self) -> Standing:
        return self.standing or Standing(0, 0 if self.step == "trial" else 1, 0, math.inf, 0)


@dataclass
class Tracker:
    """Counts what is done, measures it, and tells.

    Time left: seconds a model and epoch of this method so far, for every model that is not done.
    A model counts ``max_epochs``, or the mean of those of its method that have ended. Methods that
    nothing is known about count like the mean of the others.

    Args:
        paces: one a method, in the order of the plan.
        max_epochs: of every network.
        validate_every: epochs between validations.
        grid: number of settings.
        send: called with the facts.
        clock: seconds (default: of the machine).
    """

    paces: list[Pace]
    max_epochs: int
    validate_every: int
    grid: int
    send: Callable[[CVProgress], None]
    clock: Callable[[], float] = time.monotonic
    method: int = field(default=0, init=False)
    part: _Part = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def keep(self, method: int, models: Sequence[Trained]) -> None:
        """Counts models that an earlier run has finished."""
        pace = self.paces[method]
        work = pace.work_of(models)
        pace.done += len(models)
        pace.work += work
        pace.kept += work
        pace.kept_seconds += sum(m.seconds for m in models)

    def begin(
        self, method: int, settings: Sequence[int], step: Step, first: int, count: int = 1
    ) -> None:
        """From now on, ``count`` models of a method are trained, from number ``first`` (of 0)."""
        self.method = method
        self.part = _Part(tuple(settings), step, first, count, self.clock())
        if step != "networks":  # these tell themselves where they are
            self._tell()

    def __call__(self, standing: Standing) -> None:
        """Where the models in training are."""
        if self.part.standing is None and self.part.step == "networks":
            # What came before was preparation, or another run's work.
            self.part.start, self.part.before = self.clock(), standing.trained
        self.part.standing = standing
        self._tell()

    def end(self, models: Sequence[Trained]) -> None:
        """The models in training are finished and kept."""
        pace = self.paces[self.method]
        work = pace.work_of(models)
        pace.done += len(models)
        pace.work += work
        pace.measured += work - self.part.before
        pace.seconds += self.clock() - self.part.start

    def _tell(self) -> None:
        part, pace, now = self.part, self.paces[self.method], self.part.now
        left, at_most = self._left()
        self.send(
            CVProgress(
                method=pace.name,
                method_number=self.method + 1,
                methods=len(self.paces),
                settings=part.settings,
                grid=self.grid,
                step=part.step,
                first=part.first + 1,
                last=part.first + part.count,
                method_models=pace.models,
                epoch=now.epoch,
                max_epochs=self.max_epochs,
                models=sum(p.models for p in self.paces),
                done=sum(p.done for p in self.paces),
                running=now.running,
                stopped=now.stopped,
                best_loss=now.best,
                seconds=self.clock() - self.began,
                seconds_left=left,
                at_most=at_most,
            )
        )

    def _left(self) -> tuple[float | None, bool]:
        """Seconds for the rest of the plan, and whether early stopping can only shorten that."""
        known, unknown, total, at_most = [], 0, 0.0, True
        for number, pace in enumerate(self.paces):
            rate = self._rate(number)
            waiting = pace.models - pace.done
            if rate is None:
                unknown += waiting
                continue
            expected, guessed = self._expected(number)
            known.append(rate * expected)
            if number == self.method:
                waiting -= self.part.now.running + self.part.now.stopped
                total += self._running(rate, expected)
            total += rate * expected * waiting
            at_most = at_most and not (guessed and pace.done < pace.models)
        if not known:
            return None, False
        total += unknown * sum(known) / len(known)
        return total, at_most and not unknown

    def _running(self, rate: float, expected: float) -> float:
        """Seconds for the models in training."""
        pace, now = self.paces[self.method], self.part.now
        if pace.epochs is None:
            return max(0.0, rate * now.running - (self.clock() - self.part.start))
        # One that has outlived the others goes on till the next validation at least.
        more = max(expected - now.epoch, self.validate_every)
        return rate * now.running * min(more, pace.epochs - now.epoch)

    def _rate(self, number: int) -> float | None:
        """Seconds for a piece of work: measured in this run, or else in an earlier one."""
        pace = self.paces[number]
        work, seconds = pace.measured, pace.seconds
        if number == self.method and pace.epochs is not None:
            fresh = self.part.now.trained - self.part.before
            if fresh:
                work, seconds = work + fresh, seconds + self.clock() - self.part.start
        if work:
            return seconds / work
        return pace.kept_seconds / pace.kept if pace.kept else None

    def _expected(self, number: int) -> tuple[float, bool]:
        """Work for a model, and whether that is a guess and not the most it can be."""
        pace = self.paces[number]
        if pace.epochs is None:
            return 1.0, True
        ended, work = pace.done, pace.work
        if number == self.method:
            now = self.part.now
            ended, work = ended + now.stopped, work + now.trained - now.running * now.epoch
        return (work / ended, True) if ended else (float(pace.epochs), False)
