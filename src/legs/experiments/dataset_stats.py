"""The paper's Table I: what the data sets are like."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from legs.data.errors import DataError
from legs.data.statistics import PRINTED, check
from legs.experiments.comparing import NOT_RUN
from legs.experiments.ledger import FILE, check_folder
from legs.experiments.outlook import PlanProgress, Progress
from legs.experiments.page import CSV, MARKDOWN, Report, table_section
from legs.experiments.provenance import provenance
from legs.experiments.request import Request
from legs.experiments.settings import SETS
from legs.models.saving import write_atomically

NAME, TITLE = "dataset-stats", "Statistics of the data sets (Table I)"
QUICK_SETS = ("ENZYMES", "MUTAG", "PROTEINS", "PTC_MR", "IMDB-BINARY", "IMDB-MULTI")
WORDS = (
    "Means over graphs. Edges: undirected, without self-loops. Diameter: of the connected graphs "
    "only. CC: clustering coefficient. In brackets the paper's."
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Loads every set and compares it with the paper's table.

    Args:
        request: what was asked for.
        progress: called before every set.
    """
    for option, given in {"--models": request.models, "--rotations": request.rotations}.items():
        if given:
            raise ValueError(f"{option} is for experiments that train; {NAME} looks at data")
    check_folder(request.folder, NAME)
    asked = request.sets(SETS, QUICK_SETS)
    numbers: list[dict[str, Any]] = []
    rows: list[dict[str, str]] = []
    differing: list[str] = []
    missing: list[str] = []
    page: dict[str, dict[str, str]] = {}
    first_error: DataError | None = None
    for place, name in enumerate(asked):
        progress(PlanProgress(place + 1, len(asked), place, name, None, 0.0, None))
        try:
            ((ours, compared),) = check([name])
        except DataError as error:
            first_error = first_error or error
            missing.append(f"Not run: {name}: {error}")
            continue
        row = {"data": name, "connected": f"{ours.connected:.1%}"}
        both = dict(row)
        for one in compared:
            digits = len(one.printed.partition(".")[2])
            value = f"{one.ours:,.{digits}f}"
            both[PRINTED[one.quantity]] = f"{value} ({one.printed})"
            row[PRINTED[one.quantity]] = value if one.agrees else f"{value} ({one.printed})"
            known = {"data": name, "quantity": one.quantity, "ours": one.ours}
            numbers.append({**known, "paper": float(one.printed), "agrees": one.agrees})
            if not one.agrees:
                differing.append(f"{name}, {one.quantity}: {one.explanation or 'not explained'}.")
        rows.append(row)
        page[name] = both
    if first_error is not None and not rows:
        raise first_error
    columns = ["data", *PRINTED.values(), "connected"]
    listed = [page.get(name, {"data": name, columns[1]: NOT_RUN}) for name in SETS]
    table = pd.DataFrame(rows, columns=columns)
    report = Report(TITLE, table, notes=[*differing, *missing])
    if not differing and rows:
        report.notes.insert(0, f"All numbers of {len(rows)} sets agree to the printed digits.")
    if len(page) < len(SETS):
        report.notes.append(f"{len(SETS) - len(page)} of {len(SETS)} sets were not run.")
    whole = pd.DataFrame(listed, columns=columns).fillna("")
    report.sections = [WORDS, table_section("Ours and the paper's", whole)]
    _write(request, report, numbers)
    return report


def _write(request: Request, report: Report, numbers: list[dict[str, Any]]) -> None:
    folder = request.folder
    folder.mkdir(parents=True, exist_ok=True)
    known = provenance("cpu")
    lines = [f"# {report.title}", ""]
    lines += [f"- {name.capitalize()}: {known[name]}" for name in ("machine", "date", "commit")]
    lines += [f"- Command: `{request.command}`", ""]
    for section in report.sections:
        lines += [section, ""]
    lines += [f"- {note}" for note in report.notes]
    write_atomically(folder / MARKDOWN, ("\n".join(lines) + "\n").encode())
    write_atomically(folder / CSV, pd.DataFrame(numbers).to_csv(index=False).encode())
    content = {"experiment": NAME, **known, "command": request.command, "rows": numbers}
    write_atomically(folder / FILE, json.dumps(content, indent=1).encode())
    report.files = [folder / name for name in (MARKDOWN, CSV, FILE)]
