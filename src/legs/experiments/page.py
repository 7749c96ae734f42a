"""An experiment's results as files for people and programs: Markdown, CSV, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from legs.experiments.cells import QUICK_EPOCHS, QUICK_RATE
from legs.experiments.ledger import FILE, Ledger, Row
from legs.experiments.provenance import apart
from legs.experiments.request import Request
from legs.experiments.settings import RATES, tuned_words
from legs.models.saving import write_atomically
from legs.training.cv_tables import markdown
from legs.training.svm import MOST_TUNED

MARKDOWN, CSV = "results.md", "results.csv"


@dataclass
class Report:
    """What an experiment has to say.

    Args:
        title: of the page.
        table: for the screen; a row a line.
        sections: of the page after its header, each Markdown.
        notes: sentences for page and screen.
        files: what was written, in the folder of the experiment.
    """

    title: str
    table: pd.DataFrame
    sections: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def header_of(request: Request, title: str, rates: Sequence[float] | None = None) -> dict[str, Any]:
    """What ``results.json`` tells of a run besides its rows.

    Args:
        request: what was asked for.
        title: of the experiment.
        rates: learning rates to choose from (default: those of classification).
    """
    usual = [QUICK_RATE] if request.quick else RATES
    return {
        "title": title,
        "quick": request.quick,
        "seed": request.seed,
        "shuffled": request.shuffled,
        "command": request.command,
        "learning_rates": list(usual if rates is None else rates),
    }


def tuning_words(quick: bool) -> str:
    """What was tuned, for the page."""
    if quick:
        return (
            '**Quick: not the paper\'s protocol.** Few graphs, few test sets (column "protocol"), '
            f"one model each, {QUICK_EPOCHS} epochs at most, learning rate {QUICK_RATE:g}, nothing "
            "tuned. It shows that everything runs and roughly where numbers lie."
        )
    return (
        f"{tuned_words()} GS-SVM chooses C and γ within its training folds, on {MOST_TUNED:,} of "
        "their graphs at most. Everything else is the same for all data sets: the defaults of the "
        "package. Test sets have no part in any choice."
    )


def origin_words(rows: Iterable[Row], command: str = "") -> list[str]:
    """Where results come from, for the page: a line a fact.

    >>> row = {"device": "CPU", "machine": "M", "versions": {"torch": "2"}, "date": "2030-01-02T0"}
    >>> origin_words([{**row, "commit": "abc", "seconds": 60.0}])
    ['Device: CPU', 'Machine: M', 'Versions: torch 2', 'Dates: 2030-01-02', 'Commit: abc',
     'Time of all cells: 1:00 on CPU']
    """
    rows = list(rows)
    if not rows:
        return []

    def different(values: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(value for value in values if value))

    versions = (", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in rows)
    facts = {
        "Device": different(row["device"] for row in rows),
        "Machine": different(row["machine"] for row in rows),
        "Versions": different(versions),
        "Dates": different(sorted(row["date"][:10] for row in rows)),
        "Commit": different(row["commit"] for row in rows),
        "Command": f"`{command}`" if command else "",
        "Time of all cells": _times(rows),
    }
    return [f"{name}: {text}" for name, text in facts.items() if text]


def _times(rows: Iterable[Row]) -> str:
    """How long every device was at work; a cell counts for its part of a shared one.

    >>> shared = {"device": "GPU, shared by 4", "seconds": 240.0}
    >>> _times([shared, {"device": "CPU", "seconds": 5.0}, {"device": "GPU", "seconds": 60.0}])
    '2:00 on GPU; 0:05 on CPU'
    """
    from legs.training.cv_progress import clock_time

    seconds: dict[str, float] = {}
    for row in rows:
        device, parts = apart(row["device"])
        seconds[device] = seconds.get(device, 0.0) + row["seconds"] / parts
    return "; ".join(f"{clock_time(time)} on {device}" for device, time in seconds.items())


def write_page(
    request: Request, report: Report, ledger: Ledger, numbers: Mapping[str, pd.DataFrame]
) -> None:
    """Writes ``results.md`` and tables for programs.

    Args:
        request: what was asked for.
        report: what the page says; the files are added to it.
        ledger: the finished cells.
        numbers: tables by file name.
    """
    report.notes += left_out_words(ledger)
    folder = ledger.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {report.title}", ""]
    lines += [f"- {line}" for line in origin_words(ledger.rows.values(), request.command)]
    lines += [f"- Seed: {request.seed}", ""]
    for section in report.sections:
        lines += [section, ""]
    lines += [f"- {note}" for note in report.notes]
    write_atomically(folder / MARKDOWN, ("\n".join(lines).rstrip() + "\n").encode())
    for name, table in numbers.items():
        write_atomically(folder / name, table.to_csv(index=False).encode())
    report.files[:0] = [folder / name for name in (MARKDOWN, *numbers, FILE)]


def left_out_words(ledger: Ledger) -> list[str]:
    """A sentence for every cell that was asked for and is not there."""
    return [f"Not run: {why}" for why in dict.fromkeys(ledger.left_out.values())]


def table_section(title: str, table: pd.DataFrame) -> str:
    """A table under a heading."""
    return f"## {title}\n\n{markdown(table)}"
