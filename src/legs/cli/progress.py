"""Progress bars on a terminal; nothing anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from legs.training.cv.cross_validation import CVProgress


class _Bar(Progress):
    """One bar, shown during a ``with`` block."""

    def __init__(self, console: Console, *columns: ProgressColumn, **task: Any) -> None:
        terminal = console.is_terminal
        super().__init__(
            SpinnerColumn(), *columns, console=console, transient=True, disable=not terminal
        )
        self.task = self.add_task(**{"total": None, **task})


class Epochs(_Bar):
    """Epoch, losses and time left of a training run; called with the losses of every epoch."""

    def __init__(self, console: Console, epochs: int, title: str) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[losses]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        super().__init__(console, *columns, description=title, total=epochs, losses="")
        self.epochs, self.last, self.validation = epochs, 0, ""

    def __call__(self, row: dict[str, float]) -> None:
        """Shows an epoch."""
        epoch = int(row["epoch"])
        if epoch > 1 and not self.last:
            self.console.print(f"resuming after epoch {epoch - 1}")
        if epoch <= self.last or not self.last:
            # The first epoch of a run, of one that is resumed, or of an ensemble's next network.
            self.reset(self.task, completed=epoch, losses="")
            self.validation = ""
        self.last = epoch
        if "validation_loss" in row:
            self.validation = f"validation {row['validation_loss']:.3g}"
        train = f"train {row['train_loss']:<7.3g}"
        losses = f"epoch {epoch}/{self.epochs} {train} {self.validation:<18}"
        self.update(self.task, completed=epoch, losses=losses)


class Rows(_Bar):
    """Counts rows while a file is read; called with the number of rows done."""

    def __init__(self, console: Console, title: str) -> None:
        columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} rows"))
        super().__init__(console, *columns, description=title)

    def __call__(self, rows: int) -> None:
        """Shows how many rows are done."""
        self.update(self.task, completed=rows)


class Plan(_Bar):
    """Progress of a cross-validation or an experiment, with lines beside the bar."""

    def __init__(self, console: Console) -> None:
        columns = (
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        super().__init__(console, *columns, description="starting")

    def __call__(self, progress: CVProgress) -> None:
        """Shows the progress of a cross-validation."""
        self.show(progress.models, progress.completed, str(progress).splitlines())

    def show(self, total: float, completed: float, lines: list[str]) -> None:
        """Shows how much is done, and the lines."""
        self.update(self.task, total=total, completed=completed, description="\n".join(lines))
