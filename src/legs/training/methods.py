"""Everything that ``--model`` takes: networks, and methods that are more or less than a network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from legs.data.dataset import GraphDataset
from legs.data.errors import DataWarning, listed
from legs.models import Network, available, catalogue, create
from legs.models.catalogue import cannot_build, nearest
from legs.models.deep import DeepNetwork
from legs.models.saving import check_sizes
from legs.nn import FCN, RBF, FeatureScale
from legs.training.inputs import embed

# Ensembles: two networks are trained first, then frozen under a common head.
ENSEMBLES = {"gcn-legs-fixed": ("gcn", "legs-fixed"), "gcn-legs-fcn": ("gcn", "legs-fcn")}
HEAD_OPTIONS = ["hidden_channels", "dropout"]
# Candidates that are weighed against each other by out-of-fold predictions.
BLENDS = {
    "auto": ("forest", "kernel", "boosting", "legs-deep"),
    **{name: (name,) for name in ("forest", "boosting", "kernel")},
}


def methods() -> list[str]:
    """Names of all methods.

    >>> methods()[-3:]
    ['gs-svm', 'gcn-legs-fixed', 'gcn-legs-fcn']
    """
    return [*available(), *BLENDS, "gs-svm", *ENSEMBLES]


def check_method(name: str) -> None:
    """A clear error for a name that is no method's."""
    if name not in methods():
        raise ValueError(f"no model is called {name!r}{nearest(name, methods())}")


def options_of(method: str) -> list[str]:
    """Options of a method."""
    if method in available():
        return catalogue.options_of(method)
    return ["minutes"] if method in BLENDS else HEAD_OPTIONS if method in ENSEMBLES else []


def check_options(model: str, options: dict[str, Any]) -> None:
    """A clear error for a method that does not exist, or options that it cannot be built with."""
    check_names(model, options)
    check_sizes(options)
    with torch.device("meta"):  # without memory for weights
        if model in available():
            create(model, 2, 2, **options)
            return
        if model in BLENDS:
            return
        try:
            FCN(2, 2, **options)  # the head of an ensemble
        except (TypeError, RuntimeError) as error:
            raise ValueError(cannot_build(model, options, error)) from error


def check_names(model: str, options: dict[str, Any]) -> None:
    """A clear error for a method that does not exist, or has no such options or level."""
    check_method(model)
    names = options_of(model)
    for name in options:
        if name not in names:
            choice = nearest(name, names) if names else "; it has none"
            raise ValueError(f"{model} has no option {name!r}{choice}")
    minutes = options.get("minutes", 1)
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or minutes <= 0:
        raise ValueError(f"minutes must be a positive number; got {minutes!r}")
    if options.get("level", "graph") != "graph" or options.get("aggr", "") is None:
        raise ValueError("fit predicts for graphs; use legs.training.fit_nodes for nodes")


def with_dims(model: str, options: dict[str, Any], data: GraphDataset) -> dict[str, Any]:
    """Options with ``edge_dim`` and ``graph_dim``, where the data has such features.

    Models that cannot read them have neither. ``None`` among the options stays: none are read.
    """
    dims = {"edge_dim": data.edge_dim, "graph_dim": data.graph_dim}
    read = options_of(model)
    used = {name: dim for name, dim in dims.items() if dim is not None and name in read}
    return {**used, **options}


def initialized(
    build: Callable[[], Network],
    data: GraphDataset,
    train_index: Tensor,
    seed: int,
    device: torch.device | str = "cpu",
) -> Network:
    """A seeded network that is initialized from its training graphs.

    Their features, for the anchors of RBF heads, are computed on ``device``.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build()
        training = torch.zeros(len(data), dtype=torch.bool)
        training[train_index] = True
        x = data.x[torch.repeat_interleave(training, data.sizes)]
        network.initialize(x, graphs=len(train_index))
        if isinstance(network.head, RBF):
            training_data = data.subset(train_index).to(device)
            features = embed(copy.deepcopy(network).to(device), training_data)
            network.initialize(x, features.cpu())
    if isinstance(network, DeepNetwork) and network.graph_dim is not None:
        init_graph_scale(network.graph_scale, data, train_index)
    return network


def init_graph_scale(scale: FeatureScale, data: GraphDataset, train_index: Tensor) -> None:
    """Scales graph-level features by the training graphs, and warns where one equals a target."""
    assert data.graph_features is not None
    y = data.y if data.y is None else data.y[train_index]
    if data.task == "classification" and y is not None:
        y = one_hot(y, len(data.class_names))
    scale.init_scale(data.graph_features[train_index], y)
    if equal := equal_to_target(scale, data):
        message = "dropped graph-level features that equal a target on the training graphs"
        warnings.warn(f"{message}: {listed(equal)}", DataWarning, stacklevel=3)


def equal_to_target(scale: FeatureScale, data: GraphDataset) -> list[str]:
    """Names of the graph-level features that were dropped because they equal a target."""
    names = data.graph_feature_names or [str(k) for k in range(len(scale.reason))]
    return scale.dropped(names)["equal to a target"]
