"""What descriptions of graphs say of their classes and targets, and which of their nodes are alike.

``python -m benchmarks.descriptions STUDY`` writes ``docs/results/STUDY``, with ``--page`` the page
alone; sets that are in its file already are not measured again. ``size-alone``: a support vector
machine on each of several descriptions, among them the size of graphs. ``given-more``: the head of
LEGS-FIXED, trained as in ``legs reproduce``, on moments of scattering, which do not know how many
nodes there are, with and without size and chemistry. ``reach``: how many held-out graphs lie
farther from the training graphs than any of those can. ``alike``: how many nodes are equivalent,
and how much faster a training step is on merged ones, or on nodes in the order of merged ones.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from benchmarks.provenance import provenance
from benchmarks.speed.timing import Run, compare
from legs.data import GraphDataset, load, merge_equivalent
from legs.data.merge import longest_first
from legs.data.splits import Split, random_split, rotations, stratified_folds
from legs.functional.moments import MomentKind
from legs.io import write_atomically
from legs.models import LEGSNet, create
from legs.nn import FCN, Moments, Scattering
from legs.training import TrainingOptions
from legs.training.cv.results import markdown
from legs.training.inputs import MERGED_FROM, Inputs, embed, predict, walk_powers
from legs.training.stacked.trainer import Member, train_stack
from legs.training.svm import WIDTHS, ScatteringSVM
from legs.training.task import Task
from reproduction.plan import experiment

Row = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "docs" / "results"
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
GRAPHS = 256  # of a training step on merged nodes
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
ALIKE = """\
Nodes of a graph are *equivalent* if they have the same features and equally many neighbours of
every class (`legs.data.merge_equivalent`). No network here can distinguish them, so one may stand
for all of them: nothing is lost but rounding. Node features are the paper's: eccentricity and
clustering coefficient. Training merges nodes where at least {least} times fewer nodes and edges are
left; else it only puts nodes with most neighbours first in their graph.

Last columns: how many times as fast a training step of LEGS-FCN is on {graphs} graphs, {threads}
thread.
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
    for test in stratified_folds(y, k=FOLDS, seed=seed):
        train = np.setdiff1d(np.arange(len(y)), test)
        inner = StratifiedKFold(5, shuffle=True, random_state=seed)
        machine = make_pipeline(StandardScaler(), SVC())
        search = GridSearchCV(machine, grid, cv=inner, n_jobs=-1).fit(x[train], y[train])
        accuracy.append(100 * float(search.score(x[test], y[test])))
    return accuracy


def measure_size(name: str, options: argparse.Namespace) -> Row:
    """Accuracies of all descriptions of a set."""
    data = load(name, features="structure")
    assert data.y is not None
    described = simple_descriptions(data).items()
    scores = {what: accuracies(data, x, options.seed) for what, x in described}
    return {"guess": 100 * float(torch.bincount(data.y).max()) / len(data), "scores": scores}


def size_page(results: Row) -> str:
    """The page about size alone."""
    table = markdown(pd.DataFrame([cells(row) for row in results["rows"]]))
    title = f"# Accuracy from size alone\n\n{SIZE_ALONE}\n"
    scores = "Accuracy in per cent, mean ± deviation over ten test sets."
    return f"{title}{scores}\n\n{table}\n\n{READING}"


def cells(row: Row, target: int | None = None) -> dict[str, str]:
    """A line of a table: mean and deviation over test sets, of all targets or of one."""
    digits = 3 if row["data"] in MOLECULES else 1
    line = {"data": row["data"] if target is None else row["targets"][target]}
    line |= {"guess": f"{row['guess']:.1f}"} if "guess" in row else {}
    for name, test_sets in row["scores"].items():
        numbers = [np.mean(one) if target is None else one[target] for one in test_sets]
        line[name] = f"{np.mean(numbers):.{digits}f} ± {np.std(numbers):.{digits}f}"
    return line


def descriptions(data: GraphDataset, chemistry: GraphDataset | None) -> dict[str, Tensor]:
    """Features ``[graphs, features]`` by name; the last two columns of scattering are the size."""
    sized, sums = _scattered(data, "normalized"), _scattered(data, "sum")
    features = {"averages": sized[:, :-2], "and size": sized, "sums": sums[:, :-2]}
    if chemistry is not None:
        sized = _scattered(chemistry, "normalized")
        features |= {"chemistry": sized[:, :-2], "chemistry and size": sized}
    return features


def _scattered(data: GraphDataset, kind: MomentKind) -> Tensor:
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
    test_scores = []
    for start in range(0, len(members), len(rates)):
        best = min(range(start, start + len(rates)), key=lambda k: outcomes[k].best_loss)
        member = members[best]
        test = torch.as_tensor(member.split.test)
        out, y = predict(inputs, member.network, test), data.y[test]
        if data.task == "regression":
            test_scores.append((out - member.task.targets(y)).square().mean(0).tolist())
        else:
            test_scores.append([100 * float((out.argmax(1) == y).double().mean())])
    return test_scores


def measure_more(name: str, options: argparse.Namespace) -> Row:
    """Scores of all descriptions of a set."""
    atoms = name in MOLECULES
    data = load(name, features="atoms" if atoms else "structure")
    chemistry = load(name, features="chem") if atoms else None
    described = descriptions(data, chemistry).items()
    targets = list(data.target_names) if atoms else ["accuracy"]
    by_description = {what: scores(data, x, options.seed) for what, x in described}
    return {"targets": targets, "scores": by_description}


def more_page(results: Row) -> str:
    """The page about size and chemistry."""
    rows = results["rows"]
    numbers = [row for row in rows if row["data"] in MOLECULES]
    tables = {
        "Mean squared error of standardized targets.": [cells(row) for row in numbers],
        "Accuracy in per cent.": [cells(row) for row in rows if row not in numbers],
    }
    for row in numbers:
        if (count := len(row["targets"])) > 1:
            tables[f"## {row['data']}, by property"] = [cells(row, k) for k in range(count)]
    parts = [f"# What size and chemistry add to scattering\n\n{GIVEN_MORE}"]
    parts += [f"{title}\n\n{markdown(pd.DataFrame(t))}\n" for title, t in tables.items() if t]
    return "\n".join(parts)


def measure_reach(name: str, options: argparse.Namespace) -> Row:
    """Graphs of a set beyond the bound, over all splits."""
    data = load(name, features=FEATURES.get(name, "structure"))
    network = create("legs-fixed", data.in_channels, 2).eval()
    network.initialize(data.x)
    features = embed(network, data).double()
    counts: Row = {"held_out": 0, "beyond": 0, "farthest": 0.0, "graph": -1}
    for split in splits_of(data, options.seed):
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
    return {**counts, "nodes": int(data.sizes[counts["graph"]])}


def reach_page(results: Row) -> str:
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
    table = markdown(pd.DataFrame(lines))
    return f"# Graphs unlike all training graphs\n\n{REACH}\n{table}\n"


def measure_alike(name: str, options: argparse.Namespace) -> Row:
    """Nodes and edges of a set before and after merging; how many times as fast LEGS is then."""
    data = load(name, features="structure")
    merged, _ = merge_equivalent(data)
    some = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:GRAPHS]
    network = create("legs-fcn", data.in_channels, data.out_channels).to(options.device)
    assert isinstance(network, LEGSNet)
    network.scattering.validate = False  # as in training
    few = data.subset(some)
    inputs = {"plain": (few, None), "sorted": (longest_first(few), None)}
    inputs["merged"] = merge_equivalent(few)
    runs = {what: _step(*each, network, options.device) for what, each in inputs.items()}
    times = {what: t.seconds or 0 for what, t in compare(runs, options.device, rounds=7).items()}
    return {
        "nodes": data.num_nodes,
        "edges": len(data.col),
        "merged_nodes": merged.num_nodes,
        "merged_edges": len(merged.col),
        "speed": {what: times["plain"] / times[what] for what in ("sorted", "merged")},
    }


def _step(data: GraphDataset, multiplicity: Tensor | None, network: LEGSNet, device: str) -> Run:
    """A training step, forward and backward, with precomputed walk powers."""
    data, steps = data.to(device), network.power_steps
    graphs, multiplicity = data.whole(), None if multiplicity is None else multiplicity.to(device)
    assert steps is not None
    shape = (steps, data.in_channels)
    powers = walk_powers(data, steps, multiplicity).unflatten(1, shape)
    parameters = list(network.scattering.parameters())

    def step() -> None:
        out = network.embed(*graphs[:5], powers=powers, multiplicity=multiplicity)
        torch.autograd.grad(out.square().sum(), parameters)

    return step


def alike_page(results: Row) -> str:
    """The page about equivalent nodes."""
    columns = ["set", "nodes", "merged", "", "edges", "merged", "", "step, sorted", "step, merged"]
    lines = []
    for row in results["rows"]:
        line = [row["data"]]
        for kind in ("nodes", "edges"):
            before, after = row[kind], row[f"merged_{kind}"]
            line += [f"{before:,}", f"{after:,}", f"{before / after:.2f} ×"]
        lines.append([*line, *(f"{row['speed'][what]:.2f} ×" for what in ("sorted", "merged"))])
    facts = {"least": MERGED_FROM, "graphs": GRAPHS, "threads": results["threads"]}
    table = markdown(pd.DataFrame(lines, columns=columns))
    return f"# Equivalent nodes\n\n{ALIKE.format(**facts)}\n{table}\n"


class Study(NamedTuple):
    """Some measurements, whose results are in the folder of their name."""

    datasets: Sequence[str]  # by default
    measure: Callable[[str, argparse.Namespace], Row]  # of a set, by the options
    page: Callable[[Row], str]


STUDIES = {
    "size-alone": Study(SMALL, measure_size, size_page),
    "given-more": Study((*MOLECULES, *CLASSES), measure_more, more_page),
    "reach": Study((*ALL_CLASSES, *FEATURES), measure_reach, reach_page),
    "alike": Study(experiment("classification")["datasets"], measure_alike, alike_page),
}


def origin(results: Row, study: str) -> str:
    """The last line of a page: machine, date, versions, seed, and how to get it again."""
    # Sets may have been done at several times.
    commits = sorted({row.get("commit", results["commit"]) for row in results["rows"]})
    versions = (f"{name} {number}" for name, number in results["versions"].items())
    parts = [f"{results['device']}, {results['machine']}", results["date"][:10]]
    parts += [f"commit {', '.join(commits)}", ", ".join(versions)]
    parts += [f"seed {results['seed']}"] if "seed" in results else []
    return f"{'; '.join(parts)}. Again with `python -m benchmarks.descriptions {study}`.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--output", type=Path, help="folder; default: docs/results/STUDY")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    study, folder = STUDIES[options.study], options.output or RESULTS / options.study
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.is_file() else {}
    rows = results.get("rows", []) if results.get("seed", 0) == options.seed else []
    for name in () if options.page else options.datasets or study.datasets:
        if any(row["data"] == name for row in rows):
            continue
        here = {**provenance(options.device), "threads": torch.get_num_threads()}
        own = {key: here[key] for key in ("date", "commit")}
        rows.append({"data": name, **study.measure(name, options), **own})
        print(json.dumps(rows[-1]), flush=True)
        rows.sort(key=lambda row: [*study.datasets, row["data"]].index(row["data"]))
        results = {**here, "seed": options.seed, "rows": rows}
        write_atomically(file, (json.dumps(results, indent=1) + "\n").encode())
    page = f"{study.page(results)}\n{origin(results, options.study)}"
    (folder / "results.md").write_text(page)


if __name__ == "__main__":
    main()
