"""Everything that ``--model`` takes: networks, and methods that are more or less than a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import Ensemble, Network, available, create
from legs.models.bounds import check_sizes
from legs.models.catalogue import cannot_build, nearest
from legs.nn import FCN, RBF
from legs.training.checkpoint import State
from legs.training.distributed import ALONE, Group
from legs.training.inputs import Inputs, embed, unchecked
from legs.training.loop import Report, train
from legs.training.options import TrainingOptions
from legs.training.svm import ScatteringSVM, fit_svm
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


def check_options(model: str, options: dict[str, Any]) -> None:
    """A clear error for a method that does not exist, or options that it cannot be built with.

    >>> check_options("gcn", {"hiden_channels": 3})
    Traceback (most recent call last):
    ...
    ValueError: gcn has no option 'hiden_channels'; did you mean 'hidden_channels'?
    """
    _check_names(model, options)
    check_sizes(options)
    with torch.device("meta"):  # without memory for weights
        if model in available():
            create(model, 2, 2, **options)
            return
        try:
            FCN(2, 2, **options)  # the head of an ensemble
        except (TypeError, RuntimeError) as error:
            raise ValueError(cannot_build(model, options, error)) from error


def _check_names(model: str, options: dict[str, Any]) -> None:
    """What :func:`legs.models.create` does not see."""
    check_method(model)
    for name in () if model in available() else options:
        if model == "gs-svm":
            raise ValueError(f"gs-svm has no option {name!r}; it has none")
        if name not in HEAD_OPTIONS:
            raise ValueError(f"{model} has no option {name!r}{nearest(name, HEAD_OPTIONS)}")
    if options.get("level", "graph") != "graph" or options.get("aggr", "") is None:
        raise ValueError("fit predicts for graphs; use legs.training.fit_nodes for nodes")


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
) -> tuple[Network | ScatteringSVM, State]:
    """Trains a method, one of :func:`methods`, on a split of a data set.

    The arguments are those of :func:`legs.training.fit` and :func:`legs.training.loop.train`.
    ``model_options`` of ensembles are those of the head; ``watch`` is called with every network
    before it is trained.
    """
    model_options = model_options or {}
    _check_names(name, model_options)
    train_index = torch.as_tensor(split.train)
    if name == "gs-svm":
        if group.size > 1:
            raise ValueError("gs-svm is not trained in batches; use one process")
        validation_index = torch.as_tensor(split.validation)
        return fit_svm(data, task, train_index, validation_index, seed=options.seed), State()
    place = torch.device(device) if group.size == 1 else group.device
    assert data.y is not None
    y, converted = data.y.to(place), data.with_x(data.x.to(options.dtype), data.feature_names)

    def fit_network(build: Callable[[], Network], file: Path | None) -> tuple[Network, State]:
        network = initialized(
            build, data, train_index, options.seed, lambda net: embed(net, data.subset(train_index))
        )
        if file is not None:
            network.describe()  # raises for what cannot be saved, before it is trained
        network.to(place, options.dtype)
        inputs = Inputs(converted, network, place)
        watch(network)
        files: dict[str, Any] = {"checkpoint": file, "settings": settings}
        with unchecked(network):
            state = train(
                network, inputs, y, split, task, options, **files, report=report, group=group
            )
        return network.to("cpu", torch.float32), state

    channels, outputs = data.in_channels, len(task.names)
    build: Callable[[], Network] = partial(create, name, channels, outputs, **model_options)
    if name in ENSEMBLES:
        parts = []
        for part in ENSEMBLES[name]:
            file = checkpoint and checkpoint.with_name(f"{part}-{checkpoint.name}")
            parts.append(fit_network(partial(create, part, channels, outputs), file)[0].eval())
        width = sum(embed(part, data.subset([0])).shape[1] for part in parts)
        build = partial(Ensemble, parts[0], parts[1], width, outputs, **model_options)
    return fit_network(build, checkpoint)


def initialized(
    build: Callable[[], Network],
    data: GraphDataset,
    train_index: Tensor,
    seed: int,
    embedding: Callable[[Network], Tensor] | None = None,
) -> Network:
    """A seeded network that is initialized from its training graphs.

    ``embedding`` computes their features, ``[training graphs, features]``, for the anchors of RBF
    heads.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build()
        training = torch.zeros(len(data), dtype=torch.bool)
        training[train_index] = True
        x = data.x[torch.repeat_interleave(training, data.sizes)]
        network.initialize(x, graphs=len(train_index))
        if embedding is not None and isinstance(network.head, RBF):
            network.initialize(x, embedding(network))
    return network
