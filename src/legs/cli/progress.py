"""Progress on a terminal; nothing anywhere else."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from legs.training.cv_progress import CVProgress


class _Shown:
    """Something that is shown as long as a ``with`` block lasts."""

    progress: Progress

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()


class Epochs(_Shown):
    """A bar for training: epoch, losses, time left. To be called with a row of losses an epoch.

    Args:
        console: where to show it, if it is a terminal.
        epochs: at most so many.
        title: what is being trained.
    """

    def __init__(self, console: Console, epochs: int, title: str) -> None:
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[losses]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.epochs = epochs
        self.title = title
        self.last = 0
        self.validation = ""
        self.start = time.monotonic()
        self.first = 0
        self.task = self.progress.add_task(title, total=epochs, losses="")

    def __call__(self, row: dict[str, float]) -> None:
        """Shows an epoch."""
        epoch = int(row["epoch"])
        if epoch > 1 and not self.last:
            self.console.print(f"going on after epoch {epoch - 1}")
        if epoch <= self.last or not self.last:
            # The first epoch of a run, of one that goes on, or of an ensemble's next network.
            self.start, self.first, self.validation = time.monotonic(), epoch, ""
        self.last = epoch
        if "validation_loss" in row:
            self.validation = f"validation {row['validation_loss']:.3g}"
        self.progress.update(
            self.task,
            completed=epoch,
            losses=f"epoch {epoch}/{self.epochs} train {row['train_loss']:<7.3g} "
            f"{self.validation:<18} {self._left(epoch)}",
        )

    def _left(self, epoch: int) -> str:
        done = epoch - self.first
        if not done:
            return ""
        seconds = round((time.monotonic() - self.start) / done * (self.epochs - epoch))
        # Early stopping may come before.
        return f"≤ {seconds // 60}:{seconds % 60:02d} left"


class Rows(_Shown):
    """Counts rows while a file is read; to be called with the number of rows done."""

    def __init__(self, console: Console, title: str) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f} rows"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=None)

    def __call__(self, rows: int) -> None:
        """Shows how many rows are done."""
        self.progress.update(self.task, completed=rows)


class PlanBar(_Shown):
    """A bar over a whole plan with lines beside it.

    Args:
        console: where to show it, if it is a terminal.
    """

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=12),
            # Goes on between the calls, which may be minutes apart.
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("starting", total=None)

    def show(self, total: float, completed: float, lines: list[str]) -> None:
        """Shows how much is done, and the lines."""
        self.progress.update(
            self.task, total=total, completed=completed, description="\n".join(lines)
        )


class Plan(PlanBar):
    """How far a cross-validation is, over its whole plan; to be called with the facts."""

    def __call__(self, facts: CVProgress) -> None:
        """Shows where the plan is."""
        # A model in training counts by its epochs: a stack of all models would stand still.
        part = facts.running * facts.epoch / facts.max_epochs if facts.step == "networks" else 0
        self.show(facts.models, facts.done + facts.stopped + part, plan_lines(facts))


def plan_lines(facts: CVProgress) -> list[str]:
    """The facts in lines that fit beside a bar: what is trained, how many models, how far."""
    what = [f"{facts.method} (method {facts.method_number} of {facts.methods})"]
    if facts.grid > 1 and facts.settings:
        numbers = ", ".join(str(k + 1) for k in facts.settings)
        what.append(f"setting{'s' * (len(facts.settings) > 1)} {numbers} of {facts.grid}")
    models = f"{facts.models:,} models: {facts.done:,} done, {facts.running} running, "
    models += f"{facts.stopped} stopped"
    rest = []
    if facts.step == "trial":
        rest.append("trying which way is faster")
    elif facts.epoch:
        rest.append(f"epoch {facts.epoch} of {facts.max_epochs}")
    if math.isfinite(facts.best_loss):
        rest.append(f"best loss {facts.best_loss:.4f}")
    if facts.time_left:
        rest.append(facts.time_left)
    return [", ".join(what), models, *([", ".join(rest)] if rest else [])]
