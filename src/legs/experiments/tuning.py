"""Which learning rate every network has: chosen on validation graphs, one for a kind of data set.

For each rate, ten networks a data set (one a test set, by the partitions of the other tables) are
trained and validated; the test sets are not looked at. The rate with the smallest geometric mean of
validation losses over the sets of a kind is taken: losses of sets with two and with six classes
count the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from legs.experiments.cells import Cell, make_cell
from legs.experiments.classification import METHODS
from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Progress
from legs.experiments.page import CSV, Report, header_of, table_section, write_page
from legs.experiments.request import Request
from legs.experiments.runner import run_cells
from legs.experiments.settings import FILE, KINDS, RATES, Settings
from legs.models.saving import write_atomically
from legs.training import CVResult
from legs.training.methods import ENSEMBLES

NAME, TITLE = "tuning", "Learning rates"
TUNED_ON = {  # small sets: what is tuned should cost less than it saves
    "biochemical": ("ENZYMES", "PROTEINS"),
    "social": ("IMDB-BINARY", "IMDB-MULTI"),
}
SETS = tuple(name for sets in TUNED_ON.values() for name in sets)
NETWORKS = (*(method for method in METHODS if method != "gs-svm"), *ENSEMBLES)
QUICK_METHODS = ("legs-fixed", "gcn")


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for: one model a test set and rate."""
    asked = replace(request, rotations=1)
    grid = tuple({"lr": rate} for rate in RATES)
    names = QUICK_METHODS if request.quick and not request.models else NETWORKS
    cells = [
        make_cell(asked, data, method)
        for data in request.sets(SETS, ("ENZYMES", "IMDB-BINARY"))
        for method in request.methods(names)
    ]
    return [replace(cell, options=replace(cell.options, grid=grid)) for cell in cells]


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs what is missing, and writes the choices and tables.

    Args:
        request: what was asked for.
        progress: called now and then.
    """
    if "gs-svm" in request.models:
        raise ValueError("gs-svm has no learning rate to choose; leave it out of --models")
    ledger = Ledger(request.folder, NAME, request.reuse, needed=("losses", "rates"))
    header = header_of(request, TITLE, RATES)
    run_cells(request, plan(request), ledger, header, progress, kept=losses_row)
    return write(request, ledger)


def losses_row(cell: Cell, result: CVResult, seconds: float) -> dict[str, Any]:
    """What is kept of a cell: validation losses, nothing of its test sets."""
    (found,) = result.methods
    return {
        "cell": cell.key,
        "data": cell.data,
        "method": cell.method,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "rates": list(RATES),
        "losses": [[round(loss, 6) for loss in losses] for losses in found.losses],
        "models": found.models,
        "seconds": round(seconds, 2),
        "settings": cell.settings(),
    }


def choices(rows: Sequence[Row]) -> Settings:
    """The rate of every method with results on all sets of a kind.

    >>> row = {"method": "gcn", "rates": [0.001, 0.01], "losses": [[2.0, 1.0], [1.0, 1.0]]}
    >>> choices([{**row, "data": name} for name in ("IMDB-BINARY", "IMDB-MULTI")])
    {'social': {'gcn': 0.01}}
    """
    found: Settings = {}
    for kind, sets in TUNED_ON.items():
        for method in dict.fromkeys(row["method"] for row in rows):
            own = {row["data"]: row for row in rows if row["method"] == method}
            if set(sets) <= set(own):
                logs = [np.log(own[name]["losses"]).mean(1) for name in sets]
                best = int(np.argmin(np.mean(logs, axis=0)))
                found.setdefault(kind, {})[method] = own[sets[0]]["rates"][best]
    return found


def write(request: Request, ledger: Ledger) -> Report:
    """Writes choices and tables of what the ledger has."""
    rows = list(ledger.rows.values())
    chosen = choices(rows)
    table = pd.DataFrame(
        [
            {
                "data": row["data"],
                "method": row["method"],
                **{
                    f"loss at {rate:g}": f"{np.mean(losses):.4f}"
                    for rate, losses in zip(row["rates"], row["losses"], strict=True)
                },
                "seconds": f"{row['seconds']:.0f}",
            }
            for row in rows
        ]
    )
    taken = pd.DataFrame(
        [
            {"method": method, **{kind: _shown(chosen, kind, method) for kind in KINDS}}
            for method in dict.fromkeys(row["method"] for row in rows)
        ]
    )
    report = Report(f"{TITLE}{' (quick)' if request.quick else ''}", taken)
    words = (__doc__ or "").split("\n\n", 1)[1].strip().replace("\n", " ")
    report.sections = [words, table_section("Taken", taken)]
    report.sections.append(table_section("Mean validation losses", table))
    write_page(request, report, ledger, {CSV: table})
    write_atomically(ledger.folder / FILE, f"{json.dumps(chosen, indent=1)}\n".encode())
    report.files.append(ledger.folder / FILE)
    return report


def _shown(chosen: Settings, kind: str, method: str) -> str:
    rate = chosen.get(kind, {}).get(method)
    return "" if rate is None else f"{rate:g}"
