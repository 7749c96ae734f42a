"""The paper's Table VII: how strongly ligands bind to two proteins."""

from __future__ import annotations

from dataclasses import replace

from legs.experiments.fingerprints import FOREST_GRID, RIDGE_GRID
from legs.experiments.fingerprints import WORDS as FINGERPRINTS
from legs.experiments.outlook import Progress
from legs.experiments.page import Report
from legs.experiments.paper_tables import printed
from legs.experiments.references import REFERENCES
from legs.experiments.regression import Study
from legs.experiments.regression_cells import (
    QUICK,
    Protocol,
    RegressionCell,
    Splitting,
    make_regression_cell,
)
from legs.experiments.regression_tables import Landmark
from legs.experiments.request import Request
from legs.training.cv_grid import Setting

SETS = ("ki-p00918", "ki-p14416")
FEATURES = "atoms"
METHODS = (
    "legs-fcn",
    "legs-attn-fcn",
    "legs-fixed",
    "mp-legs-fcn",
    "graphsage",
    "gcn",
    "gin",
    "baseline",
    "mean",
    "morgan-ridge",
    "morgan-forest",
)
SPLITTINGS: tuple[Splitting, ...] = ("random", "scaffold")
PROTOCOL = Protocol()
QUICK_PROTOCOL = replace(QUICK, limit=300, epochs=40)
QUICK_TREES = 50
NOTE = "scaling unknown"

WORDS = (
    "Ki of ligands of carbonic anhydrase 2 (P00918) and the dopamine receptor D2 (P14416), 3,000 "
    "each, as pKi = 9 − log₁₀(Ki in nM). **The values are ChEMBL's, not BindingDB's**, medians per "
    "compound; for P00918 the ligands of the authors' own list come first (2,030), for P14416 no "
    "list is known; 512 values of P00918 come without a relation, and some may be bounds. Errors "
    "are in pKi units; R² is that of the test ligands. Node features of the networks: one-hot atom "
    "type, nothing else. Splits: at random, and by Bemis–Murcko scaffold (no scaffold in two "
    "parts; large ones train), as a chemist who looks for new compounds would ask. "
    f"{FINGERPRINTS} They are fitted to the training ligands, as the networks are."
)
LANDMARK = (
    "\\* The paper does not say how it scaled Ki: its errors are **not comparable** with these "
    "and stand here for its ranking only."
)


def protocol(quick: bool) -> Protocol:
    """How networks are trained."""
    return QUICK_PROTOCOL if quick else PROTOCOL


def grid_of(method: str, quick: bool) -> tuple[Setting, ...]:
    """Settings of a reference; fewer trees for a quick run.

    >>> len(grid_of("morgan-ridge", False)), grid_of("morgan-forest", True)[0]["trees"]
    (6, 50)
    """
    if method == "morgan-ridge":
        return RIDGE_GRID
    if quick:
        return tuple({**setting, "trees": QUICK_TREES} for setting in FOREST_GRID)
    return FOREST_GRID


def plan(request: Request) -> list[RegressionCell]:
    """The cells that a request asks for."""
    return [
        _cell(request, data, method, splitting)
        for data in request.sets(SETS, SETS)
        for splitting in SPLITTINGS
        for method in request.methods(METHODS)
    ]


def _cell(request: Request, data: str, method: str, splitting: Splitting) -> RegressionCell:
    cell = make_regression_cell(
        request,
        data,
        method,
        FEATURES,
        protocol(request.quick),
        splitting=splitting,
        variant=splitting,
        score="units",
    )
    if method in REFERENCES and method != "mean":
        grid = grid_of(method, request.quick)
        return replace(cell, options=replace(cell.options, grid=grid))
    return cell


def paper(cell: RegressionCell) -> Landmark | None:
    """The paper's number for a cell: of another scaling, so for its ranking only."""
    if cell.splitting != "random":
        return None
    found = printed("bindingdb", cell.method, cell.data.removeprefix("ki-"))
    return None if found is None else Landmark(found, NOTE)


STUDY = Study(
    "affinity",
    "Binding affinities (Table VII)",
    WORDS,
    SETS,
    plan,
    paper,
    "MSE in pKi units",
    protocol,
    landmark=LANDMARK,
    screen=("data", "variant", "method", "ours", "R²", "mean predictor"),
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return STUDY.run(request, progress)
