"""Makes the members of a stack and runs them, at once or one by one, whichever is faster."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from joblib import Parallel, delayed
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.engine.local import end_with
from legs.models import Network, create
from legs.nn import RBF, Scattering
from legs.training.cv_measures import Measure
from legs.training.cv_store import Trained
from legs.training.inputs import Inputs, embed, predict
from legs.training.options import TrainingOptions
from legs.training.stack import Member, Outcome, Standing, train_single, train_stack
from legs.training.stack_predict import predict_stacked
from legs.training.task import Task

Way = Literal["auto", "stacked", "single"]
Reported = Callable[[Standing], None]


class Job(NamedTuple):
    """A network to be trained."""

    number: int  # weights are drawn by it; the same in all settings of a grid
    split: Split
    options: dict[str, Any]  # of the network; ``lr`` among them overrides the learning rate


class Beginnings:
    """Features that networks begin with: computed once, if all have the same embedding.

    Args:
        data: the data set, where features are to be computed.
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
    beginnings: Beginnings | None = None,
) -> Member:
    """A network initialised by its number, from its own training graphs."""
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
            network.initialize(x, (beginnings or Beginnings(data))(network, train))
    return Member(network.to(_dtype(options)), split, task, lr)


def train_members(
    model: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    way: Literal["stacked", "single"] = "stacked",
    workers: int = 1,
    report: Reported = lambda standing: None,
    checkpoint: Path | None = None,
    features: bool = False,
    measures: Mapping[str, Measure] | None = None,
) -> list[Trained]:
    """Trains networks of one architecture; returns what is kept of them.

    Args:
        model: a network's name.
        jobs: one a network; their options may differ in ``lr`` alone.
        data: with targets.
        options: how to train.
        device: where.
        way: all at once, or one by one.
        workers: processes for one by one on the CPU.
        report: called now and then.
        checkpoint: file for the state of a stack.
        features: whether to keep the graph features of all graphs, too.
        measures: taken of every network at the end, by name; kept in ``Trained.measured``.
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
    outs = outputs_of_tests(members, inputs, way)
    found = []
    for member, outcome, out in zip(members, outcomes, outs, strict=True):
        network = member.network
        measured = {name: take(member, inputs, y) for name, take in (measures or {}).items()}
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


def outputs_of_tests(
    members: list[Member], inputs: Inputs, way: Literal["stacked", "single"]
) -> list[Tensor]:
    """Outputs of trained networks for their test graphs, ``[test graphs, outputs]`` each."""
    parts = [torch.as_tensor(member.split.test) for member in members]
    networks = [member.network for member in members]
    if way == "stacked":
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


def choose_way(
    model: str,
    jobs: list[Job],
    data: GraphDataset,
    options: TrainingOptions,
    *,
    device: str = "cpu",
    workers: int = 1,
) -> Literal["stacked", "single"]:
    """Times an epoch of a few models both ways, and takes the faster."""
    if len(jobs) < 2:
        return "single"
    trial = replace(options, max_epochs=1, validate_every=1)
    some, inputs, y = prepared(model, jobs[:16], data, options, device)

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


def prepared(
    model: str, jobs: list[Job], data: GraphDataset, options: TrainingOptions, device: str
) -> tuple[list[Member], Inputs, Tensor]:
    """Members, inputs and targets, where they are trained."""
    beginnings = Beginnings(data.to(torch.device(device)))
    members = [
        make_member(model, job.options, data, job.split, options, job.number, beginnings)
        for job in jobs
    ]
    for member in members:
        member.network.to(device)
    converted = data.with_x(data.x.to(_dtype(options)), data.feature_names)
    assert data.y is not None
    inputs = Inputs(converted, members[0].network, torch.device(device))
    return members, inputs, data.y.to(device)


def _dtype(options: TrainingOptions) -> torch.dtype:
    return torch.float64 if options.precision == "float64" else torch.float32


def _one_by_one(
    members: list[Member],
    inputs: Inputs,
    y: Tensor,
    options: TrainingOptions,
    workers: int,
    report: Reported,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    at_once = workers if y.device.type == "cpu" else 1

    def tell(epoch: int = 0, best: float = float("inf")) -> None:
        """``epoch`` and ``best`` are those of the model in training, where they are known."""
        losses = [o.best_loss for o in outcomes] + [best] * (best < float("inf"))
        running = min(at_once, len(members) - len(outcomes))
        mean = sum(losses) / len(losses) if losses else float("inf")
        trained = sum(o.epochs for o in outcomes) + epoch
        report(Standing(epoch, running, len(outcomes), mean, trained))

    tell()
    if at_once > 1:
        done = Parallel(n_jobs=at_once, return_as="generator")(
            delayed(_train_in_worker)(member, inputs, y, options, os.getpid()) for member in members
        )
        for member, (state, outcome) in zip(members, done, strict=True):
            member.network.load_state_dict(state)
            outcomes.append(outcome)
            tell()
        return outcomes
    for member in members:
        best = float("inf")

        def follow(row: dict[str, float]) -> None:
            nonlocal best
            if "validation_loss" in row:
                best = min(best, row["validation_loss"])
                tell(int(row["epoch"]), best)

        outcomes.append(train_single(member, inputs, y, options, follow))
        tell()
    return outcomes


def _train_in_worker(
    member: Member, inputs: Inputs, y: Tensor, options: TrainingOptions, caller: int
) -> tuple[dict[str, Tensor], Outcome]:
    end_with(caller)
    torch.set_num_threads(1)
    outcome = train_single(member, inputs, y, options)
    return dict(member.network.state_dict()), outcome
