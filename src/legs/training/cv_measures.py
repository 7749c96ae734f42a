"""Numbers taken from trained networks of a cross-validation while they are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.training.cv_store import Trained
from legs.training.inputs import Inputs, embed, predict
from legs.training.members import Job, Reported, _one_by_one, learned_scales, prepared
from legs.training.options import TrainingOptions
from legs.training.stack import Member, train_stack

# From a trained member, its data and the unscaled targets of all graphs, on the member's device;
# ``None`` where a network has nothing to measure.
Measure = Callable[[Member, Inputs, Tensor], Tensor | None]


def train_mse(member: Member, inputs: Inputs, y: Tensor) -> Tensor:
    """Mean squared error of whitened targets on the member's own training graphs, ``[targets]``.

    In evaluation mode, with the weights that are kept: what to hold against the test error.
    """
    index = torch.as_tensor(member.split.train).to(y.device)
    out = predict(inputs, member.network, index)
    return squared_error(out, member.task.targets(y[index]))


def squared_error(out: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of each column; missing numbers (NaN) count nowhere.

    Args:
        out: predictions, ``[graphs, targets]``.
        target: the truth, the same shape.

    >>> nan = float("nan")
    >>> squared_error(
    ...     torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[0.0, 2.0], [3.0, nan]])
    ... )
    tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    known = ~target.isnan()
    error = torch.where(known, out.double() - target.double().nan_to_num(), 0.0)
    return error.square().sum(0) / known.sum(0)


def train_measured(
    model: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    measures: Mapping[str, Measure],
    device: str = "cpu",
    way: Literal["stacked", "single"] = "stacked",
    workers: int = 1,
    report: Reported = lambda standing: None,
    checkpoint: Path | None = None,
    features: bool = False,
) -> list[Trained]:
    """As :func:`legs.training.members.train_members`, and measures every network at the end.

    Args:
        model: a network's name.
        jobs: one a network; their options may differ in ``lr`` alone.
        data: with targets.
        options: how to train.
        measures: by name; what they return is kept in ``Trained.measured``.
        device: where.
        way: all at once, or one by one.
        workers: processes for one by one on the CPU.
        report: called now and then.
        checkpoint: file for the state of a stack.
        features: whether to keep the graph features of all graphs, too.
    """
    members, inputs, y = prepared(model, jobs, data, options, device)
    start = time.monotonic()
    if way == "stacked":
        outcomes = train_stack(members, inputs, y, options, report=report, checkpoint=checkpoint)
        for member in members:
            member.network.to(y.device)
    else:
        outcomes = _one_by_one(members, inputs, y, options, workers, report)
    seconds = (time.monotonic() - start) / len(members)
    found = []
    for member, outcome in zip(members, outcomes, strict=True):
        network = member.network
        out = predict(inputs, network, torch.as_tensor(member.split.test).to(y.device))
        measured = {name: measure(member, inputs, y) for name, measure in measures.items()}
        found.append(
            Trained(
                member.task.answers(out.float()).cpu(),
                outcome.best_loss,
                outcome.best_epoch,
                outcome.epochs,
                network.num_parameters(),
                seconds,
                way,
                learned_scales(network),
                embed(network.cpu().float(), data).float() if features else None,
                {name: value.cpu() for name, value in measured.items() if value is not None},
            )
        )
    return found
