"""Which scales every data set learns, how far from dyadic, and what the filters let through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from legs.experiments.cells import Cell, make_cell
from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Progress
from legs.experiments.page import CSV, Report, header_of, table_section, tuning_words, write_page
from legs.experiments.pictures import NoPictures, draw_responses
from legs.experiments.request import Request
from legs.experiments.runner import run_cells
from legs.experiments.scale_tables import dyadic_weights, facts, responses, screen, shown, untrained
from legs.experiments.settings import SETS
from legs.models.saving import ModelError

NAME, TITLE = "scales", "Learned scales"
METHODS = ("legs-fcn",)
QUICK_SETS = ("ENZYMES", "MUTAG", "PTC_MR", "IMDB-BINARY")

WORDS = (
    "F is the learned selection matrix, a row a scale; E t = Σ t F its mean diffusion time; mean ± "
    "deviation over all models behind the answers (test sets, rotations, seeds). Nearest whole "
    "scales: the increasing t₁ < … < t_J that maximise Σ log F, the most frequent among models and "
    "its share. Distances from the dyadic scales 1, 2, 4, … and from where learning starts: in "
    "steps, the mean of |E t − t| over scales and models; and the total variation between rows of "
    "the mean F. Lower "
    "frame bound: of the mean F; the upper one is 1. Every seed that was run in this folder counts."
)


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    return [
        make_cell(request, data, method, variant=f"seed {request.seed}")
        for data in request.sets(SETS, QUICK_SETS)
        for method in request.methods(METHODS)
    ]


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs what is missing, and writes tables and the figure.

    Args:
        request: what was asked for.
        progress: called now and then.
    """
    cells = plan(request)
    if not any("legs" in cell.method and "fixed" not in cell.method for cell in cells):
        raise ValueError("--models takes methods that learn scales, such as legs-fcn and legs-rbf")
    ledger = Ledger(request.folder, NAME, request.reuse, same=("quick",))
    run_cells(request, cells, ledger, header_of(request, TITLE), progress)
    return write(request, ledger)


def write(request: Request, ledger: Ledger) -> Report:
    """Writes page, tables and figure of what the ledger has."""
    groups = grouped(list(ledger.rows.values()))
    found = [facts(data, rows) for (data, _), rows in groups.items()]
    if not found:
        raise ModelError(
            f"{ledger.folder} holds no learned scales yet: no cell of a network that learns them "
            "is finished"
        )
    size = len(found[0]["weights"]), len(found[0]["weights"][0])
    everything = [untrained(*size), *found]
    page = shown(everything)
    report = Report(f"{TITLE}{' (quick)' if request.quick else ''}", screen(everything))
    report.sections = [WORDS, tuning_words(request.quick), table_section("Scales", page)]
    guesses = pd.DataFrame(
        [
            {
                "data": row["data"],
                "method": row["method"],
                "variant": row["variant"],
                "accuracy": f"{row['mean']:.2f} ± {row['std']:.2f}",
                "guess": f"{sum(row['guess']) / len(row['guess']):.2f}",
                "protocol": row["protocol"],
                "seconds": f"{row['seconds']:.0f}",
            }
            for row in ledger.rows.values()
        ]
    )
    report.sections.append(table_section("Every cell", guesses))
    missing = [name for name in SETS if name not in {one["data"] for one in found}]
    if missing:
        report.notes.append(f"Not run: {', '.join(missing)}.")
    try:
        banks = {
            f"{one['data']}, {one['method']}": responses(np.asarray(one["weights"]))
            for one in found
        }
        report.files += draw_responses(
            ledger.folder / "responses", banks, responses(dyadic_weights(*size))
        )
        report.sections.append(
            "## Frequency responses\n\nLearned (mean F) and dyadic (dashed).\n\n"
            "![frequency responses](responses.svg)"
        )
    except NoPictures as error:
        report.notes.append(f"No figure: {error}.")
    write_page(request, report, ledger, {CSV: pd.DataFrame(everything)})
    return report


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows with scales by data set and method, in the order of the paper's sets."""
    found: dict[tuple[str, str], list[Row]] = {}
    for name in SETS:
        for row in rows:
            if row["data"] == name and "scales" in row:
                found.setdefault((name, row["method"]), []).append(row)
    return found
