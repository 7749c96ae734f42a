"""Beyond the paper: the classification table with all that is known of the nodes."""

from __future__ import annotations

from dataclasses import replace

from legs.experiments.beyond import tests_and_sizes
from legs.experiments.cells import LARGE, MESSAGE_PASSING, Cell, make_cell
from legs.experiments.classification import METHODS
from legs.experiments.outlook import Progress
from legs.experiments.page import Report
from legs.experiments.paper_tables import Printed, printed
from legs.experiments.request import Request
from legs.experiments.settings import SETS, SOCIAL
from legs.experiments.table_experiment import TableExperiment

QUICK_SETS = ("ENZYMES", "MUTAG", "IMDB-BINARY")
QUICK_METHODS = ("legs-rbf", "legs-fcn", "legs-fixed", "gcn", "gin", "gs-svm", "baseline")
_ATTRIBUTES = ("ENZYMES", "PROTEINS")

WORDS = (
    "As the classification table, with what practitioners would use: eccentricity, clustering "
    "coefficient and node labels (one-hot) on the biochemical sets, node attributes as well on "
    f"{' and '.join(_ATTRIBUTES)}, node degree on the social sets. The paper's numbers, for "
    "eccentricity and clustering coefficient alone, stand beside them as a landmark: it has none "
    f"for these features. On {', '.join(LARGE)}, {', '.join(MESSAGE_PASSING)} train one model a "
    'test set (column "protocol").'
)


def features(data: str) -> str:
    """Blocks of node features for a set.

    >>> features("ENZYMES"), features("COLLAB")
    ('structure+labels+attributes', 'structure+degree')
    """
    if data in SOCIAL:
        return "structure+degree"
    return "structure+labels" + ("+attributes" if data in _ATTRIBUTES else "")


def plan(request: Request) -> list[Cell]:
    """The cells that a request asks for."""
    return [
        make_cell(request, data, method, features=features(data))
        for data in request.sets(SETS, QUICK_SETS)
        for method in request.methods(QUICK_METHODS if request.quick else METHODS)
    ]


def whole(request: Request) -> list[Cell]:
    """All cells of the table."""
    return plan(replace(request, datasets=(), models=()))


def paper(cell: Cell) -> Printed | None:
    """The paper's number for the same method and set, with other features."""
    return printed("classification", cell.data, cell.method)


EXPERIMENT = TableExperiment(
    "classification-labels",
    "Classification of graphs with node labels, attributes and degrees",
    WORDS,
    plan,
    whole,
    paper,
    tests_and_sizes,
)


def run(request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs the experiment."""
    return EXPERIMENT.run(request, progress)
