"""Sections that the pages of all regression studies have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from legs.experiments import importance
from legs.experiments.ledger import Row
from legs.experiments.page import Report, table_section
from legs.experiments.pairs import points
from legs.experiments.pictures import NoPictures
from legs.experiments.references import REFERENCES
from legs.experiments.regression_cells import Protocol, RegressionCell
from legs.experiments.regression_pairs import paired, ranking, summary
from legs.experiments.regression_pictures import draw_errors, draw_filters, draw_importance
from legs.experiments.scale_tables import dyadic_weights, facts, responses, shown, untrained
from legs.training.cv_grid import setting_name

PAIRS, IMPORTANCE = "comparisons.csv", "importance.csv"


def protocol_section(
    cells: Sequence[RegressionCell], rows: Sequence[Row], protocol: Protocol, quick: bool
) -> str:
    """How everything was trained and what was chosen from, for the page.

    Args:
        cells: of the study.
        rows: finished cells, which may be of further methods.
        protocol: of the networks.
        quick: whether this is a quick run.
    """
    clip = "" if protocol.clip is None else f"gradients of norm {protocol.clip:g} at most, "
    limit = "" if protocol.limit is None else f"{protocol.limit} graphs a set, "
    words = (
        '**Quick: not the paper\'s protocol.** Few graphs, few test sets (column "protocol"), few '
        "epochs, nothing tuned. It shows that everything runs and roughly where numbers lie.\n\n"
        if quick
        else ""
    )
    words += (
        f"Every network alike: {limit}Adam, batches of {protocol.batch_size} graphs, {clip}at most "
        f"{protocol.epochs} epochs, validation every {protocol.validate_every}, the end after "
        f"{protocol.patience} without a better validation loss, the weights of the best kept; "
        "targets whitened by the training graphs; the same splits, the same node features; sizes "
        "as the package has them. Where there is more than one setting, each test set takes the "
        "one with the least validation loss; test graphs have no part in any choice."
    )
    tried = [(cell.method, cell.options.grid, cell.features) for cell in cells]
    tried += [
        (row["method"], row["settings"]["options"]["grid"], row["settings"]["features"])
        for row in rows
    ]
    lines: dict[str, dict[str, str]] = {}
    for method, grid, features in tried:
        reads = features
        if method in REFERENCES:
            reads = "fingerprints" if any(grid) else "none"
        settings = "; ".join(map(setting_name, grid)) if any(grid) else "nothing to choose"
        lines.setdefault(method, {"method": method, "settings": settings, "reads": reads})
    return f"{words}\n\n{table_section('Grid', pd.DataFrame(list(lines.values())))}"


def add_ranking(rows: Sequence[Row], report: Report, style: str) -> None:
    """Adds the ranking on every set, whatever it is."""
    words = (
        "p: corrected resampled t-test (Nadeau and Bengio 2003) against the first, over the same "
        "test sets; with so few of them only large differences are below 0.05."
    )
    table = table_section("Ranking, the smallest error first", ranking(rows, style))
    report.sections.append(f"{table}\n\n{words}")


def add_pairs(rows: Sequence[Row], report: Report) -> dict[str, pd.DataFrame]:
    """Adds the comparison of every LEGS network with every other method."""
    found = paired(rows)
    if not len(found):
        return {}
    words = (
        "Corrected resampled t-test over the same test sets; differences are LEGS's error minus "
        "the other's, in per cent of the other's: below zero LEGS is better. With so many pairs "
        f"some are below 0.05 by chance. Every pair on every set is in `{PAIRS}`."
    )
    title = "LEGS against every other method"
    report.sections.append(f"{table_section(title, summary(found))}\n\n{words}")
    return {PAIRS: found}


def add_scales(rows: Sequence[Row], folder: Path, report: Report, style: str) -> None:
    """Adds which scales were learned, and what the filters let through."""
    learned = [row for row in rows if "scales" in row]
    if not learned:
        return
    found = [facts(label_of(row), [row]) for row in learned]
    size = len(found[0]["weights"]), len(found[0]["weights"][0])
    table = shown([untrained(*size), *found], "MSE", style)
    words = (
        "E t = Σ t F is the mean diffusion time of a scale (F: the learned selection matrix, a row "
        "a scale), mean ± deviation over models; nearest whole scales: the most frequent among "
        "models and its share; steps from dyadic: the mean of |E t − t| for t = 1, 2, 4, …; "
        "variation: total variation between rows of the mean F and others."
    )
    section = f"{table_section('Learned scales', table)}\n\n{words}"
    try:
        banks = {
            f"{one['data']}, {one['method']}": responses(np.asarray(one["weights"]))
            for one in found
        }
        report.files += draw_filters(folder / "responses", banks, responses(dyadic_weights(*size)))
        section += "\n\nLearned (mean F) and dyadic (dashed):\n\n"
        section += "![frequency responses](responses.svg)"
    except NoPictures as error:
        report.notes.append(f"No figure: {error}.")
    report.sections.append(section)


def add_importance(rows: Sequence[Row], folder: Path, report: Report) -> dict[str, pd.DataFrame]:
    """Adds which scattering paths matter, a table a data set, and the figure."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "importance" in row:
            groups.setdefault(label_of(row), []).append(row)
    if not groups:
        return {}
    parts = [f"## Which paths matter\n\n{importance.WORDS}"]
    for label, group in groups.items():
        table = importance.table({row["method"]: row for row in group})
        parts.append(table_section(label, table).replace("## ", "### ", 1))
    try:
        report.files += draw_importance(folder / "importance", groups)
        parts.append("![how much the error rises without each path](importance.svg)")
    except NoPictures as error:
        report.notes.append(f"No figure: {error}.")
    report.sections.append("\n\n".join(parts))
    return {IMPORTANCE: importance.numbers([row for group in groups.values() for row in group])}


def add_parameters(rows: Sequence[Row], folder: Path, report: Report, errors: str) -> None:
    """Adds errors against the number of parameters, of networks alone."""
    networks = [row for row in rows if row["method"] not in REFERENCES]
    if not networks:
        return
    try:
        report.files += draw_errors(folder / "parameters", points(networks), errors)
        report.sections.append(
            "## Error against number of parameters\n\n"
            "![error against number of parameters](parameters.svg)"
        )
    except NoPictures as error:
        report.notes.append(f"No figure: {error}.")


def label_of(row: Row) -> str:
    """Data set and variant."""
    return ", ".join(filter(None, [row["data"], row["variant"]]))
