"""What a network on scattering features gains from the size of graphs, and from chemistry.

The head of LEGS-FIXED, trained as in ``legs reproduce``, on several descriptions of every graph:
normalized moments (which are averages, and do not know how many nodes there are), these and the
numbers of nodes and edges, moments summed over nodes, and for molecules moments of all atom
features. ``python -m benchmarks.size_and_chemistry`` writes ``docs/results/given-more``; ``page``
the page alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.provenance import provenance
from benchmarks.results_page import Results, origin, run
from legs.data import load
from legs.data.dataset import GraphDataset
from legs.data.splits import Split, random_split, rotations, stratified_folds
from legs.functional.moments import MomentKind
from legs.io import write_atomically
from legs.models import LEGSNet
from legs.nn import FCN, Moments, Scattering
from legs.training import TrainingOptions
from legs.training.inputs import Inputs, embed, predict
from legs.training.stacked.trainer import Member, train_stack
from legs.training.task import Task

NUMBERS = ("zinc-bbab", "zinc-fbab", "zinc-jbab", "ki-p00918", "ki-p14416")
CLASSES = ("PROTEINS", "IMDB-BINARY", "IMDB-MULTI")
SEEDS, FOLDS = 4, 10
RATES = {"regression": (1e-3, 1e-2), "classification": (1e-3,)}
RESULTS = Path("docs/results/given-more")
WORDS = """\
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
    outs = [predict(inputs, m.network, torch.as_tensor(m.split.test)) for m in members]
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


def measure(options: argparse.Namespace, file: Path) -> Results:
    """Scores of all descriptions of some sets; those already in the file are not measured again."""
    results, seed = json.loads(file.read_text()) if file.is_file() else {}, options.seed
    rows: list[dict[str, Any]] = results.get("rows", []) if results.get("seed") == seed else []
    for name in options.datasets:
        if any(row["data"] == name for row in rows):
            continue
        atoms = name in NUMBERS
        data = load(name, features="atoms" if atoms else "structure")
        chemistry = load(name, features="chem") if atoms else None
        described = descriptions(data, chemistry)
        by_description = {what: scores(data, x, seed) for what, x in described.items()}
        targets = list(data.target_names) if atoms else ["accuracy"]
        here = provenance("cpu")
        own = {"date": here["date"], "commit": here["commit"]}
        rows.append({"data": name, "targets": targets, "scores": by_description, **own})
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        rows.sort(key=lambda row: [*NUMBERS, *CLASSES].index(row["data"]))
        results = {**here, "seed": seed, "rows": rows}
        write_atomically(file, (json.dumps(results, indent=1) + "\n").encode())
    return results


def table(rows: list[dict[str, Any]], target: int | None = None) -> str:
    """Mean and deviation over test sets: of all targets, or of one."""
    names = list(rows[0]["scores"])
    lines = [f"| data | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        digits = 3 if row["data"] in NUMBERS else 1
        cells = []
        for test_sets in row["scores"].values():
            numbers = [np.mean(one) if target is None else one[target] for one in test_sets]
            cells.append(f"{np.mean(numbers):.{digits}f} ± {np.std(numbers):.{digits}f}")
        label = row["data"] if target is None else row["targets"][target]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(results: Results) -> str:
    """The page about results."""
    numbers = [row for row in results["rows"] if row["data"] in NUMBERS]
    classes = [row for row in results["rows"] if row["data"] not in NUMBERS]
    parts = [f"# What size and chemistry add to scattering\n\n{WORDS}"]
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
    return "\n".join([*parts, origin(about, "benchmarks.size_and_chemistry")])


if __name__ == "__main__":
    run(__doc__, RESULTS, [*NUMBERS, *CLASSES], measure, page)
