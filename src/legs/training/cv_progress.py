"""How far a cross-validation is: facts for whoever shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# What is being done: timing both ways, networks, a support vector machine, an ensemble.
Step = Literal["trial", "networks", "machine", "ensemble"]


@dataclass(frozen=True)
class CVProgress:
    """Where a cross-validation is. As text: one line for people.

    Args:
        method: the method in training.
        method_number: which of the ``methods``, from 1.
        methods: how many there are.
        settings: numbers of the grid's settings in training, from 0; several share a stack.
        grid: how many settings there are.
        step: what is being done.
        first: of the method's models, the first of those trained now, from 1.
        last: the last of them.
        method_models: models of this method in all.
        epoch: of the models that run; 0 where it is not known.
        max_epochs: at most so many.
        models: of the whole plan: all methods, settings and models.
        done: models that are finished and kept, those of earlier runs included.
        running: models in training.
        stopped: models whose training has ended, but not that of others beside them.
        best_loss: mean of the best validation losses of the models in training; infinite before
            the first validation.
        seconds: since this run began.
        seconds_left: an estimate for the whole plan, or ``None`` before anything was measured.
        at_most: whether the estimate counts every model with ``max_epochs``: early stopping can
            only shorten it.
    """

    method: str
    method_number: int
    methods: int
    settings: tuple[int, ...]
    grid: int
    step: Step
    first: int
    last: int
    method_models: int
    epoch: int
    max_epochs: int
    models: int
    done: int
    running: int
    stopped: int
    best_loss: float
    seconds: float
    seconds_left: float | None
    at_most: bool

    @property
    def time_left(self) -> str:
        """The estimate in words; empty before there is one."""
        if self.seconds_left is None:
            return ""
        return f"{'≤' if self.at_most else 'about'} {clock_time(self.seconds_left)} left"

    def __str__(self) -> str:
        """One line."""
        if self.step == "trial":
            return f"{self.method}: trying which way is faster"
        if self.step == "machine":
            return f"{self.method}: test set {self.first} of {self.method_models}"
        if self.step == "ensemble":
            return f"{self.method}: model {self.first} of {self.method_models}"
        line = f"{self.method}: models {self.first} to {self.last} of {self.method_models}, "
        line += f"epoch {self.epoch}, {self.running} running"
        return line + (f", best loss {self.best_loss:.4f}" if math.isfinite(self.best_loss) else "")


def clock_time(seconds: float) -> str:
    """Minutes and seconds, hours if need be.

    >>> clock_time(65.4), clock_time(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
