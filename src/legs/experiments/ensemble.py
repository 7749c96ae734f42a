"""The paper's Table VIII: GCN and LEGS side by side under a common head."""

from __future__ import annotations

from dataclasses import replace

from legs.experiments.cells import LARGE, Cell, make_cell
from legs.experiments.outlook import Progress
from legs.experiments.page import Report
from legs.experiments.paper_tables import Printed, printed
from legs.experiments.request import Request
from legs.experiments.settings import SETS
from legs.experiments.table_experiment import TableExperiment

METHODS = ("gcn", "gcn-legs-fixed", "gcn-legs-fcn")
QUICK_SETS = ("ENZYMES", "MUTAG")

WORDS = (
    "Two networks are trained by themselves and frozen; their graph features side by side go "
    "through batch norm, a layer of 128 and a leaky ReLU, which are trained on the same graphs. "
    "Protocol and node features as in the classification table. "
    f'On {", ".join(LARGE)} one model a test set (column "protocol").'
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
    return printed("ensemble", cell.data, cell.method)


EXPERIMENT = TableExperiment(
    "ensemble", "GCN and LEGS together (Table VIII)", WORDS, plan, whole, paper
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return EXPERIMENT.run(request, progress)
