"""A regression study: cells are run over seeds, and stand beside the paper's errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Progress
from legs.experiments.page import CSV, Report, header_of, table_section, write_page
from legs.experiments.regression_cells import Protocol, RegressionCell
from legs.experiments.regression_rows import regression_row
from legs.experiments.regression_sections import (
    add_importance,
    add_pairs,
    add_parameters,
    add_ranking,
    add_scales,
    protocol_section,
)
from legs.experiments.regression_tables import Lookup, compared, overview, shown
from legs.experiments.request import Request
from legs.experiments.runner import run_cells
from legs.training import CVOptions
from legs.training.methods import ENSEMBLES

# Adds sections, notes, tables (by file name) and pictures to a report.
Extra = Callable[[Request, Ledger, Report], dict[str, pd.DataFrame]]
# What fits into 80 columns, and short names for it there.
SCREEN = ("data", "method", "paper", "ours", "difference", "mean predictor")
SHORT = {"variant": "split", "difference": "diff", "mean predictor": "guess"}


@dataclass(frozen=True)
class Study:
    """A table of errors.

    Args:
        name: as on the command line.
        title: of the page.
        words: what the table shows and what to know, for the page.
        sets: its data sets, in the order of the page.
        plan: all cells, for a request; ``datasets`` and ``models`` choose among them.
        paper: the paper's number for a cell.
        errors: what the errors are, for headings.
        protocol: how networks are trained, in a quick run or at full size.
        whole: all cells that the page lists, run or not (default: all of the plan).
        runs: of the paper behind each of its numbers (default 4).
        style: how errors are written (default: with three digits).
        landmark: what a star at the paper's numbers means, for the page (default: none has one).
        screen: columns for the screen.
        extra: what else the page has (default: nothing).
    """

    name: str
    title: str
    words: str
    sets: Sequence[str]
    plan: Callable[[Request], Sequence[RegressionCell]]
    paper: Lookup
    errors: str
    protocol: Callable[[bool], Protocol]
    whole: Callable[[Request], Sequence[RegressionCell]] | None = None
    runs: int = 4
    style: str = ".3f"
    landmark: str = ""
    screen: Sequence[str] = SCREEN
    extra: Extra | None = None

    def run(self, request: Request, progress: Progress = lambda facts: None) -> Report:
        """Runs what is missing, and writes everything that is known.

        Args:
            request: what was asked for.
            progress: called now and then.
        """
        ledger = Ledger(request.folder, self.name, request.reuse)
        cells = list(self.plan(request))
        for cell in cells:
            if cell.method in ("gs-svm", *ENSEMBLES):
                raise ValueError(f"{cell.method} classifies; {self.name} predicts numbers")
        header = header_of(request, self.title, self.protocol(request.quick).rates)
        run_cells(request, cells, ledger, header, progress, kept=regression_row)
        return self.write(request, ledger, cells)

    def write(self, request: Request, ledger: Ledger, cells: Sequence[RegressionCell]) -> Report:
        """Writes page, tables and figures of what the ledger has."""
        order = self.listed(request, ledger, cells)
        table = compared(order, ledger.rows, self.paper, self.runs)
        page = shown(table, self.style)
        ran = (table["status"] == "run").to_numpy()
        # What keeps a number of the paper from being compared is on the page.
        short = shown(table.assign(paper_note=""), self.style)
        report = Report(self.title, short.loc[ran, list(self.screen)].rename(columns=SHORT))
        if request.quick:
            report.title += " (quick)"
        if request.shuffled:
            report.title += ", targets shuffled"
        words = "In brackets the paper's"
        head = f"{self.errors}, mean ± deviation over test sets. {words}"
        rows = ordered(ledger, order)
        report.sections += [
            self.words,
            protocol_section(
                self.everything(request), rows, self.protocol(request.quick), request.quick
            ),
            f"{table_section(head, overview(table, self.style))}\n\n{self.landmark}".rstrip(),
        ]
        numbers = {CSV: table}
        if rows:
            add_ranking(rows, report, self.style)
            numbers |= add_pairs(rows, report)
            if self.extra is not None:
                numbers |= self.extra(request, ledger, report)
            add_scales(rows, ledger.folder, report, self.style)
            numbers |= add_importance(rows, ledger.folder, report)
            add_parameters(rows, ledger.folder, report, self.errors)
        report.sections.append(table_section("Every cell", page))
        missing = int((~ran).sum())
        if missing:
            report.notes.append(f"{missing} of {len(table)} cells were not run.")
        write_page(request, report, ledger, numbers)
        return report

    def everything(self, request: Request) -> Sequence[RegressionCell]:
        """All cells of the study."""
        return (self.whole or self.plan)(replace(request, datasets=(), models=()))

    def listed(
        self, request: Request, ledger: Ledger, cells: Sequence[RegressionCell]
    ) -> list[RegressionCell]:
        """All cells of the page: those of the study, those asked for, those that were run."""
        found = {cell.key: cell for cell in (*self.everything(request), *cells)}
        for row in ledger.rows.values():  # what earlier requests have run
            cell = RegressionCell(row["data"], row["method"], CVOptions(), row["variant"])
            cell = replace(cell, shuffled=row["settings"]["shuffled"])
            found.setdefault(cell.key, cell)
        methods = list(dict.fromkeys(cell.method for cell in found.values()))
        variants = list(dict.fromkeys(cell.variant for cell in found.values()))
        return sorted(
            found.values(),
            key=lambda c: (
                self.sets.index(c.data),
                variants.index(c.variant),
                methods.index(c.method),
            ),
        )


def ordered(ledger: Ledger, cells: Sequence[RegressionCell]) -> list[Row]:
    """Finished cells in the order of the page, without those of shuffled targets."""
    found = [ledger.rows[cell.key] for cell in cells if cell.key in ledger.rows]
    return [row for row in found if not row["settings"]["shuffled"]]
