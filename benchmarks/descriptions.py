"""What descriptions of graphs say of their classes and targets, and of how unlike they are.

``python -m benchmarks.descriptions STUDY`` writes ``docs/results/STUDY``, with ``--page`` the page
alone. ``size-alone``: a support vector machine on each of several descriptions, among them the size
of graphs. ``given-more``: the head of LEGS-FIXED, trained as in ``legs reproduce``, on moments of
scattering, which do not know how many nodes there are, with and without size and chemistry.
``reach``: how many held-out graphs lie farther from the training graphs than any of those can.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from benchmarks.provenance import provenance
from benchmarks.results_page import Results, Study, origin, run
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import Split, random_split, rotations, stratified_folds
from legs.functional.moments import MomentKind
from legs.io import write_atomically
from legs.models import LEGSNet, create
from legs.nn import FCN, Moments, Scattering
from legs.training import TrainingOptions
from legs.training.cv.results import markdown
from legs.training.inputs import Inputs, embed
from legs.training.stacked.mapped import predict_stacked
from legs.training.stacked.trainer import Member, train_stack
from legs.training.svm import WIDTHS, ScatteringSVM
from legs.training.task import Task

SMALL = ("ENZYMES", "MUTAG", "PROTEINS", "PTC_MR", "IMDB-BINARY", "IMDB-MULTI")
MOLECULES = ("zinc-bbab", "zinc-fbab", "zinc-jbab", "ki-p00918", "ki-p14416")
CLASSES = ("PROTEINS", "IMDB-BINARY", "IMDB-MULTI")
ALL_CLASSES = (
    "DD", "ENZYMES", "MUTAG", "NCI1", "NCI109", "PROTEINS", "PTC_MR", "COLLAB", "IMDB-BINARY",
    "IMDB-MULTI", "REDDIT-BINARY",
)  # fmt: skip
FEATURES = {
    "qm9": "qm9+structure",
    **dict.fromkeys(MOLECULES, "atoms"),
    **dict.fromkeys(("rna-puzzles", "protein-decoys"), "structure"),
}
SEEDS, FOLDS = 4, 10
RATES = {"regression": (1e-3, 1e-2), "classification": (1e-3,)}
SIZE_ALONE = """\
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
GIVEN_MORE = """\
The head of LEGS-FIXED (batch norm, one hidden layer of 128), trained as in
[zinc](../zinc/results.md), [affinity](../affinity/results.md) and
[classification](../classification/results.md), on several descriptions of a graph, all of fixed
scales and order two. *Averages*: four normalized moments of every path, what LEGS-FIXED sees in
those tables. *And size*: the same, and the numbers of nodes and edges beside them: two columns
more. *Sums*: moments as the paper writes them, sums over the nodes. *Chemistry*, *and size*: as the
first two, of all that this package knows of an atom (24 features: element, charge, hydrogens,
aromaticity, rings, hybridisation, …), where those tables have its element alone. Regression: four
random splits, errors of standardized targets, the learning rate of each chosen by validation loss.
Classification: ten test sets, one network each, not the nine of the table.
"""
REACH = """\
Of N numbers none is farther than √(N − 1) standard deviations from their mean (Samuelson's
inequality). Graphs that are have nothing like them among the N training graphs. Counted here: how
many validation and test graphs have a feature of fixed scattering beyond that bound, over all
splits, and how far beyond it the farthest is. In evaluation batch norm enforces the bound.
"""


def simple_descriptions(data: GraphDataset) -> dict[str, Tensor]:
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


def measure_size(options: argparse.Namespace, file: Path) -> Results:
    """Accuracies of all descriptions of some sets."""
    rows = []
    for name in options.datasets:
        data = load(name, features="structure")
        assert data.y is not None
        majority = 100 * float(torch.bincount(data.y).max()) / len(data)
        described = simple_descriptions(data).items()
        scores = {what: accuracies(data, x, options.seed) for what, x in described}
        rows.append({"data": name, "guess": majority, "scores": scores})
        print(accuracy_table(rows[-1:]).splitlines()[-1], flush=True)
    return {**provenance("cpu"), "seed": options.seed, "rows": rows}


def accuracy_table(rows: list[dict[str, Any]]) -> str:
    """Accuracies, one row per set."""
    lines = [{"data": row["data"], "guess": f"{row['guess']:.1f}"} for row in rows]
    for line, row in zip(lines, rows, strict=True):
        line |= {k: f"{np.mean(s):.1f} ± {np.std(s):.1f}" for k, s in row["scores"].items()}
    return markdown(pd.DataFrame(lines))


def size_page(results: Results) -> str:
    """The page about size alone."""
    text = f"# Accuracy from size alone\n\n{SIZE_ALONE}\n"
    text += "Accuracy in per cent, mean ± deviation over ten test sets.\n\n"
    text += f"{accuracy_table(results['rows'])}\n\n{READING}\n"
    return text + origin(results, "benchmarks.descriptions size-alone")


def descriptions(data: GraphDataset, chemistry: GraphDataset | None) -> dict[str, Tensor]:
    """Features ``[graphs, features]`` by name."""
    sized = _scattered(data, "normalized")
    features = {
        "averages": sized[:, :-2],
        "and size": sized,
        "sums": _scattered(data, "sum")[:, :-2],
    }
    if chemistry is not None:
        sized = _scattered(chemistry, "normalized")
        features |= {"chemistry": sized[:, :-2], "chemistry and size": sized}
    return features


def _scattered(data: GraphDataset, kind: MomentKind) -> Tensor:
    """The last two columns are the size."""
    return embed(_network(data, 1, Moments(kind), size=True), data)


def _network(data: GraphDataset, outputs: int, aggr: Moments, size: bool = False) -> LEGSNet:
    scattering = Scattering(data.in_channels, scales="dyadic", aggr=aggr, append_graph_size=size)
    return LEGSNet(scattering, FCN(scattering.out_channels, outputs))


def splits_of(data: GraphDataset, seed: int) -> list[Split]:
    """Four random ones for numbers; for classes ten test folds, the next of each validates."""
    if data.task == "regression":
        return [random_split(len(data), seed=seed + k) for k in range(SEEDS)]
    assert data.y is not None
    folds = stratified_folds(data.y.numpy(), k=FOLDS, seed=seed)
    return [split for (split,) in rotations(folds, rotations=1)]


def scores(data: GraphDataset, features: Tensor, seed: int) -> list[list[float]]:
    """Of every test set: errors of all targets, or the accuracy in per cent."""
    assert data.y is not None and data.task is not None
    splits, rates = splits_of(data, seed), RATES[data.task]
    members = []
    for number, (split, lr) in enumerate((split, lr) for split in splits for lr in rates):
        task = Task.of(data, torch.as_tensor(split.train))
        torch.manual_seed(seed * 100_003 + number)
        network = _network(data, len(task.names), Moments())
        network.head = FCN(features.shape[1], len(task.names))
        network.initialize(data.x, graphs=len(split.train))
        members.append(Member(network, split, task, lr))
    inputs = Inputs(data, members[0].network, torch.device("cpu"), keep=False)
    inputs.features = features
    outcomes = train_stack(members, inputs, data.y, TrainingOptions(seed=seed))
    outs = predict_stacked([m.network for m in members], inputs, [m.split.test for m in members])
    test_scores = []
    for start in range(0, len(members), len(rates)):
        best = min(range(start, start + len(rates)), key=lambda k: outcomes[k].best_loss)
        member, y = members[best], data.y[torch.as_tensor(members[best].split.test)]
        if data.task == "regression":
            errors = (outs[best] - member.task.targets(y)).square().mean(0)
            test_scores.append(errors.tolist())
        else:
            test_scores.append([100 * float((outs[best].argmax(1) == y).double().mean())])
    return test_scores


def measure_more(options: argparse.Namespace, file: Path) -> Results:
    """Scores of all descriptions of some sets; those already in the file are not measured again."""
    results, seed = json.loads(file.read_text()) if file.is_file() else {}, options.seed
    rows: list[dict[str, Any]] = results.get("rows", []) if results.get("seed") == seed else []
    for name in options.datasets:
        if any(row["data"] == name for row in rows):
            continue
        atoms = name in MOLECULES
        data = load(name, features="atoms" if atoms else "structure")
        chemistry = load(name, features="chem") if atoms else None
        described = descriptions(data, chemistry)
        by_description = {what: scores(data, x, seed) for what, x in described.items()}
        targets = list(data.target_names) if atoms else ["accuracy"]
        here = provenance("cpu")
        own = {"date": here["date"], "commit": here["commit"]}
        rows.append({"data": name, "targets": targets, "scores": by_description, **own})
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        rows.sort(key=lambda row: [*MOLECULES, *CLASSES].index(row["data"]))
        results = {**here, "seed": seed, "rows": rows}
        write_atomically(file, (json.dumps(results, indent=1) + "\n").encode())
    return results


def table(rows: list[dict[str, Any]], target: int | None = None) -> str:
    """Mean and deviation over test sets: of all targets, or of one."""
    lines = []
    for row in rows:
        digits = 3 if row["data"] in MOLECULES else 1
        lines.append({"data": row["data"] if target is None else row["targets"][target]})
        for name, test_sets in row["scores"].items():
            numbers = [np.mean(one) if target is None else one[target] for one in test_sets]
            lines[-1][name] = f"{np.mean(numbers):.{digits}f} ± {np.std(numbers):.{digits}f}"
    return markdown(pd.DataFrame(lines))


def more_page(results: Results) -> str:
    """The page about size and chemistry."""
    numbers = [row for row in results["rows"] if row["data"] in MOLECULES]
    classes = [row for row in results["rows"] if row["data"] not in MOLECULES]
    parts = [f"# What size and chemistry add to scattering\n\n{GIVEN_MORE}"]
    if numbers:
        parts.append(f"Mean squared error of standardized targets.\n\n{table(numbers)}\n")
    if classes:
        parts.append(f"Accuracy in per cent.\n\n{table(classes)}\n")
    for row in (row for row in numbers if len(row["targets"]) > 1):
        lines = [table([row], k).splitlines() for k in range(len(row["targets"]))]
        by_target = "\n".join([*lines[0][:2], *(one[2] for one in lines)])
        parts.append(f"## {row['data']}, by property\n\n{by_target}\n")
    # Sets may have been done at several times.
    commits = sorted({row.get("commit", results["commit"]) for row in results["rows"]})
    about = {**results, "commit": ", ".join(commits)}
    return "\n".join([*parts, origin(about, "benchmarks.descriptions given-more")])


def beyond(data: GraphDataset, seed: int) -> dict[str, Any]:
    """Graphs beyond the bound, over all splits."""
    network = create("legs-fixed", data.in_channels, 2).eval()
    network.initialize(data.x)
    features = embed(network, data).double()
    counts: dict[str, Any] = {"held_out": 0, "beyond": 0, "farthest": 0.0, "graph": -1}
    for split in splits_of(data, seed):
        train = features[torch.as_tensor(split.train)]
        others = torch.cat([torch.as_tensor(split.validation), torch.as_tensor(split.test)])
        away = (features[others] - train.mean(0)) / (train.var(0) + 1e-5).sqrt()
        share = away.abs().amax(1) / (len(train) - 1) ** 0.5
        counts["held_out"] += len(others)
        counts["beyond"] += int((share > 1).sum())
        if float(share.max()) > counts["farthest"]:
            counts["farthest"] = float(share.max())
            counts["graph"] = int(others[share.argmax()])
            counts["deviations"] = float(away.abs().max())
    return counts


def measure_reach(options: argparse.Namespace, file: Path) -> Results:
    """Counts of all sets."""
    rows = []
    for name in options.datasets:
        data = load(name, features=FEATURES.get(name, "structure"))
        counts = beyond(data, options.seed)
        rows.append({"data": name, **counts, "nodes": int(data.sizes[counts["graph"]])})
        print(rows[-1], flush=True)
    return {**provenance("cpu"), "seed": options.seed, "rows": rows}


def reach_page(results: Results) -> str:
    """The page about graphs beyond the bound."""
    lines = [
        {
            "data": row["data"],
            "held out": row["held_out"],
            "beyond": row["beyond"],
            "farthest, in deviations": f"{row['deviations']:,.0f}",
            "over the bound": f"{row['farthest']:.2f} ×",
        }
        for row in results["rows"]
    ]
    end = origin(results, "benchmarks.descriptions reach")
    table = markdown(pd.DataFrame(lines))
    return f"# Graphs unlike all training graphs\n\n{REACH}\n{table}\n\n{end}"


if __name__ == "__main__":
    studies = {
        "size-alone": Study(SMALL, measure_size, size_page),
        "given-more": Study((*MOLECULES, *CLASSES), measure_more, more_page),
        "reach": Study((*ALL_CLASSES, *FEATURES), measure_reach, reach_page),
    }
    run(__doc__, studies)
