"""The paper's Table III: less and less training data."""

from __future__ import annotations

from dataclasses import replace

from legs.experiments.cells import Cell, make_cell
from legs.experiments.outlook import Progress
from legs.experiments.page import Report
from legs.experiments.paper_tables import Printed, printed
from legs.experiments.request import Request
from legs.experiments.settings import SETS
from legs.experiments.table_experiment import TableExperiment

# The paper's is LEGS-RBF; the others are cheap, and tell what it is worth.
METHODS = ("legs-rbf", "legs-fixed", "baseline")
QUICK_SETS = ("ENZYMES", "MUTAG")
# Partitions in a test set of ten, and the shares of training, validation and test graphs.
SHARES = {1: (80, 10, 10), 2: (70, 10, 20), 5: (40, 10, 50), 7: (20, 10, 70)}

WORDS = (
    "The test set is 1, 2, 5 or 7 consecutive partitions of ten, at each of the ten starting "
    "positions; validation rotates over the remaining partitions, the rest trains. Variant: per "
    "cent of the graphs that train, validate and test. The paper has LEGS-RBF only. Test sets of "
    "several partitions overlap, so their deviation says less than that of ten that do not."
)


def variant(test_folds: int) -> str:
    """Shares of training, validation and test graphs.

    >>> variant(5)
    '40/10/50'
    """
    return "/".join(str(share) for share in SHARES[test_folds])


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    return [
        make_cell(request, data, method, test_folds=k, quick_folds=10, variant=variant(k))
        for data in request.sets(SETS, QUICK_SETS)
        for method in request.methods(METHODS)
        for k in SHARES
    ]


def whole(request: Request) -> list[Cell]:
    """All cells of the paper's table."""
    return plan(replace(request, datasets=(), models=("legs-rbf",)))


def paper(cell: Cell) -> Printed | None:
    """The paper's number for a cell."""
    if cell.method != "legs-rbf":
        return None
    column = ", ".join(f"{share}%" for share in cell.variant.split("/"))
    return printed("reduced_training", cell.data, column)


EXPERIMENT = TableExperiment(
    "reduced-training", "Less training data (Table III)", WORDS, plan, whole, paper
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return EXPERIMENT.run(request, progress)
