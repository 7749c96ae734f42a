"""Everything that ``--model`` takes: networks, and methods that are more or less than a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import Ensemble, Network, available, create
from legs.models.catalogue import nearest
from legs.training.checkpoint import State
from legs.training.distributed import ALONE, Group
from legs.training.inputs import Inputs, embed, unchecked
from legs.training.loop import Report, train
from legs.training.options import TrainingOptions
from legs.training.predictor import Answerer, NetworkAnswerer
from legs.training.svm import fit_svm
from legs.training.task import Task

# Ensembles: two networks are trained first, then frozen under a common head.
ENSEMBLES = {"gcn-legs-fixed": ("gcn", "legs-fixed"), "gcn-legs-fcn": ("gcn", "legs-fcn")}
HEAD_OPTIONS = ["hidden_channels", "dropout"]


def methods() -> list[str]:
    """Names of all methods.

    >>> methods()[-3:]
    ['gs-svm', 'gcn-legs-fixed', 'gcn-legs-fcn']
    """
    return [*available(), "gs-svm", *ENSEMBLES]


def check_method(name: str) -> None:
    """A clear error for a name that is no method's."""
    if name not in methods():
        raise ValueError(f"no model is called {name!r}{nearest(name, methods())}")


def fit_method(
    name: str,
    data: GraphDataset,
    split: Split,
    task: Task,
    options: TrainingOptions,
    *,
    model_options: dict[str, Any] | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    settings: dict[str, Any] | None = None,
    report: Report = lambda row: None,
    watch: Callable[[Network], None] = lambda network: None,
    group: Group = ALONE,
) -> tuple[Answerer, State]:
    """Trains a method on a split of a data set.

    Args:
        name: one of :func:`methods`.
        data: with targets.
        split: numbers of training and validation graphs.
        task: of the data, scaled by the training graphs.
        options: how to train.
        model_options: of the network (of the ensemble's head for ensembles).
        device: where to train.
        checkpoint: file for the state of the run, or ``None``.
        settings: what must not have changed when a run goes on.
        report: called with a row of losses after every epoch.
        watch: called with every network before it is trained.
        group: processes that share the work; default this one alone.
    """
    check_method(name)
    chosen = dict(model_options or {})
    _check_options(name, chosen)
    if name == "gs-svm":
        if group.size > 1:
            raise ValueError("gs-svm is not trained in batches; use one process")
        train_index, validation_index = map(torch.as_tensor, (split.train, split.validation))
        return fit_svm(data, task, train_index, validation_index, seed=options.seed), State()

    def fit_one(build: Callable[[], Network], file: Path | None) -> tuple[Network, State]:
        return _fit_network(
            build,
            data,
            split,
            task,
            options,
            torch.device(device) if group.size == 1 else group.device,
            file,
            settings,
            report,
            watch,
            group,
        )

    if name not in ENSEMBLES:
        network, state = fit_one(
            lambda: create(name, data.in_channels, _width(task), **chosen), checkpoint
        )
        return NetworkAnswerer(network), state
    parts = []
    for part in ENSEMBLES[name]:
        file = checkpoint and checkpoint.with_name(f"{part}-{checkpoint.name}")
        parts.append(fit_one(lambda p=part: create(p, data.in_channels, _width(task)), file)[0])  # type: ignore[misc]
    width = sum(embed(p.eval(), data.subset([0])).shape[1] for p in parts)
    network, state = fit_one(
        lambda: Ensemble(parts[0], parts[1], width, _width(task), **chosen), checkpoint
    )
    return NetworkAnswerer(network), state


def _check_options(name: str, chosen: dict[str, Any]) -> None:
    """What :func:`legs.models.create` does not see: told before anything is trained."""
    for option in chosen:
        if name in ENSEMBLES and option not in HEAD_OPTIONS:
            raise ValueError(f"{name} has no option {option!r}{nearest(option, HEAD_OPTIONS)}")
        if name == "gs-svm":
            raise ValueError(f"gs-svm has no option {option!r}; it has none")
    if chosen.get("level") == "node" or ("aggr" in chosen and chosen["aggr"] is None):
        raise ValueError("fit predicts for graphs; use legs.training.fit_nodes for nodes")


def _width(task: Task) -> int:
    return len(task.names)


def _fit_network(
    build: Callable[[], Network],
    data: GraphDataset,
    split: Split,
    task: Task,
    options: TrainingOptions,
    device: torch.device,
    checkpoint: Path | None,
    settings: dict[str, Any] | None,
    report: Report,
    watch: Callable[[Network], None],
    group: Group,
) -> tuple[Network, State]:
    assert data.y is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = build()
        if checkpoint is not None:
            network.describe()  # what cannot be saved is told before it is trained
        training = data.subset(torch.as_tensor(split.train))
        network.initialize(training.x, graphs=len(training))
        if _has_anchors(network):
            network.initialize(training.x, embed(network, training))
    dtype = options.dtype
    network.to(device, dtype)
    converted = data.with_x(data.x.to(dtype), data.feature_names)
    inputs = Inputs(converted, network, device)
    target: Tensor = task.targets(data.y).to(device)
    if target.is_floating_point():
        target = target.to(dtype)
    watch(network)
    with unchecked(network):
        state = train(
            network,
            inputs,
            target,
            split,
            task,
            options,
            checkpoint=checkpoint,
            settings=settings,
            report=report,
            group=group,
        )
    return network.to("cpu", torch.float32), state


def _has_anchors(network: Network) -> bool:
    from legs.nn import RBF

    return isinstance(network.head, RBF)
