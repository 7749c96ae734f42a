"""What commands print: text of files as text, which no terminal obeys; tables; progress bars."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from rich import console
from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from legs.io import printable

if TYPE_CHECKING:
    from legs.training.cv.cross_validation import CVProgress


class Console(console.Console):
    """Rich's console, without highlights, which escapes control characters in all it shows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def echo(self, text: str) -> None:
        """Prints plain text, unwrapped: paths and commands can be copied."""
        self.print(printable(text), soft_wrap=True, markup=False)

    def warn(self, sentences: Iterable[str]) -> None:
        """Prints sentences as warnings."""
        for text in sentences:
            self.echo(f"warning    {text[0].lower()}{text[1:-1]}")

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # its own: moves the cursor, for progress
                yield segment
            else:
                yield segment._replace(text="\n".join(map(printable, segment.text.split("\n"))))


def make_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[str | Text]],
    text: Iterable[str] = (),
    **options: Any,
) -> Table:
    """A table of plain text whose columns hold numbers, but for the first and those in ``text``."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, **options)
    for k, name in enumerate(columns):
        left = not k or name in text
        table.add_column(Text(name), justify="left" if left else "right", no_wrap=not k)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def score_table(
    scores: Mapping[str, Mapping[str, float]], graphs: Mapping[str, int] | None = None
) -> Table:
    """One row per score, one column per part of the data, with its number of graphs."""
    from legs.report.words import number, score_name

    sizes = {part: f"\n{count:,}" for part, count in (graphs or {}).items()}
    heads = [{"guess": "baseline (test)"}.get(part, part) + sizes.get(part, "") for part in scores]
    rows = [
        [score_name(name), *(number(part.get(name)) for part in scores.values())]
        for name in next(iter(scores.values()))
    ]
    return make_table(["score", *heads], rows)


def candidate_table(candidates: Sequence[Mapping[str, Any]]) -> Table:
    """One row per candidate of a blend: out-of-fold scores, weight and time."""
    from legs.report.words import candidate_rows

    head, *rows = candidate_rows(candidates)
    return make_table(head, rows)


class Bar(Progress):
    """A progress bar beside lines of text, on terminals only, during a ``with`` block."""

    def __init__(self, console: console.Console, title: str = "starting") -> None:
        super().__init__(
            SpinnerColumn(),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column()),  # wraps
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.title = title
        self.task = self.add_task(title, total=None)

    def show(self, total: float | None, completed: float, lines: list[str]) -> None:
        """Shows how much is done, and the lines."""
        self.update(self.task, total=total, completed=completed, description="\n".join(lines))


class Rows(Bar):
    """Counts rows while a file is read; called with the number of rows done."""

    def __call__(self, rows: int) -> None:
        """Shows how many rows are done."""
        self.show(None, rows, [f"{self.title} {rows:,} rows"])


class Epochs(Bar):
    """Epoch, losses and time left of a training run; called with the losses of every epoch."""

    def __init__(
        self, console: console.Console, epochs: int, title: str, unit: str = "epoch"
    ) -> None:
        super().__init__(console, title)
        self.epochs, self.last, self.unit = epochs, 0, unit

    def __call__(self, row: dict[str, float]) -> None:
        """Shows an epoch."""
        epoch = ceil(row["epoch"])  # candidates report shares
        if epoch > 1 and not self.last:
            self.console.print(f"resuming after {self.unit} {epoch - 1}")
        self.last = epoch
        losses = [f"{name} {row[name]:.3g}" for name in row if name != "epoch"]
        lines = [f"{self.title} {self.unit} {epoch}/{self.epochs}"]
        lines.append(", ".join(losses).replace("_", " "))
        self.show(self.epochs, row["epoch"], lines)


class Plan(Bar):
    """Progress of a cross-validation."""

    def __call__(self, progress: "CVProgress") -> None:
        """Shows the progress."""
        self.show(progress.models, progress.completed, str(progress).splitlines())
