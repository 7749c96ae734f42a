"""Accuracy from less than scattering.

One support vector machine for every description of the graphs of a set: number of nodes and edges,
mean of the node features, scattering, and scattering with the numbers of nodes and edges. The ten
test sets of ``legs reproduce classification``, nine tenths train, C and γ chosen within these.
``python -m benchmarks.size_alone`` writes ``docs/results/size-alone``; ``page`` the page alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from benchmarks.provenance import provenance
from benchmarks.results_page import Results, origin, run
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import stratified_folds
from legs.training.svm import WIDTHS, ScatteringSVM

SETS = ("ENZYMES", "MUTAG", "PROTEINS", "PTC_MR", "IMDB-BINARY", "IMDB-MULTI")
RESULTS = Path("docs/results/size-alone")
WORDS = """\
One support vector machine (RBF kernel; C and γ chosen within the training graphs)
for every description of a graph, on the ten test sets of the
[classification table](../classification/results.md). *Size*: logarithms of the numbers of nodes and
edges. *Mean*: of the node features, eccentricity and clustering coefficient. *Scattering*: fixed
scales, order two, four normalized moments: what LEGS-FIXED and GS-SVM see. Moments are averages:
they do not know how many nodes there are.
"""
READING = """\
Read with care: these are machines of one kind on the same graphs, and no network was trained with
the size added or taken away. Where size alone comes near the best network of the table or passes
it, classes differ in how large the graphs are, which a description by averages cannot say. Where
the mean of two node features does as well as everything else here, their arrangement adds nothing
that these machines find. Where scattering is far ahead of both, it is the arrangement that matters.
"""


def descriptions(data: GraphDataset) -> dict[str, Tensor]:
    """Features ``[graphs, features]`` by name."""
    graph = torch.repeat_interleave(torch.arange(len(data)), data.sizes)
    edges = torch.zeros(len(data)).index_add_(0, graph, data.rowptr.diff().float())
    total = torch.zeros(len(data), data.in_channels).index_add_(0, graph, data.x)
    size = torch.stack([data.sizes.float().log(), edges.log1p()], 1)
    mean, scattering = total / data.sizes[:, None], ScatteringSVM.embedding(data)
    return {
        "size": size,
        "mean": mean,
        "mean and size": torch.cat([mean, size], 1),
        "scattering": scattering,
        "scattering and size": torch.cat([scattering, size], 1),
    }


def accuracies(data: GraphDataset, features: Tensor, seed: int) -> list[float]:
    """In per cent, one per test set."""
    assert data.y is not None
    x, y = features.double().numpy(), data.y.numpy()
    # Wider or harder machines do not converge on two uninformative features.
    grid = {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": [w / x.shape[1] for w in WIDTHS]}
    accuracy = []
    for test in stratified_folds(y, k=10, seed=seed):
        train = np.setdiff1d(np.arange(len(y)), test)
        inner = StratifiedKFold(5, shuffle=True, random_state=seed)
        machine = make_pipeline(StandardScaler(), SVC())
        search = GridSearchCV(machine, grid, cv=inner, n_jobs=-1).fit(x[train], y[train])
        accuracy.append(100 * float(search.score(x[test], y[test])))
    return accuracy


def table(rows: list[dict[str, Any]]) -> str:
    """Accuracies, one row per set."""
    names = list(rows[0]["scores"])
    lines = [f"| data | guess | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        cells = [f"{np.mean(s):.1f} ± {np.std(s):.1f}" for s in row["scores"].values()]
        lines.append(f"| {row['data']} | {row['guess']:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure(options: argparse.Namespace, file: Path) -> Results:
    """Accuracies of all descriptions of some sets."""
    rows = []
    for name in options.datasets:
        data = load(name, features="structure")
        assert data.y is not None
        majority = 100 * float(torch.bincount(data.y).max()) / len(data)
        scores = {
            what: accuracies(data, features, options.seed)
            for what, features in descriptions(data).items()
        }
        rows.append({"data": name, "guess": majority, "scores": scores})
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    return {**provenance("cpu"), "seed": options.seed, "rows": rows}


def page(results: Results) -> str:
    """The page about results."""
    text = f"# Accuracy from size alone\n\n{WORDS}\n"
    text += "Accuracy in per cent, mean ± deviation over ten test sets.\n\n"
    text += f"{table(results['rows'])}\n\n{READING}\n"
    return text + origin(results, "benchmarks.size_alone")


if __name__ == "__main__":
    run(__doc__, RESULTS, SETS, measure, page)
