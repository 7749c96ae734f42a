"""The paper's Table IV and figure: how near predicted structures come to the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from legs.data import sources
from legs.data.casp12 import HELP
from legs.experiments.ledger import Ledger, Row
from legs.experiments.outlook import Progress
from legs.experiments.page import Report, table_section
from legs.experiments.paper_tables import printed
from legs.experiments.pictures import NoPictures
from legs.experiments.regression import Study
from legs.experiments.regression_cells import (
    QUICK,
    Protocol,
    RegressionCell,
    Splitting,
    make_regression_cell,
)
from legs.experiments.regression_pictures import Point, draw_improvement
from legs.experiments.regression_sections import label_of
from legs.experiments.regression_tables import Landmark
from legs.experiments.request import Request

CASP12 = "casp12"
SETS = ("rna-puzzles", "protein-decoys", CASP12)
FEATURES = "structure"
METHODS = (
    "legs-fcn",
    "legs-rbf",
    "legs-fixed",
    "gcn",
    "graphsage",
    "gin",
    "baseline",
    "mean",
    "target-mean",
)
# How structures are split, and what the tables call it.
SPLITTINGS: dict[Splitting, str] = {"random": "random", "targets": "targets"}
PROTOCOL = Protocol(seeds=3)
QUICK_PROTOCOL = replace(QUICK, limit=240, epochs=40)
GROUPS_CSV = "targets.csv"
OURS, OTHER = "legs-fcn", "gcn"

WORDS = (
    "Structures as graphs of their residues, each joined to its ten nearest (Cα atoms of proteins, "
    "C4′ of RNA); node features: eccentricity and clustering coefficient, nothing that is not "
    "structure; GDT_TS (0 to 100) is predicted, errors are in its units. `rna-puzzles`: 1,192 real "
    "blind predictions of 23 RNA structures; GDT_TS was computed on C4′ atoms. `protein-decoys`: "
    "4,008 **synthetic** decoys of 12 real proteins, predictions by nobody. `casp12`: the paper's "
    "set (4,000 models of 12 targets), which cannot be redistributed; it is run where a user has "
    "it. Splits: at random, as in the paper (three seeds), where models of the same target are "
    'among training and test graphs and "target-mean", the mean GDT_TS of the target, is already '
    "strong; and by targets: six folds of whole targets, each tested once, another validates. Of "
    "a new target no mean is known, so there target-mean is the mean of all."
)
LANDMARK = "\\* The paper's number is for CASP12, for which another set stands in: not comparable."


def protocol(quick: bool) -> Protocol:
    """How networks are trained."""
    return QUICK_PROTOCOL if quick else PROTOCOL


def plan(request: Request) -> list[RegressionCell]:
    """The cells that a request asks for; CASP12's only where it is, or if asked for by name."""
    known = [name for name in SETS if name != CASP12 or has_casp12()]
    return _cells(request, request.sets(SETS, known) if request.datasets else known)


def whole(request: Request) -> list[RegressionCell]:
    """All cells of the study."""
    return _cells(replace(request, models=()), SETS)


def _cells(request: Request, sets: Sequence[str]) -> list[RegressionCell]:
    return [
        _cell(request, data, method, splitting)
        for data in sets
        for splitting in SPLITTINGS
        for method in request.methods(METHODS)
    ]


def has_casp12() -> bool:
    """Whether a user has put CASP12 where it is looked for."""
    return sources.find(f"structures/{CASP12}") is not None


def _cell(request: Request, data: str, method: str, splitting: Splitting) -> RegressionCell:
    return make_regression_cell(
        request,
        data,
        method,
        FEATURES,
        protocol(request.quick),
        splitting=splitting,
        variant=SPLITTINGS[splitting],
        score="units",
        # Among hundreds of files of others some are always broken.
        on_error="skip" if data == CASP12 else "raise",
    )


def paper(cell: RegressionCell) -> Landmark | None:
    """The paper's number for a cell."""
    found = printed("casp", cell.method, "Test MSE")
    if found is None or cell.splitting != "random":
        return None
    return Landmark(found, "" if cell.data == CASP12 else "CASP12")


def improvements(ours: Row, other: Row) -> list[Point]:
    """By target: its name, its mean GDT_TS, and how much smaller our error is, in per cent.

    Args:
        ours: a finished cell.
        other: another on the same splits.
    """
    found = []
    for name, mine in ours["groups"].items():
        theirs = other["groups"][name]
        if mine["tested"] and theirs["squares"] > 0:
            share = 100 * (1 - mine["squares"] / theirs["squares"])
            found.append((name, float(mine["mean"]), share))
    return sorted(found, key=lambda point: point[1])


def add_targets(request: Request, ledger: Ledger, report: Report) -> dict[str, pd.DataFrame]:
    """Adds errors of training, errors by target, and the paper's figure."""
    rows = [row for row in ledger.rows.values() if not row["settings"]["shuffled"]]
    report.sections.append(
        "In every cell below: the error on training graphs, the mean predictor's and R². The "
        "paper's training errors: "
        + ", ".join(
            f"{name} {found.mean:.2f} ± {found.std:.2f}"
            for name in METHODS
            if (found := printed("casp", name, "Train MSE")) is not None
        )
        + " (GraphSAGE's and GIN's are the same in the paper's table)."
    )
    panels: dict[str, list[Point]] = {}
    numbers = []
    for row in rows:
        for name, group in row["groups"].items():
            if group["tested"]:
                known = (row["data"], row["variant"], row["method"], name, group["mean"])
                numbers.append((*known, group["tested"], group["squares"] / group["tested"]))
    pairs = {(row["data"], row["variant"], row["method"]): row for row in rows}
    for (data, variant, method), row in pairs.items():
        other = pairs.get((data, variant, OTHER))
        if method == OURS and other is not None and other["splits"] == row["splits"]:
            panels[label_of(row)] = improvements(row, other)
    if panels:
        table = pd.DataFrame(
            [
                {
                    "data": label,
                    "targets": len(points),
                    f"{OURS} better": sum(point[2] > 0 for point in points),
                    "median improvement, %": f"{pd.Series([p[2] for p in points]).median():+.1f}",
                    "correlation with mean GDT_TS": f"{_correlation(points):+.2f}",
                }
                for label, points in panels.items()
            ]
        )
        title = f"{OURS} against {OTHER}, target by target"
        section = f"{table_section(title, table)}\n\nErrors by target are in `{GROUPS_CSV}`."
        try:
            report.files += draw_improvement(ledger.folder / "improvement", panels, (OURS, OTHER))
            section += f"\n\n![improvement over {OTHER}](improvement.svg)"
        except NoPictures as error:
            report.notes.append(f"No figure: {error}.")
        report.sections.append(section)
    if not has_casp12():
        report.notes.append(f"Not run: casp12, which was not found. {HELP}.")
    columns = ["data", "variant", "method", "target", "mean_gdt_ts", "tested", "mse"]
    return {GROUPS_CSV: pd.DataFrame(numbers, columns=columns)}


def _correlation(points: list[Point]) -> float:
    """Spearman's, between mean score and improvement."""
    table = pd.DataFrame(points, columns=["name", "mean", "share"])
    return float(table["mean"].corr(table["share"], method="spearman"))


STUDY = Study(
    "structures",
    "Quality of predicted structures (Table IV)",
    WORDS,
    SETS,
    plan,
    paper,
    "MSE of GDT_TS",
    protocol,
    whole=whole,
    runs=3,
    style=".2f",
    landmark=LANDMARK,
    screen=("data", "variant", "method", "train", "ours", "mean predictor"),
    extra=add_targets,
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return STUDY.run(request, progress)
