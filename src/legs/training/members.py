"""Makes the members of a stack and runs them, at once or one by one, whichever is faster."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from joblib import Parallel, delayed
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import create
from legs.nn import RBF
from legs.training.cv_store import Trained
from legs.training.inputs import Inputs, embed, predict
from legs.training.options import TrainingOptions
from legs.training.stack import Member, Outcome, train_single, train_stack
from legs.training.task import Task

Way = Literal["auto", "stacked", "single"]


def make_member(
    model: str,
    model_options: dict[str, Any],
    data: GraphDataset,
    split: Split,
    options: TrainingOptions,
    number: int,
) -> Member:
    """A network initialised by its number, from its own training graphs."""
    train = torch.as_tensor(split.train)
    task = Task.of(data, train, options.balanced)
    lr = float(model_options.get("lr", options.lr))
    chosen = {k: v for k, v in model_options.items() if k != "lr"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed * 100_003 + number)
        network = create(model, data.in_channels, len(task.names), **chosen)
        training = data.subset(train)
        network.initialize(training.x)
        if isinstance(network.head, RBF):
            network.initialize(training.x, embed(network, training))
    return Member(network, split, task, lr)


def train_members(
    model: str,
    model_options: dict[str, Any],
    data: GraphDataset,
    splits: list[Split],
    options: TrainingOptions,
    *,
    device: str = "cpu",
    way: Literal["stacked", "single"] = "stacked",
    first_number: int = 0,
    workers: int = 1,
    report: Callable[[int, int, float], None] = lambda epoch, running, best: None,
    checkpoint: Path | None = None,
) -> list[Trained]:
    """Trains one network for each split; returns what is kept of them.

    Args:
        model: a network's name.
        model_options: its options; ``lr`` among them overrides the learning rate.
        data: with targets.
        splits: one a model.
        options: how to train.
        device: where.
        way: all at once, or one by one.
        first_number: number of the first model; weights are drawn by number.
        workers: processes for one by one on the CPU.
        report: called with epoch, models running and mean best loss.
        checkpoint: file for the state of a stack.
    """
    members = [
        make_member(model, model_options, data, split, options, first_number + k)
        for k, split in enumerate(splits)
    ]
    target_device = torch.device(device)
    for member in members:
        member.network.to(target_device)
    inputs = Inputs(data, members[0].network, target_device)
    assert data.y is not None
    y = data.y.to(target_device)
    start = time.monotonic()
    if way == "stacked":
        outcomes = train_stack(members, inputs, y, options, report=report, checkpoint=checkpoint)
        for member in members:
            member.network.to(target_device)
    else:
        outcomes = _one_by_one(members, inputs, y, options, workers, report)
    seconds = (time.monotonic() - start) / len(members)
    found = []
    for member, outcome in zip(members, outcomes, strict=True):
        out = predict(inputs, member.network, torch.as_tensor(member.split.test).to(target_device))
        found.append(
            Trained(
                member.task.answers(out.float()).cpu(),
                outcome.best_loss,
                outcome.best_epoch,
                outcome.epochs,
                member.network.num_parameters(),
                seconds,
                way,
            )
        )
    return found


def choose_way(
    model: str,
    model_options: dict[str, Any],
    data: GraphDataset,
    splits: list[Split],
    options: TrainingOptions,
    *,
    device: str = "cpu",
    workers: int = 1,
) -> Literal["stacked", "single"]:
    """Times an epoch of a few models both ways, and takes the faster."""
    if len(splits) < 2:
        return "single"
    trial = replace(options, max_epochs=1, validate_every=1)
    some = [
        make_member(model, model_options, data, split, options, k)
        for k, split in enumerate(splits[:16])
    ]
    for member in some:
        member.network.to(device)
    inputs = Inputs(data, some[0].network, torch.device(device))
    assert data.y is not None
    y = data.y.to(device)

    def copies() -> list[Member]:
        return [replace(m, network=copy.deepcopy(m.network)) for m in some]

    train_stack(copies()[:2], inputs, y, trial)  # whatever is done once only
    start = time.perf_counter()
    train_stack(copies(), inputs, y, trial)
    stacked = time.perf_counter() - start
    start = time.perf_counter()
    for member in copies()[:2]:
        train_single(member, inputs, y, trial)
    single = (time.perf_counter() - start) / 2 * len(some) / max(workers, 1)
    return "stacked" if stacked <= single else "single"


def _one_by_one(
    members: list[Member],
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    workers: int,
    report: Callable[[int, int, float], None],
) -> list[Outcome]:
    if workers > 1 and y.device.type == "cpu":
        done = Parallel(n_jobs=workers)(
            delayed(_train_in_worker)(member, inputs, y, options) for member in members
        )
        for member, (state, _) in zip(members, done, strict=True):
            member.network.load_state_dict(state)
        return [outcome for _, outcome in done]
    outcomes: list[Outcome] = []
    for k, member in enumerate(members):
        outcomes.append(train_single(member, inputs, y, options))
        report(outcomes[-1].epochs, len(members) - k - 1, outcomes[-1].best_loss)
    return outcomes


def _train_in_worker(
    member: Member, inputs: Inputs, y: Tensor, options: TrainingOptions
) -> tuple[dict[str, Tensor], Outcome]:
    torch.set_num_threads(1)
    outcome = train_single(member, inputs, y, options)
    return dict(member.network.state_dict()), outcome
