"""Ensembles of a cross-validation all at once: both networks as stacks, then their heads as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from legs.data.dataset import GraphDataset
from legs.models import Ensemble, Network
from legs.training.cv_store import Store, Trained
from legs.training.inputs import Inputs, embed
from legs.training.members import Job, learned_scales, outputs_of_tests, prepared
from legs.training.methods import ENSEMBLES
from legs.training.options import TrainingOptions
from legs.training.stack import Member, Standing, train_stack

# The file for the state of a stack, by the name of the part; ``None`` keeps none.
Files = Callable[[str], Path | None]


def train_ensembles(
    method: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    report: Callable[[Standing], None] = lambda standing: None,
    checkpoints: Files = lambda part: None,
) -> list[Trained]:
    """Trains ensembles of one architecture; returns what is kept of them.

    Args:
        method: the ensemble's name.
        jobs: one an ensemble; their options are ``lr``, for all three trainings, and those of the
            head, which must be the same for all.
        data: with targets.
        options: how to train.
        device: where.
        report: called now and then.
        checkpoints: the file for the state of a stack, by the name of the part.
    """
    start = time.monotonic()

    def tell(standing: Standing) -> None:
        # A network that has stopped is not an ensemble that is done.
        report(standing._replace(running=len(jobs), stopped=0))

    parts: list[list[Network]] = []
    for part in ENSEMBLES[method]:
        own = [job._replace(options=_rate(job)) for job in jobs]
        members, inputs, y = prepared(part, own, data, options, device)
        train_stack(members, inputs, y, options, report=tell, checkpoint=checkpoints(part))
        parts.append([member.network.to(y.device) for member in members])
    together = [
        Member(_joined(job, pair, data, member, options), job.split, member.task, member.lr)
        for job, pair, member in zip(jobs, zip(*parts, strict=True), members, strict=True)
    ]
    # Every ensemble has features of its own: they cannot be computed once for all of them.
    inputs = Inputs(data.with_x(data.x.to(_dtype(options))), together[0].network, y.device, False)
    inputs.keep_own_features([member.network for member in together])
    outcomes = train_stack(
        together, inputs, y, options, report=tell, checkpoint=checkpoints("head")
    )
    seconds = (time.monotonic() - start) / len(jobs)
    for member in together:
        member.network.to(y.device)
    outs = outputs_of_tests(together, inputs, "stacked")
    found = []
    for member, outcome, out in zip(together, outcomes, outs, strict=True):
        network = member.network
        found.append(
            Trained(
                member.task.answers(out.float()).cpu(),
                outcome.best_loss,
                outcome.best_epoch,
                outcome.epochs,
                network.num_parameters(),
                seconds,
                "stacked",
                learned_scales(network),
            )
        )
    return found


def keep_ensembles(
    method: str,
    names: list[str],
    jobs: list[Job],
    store: Store,
    train: Callable[[list[Job], Files], list[Trained]],
    chunk: int,
) -> list[Trained]:
    """Trains the ensembles that a store does not have, some at a time, and keeps each by its name.

    Args:
        method: the ensemble's name.
        names: in the store, one a job.
        jobs: the ensembles.
        store: where results are kept.
        train: trains jobs, given the file for the state of each part.
        chunk: ensembles at once at most.
    """
    found = [store.load(name) for name in names]
    todo = [k for k, part in enumerate(found) if part is None]
    for start in range(0, len(todo), chunk):
        some = todo[start : start + chunk]
        groups = {part: f"{names[some[0]]}-{part}" for part in (*ENSEMBLES[method], "head")}
        trained = train(
            [jobs[k] for k in some],
            lambda part, groups=groups, some=some: store.partial(groups[part], len(some)),  # type: ignore[misc]
        )
        for k, model in zip(some, trained, strict=True):
            store.save(names[k], [model])
            found[k] = [model]
        for group in groups.values():
            if (file := store.partial(group, len(some))) is not None:
                file.unlink(missing_ok=True)
    return [part[0] for part in found if part is not None]


def _rate(job: Job) -> dict[str, Any]:
    return {name: value for name, value in job.options.items() if name == "lr"}


def _joined(
    job: Job,
    pair: tuple[Network, ...],
    data: GraphDataset,
    member: Member,
    options: TrainingOptions,
) -> Ensemble:
    """Two trained networks under a head whose weights are drawn by the job's number."""
    head = {name: value for name, value in job.options.items() if name != "lr"}
    device = next(pair[0].parameters()).device
    one = data.subset([0]).to(device)
    one = one.with_x(one.x.to(_dtype(options)))
    width = sum(embed(part, one).shape[1] for part in pair)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed * 100_003 + job.number)
        first, second = pair
        network = Ensemble(first, second, width, len(member.task.names), **head)
        network.initialize(one.x, graphs=len(member.split.train))
    return network.to(device, _dtype(options))


def _dtype(options: TrainingOptions) -> torch.dtype:
    return torch.float64 if options.precision == "float64" else torch.float32
