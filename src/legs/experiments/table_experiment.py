"""An experiment that is a table: cells are run, and stand beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from legs.experiments.cells import Cell
from legs.experiments.comparing import Lookup, compared, overview, shown, tally
from legs.experiments.ledger import Ledger
from legs.experiments.outlook import Progress
from legs.experiments.page import (
    CSV,
    Report,
    header_of,
    table_section,
    tuning_words,
    write_page,
)
from legs.experiments.request import Request
from legs.experiments.runner import run_cells
from legs.experiments.settings import SETS
from legs.training import CVOptions

# Adds sections, notes, tables (by file name) and pictures to a report.
Extra = Callable[[Request, Ledger, Report], dict[str, pd.DataFrame]]
# What fits into 80 columns, and the short names it has there.
SCREEN = {
    "data": "data",
    "method": "method",
    "variant": "variant",
    "paper": "paper",
    "ours": "ours",
    "difference": "diff",
    "within one": "within 1",
    "guess": "guess",
}


@dataclass(frozen=True)
class TableExperiment:
    """A table of the paper, or one like it.

    Args:
        name: as on the command line.
        title: of the page.
        words: what the table shows and what to know, for the page.
        plan: all cells of it, for a request; ``datasets`` and ``models`` choose among them.
        whole: all cells that the page lists, run or not.
        paper: the paper's number for a cell.
        extra: what else the page has (default: nothing).
    """

    name: str
    title: str
    words: str
    plan: Callable[[Request], Sequence[Cell]]
    whole: Callable[[Request], Sequence[Cell]]
    paper: Lookup
    extra: Extra | None = None

    def run(self, request: Request, progress: Progress = lambda facts: None) -> Report:
        """Runs what is missing, and writes everything that is known.

        Args:
            request: what was asked for.
            progress: called now and then.
        """
        ledger = Ledger(request.folder, self.name, request.reuse)
        cells = list(self.plan(request))
        run_cells(request, cells, ledger, header_of(request, self.title), progress)
        return self.write(request, ledger, cells)

    def write(self, request: Request, ledger: Ledger, cells: Sequence[Cell]) -> Report:
        """Writes page and tables of what the ledger has."""
        # Labels at random, other seeds and protocols check some cells: no others are missing.
        check = request.shuffled or request.seed != 0 or request.rotations is not None
        listed = {cell.key: cell for cell in (*(() if check else self.whole(request)), *cells)}
        for row in ledger.rows.values():  # what earlier requests have run
            cell = Cell(row["data"], row["method"], CVOptions(), row["variant"])
            cell = replace(cell, shuffled=row["settings"]["shuffled"])
            listed.setdefault(cell.key, cell)
        methods = list(dict.fromkeys(cell.method for cell in listed.values()))
        order = sorted(listed.values(), key=lambda c: (SETS.index(c.data), methods.index(c.method)))
        table = compared(order, ledger.rows, self.paper)
        page = shown(table)
        ran = (table["status"] == "run").to_numpy()
        names = [name for name in SCREEN if name in page]
        screen = page.loc[ran, names].rename(columns=SCREEN)
        title = f"{self.title}{' (quick)' if request.quick else ''}"
        if request.shuffled:
            title += ", labels shuffled"
        if request.seed:
            title += f", seed {request.seed}"
        report = Report(title, screen)
        if request.rotations is not None:
            report.title += f", models a test set: {request.rotations}"
            report.sections.append("**Not the paper's protocol:** see the column of that name.")
        report.sections += [self.words, tuning_words(request.quick)]
        report.sections.append(
            table_section("Accuracy in per cent; in brackets the paper's", overview(table))
        )
        counted = tally(table)
        if len(counted):
            report.sections.append(table_section("Beside the paper, by method", counted))
        numbers = {CSV: table}
        if self.extra is not None:
            numbers |= self.extra(request, ledger, report)
        report.sections.append(table_section("Every cell", page))
        missing = int((~ran).sum())
        if missing:
            report.notes.append(f"{missing} of {len(table)} cells were not run.")
        write_page(request, report, ledger, numbers)
        return report
