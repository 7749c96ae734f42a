"""The paper's Table II: thirteen data sets, ten methods, by its protocol."""

from __future__ import annotations

from dataclasses import replace

from legs.experiments.beyond import tests_and_sizes
from legs.experiments.cells import LARGE, MESSAGE_PASSING, Cell, make_cell
from legs.experiments.outlook import Progress
from legs.experiments.page import Report
from legs.experiments.paper_tables import Printed, printed
from legs.experiments.request import Request
from legs.experiments.settings import SETS
from legs.experiments.table_experiment import TableExperiment

METHODS = (
    "legs-rbf",
    "legs-fcn",
    "legs-fixed",
    "gcn",
    "graphsage",
    "gat",
    "gin",
    "gs-svm",
    "baseline",
    "snowball",
)
QUICK_SETS = ("ENZYMES", "MUTAG", "IMDB-BINARY")

WORDS = (
    "Node features: eccentricity and clustering coefficient, nothing else. Ten stratified "
    "partitions; for each test set nine models, each validated on another partition; majority "
    "vote; mean ± population deviation over the ten test sets. On "
    f"{', '.join(LARGE)}, {', '.join(MESSAGE_PASSING)} train one model a test set (column "
    '"protocol"). "guess" answers the most frequent class of the training graphs. The standard '
    "error is that of the difference, √(s₁²/10 + s₂²/10). Snowball is named in the paper, but has "
    "no column in its table."
)


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    return [
        make_cell(request, data, method)
        for data in request.sets(SETS, QUICK_SETS)
        for method in request.methods(METHODS)
    ]


def whole(request: Request) -> list[Cell]:
    """All cells of the table."""
    return plan(replace(request, datasets=(), models=()))


def paper(cell: Cell) -> Printed | None:
    """The paper's number for a cell."""
    return printed("classification", cell.data, cell.method)


EXPERIMENT = TableExperiment(
    "classification",
    "Classification of graphs (Table II)",
    WORDS,
    plan,
    whole,
    paper,
    tests_and_sizes,
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return EXPERIMENT.run(request, progress)
