"""Classification of the nodes of one graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from legs import functional as fn
from legs.data.dataset import GraphBatch
from legs.data.errors import DataError
from legs.data.splits import Split
from legs.models import Network, available, create
from legs.models.catalogue import nearest
from legs.nn import RBF
from legs.training.checkpoint import State
from legs.training.inputs import predict, unchecked
from legs.training.loop import Report, train
from legs.training.options import TrainingOptions
from legs.training.task import Task

MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class FittedNodes:
    """What :func:`fit_nodes` returns.

    Args:
        network: the trained network; its outputs are logits, ``[nodes, classes]``.
        scores: by part (``"train"``, ``"validation"``, ``"test"``) and name; ``"guess"`` holds the
            test scores of a baseline, the most frequent class.
        state: history and best epoch.
    """

    network: Network
    scores: dict[str, dict[str, float]]
    state: State

    @torch.no_grad()
    def predict(self, data: Data) -> Tensor:
        """Class probabilities of the nodes of a graph, ``[nodes, classes]``."""
        logits: Tensor = self.network(data.x.float(), data.edge_index, data.get("edge_weight"))
        return logits.softmax(-1)


def fit_nodes(
    data: Data,
    model: str = "legs-fcn",
    options: TrainingOptions | None = None,
    *,
    model_options: dict[str, Any] | None = None,
    device: str = "cpu",
    report: Report = lambda row: None,
) -> FittedNodes:
    """Trains a LEGS network to classify the nodes of one graph.

    Every epoch is one step of Adam on all training nodes. The whole graph is diffused, test nodes
    included, but the loss and the statistics of batch norm see training nodes only. Classes are
    counted over all of ``y``; else labels of test nodes enter their scores only. Node features
    enter as they are.

    Args:
        data: one undirected graph: ``x``, ``edge_index``, optionally ``edge_weight``; ``y`` with a
            class per node; ``train_mask``, ``val_mask`` and, if nodes are to be tested,
            ``test_mask``, each ``[nodes]``.
        model: ``"legs-fcn"`` (default), ``"legs-fixed"``, ``"legs-rbf"`` or ``"legs-attn-fcn"``.
        options: how to train; ``batch_size`` plays no role.
        model_options: options of the network.
        device: where to train (default ``"cpu"``).
        report: called with a row of losses after every epoch.

    >>> ring = torch.arange(12)
    >>> edges = torch.stack([ring, ring.roll(1)])
    >>> data = Data(x=torch.eye(12), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    >>> data.y = ring // 6
    >>> data.train_mask, data.val_mask, data.test_mask = (ring % 3 == k for k in range(3))
    >>> fitted = fit_nodes(data, "legs-fixed", TrainingOptions(max_epochs=20))
    >>> fitted.predict(data).shape
    torch.Size([12, 2])
    """
    names = [name for name in available() if name.startswith("legs-")]
    if model not in names:
        raise ValueError(f"no network for nodes is called {model!r}{nearest(model, names)}")
    options = options or TrainingOptions()
    classes = _classes(data)
    split = _split(data, classes)
    count = int(classes.max()) + 1
    task = Task.of_classes(
        classes[split.train], tuple(map(str, range(count))), options.balanced, what="nodes"
    )
    weight = data.get("edge_weight")
    fn.check_graph(data.edge_index, weight, len(classes))
    fn.check_undirected(data.edge_index, weight, len(classes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model_options = {**(model_options or {}), "level": "node"}
        network = create(model, data.num_features, count, **model_options)
        network.to(device, options.dtype)
        x, batch = data.x.to(options.dtype), torch.zeros(len(classes), dtype=torch.long)
        graph = GraphBatch(x, data.edge_index, weight, batch, 1, None).to(device)
        with torch.no_grad(), unchecked(network):
            features = network.embed(*graph[:5])
        fixed = network.embedding_is_fixed  # features are computed once
        if isinstance(network.head, RBF):
            network.initialize(graph.x, features[torch.as_tensor(split.train).to(device)])

    def nodes(network: Network, index: Tensor, mask: Tensor | None = None) -> Tensor:
        # The head sees these nodes only, and so do the statistics of its batch norm.
        embedded = features if fixed else network.embed(*graph[:5])
        return network.predict_from(embedded[index], mask)

    # One step per epoch, on all training nodes.
    options = replace(options, batch_size=len(classes))
    with unchecked(network):
        state = train(network, nodes, classes.to(device), split, task, options, report=report)
        everything = torch.arange(len(classes), device=device)
        answers = task.answers(predict(nodes, network, everything, len(everything))).float().cpu()
    scores = task.scores_by_part(answers, classes, split)
    return FittedNodes(network.to("cpu", torch.float32), scores, state)


def _classes(data: Data) -> Tensor:
    for name in ("x", "edge_index", "y", *MASKS[:2]):
        if data.get(name) is None:
            raise DataError(f"the graph has no {name}")
    if not bool(data.x.isfinite().all()):
        raise DataError("x holds values that are not finite numbers")
    y: Tensor = data.y
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.flatten()
    if y.shape != (data.num_nodes,) or y.is_floating_point():
        raise DataError(
            f"y must hold a class per node, [{data.num_nodes}] integers; got {list(y.shape)} "
            f"{y.dtype}"
        )
    return y.long().cpu()


def _split(data: Data, classes: Tensor) -> Split:
    parts = []
    for name in MASKS:
        mask = data.get(name)
        mask = torch.zeros(len(classes), dtype=torch.bool) if mask is None else mask.cpu()
        if mask.dtype != torch.bool or mask.shape != classes.shape:
            raise DataError(
                f"{name} must be boolean, [{len(classes)}]; got {list(mask.shape)} {mask.dtype}"
                + ("; choose one of its columns" if mask.dim() == 2 else "")
            )
        if not mask.any() and name != "test_mask":
            raise DataError(f"{name} names no node")
        if (classes[mask] < 0).any():
            raise DataError(f"a node of {name} has a negative class")
        parts.append(mask.nonzero().flatten().numpy())
    for (name, part), (other, nodes) in combinations(zip(MASKS, parts, strict=True), 2):
        shared = np.intersect1d(part, nodes)
        if len(shared):
            raise DataError(f"node {shared[0]} is in {name} and in {other}")
    return Split(*parts)
