"""Trains the models of a cross-validation: networks, ensembles of two, support vector machines."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import Ensemble, Network, create
from legs.nn import RBF, Scattering
from legs.training.cv.measures import Measure
from legs.training.cv.store import Trained
from legs.training.inputs import Inputs, embed, predict
from legs.training.methods import ENSEMBLES, fit_method
from legs.training.options import TrainingOptions
from legs.training.predictor import NetworkAnswerer
from legs.training.stacked.mapped import predict_stacked
from legs.training.stacked.trainer import (
    Member,
    Outcome,
    Standing,
    train_single,
    train_stack,
)
from legs.training.svm import fit_svm
from legs.training.task import Task

Strategy = Literal["stacked", "sequential"]
Report = Callable[[Standing], None]
# The file for the state of a stack, by the name of a part; ``None`` keeps none.
Files = Callable[[str], Path | None]


class Job(NamedTuple):
    """A model to be trained."""

    number: int  # seeds its weights; the same in all settings of a grid
    split: Split
    options: dict[str, Any]  # of the model; ``lr`` among them overrides the learning rate


def _ignore(standing: Standing) -> None: ...


def _no_file(part: str) -> Path | None:
    return None


class InitialFeatures:
    """Features that RBF heads are initialized from; computed once if all embeddings are equal.

    Args:
        data: the data set, on the device where features are computed.
    """

    def __init__(self, data: GraphDataset) -> None:
        self.data = data
        self.state: dict[str, Tensor] = {}
        self.features: Tensor | None = None

    def __call__(self, network: Network, train: Tensor) -> Tensor:
        """Features of the graphs ``train``, on the host."""
        state = {k: v for k, v in network.state_dict().items() if not k.startswith("head.")}
        same = state.keys() == self.state.keys()
        same = same and all(torch.equal(v, self.state[k]) for k, v in state.items())
        if self.features is None or not same:
            there = copy.deepcopy(network).to(self.data.x.device)
            self.features, self.state = embed(there, self.data).cpu(), state
        return self.features[train]


def make_member(
    model: str,
    model_options: dict[str, Any],
    data: GraphDataset,
    split: Split,
    options: TrainingOptions,
    number: int,
    initial_features: InitialFeatures | None = None,
) -> Member:
    """A network seeded by its number and initialized from its own training graphs."""
    train = torch.as_tensor(split.train)
    task = Task.of(data, train, options.balanced)
    lr = float(model_options.get("lr", options.lr))
    chosen = {k: v for k, v in model_options.items() if k != "lr"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed * 100_003 + number)
        network = create(model, data.in_channels, len(task.names), **chosen)
        inside = torch.zeros(len(data), dtype=torch.bool)
        inside[train] = True
        x = data.x[torch.repeat_interleave(inside, data.sizes)]
        network.initialize(x, graphs=len(train))
        if isinstance(network.head, RBF):
            network.initialize(x, (initial_features or InitialFeatures(data))(network, train))
    return Member(network.to(options.dtype), split, task, lr)


def prepared(
    model: str, jobs: list[Job], data: GraphDataset, options: TrainingOptions, device: str
) -> tuple[list[Member], Inputs, Tensor]:
    """Members, inputs and targets on the device where they are trained."""
    initial_features = InitialFeatures(data.to(torch.device(device)))
    members = [
        make_member(model, job.options, data, job.split, options, job.number, initial_features)
        for job in jobs
    ]
    for member in members:
        member.network.to(device)
    converted = data.with_x(data.x.to(options.dtype), data.feature_names)
    assert data.y is not None
    inputs = Inputs(converted, members[0].network, torch.device(device))
    return members, inputs, data.y.to(device)


def train_networks(
    model: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    strategy: Strategy = "stacked",
    report: Report = _ignore,
    checkpoint: Path | None = None,
    features: bool = False,
    measures: Mapping[str, Measure] | None = None,
) -> list[Trained]:
    """Trains networks of one architecture.

    Args:
        model: a network's name.
        jobs: one per network; their options may differ in ``lr`` alone.
        data: with targets.
        options: how to train.
        device: where to train.
        strategy: all at once, or one after another.
        report: called now and then.
        checkpoint: file for the state of a stack.
        features: whether to keep the graph features of all graphs.
        measures: taken of every trained network, by name.
    """
    members, inputs, y = prepared(model, jobs, data, options, device)
    start = time.monotonic()
    if strategy == "stacked":
        outcomes = train_stack(members, inputs, y, options, report=report, checkpoint=checkpoint)
        for member in members:
            member.network.to(y.device)
    else:
        outcomes = _train_sequentially(members, inputs, y, options, report)
    seconds = (time.monotonic() - start) / len(members)
    trained = _trained(members, inputs, outcomes, seconds, strategy)
    for k, member in enumerate(members):
        values = {name: measure(member, inputs, y) for name, measure in (measures or {}).items()}
        trained[k] = replace(
            trained[k],
            features=embed(member.network.cpu().float(), data).float() if features else None,
            measured={name: value.cpu() for name, value in values.items() if value is not None},
        )
    return trained


def _train_sequentially(
    members: list[Member], inputs: Inputs, y: Tensor, options: TrainingOptions, report: Report
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def tell(epoch: int = 0, best: float = math.inf) -> None:
        losses = [o.best_loss for o in outcomes] + [best] * (best < math.inf)
        running = min(1, len(members) - len(outcomes))
        mean = sum(losses) / len(losses) if losses else math.inf
        trained = sum(o.epochs for o in outcomes) + epoch
        report(Standing(epoch, running, len(outcomes), mean, trained))

    tell()
    for member in members:
        outcomes.append(train_single(member, inputs, y, options, _follow(tell)))
        tell()
    return outcomes


def _follow(tell: Callable[[int, float], None]) -> Callable[[dict[str, float]], None]:
    """Reports the epoch and the best validation loss of a network after each validation."""
    best = math.inf

    def follow(row: dict[str, float]) -> None:
        nonlocal best
        if row["epoch"] == 1:  # the next network of an ensemble
            best = math.inf
        if "validation_loss" in row:
            best = min(best, row["validation_loss"])
            tell(int(row["epoch"]), best)

    return follow


def _trained(
    members: list[Member],
    inputs: Inputs,
    outcomes: list[Outcome],
    seconds: float,
    strategy: Strategy,
) -> list[Trained]:
    """Trained networks with their answers for their test graphs."""
    outputs = predict_tests(members, inputs, strategy)
    return [
        Trained(
            member.task.answers(out.float()).cpu(),
            outcome.best_loss,
            outcome.best_epoch,
            outcome.epochs,
            member.network.num_parameters(),
            seconds,
            strategy,
            learned_scales(member.network),
        )
        for member, outcome, out in zip(members, outcomes, outputs, strict=True)
    ]


def predict_tests(members: list[Member], inputs: Inputs, strategy: Strategy) -> list[Tensor]:
    """Outputs of trained networks for their test graphs, ``[test graphs, outputs]`` each."""
    parts = [torch.as_tensor(member.split.test) for member in members]
    networks = [member.network for member in members]
    if strategy == "stacked":
        return predict_stacked(networks, inputs, parts)
    device = inputs.data.x.device
    pairs = zip(networks, parts, strict=True)
    return [predict(inputs, network, part.to(device)) for network, part in pairs]


def learned_scales(network: Network) -> Tensor | None:
    """The selection matrix ``F`` of a network's learned scales, ``[scales, steps]``, if it has any.

    >>> learned_scales(create("legs-fcn", 1, 2, num_scales=3)).shape
    torch.Size([3, 16])
    >>> learned_scales(create("legs-fixed", 1, 2)) is None
    True
    """
    for module in network.modules():
        if isinstance(module, Scattering) and module.selection.learned:
            return module.scale_weights().detach().float().cpu()
    return None


def choose_strategy(
    model: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    workers: int = 1,
) -> Strategy:
    """Times an epoch of a few models with both strategies and returns the faster one.

    Args:
        model: a network's name.
        jobs: of the models.
        data: with targets.
        options: how to train.
        device: where to train.
        workers: processes that would train sequentially, side by side.
    """
    if len(jobs) < 2:
        return "sequential"
    trial = replace(options, max_epochs=1, validate_every=1)
    some, inputs, y = prepared(model, jobs[:16], data, options, device)

    def copies() -> list[Member]:
        return [replace(m, network=copy.deepcopy(m.network)) for m in some]

    train_stack(copies()[:2], inputs, y, trial)  # compiles, warms up
    start = time.perf_counter()
    train_stack(copies(), inputs, y, trial)
    stacked = time.perf_counter() - start
    start = time.perf_counter()
    for member in copies()[:2]:
        train_single(member, inputs, y, trial)
    sequential = (time.perf_counter() - start) / 2 * len(some) / max(workers, 1)
    return "stacked" if stacked <= sequential else "sequential"


def fit_machine(
    data: GraphDataset,
    split: Split,
    options: TrainingOptions,
    workers: int = 1,
    features: Tensor | None = None,
) -> Trained:
    """GS-SVM, trained on training and validation graphs: it needs none to validate.

    Args:
        data: with targets.
        split: of a test set.
        options: how to train.
        workers: processes for the choice of C and γ.
        features: scattering features of all graphs, if known.
    """
    start = time.monotonic()
    train = torch.as_tensor(np.sort(np.concatenate([split.train, split.validation])))
    task = Task.of(data, train, options.balanced)
    validation = torch.as_tensor(split.validation)
    machine = fit_svm(data, task, train, validation, folds=3, workers=workers, features=features)
    answers = machine.answers(data.subset(split.test), task, 512)
    return Trained(answers, 0.0, 0, 0, machine.num_parameters(), time.monotonic() - start, "svm")


def fit_ensemble(
    method: str,
    job: Job,
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    report: Report = _ignore,
) -> Trained:
    """Two networks, then a common head; ``lr`` of the job is for all three.

    Args:
        method: the ensemble's name.
        job: the model.
        data: with targets.
        options: how to train.
        device: where to train.
        report: called now and then.
    """
    start = time.monotonic()
    head_options = dict(job.options)
    lr = head_options.pop("lr", options.lr)
    training = replace(options, seed=options.seed * 100_003 + job.number, lr=lr)
    task = Task.of(data, torch.as_tensor(job.split.train), training.balanced)
    answerer, state = fit_method(
        method,
        data,
        job.split,
        task,
        training,
        model_options=head_options,
        device=device,
        report=_follow(lambda epoch, best: report(Standing(epoch, 1, 0, best, 0))),
    )
    assert isinstance(answerer, NetworkAnswerer)
    return Trained(
        answerer.answers(data.subset(job.split.test), task, 512),
        state.best_loss,
        state.best_epoch,
        state.epoch,
        answerer.num_parameters(),
        time.monotonic() - start,
        "sequential",
    )


def train_ensembles(
    method: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    report: Report = _ignore,
    checkpoints: Files = _no_file,
) -> list[Trained]:
    """Trains ensembles at once: both networks as stacks, then their heads as a stack.

    Args:
        method: the ensemble's name.
        jobs: one per ensemble; their options are ``lr``, for all three trainings, and those of the
            head, which must be the same for all.
        data: with targets.
        options: how to train.
        device: where to train.
        report: called now and then.
        checkpoints: the file for the state of a stack, by the name of the part.
    """
    start = time.monotonic()

    def tell(standing: Standing) -> None:
        # A network that has stopped is not a finished ensemble.
        report(standing._replace(running=len(jobs), stopped=0))

    parts: list[list[Network]] = []
    for part in ENSEMBLES[method]:
        own = [
            job._replace(options={k: v for k, v in job.options.items() if k == "lr"})
            for job in jobs
        ]
        members, inputs, y = prepared(part, own, data, options, device)
        train_stack(members, inputs, y, options, report=tell, checkpoint=checkpoints(part))
        parts.append([member.network.to(y.device) for member in members])
    joint = [
        replace(member, network=_join(job, pair, data, member, options))
        for job, pair, member in zip(jobs, zip(*parts, strict=True), members, strict=True)
    ]
    # Every ensemble has its own features.
    inputs = Inputs(data.with_x(data.x.to(options.dtype)), joint[0].network, y.device, False)
    inputs.keep_own_features([member.network for member in joint])
    outcomes = train_stack(joint, inputs, y, options, report=tell, checkpoint=checkpoints("head"))
    seconds = (time.monotonic() - start) / len(jobs)
    for member in joint:
        member.network.to(y.device)
    return _trained(joint, inputs, outcomes, seconds, "stacked")


def _join(
    job: Job,
    pair: tuple[Network, ...],
    data: GraphDataset,
    member: Member,
    options: TrainingOptions,
) -> Ensemble:
    """Two trained networks under a head seeded by the job's number."""
    head_options = {name: value for name, value in job.options.items() if name != "lr"}
    device = next(pair[0].parameters()).device
    one = data.subset([0]).to(device)
    one = one.with_x(one.x.to(options.dtype))
    width = sum(embed(part, one).shape[1] for part in pair)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed * 100_003 + job.number)
        first, second = pair
        network = Ensemble(first, second, width, len(member.task.names), **head_options)
        network.initialize(one.x, graphs=len(member.split.train))
    return network.to(device, options.dtype)
