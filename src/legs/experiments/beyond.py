"""What a table of methods has beyond the paper's: paired tests, accuracy against size."""

from __future__ import annotations

import pandas as pd

from legs.experiments.ledger import Ledger
from legs.experiments.page import Report, table_section
from legs.experiments.pairs import paired, points, summary
from legs.experiments.pictures import NoPictures, draw_parameters
from legs.experiments.request import Request

PAIRS = "comparisons.csv"


def tests_and_sizes(request: Request, ledger: Ledger, report: Report) -> dict[str, pd.DataFrame]:
    """Adds paired tests of LEGS against the others, and accuracy against number of parameters.

    Args:
        request: what was asked for.
        ledger: the finished cells.
        report: to which sections, notes and figures are added.

    Returns:
        Tables for programs, by file name.
    """
    rows = [row for row in ledger.rows.values() if not row["settings"]["shuffled"]]
    found = paired(rows)
    if len(found):
        words = (
            "Corrected resampled t-test (Nadeau and Bengio 2003) over the same test sets; "
            "difference in per cent, ours minus the other's. With so many pairs some are below "
            f"0.05 by chance. Every pair on every set is in `{PAIRS}`."
        )
        title = "LEGS against every other method, over data sets"
        report.sections.append(f"{table_section(title, summary(found))}\n\n{words}")
    if rows:
        try:
            report.files += draw_parameters(ledger.folder / "parameters", points(rows))
            report.sections.append(
                "## Accuracy against number of parameters\n\n"
                "GS-SVM's are its dual coefficients.\n\n"
                "![accuracy against number of parameters](parameters.svg)"
            )
        except NoPictures as error:
            report.notes.append(f"No figure: {error}.")
    return {PAIRS: found} if len(found) else {}
