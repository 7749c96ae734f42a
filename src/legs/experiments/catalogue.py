"""The experiments by name. Nothing heavy is imported before one is run."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from legs.files import one_writer

if TYPE_CHECKING:
    from legs.experiments.outlook import Progress
    from legs.experiments.page import Report
    from legs.experiments.request import Request

# Name: module of this package, what it shows.
EXPERIMENTS = {
    "dataset-stats": ("dataset_stats", "Table I: what the 13 data sets are like"),
    "tuning": ("tuning", "Learning rates, chosen on validation graphs"),
    "classification": ("classification", "Table II: 13 data sets, ten methods"),
    "reduced-training": ("reduced_training", "Table III: less and less training data"),
    "ensemble": ("ensemble", "Table VIII: GCN and LEGS under a common head"),
    "classification-labels": (
        "classification_labels",
        "Beyond Table II: node labels, attributes, degrees",
    ),
    "enzymes": ("enzymes", "Table IX: exchange preferences between enzyme classes"),
    "scales": ("scales", "Which scales are learned, and how far from dyadic"),
    "structures": ("structures", "Table IV: quality of predicted structures, GDT_TS"),
    "qm9": ("qm9", "Tables V and X: QM9, 19 targets"),
    "zinc": ("zinc", "Table VI: ten properties of molecules of ZINC15"),
    "affinity": ("affinity", "Table VII: affinities of ligands, beside fingerprints"),
}


def check_name(name: str) -> None:
    """A clear error for a name that is no experiment's.

    >>> check_name("clasification")
    Traceback (most recent call last):
    ...
    ValueError: no experiment is called 'clasification'; did you mean 'classification'?
    """
    if name in EXPERIMENTS:
        return
    near = get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.4)
    rest = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(EXPERIMENTS)}"
    raise ValueError(f"no experiment is called {name!r}; {rest}")


def run(name: str, request: Request, progress: Progress = lambda facts: None) -> Report:
    """Runs an experiment, or what is missing of it.

    Args:
        name: a key of :data:`EXPERIMENTS`.
        request: what is asked for.
        progress: called now and then with how far it is.
    """
    check_name(name)
    if request.observed is not None and name != "enzymes":
        raise ValueError("--observed is for enzymes")
    if request.shuffled and name in ("dataset-stats", "enzymes", "scales", "tuning"):
        raise ValueError(f"--shuffle-labels is for tables of accuracies, not for {name}")
    module = import_module(f"legs.experiments.{EXPERIMENTS[name][0]}")
    with one_writer(request.folder):
        report: Report = module.run(request, progress)
    return report
