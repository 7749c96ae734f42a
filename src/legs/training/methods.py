"""Everything that ``--model`` takes: networks, and methods that are more or less than a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.models import Network, available, create
from legs.models.catalogue import cannot_build, nearest, takes
from legs.models.saving import check_sizes
from legs.nn import FCN, RBF

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
    """A clear error for a method that does not exist, or options that it cannot be built with."""
    check_names(model, options)
    check_sizes(options)
    with torch.device("meta"):  # without memory for weights
        if model in available():
            create(model, 2, 2, **options)
            return
        try:
            FCN(2, 2, **options)  # the head of an ensemble
        except (TypeError, RuntimeError) as error:
            raise ValueError(cannot_build(model, options, error)) from error


def check_names(model: str, options: dict[str, Any]) -> None:
    """A clear error for a method that does not exist, or has no such options or level."""
    check_method(model)
    for name in () if model in available() else options:
        if model == "gs-svm":
            raise ValueError(f"gs-svm has no option {name!r}; it has none")
        if name not in HEAD_OPTIONS:
            raise ValueError(f"{model} has no option {name!r}{nearest(name, HEAD_OPTIONS)}")
    if options.get("level", "graph") != "graph" or options.get("aggr", "") is None:
        raise ValueError("fit predicts for graphs; use legs.training.fit_nodes for nodes")


def with_edge_dim(model: str, options: dict[str, Any], data: GraphDataset) -> dict[str, Any]:
    """Options with ``edge_dim``, where the data has edge features and the model can read them.

    ``edge_dim=None`` among the options stays: none are read.
    """
    if data.edge_dim is None or not takes(model, "edge_dim"):
        return options
    return {"edge_dim": data.edge_dim, **options}


def initialized(
    build: Callable[[], Network],
    data: GraphDataset,
    train_index: Tensor,
    seed: int,
    embedding: Callable[[Network], Tensor] | None = None,
) -> Network:
    """A seeded network that is initialized from its training graphs.

    ``embedding`` computes their features, for the anchors of RBF heads.
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
