"""How far an experiment is, over its whole plan, and how long the rest may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from legs.data.registry import lookup
from legs.data.statistics import paper_statistics
from legs.experiments.cells import Cell
from legs.experiments.paper_tables import PAPER_NAMES
from legs.training.cv_progress import CVProgress, clock_time

Clock = Callable[[], float]


@dataclass(frozen=True)
class PlanProgress:
    """Where an experiment is. As text: one line for people.

    Args:
        number: of the cell in work, from 1.
        cells: how many there are.
        done: how many of them are finished.
        title: of the cell in work.
        facts: how far that is, or ``None`` while its data are prepared.
        seconds: since this run began.
        seconds_left: an estimate for the whole plan; ``None`` before anything was measured.
    """

    number: int
    cells: int
    done: int
    title: str
    facts: CVProgress | None
    seconds: float
    seconds_left: float | None

    @property
    def time_left(self) -> str:
        """The estimate in words; empty before there is one."""
        if self.seconds_left is None:
            return ""
        return f"about {clock_time(self.seconds_left)} left for {self.cells - self.done} cells"

    @property
    def part(self) -> float:
        """How much of the cell in work is done, from 0 to 1."""
        facts = self.facts
        if facts is None or not facts.models:
            return 0.0
        running = facts.running * facts.epoch / facts.max_epochs if facts.step == "networks" else 0
        return (facts.done + facts.stopped + running) / facts.models

    def __str__(self) -> str:
        """One line."""
        return f"cell {self.number} of {self.cells}: {self.title}"


Progress = Callable[[PlanProgress], None]


@dataclass
class Outlook:
    """Follows the cells of a plan and tells how far it is.

    A cell's work is its models times the size of its data set. Seconds for a piece of work are
    those of the method's finished cells, or of all methods' where it has none.

    Args:
        cells: of the plan, in order.
        send: called with the facts.
        clock: seconds (default: of the machine).
    """

    cells: Sequence[Cell]
    send: Progress
    clock: Clock = time.monotonic
    measured: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)
    finished: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def end(self, cell: Cell, seconds: float | None) -> None:
        """A cell is finished; ``seconds`` if they were measured on this machine."""
        self.finished.add(cell.key)
        if seconds is not None:
            work, before = self.measured.get(cell.method, (0.0, 0.0))
            self.measured[cell.method] = work + work_of(cell), before + seconds

    def tell(self, cell: Cell, facts: CVProgress | None = None) -> None:
        """Tells how far the plan is while ``cell`` is in work."""
        keys = [other.key for other in self.cells]
        self.send(
            PlanProgress(
                number=keys.index(cell.key) + 1,
                cells=len(keys),
                done=len(self.finished & set(keys)),
                title=cell.title,
                facts=facts,
                seconds=self.clock() - self.began,
                seconds_left=self._left(cell, facts),
            )
        )

    def _left(self, current: Cell, facts: CVProgress | None) -> float | None:
        rates = {name: seconds / work for name, (work, seconds) in self.measured.items() if work}
        left = None if facts is None else facts.seconds_left
        if left is not None and facts is not None and current.method not in rates:
            rates[current.method] = (facts.seconds + left) / work_of(current)
        if not rates:
            return None
        usual = sum(rates.values()) / len(rates)
        total = 0.0
        for cell in self.cells:
            if cell.key == current.key and left is not None:
                total += left
            elif cell.key not in self.finished:
                total += work_of(cell) * rates.get(cell.method, usual)
        return total


def work_of(cell: Cell) -> float:
    """How much there is to do for a cell: models times nodes and edges of their graphs.

    >>> from legs.training import CVOptions
    >>> work_of(Cell("MUTAG", "gcn", CVOptions(rotations=1)))
    70913.6
    """
    printed = paper_statistics().get(PAPER_NAMES.get(cell.data, cell.data))
    graphs, size = 1000.0, 100.0  # of a set that nothing is known of
    if printed is not None:
        graphs = float(printed["graphs"])
        size = float(printed["nodes"]) + float(printed["edges"])
    elif (known := lookup(cell.data)) is not None:
        graphs = float(known.graphs or graphs)
    if cell.limit is not None:
        graphs = min(graphs, cell.limit)
    return round(cell.models * graphs * size, 1)
