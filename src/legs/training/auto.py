"""``auto``: networks, a Gaussian process and trees on one table of molecules, blended.

All candidates are trained on the same inner folds of the training graphs; their predictions for
the graphs that were left out score them and weigh them against each other.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor
from torch.nn.functional import one_hot

from legs.data.dataset import GraphDataset
from legs.data.errors import DataWarning
from legs.data.features.molecule_features import (
    feature_names,
    with_molecule_features,
    without_fingerprint,
)
from legs.data.splits import (
    Indices,
    Split,
    balanced_group_folds,
    canonical_smiles,
    scaffolds,
    stratified_folds,
)
from legs.models import Network
from legs.models.saving import describe_network, rebuild_network
from legs.nn import FeatureScale
from legs.training.checkpoint import State, load_state, save_state
from legs.training.cv.models import Job, Shared, prepared
from legs.training.gaussian_process import GaussianProcess, Gram
from legs.training.inputs import Inputs, predict
from legs.training.methods import BLENDS, init_graph_scale
from legs.training.options import TrainingOptions
from legs.training.stacked.trainer import Member, train_single, train_stack
from legs.training.svm import ScatteringSVM
from legs.training.task import Task
from legs.training.trees import Trees, fit_boosting, fit_forest

Floats = NDArray[np.float64]
Report = Callable[[dict[str, float]], None]

FOLDS = 5
MINUTES, ROWS = 2.5, 1_000  # by default: so many minutes, for so many graphs or fewer
TREES, ROUNDS, EPOCHS = 200, 150, 30  # at most; of trees, for one target
RATE = 3  # of networks, times the learning rate of the options
# Fewer are no model; a candidate that has no time for them is left out.
FEWEST = 20
LARGEST_KERNEL = 8_000  # graphs
# Columns that differ from their median in fewer graphs are not worth a tree's time.
RARE = 0.005
# No fold is so sure: one wrong answer would decide the weights.
LEAST = 0.01


class Table(NamedTuple):
    """Graphs as rows of features."""

    x: NDArray[np.float32]  # standardized, for trees
    dense: NDArray[np.float32]  # the same without counts
    counts: NDArray[np.float32]


@dataclass(eq=False)
class Blend:
    """Fitted candidates and their weights.

    Args:
        weights: of the candidates, by name; they sum to one.
        candidates: out-of-fold scores, weight and seconds of each, for people.
        scale: of the features of the table.
        columns: of the table that trees read.
        is_count: which features are counts of substructures.
        networks: one per inner fold; their predictions are averaged.
        trees: forest and boosting, if they have weight.
        kernel: the Gaussian process, if it has weight.
        out_of_fold: graphs that it was fitted to, and the predictions for these; not saved.
    """

    weights: dict[str, float]
    candidates: list[dict[str, Any]]
    scale: FeatureScale
    columns: Tensor
    is_count: Tensor
    networks: list[Network] = field(default_factory=list)
    trees: dict[str, Trees] = field(default_factory=dict)
    kernel: GaussianProcess | None = None
    out_of_fold: tuple[Indices, Tensor] | None = None

    def answers(self, data: GraphDataset, task: Task) -> Tensor:
        """Class probabilities, or targets in original units, ``[graphs, classes or targets]``."""
        table = self.table(data)
        total = torch.zeros(len(data), len(task.names), dtype=torch.float64)
        for name, weight in self.weights.items():
            if name == "legs-deep":
                part = torch.stack([_network_answers(n, data, task) for n in self.networks]).mean(0)
            else:
                part = decode(task, self._values(name, table))
            total += weight * part
        return total.float()

    def _values(self, name: str, table: Table) -> Floats:
        if name in self.trees:
            return self.trees[name].predict(table.x)
        assert self.kernel is not None
        return self.kernel.predict(table.dense, table.counts)

    def table(self, data: GraphDataset) -> Table:
        """The features of graphs, as the candidates read them."""
        raw = raw_features(data)
        scaled = self.scale(raw)
        counts = raw[:, self.is_count].nan_to_num(0.0)
        used = (scaled[:, self.columns], scaled[:, ~self.is_count], counts)
        return Table(*(each.float().contiguous().numpy() for each in used))

    @staticmethod
    def embedding(data: GraphDataset) -> Tensor:
        """Fixed scattering, ``[graphs, features]``."""
        return ScatteringSVM.embedding(data)

    def num_parameters(self) -> int:
        """Number of learned parameters: weights, leaves and dual coefficients."""
        count = sum(network.num_parameters() for network in self.networks)
        count += sum(int((trees.value != 0).sum()) for trees in self.trees.values())
        return count + (0 if self.kernel is None else self.kernel.dual.numel())

    def describe(self) -> dict[str, Any]:
        """Everything but tensors, as JSON values."""
        return {
            "weights": self.weights,
            "candidates": self.candidates,
            "networks": [describe_network(network) for network in self.networks],
            "trees": {name: trees.logistic for name, trees in self.trees.items()},
        }

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        tensors = {"columns": self.columns, "is_count": self.is_count}
        parts: dict[str, dict[str, Any]] = {"scale": dict(self.scale.state_dict())}
        parts |= {f"networks.{k}": dict(n.state_dict()) for k, n in enumerate(self.networks)}
        parts |= {name: vars(trees) for name, trees in self.trees.items()}
        parts |= {} if self.kernel is None else {"kernel": vars(self.kernel)}
        for part, values in parts.items():
            own = {name: value for name, value in values.items() if torch.is_tensor(value)}
            tensors |= {f"{part}.{name}": tensor for name, tensor in own.items()}
        return tensors

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Tensor], task: Task) -> Blend:
        """Back from :meth:`describe` and :meth:`state_dict`; ``ValueError`` if they do not fit."""

        def part(name: str) -> dict[str, Tensor]:
            start = f"{name}."
            return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}

        scale = FeatureScale(len(part("scale")["mean"]))
        scale.load_state_dict(part("scale"))
        width = 1 if _binary(task) else len(task.names)
        columns, is_count = tensors["columns"], tensors["is_count"]
        if is_count.shape != scale.mean.shape or not bool((columns < len(scale.mean)).all()):
            raise ValueError("the columns are not those of the table")
        networks = [
            rebuild_network(network, part(f"networks.{k}"))
            for k, network in enumerate(described["networks"])
        ]
        trees = {n: Trees(**part(n), logistic=bool(v)) for n, v in described["trees"].items()}
        for each in trees.values():
            each.check(len(columns), width)
        kernel = GaussianProcess(**part("kernel")) if part("kernel") else None
        if kernel is not None:
            kernel.check(int((~is_count).sum()), int(is_count.sum()), width)
        names = {*trees, *(["kernel"] if kernel else []), *(["legs-deep"] if networks else [])}
        weights = {str(name): float(w) for name, w in described["weights"].items()}
        if set(weights) != names:
            raise ValueError(f"weights of {', '.join(weights)} for {', '.join(sorted(names))}")
        candidates = described["candidates"]
        return cls(weights, candidates, scale, columns, is_count, networks, trees, kernel)


def described(data: GraphDataset) -> GraphDataset:
    """Molecules with descriptors and count fingerprints, unless there are graph-level features.

    Without descriptors where a target has the name of one: the others would give it away.
    """
    if data.graph_features is not None or not (data.smiles and all(data.smiles)):
        return data
    given_away = set(feature_names("rdkit")).intersection(data.target_names)
    return with_molecule_features(data, None if given_away else "rdkit", "morgan-count")


def raw_features(data: GraphDataset) -> Tensor:
    """Graph-level features; fixed scattering where there are none, ``[graphs, features]``."""
    # Beside descriptors, scattering changes no out-of-fold score (ESOL, FreeSolv, BBBP).
    own = data.graph_features
    return ScatteringSVM.embedding(data) if own is None else own


def encode(task: Task, y: Tensor) -> Floats:
    """Targets as columns: standardized values, labels, or classes as 0 and 1; NaN where missing."""
    if task.kind == "classification":
        y = one_hot(y, len(task.names))[:, 1 if _binary(task) else 0 :]
    return np.asarray(task.targets(y).double() if task.kind == "regression" else y.double())


def decode(task: Task, values: Floats) -> Tensor:
    """Back from predictions of :func:`encode` to answers, ``[graphs, classes or targets]``."""
    out = torch.from_numpy(np.ascontiguousarray(values))
    if task.kind == "regression":
        return task.answers(out)
    out = out.clamp(LEAST, 1 - LEAST)
    weights = task.class_weights  # what they were not fitted with: Bayes' rule has the same effect
    if task.kind == "multilabel":
        return out if weights is None else out * weights / (out * weights + 1 - out)
    out = torch.cat([1 - out, out], 1) if _binary(task) else out
    out = out if weights is None else out * weights
    return out / out.sum(1, keepdim=True)


def _binary(task: Task) -> bool:
    return task.kind == "classification" and len(task.names) == 2


def _network_answers(network: Network, data: GraphDataset, task: Task) -> Tensor:
    inputs = Inputs(without_fingerprint(data), network, torch.device("cpu"), keep=False)
    return task.answers(predict(inputs, network, torch.arange(len(data))).double())


def inner_folds(
    data: GraphDataset, split: Split, groups: Indices | None, seed: int
) -> tuple[Indices, list[Indices]]:
    """Training and validation graphs, and folds of these, as places among them.

    Folds have no scaffold in common if the split has none, and keep ``groups`` whole.
    """
    rows = np.unique(np.concatenate([split.train, split.validation]))
    labels: Any = None if groups is None else groups[rows]
    if data.smiles and all(data.smiles) and len(split.test):
        rings = np.array(scaffolds(canonical_smiles(data.smiles)))
        if not np.intersect1d(rings[split.train], rings[split.test]).size:
            labels = rings[rows]
    assert data.y is not None
    classes = data.y[rows].numpy() if data.task == "classification" else None
    k = min(FOLDS, len(rows))
    if labels is not None:
        folds = balanced_group_folds(labels.tolist(), np.full(k, 1 / k), classes, seed)
    else:
        folds = stratified_folds(np.zeros(len(rows)) if classes is None else classes, k, seed)
    return rows, folds


def blend_weights(task: Task, parts: Sequence[Tensor], y: Tensor) -> list[float]:
    """Non-negative weights of out-of-fold answers that sum to one and minimize the loss.

    The loss is the mean squared error of standardized targets, or the log loss.

    >>> task = Task("classification", ("a", "b"))
    >>> right, wrong = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.2, 0.8]])
    >>> blend_weights(task, [right, wrong], torch.tensor([0]))
    [1.0, 0.0]
    """
    if task.kind == "regression":
        target, heavy = task.targets(y).double(), 1e3 * len(y)
        present = ~target.isnan()
        columns = [task.targets(part)[present].double() for part in parts]
        matrix = torch.cat([torch.stack(columns, 1), torch.full((1, len(parts)), heavy)])
        weights = nnls(matrix.numpy(), torch.cat([target[present], torch.tensor([heavy])]))[0]
    else:
        chances = torch.stack([_chances(task, part, y) for part in parts]).double().numpy()
        weights = np.full(len(parts), 1 / len(parts))
        for _ in range(500):  # expectation maximization of the shares of a mixture
            weights = (weights[:, None] * chances / (weights @ chances)).mean(1)
    weights = np.where(weights < LEAST, 0, weights)
    return [float(w) for w in (weights / weights.sum()).round(4)]


def _chances(task: Task, answers: Tensor, y: Tensor) -> Tensor:
    """Probabilities of what is true, of all labels that are there."""
    if task.kind == "classification":
        return answers[torch.arange(len(y)), y].clamp_min(1e-6)
    return torch.where(y > 0, answers, 1 - answers)[~y.isnan()].clamp_min(1e-6)


def fit_blend(
    name: str,
    data: GraphDataset,
    task: Task,
    split: Split,
    options: TrainingOptions,
    *,
    minutes: float | None = None,
    groups: Indices | None = None,
    device: torch.device | str = "cpu",
    report: Report = lambda row: None,
    checkpoint: Callable[[str], Path | None] = lambda part: None,
    settings: Mapping[str, Any] | None = None,
    start: float | None = None,
) -> Blend:
    """Trains the candidates of a method on inner folds, weighs them, and fits them to all rows.

    Training and validation graphs are folded; test graphs take no part. The networks of the folds
    are kept as an ensemble, the others are fitted again on all these graphs.

    Args:
        name: ``"auto"``, or one candidate.
        data: with graph-level features, see :func:`described`.
        task: of the data.
        split: of the data.
        options: of the networks: learning rate, batch size, precision, seed, most epochs.
        minutes: about how long it may take, with fewer trees and epochs if need be (default: 2.5,
            and in proportion for more than 1,000 graphs).
        groups: graphs that stay together in a fold.
        device: of the networks.
        report: called after each candidate, and after epochs of the networks.
        checkpoint: the file of each candidate by its name, from which it resumes.
        settings: of the run: what must be the same when it resumes.
        start: when the minutes began (default: now).
    """
    start = time.monotonic() if start is None else start
    rows, folds = inner_folds(data, split, groups, options.seed)
    assert data.y is not None
    own, y = data.subset(rows), data.y[rows]
    if minutes is None:
        minutes = MINUTES * max(len(rows) / ROWS, 1)
    blend = _empty(own)
    rest = [np.setdiff1d(np.arange(len(rows)), fold) for fold in folds]
    inner = Inner(own, task, blend.table(own), encode(task, y), folds, rest, options)
    trained: dict[str, Trained] = {}
    notes: list[dict[str, Any]] = []
    names = BLENDS[name]
    files = {each: checkpoint(each) for each in (*names, "networks")}
    saved = {each: file and load_state(file, dict(settings or {})) for each, file in files.items()}
    # A run that resumes has used some of its time.
    start -= sum(row["seconds"] for state in saved.values() if state for row in state.history)
    spent = 0.0  # on candidates that are fitted again in the end
    for step, candidate in enumerate(names, start=1):
        began, state = time.monotonic(), saved[candidate] or State()
        left = start + 60 * minutes - began - spent / FOLDS
        share = left / (len(names) - step + 1)
        alone, result = name == candidate, None

        def keep(state: State, file: Path | None = files[candidate]) -> None:
            if file is not None:
                save_state(file, state, dict(settings or {}))

        if candidate == "legs-deep":

            def epochs(share: float, step: int = step) -> None:
                report({"epoch": step - 1 + share})

            result = _try_networks(inner, left, device, state, keep, files["networks"], epochs)
        elif candidate != "kernel":
            result = _try_trees(candidate, inner, share, alone, state)
        elif len(rows) <= LARGEST_KERNEL or alone:
            result = _try_kernel(inner, share, alone, state)
        note: dict[str, Any] = {"name": candidate, "size": 0, "scores": {}, "weight": 0.0}
        seconds = time.monotonic() - began + sum(row["seconds"] for row in state.history)
        if result is not None:
            trained[candidate] = result
            note |= {"size": result.size, "scores": task.scores(result.answers.float(), y)}
            spent += seconds if candidate != "legs-deep" else 0.0
            if "answers" not in state.tensors:
                tensors = {**state.tensors, "answers": {"": result.answers}}
                keep(State(result.size, history=[{"seconds": seconds}], tensors=tensors))
        notes.append({**note, "seconds": round(seconds, 1)})
        losses = {f"{candidate} {each}": v for each, v in [*note["scores"].items()][:1]}
        report({"epoch": step, **losses})
    parts = [result.answers for result in trained.values()]
    weights = dict(zip(trained, blend_weights(task, parts, y), strict=True))
    blend.weights = {each: weight for each, weight in weights.items() if weight}
    for note in notes:
        note["weight"] = weights.get(note["name"], 0.0)
    total = torch.stack([w * trained[each].answers for each, w in weights.items()]).sum(0).float()
    blend.out_of_fold = (rows, total)
    for each in blend.weights:
        fitted = trained[each].refit()
        if each == "legs-deep":
            blend.networks = fitted
        elif each == "kernel":
            blend.kernel = fitted
        else:
            blend.trees[each] = fitted
    whole: dict[str, Any] = {"name": name, "size": len(rows), "scores": task.scores(total, y)}
    whole |= {"weight": 1.0, "seconds": round(time.monotonic() - start, 1)}
    blend.candidates = [*notes, whole] if len(notes) > 1 else [whole]
    return blend


class Inner(NamedTuple):
    """What candidates are trained on: the training graphs and their folds."""

    data: GraphDataset
    task: Task
    table: Table
    target: Floats
    folds: list[Indices]
    rest: list[Indices]  # the other graphs of each fold
    options: TrainingOptions

    def out_of_fold(
        self, state: State, fit: Callable[[Indices], Callable[[Table], Floats]]
    ) -> Tensor:
        """Answers for every fold by what is fitted to the others, unless a state has them."""
        if "answers" in state.tensors:
            return state.tensors["answers"][""]
        values = np.empty_like(self.target)
        for fold, others in zip(self.folds, self.rest, strict=True):
            values[fold] = fit(others)(Table(*(each[fold] for each in self.table)))
        return decode(self.task, values)


class Trained(NamedTuple):
    """A candidate on its folds."""

    answers: Tensor  # out of fold
    size: int  # trees, epochs or training graphs
    refit: Callable[[], Any]  # makes the model to keep


def _empty(data: GraphDataset) -> Blend:
    """Without candidates, but with the scale of the table of the training graphs."""
    raw = raw_features(data)
    scale = FeatureScale(raw.shape[1])
    init_graph_scale(scale, replace(data, graph_features=raw), torch.arange(len(data)))
    imputed = torch.where(raw.isfinite(), raw, scale.median)
    differing = (imputed != scale.median).double().mean(0)
    columns = ((scale.reason == 0) & (differing >= RARE)).nonzero().flatten()
    kind = data.info.get("fingerprint") or ""
    names = data.graph_feature_names if kind else ()
    is_count = torch.tensor([bool(kind) and n.startswith(kind) for n in names], dtype=torch.bool)
    if not len(is_count):
        is_count = torch.zeros(raw.shape[1], dtype=torch.bool)
    return Blend({}, [], scale, columns, is_count)


def _try_kernel(inner: Inner, seconds: float, alone: bool, state: State) -> Trained | None:
    table, rows, start = inner.table, np.arange(len(inner.target)), time.monotonic()
    gram = Gram(table.dense, table.counts, inner.target)
    gram.fit(inner.rest[0], 1)
    fits = inner.target.shape[1] * (len(inner.folds) + 1)
    if fits * (time.monotonic() - start) > seconds and not (alone or state.epoch):
        return None
    gram.tune(inner.options.seed)

    def fit(index: Indices) -> Callable[[Table], Floats]:
        model = gram.fit(index)
        return lambda part: model.predict(part.dense, part.counts)

    return Trained(inner.out_of_fold(state, fit), len(rows), lambda: gram.fit(rows))


def _try_trees(
    kind: str, inner: Inner, seconds: float, alone: bool, state: State
) -> Trained | None:
    """As many trees as the time allows, up to a bound; a forest always, and what is ``alone``."""
    x, y, seed, labels = inner.table.x, inner.target, inner.options.seed, inner.task.kind

    def grow(index: Indices, size: int) -> Trees:
        if kind == "forest":
            return fit_forest(x[index], y[index], size, seed)
        return fit_boosting(x[index], y[index], size, seed, labels=labels != "regression")

    if not (size := state.epoch):
        start = time.monotonic()
        grow(inner.rest[0], FEWEST)
        rate = FEWEST / (time.monotonic() - start) / (len(inner.folds) + 1)
        if seconds * rate < FEWEST and kind == "boosting" and not alone:
            return None
        most = (TREES if kind == "forest" else ROUNDS) / y.shape[1] ** 0.5
        size = int(np.clip(seconds * rate, FEWEST, max(most, FEWEST)))

    def fit(index: Indices) -> Callable[[Table], Floats]:
        trees = grow(index, size)
        return lambda part: trees.predict(part.x)

    return Trained(inner.out_of_fold(state, fit), size, lambda: grow(np.arange(len(y)), size))


def _try_networks(
    inner: Inner,
    seconds: float,
    device: torch.device | str,
    state: State,
    keep: Callable[[State], None],
    checkpoint: Path | None,
    report: Callable[[float], None],
) -> Trained | None:
    """A network per fold: a stack on GPUs, one after another on CPUs; ``None`` if time is short.

    The learning rate falls from ``RATE`` times that of the options to zero. The weights are the
    last ones: the folds that score them have not chosen them.
    """
    start, nothing = time.monotonic(), np.empty(0, dtype=np.int64)
    # Counts of substructures, which the trees and the kernel read, make networks worse.
    data, task, folds = without_fingerprint(inner.data), inner.task, inner.folds
    jobs = [Job(k, Split(inner.rest[k], fold, nothing), {}) for k, fold in enumerate(folds)]
    decay: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 1e-2, "schedule": "cosine"}
    decay["lr"] = RATE * inner.options.lr
    options = replace(inner.options, max_epochs=1, validate_every=1, warmup=0, **decay)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the blend has said what it dropped
        members, inputs, y = prepared("legs-deep", jobs, Shared(data, options, str(device)))
    stacked = torch.device(device).type == "cuda"

    def train(members: list[Member], options: TrainingOptions, **more: Any) -> None:
        if stacked:
            train_stack(members, inputs, y, options, **more)
        else:
            train_single(members[0], inputs, y, options)

    if not (epochs := state.epoch):
        for _ in range(2):  # the first compiles
            began = time.monotonic()
            train([m._replace(network=copy.deepcopy(m.network)) for m in members], options)
        now = time.monotonic()
        epochs = int(0.85 * (start + seconds - now) / (now - began) / (1 if stacked else len(jobs)))
        epochs = min(epochs, EPOCHS, inner.options.max_epochs)
        if epochs < min(FEWEST, inner.options.max_epochs):
            return None
        keep(State(epochs))
    options = replace(options, max_epochs=epochs, validate_every=epochs, patience=epochs)
    if stacked and "answers" not in state.tensors:
        train(members, options, checkpoint=checkpoint, follow=report)
    answers = torch.empty(len(data), len(task.names), dtype=torch.float64)
    for k, (member, fold) in enumerate(zip(members, folds, strict=True)):
        network = member.network
        if saved := state.tensors.get(f"network{k}"):
            network.to("cpu", torch.float32).eval().load_state_dict(saved)
        else:
            if not stacked:
                train([member], options)
            network.to("cpu", torch.float32).eval()
            if task.kind == "regression":
                _rescale(network, member.task, task)
            state.tensors[f"network{k}"] = dict(network.state_dict())
            keep(State(epochs, tensors=state.tensors))
            if not stacked:
                report((k + 1) / len(members))
        answers[fold] = _network_answers(network, data.subset(fold), task)
    return Trained(answers, epochs, lambda: [member.network for member in members])


@torch.no_grad()
def _rescale(network: Network, own: Task, task: Task) -> None:
    """Makes the outputs of a network standardized by ``task`` instead of by its ``own``."""
    assert own.mean is not None and own.deviation is not None
    assert task.mean is not None and task.deviation is not None
    layer: Any = network.get_submodule(str(network.output_layer))
    layer.weight *= (own.deviation / task.deviation).unsqueeze(1)
    layer.bias *= own.deviation / task.deviation
    layer.bias += (own.mean - task.mean) / task.deviation
