"""Trains the models of a cross-validation: networks, ensembles of two, support vector machines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import Ensemble, Network, create
from legs.nn import Scattering
from legs.training.checkpoint import State
from legs.training.cv.store import Trained
from legs.training.inputs import Inputs, embed, predict
from legs.training.methods import ENSEMBLES, initialized, with_dims
from legs.training.options import TrainingOptions
from legs.training.stacked.trainer import Member, Standing, train_single, train_stack
from legs.training.svm import ScatteringSVM, fit_svm
from legs.training.task import ERRORS, Task

Strategy = Literal["stacked", "sequential"]
Report = Callable[[Standing], None]
# From a trained member, its data and the unscaled targets of all graphs, on the member's device;
# ``None`` where a network has nothing to measure.
Measure = Callable[[Member, Inputs, Tensor], Tensor | None]
# The file for the state of a stack, by its part of an ensemble or ``""``; ``None`` keeps none.
Checkpoints = Callable[[str], Path | None]


class Job(NamedTuple):
    """A model to be trained."""

    number: int  # seeds its weights; the same in all settings of a grid
    split: Split
    options: dict[str, Any]  # of the model; ``lr`` among them overrides the learning rate
    setting: int = 0  # its number in the grid
    name: str = ""  # in the store, of the file that begins with it


@dataclass(frozen=True)
class Shared:
    """What the training of every model needs; sent to workers once."""

    data: GraphDataset  # with targets
    training: TrainingOptions
    device: str = "cpu"
    measures: Mapping[str, Measure] = field(default_factory=dict)  # of networks, by name
    workers: int = 1  # processes for what is trained in this process

    def seed(self, job: Job) -> int:
        """Of the weights of a model."""
        return self.training.seed * 100_003 + job.number

    @cached_property
    def scattering(self) -> Tensor:
        """Features of support vector machines."""
        return ScatteringSVM.embedding(self.data)


def prepared(method: str, jobs: list[Job], shared: Shared) -> tuple[list[Member], Inputs, Tensor]:
    """Networks, inputs and targets on the device where they are trained.

    Every network is seeded by its number and initialized from its own training graphs.
    """
    data, options, device = shared.data, shared.training, torch.device(shared.device)
    members = []
    for job in jobs:
        train = torch.as_tensor(job.split.train)
        task = Task.of(data, train, options.balanced)
        own = with_dims(method, dict(job.options), data)
        lr = float(own.pop("lr", options.lr))
        build = partial(create, method, data.in_channels, len(task.names), **own)
        network = initialized(build, data, train, shared.seed(job), device)
        members.append(Member(network.to(device, options.dtype), job.split, task, lr))
    converted = data.with_x(data.x.to(options.dtype), data.feature_names)
    assert data.y is not None
    return members, Inputs(converted, members[0].network, device), data.y.to(device)


def train_networks(
    method: str,
    jobs: list[Job],
    shared: Shared,
    strategy: Strategy = "stacked",
    report: Report = lambda standing: None,
    checkpoints: Checkpoints = lambda part: None,
) -> list[Trained]:
    """Trains networks of one architecture; the options of jobs may differ in ``lr`` alone."""
    members, inputs, y = prepared(method, jobs, shared)
    start = time.monotonic()
    states = _train(members, inputs, y, shared.training, strategy, report, checkpoints(""))
    trained = _trained(members, inputs, states, time.monotonic() - start, strategy)
    for member, model in zip(members, trained, strict=True):
        values = {name: measure(member, inputs, y) for name, measure in shared.measures.items()}
        model.measured.update({name: v.cpu() for name, v in values.items() if v is not None})
    return trained


def train_ensembles(
    method: str,
    jobs: list[Job],
    shared: Shared,
    strategy: Strategy = "stacked",
    report: Report = lambda standing: None,
    checkpoints: Checkpoints = lambda part: None,
) -> list[Trained]:
    """Trains the first networks of all ensembles, the second ones, then the common heads.

    The options of jobs are ``lr``, for all three, and those of the head, the same for all jobs.
    Sequentially it is one job at a time.
    """
    start, data, options = time.monotonic(), shared.data, shared.training
    own = [
        job._replace(options={n: v for n, v in job.options.items() if n == "lr"}) for job in jobs
    ]
    parts: list[list[Network]] = []
    for part in ENSEMBLES[method]:
        members, inputs, y = prepared(part, own, shared)
        _train(members, inputs, y, options, strategy, report, checkpoints(part))
        parts.append([member.network.to(y.device) for member in members])
    converted = data.with_x(data.x.to(options.dtype))
    one = converted.subset([0]).to(y.device)
    width = sum(embed(networks[0], one).shape[1] for networks in parts)
    head_options = {name: value for name, value in jobs[0].options.items() if name != "lr"}
    joint = []
    for job, member, pair in zip(jobs, members, zip(*parts, strict=True), strict=True):
        outputs = len(member.task.names)
        build = partial(Ensemble, pair[0], pair[1], width, outputs, **head_options)
        train = torch.as_tensor(job.split.train)
        network = initialized(build, data, train, shared.seed(job))
        joint.append(member._replace(network=network.to(y.device, options.dtype)))
    # Every ensemble has its own features.
    inputs = Inputs(converted, joint[0].network, y.device, keep=strategy == "sequential")
    if strategy == "stacked":
        inputs.keep_own_features([member.network for member in joint])
    states = _train(joint, inputs, y, options, strategy, report, checkpoints("head"))
    return _trained(joint, inputs, states, time.monotonic() - start, strategy)


def _train(
    members: list[Member],
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    strategy: Strategy,
    report: Report,
    checkpoint: Path | None,
) -> list[State]:
    if strategy == "stacked":
        return train_stack(members, inputs, y, options, report=report, checkpoint=checkpoint)
    states: list[State] = []
    for member in members:
        losses = [math.inf]

        def follow(row: dict[str, float], losses: list[float] = losses) -> None:
            if "validation_loss" in row:
                losses.append(row["validation_loss"])
                report(Standing(int(row["epoch"]), 1, len(states), min(losses)))

        report(Standing(0, 1, len(states), math.inf))
        states.append(train_single(member, inputs, y, options, follow))
    return states


def _trained(
    members: list[Member], inputs: Inputs, states: list[State], seconds: float, strategy: Strategy
) -> list[Trained]:
    """Trained networks, moved to where the data are, with their answers for their test graphs."""
    device = inputs.data.x.device
    networks = [member.network.to(device) for member in members]
    tests = [torch.as_tensor(member.split.test, device=device) for member in members]
    outputs = map(partial(predict, inputs), networks, tests)
    return [
        Trained(
            answers=task.answers(out.float()).cpu(),
            validation_loss=state.best_loss,
            best_epoch=state.best_epoch,
            epochs=state.epoch,
            parameters=network.num_parameters(),
            seconds=seconds / len(members),
            strategy=strategy,
            measured={} if (scales := learned_scales(network)) is None else {"scales": scales},
        )
        for (network, _, task, _), state, out in zip(members, states, outputs, strict=True)
    ]


def graph_features(data: GraphDataset, member: Member, *_: object) -> Tensor:
    """A measure, if it is the last: features of all graphs, ``[graphs, features]``."""
    return embed(member.network.cpu().float(), data).float()


def validation_score(metric: str, member: Member, inputs: Inputs, y: Tensor) -> Tensor:
    """A measure: a score of validation graphs, negated where lower is better; a scalar."""
    index = torch.as_tensor(member.split.validation).to(y.device)
    out = predict(inputs, member.network, index)
    scores = member.task.scores(member.task.answers(out.float()).cpu(), y[index].cpu())
    value = torch.tensor(scores.get(metric, math.nan))
    return -value if metric.startswith(ERRORS) else value


def learned_scales(network: Network) -> Tensor | None:
    """The selection matrix ``F`` of a network's learned scales, ``[scales, steps]``, if any."""
    for module in network.modules():
        if isinstance(module, Scattering) and module.selection.learned:
            return module.scale_weights().detach().float().cpu()
    return None


def fit_machine(split: Split, shared: Shared) -> Trained:
    """GS-SVM, trained on training and validation graphs: it needs none to validate."""
    start, data = time.monotonic(), shared.data
    train = torch.as_tensor(np.sort(np.concatenate([split.train, split.validation])))
    task = Task.of(data, train, shared.training.balanced)
    validation, features = torch.as_tensor(split.validation), shared.scattering
    machine = fit_svm(
        data, task, train, validation, folds=3, workers=shared.workers, features=features
    )
    answers = machine.answers(data.subset(split.test), task)
    return Trained(answers, 0.0, 0, 0, machine.num_parameters(), time.monotonic() - start, "svm")
