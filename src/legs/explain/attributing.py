"""Attribution of a prediction to nodes and to scattering paths."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

from legs.explain.integration import integrate
from legs.explain.lines import Baseline, Copies, baselines, head_slopes, node_features, reader
from legs.explain.paths import path_columns
from legs.models import Network
from legs.nn import Scattering
from legs.training.inputs import unchecked
from legs.training.predictor import Predictor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """How a prediction is shared out.

    Args:
        target: what was explained: the log-odds of a class, a number in its units, or an output.
        value: of the graph.
        baseline: of the baseline.
        nodes: what each node added, ``[nodes]``; with ``gap`` they sum to ``value - baseline``.
        channels: the same by node feature, ``[nodes, channels]``.
        paths: what each scattering path added, by its name; they sum to the same. Empty for
            networks without scattering.
        moments: the same by moment.
        gap: what is missing to the sum of the nodes, for want of finer steps.

    All are zero for a graph whose nodes are all alike: there is nothing to tell them apart by.
    """

    target: str
    value: float
    baseline: float
    nodes: Floats
    channels: Floats
    paths: dict[str, float] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)
    gap: float = 0.0


def attribute(
    model: Predictor | Network,
    graph: Data,
    target: str | int | None = None,
    *,
    baseline: Baseline = "shuffled",
    draws: int = 8,
    tolerance: float = 1e-3,
    most: int = 4000,
) -> Attribution:
    r"""Which nodes and which scattering paths a prediction comes from, by integrated gradients.

    Args:
        model: a trained model, or a bare network.
        graph: with the node features that the model reads (``x``, ``edge_index``, perhaps
            ``edge_weight``), both directions of every edge.
        target: the class or number to explain, by name or place; default: the class that the model
            chooses, or the first number. Of a class the log-odds
            :math:`\log p / (1 - p)` are shared out; of a bare network the plain output.
        baseline: what the graph is compared with. ``"shuffled"`` (default): the same graph, its
            nodes' features dealt out at random, the mean of some draws. ``"mean"``: the mean of
            its nodes at every node. ``"zero"``: no signal; normalized moments do not depend on the
            size of a signal, so shares of single nodes become large and cancel. Or node features of
            your own, ``[nodes, channels]``.
        draws: of ``"shuffled"`` (default 8; always the same ones).
        tolerance: by how much the shares may miss the difference, relative to it (default 0.001).
        most: evaluations of the network for one baseline at most, roughly (default 4,000).

    >>> from legs.models import create
    >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    >>> graph = Data(x=torch.tensor([[1.0], [0.5], [0.0]]), edge_index=ring)
    >>> found = attribute(create("legs-fcn", 1, 2), graph, target=1, baseline="mean")
    >>> round(abs(float(found.nodes.sum()) - (found.value - found.baseline)), 2)
    0.0
    """
    task = model.task if isinstance(model, Predictor) else None
    network = model.network if isinstance(model, Predictor) else model
    # In float64, and a copy: the model itself stays as it is.
    network = copy.deepcopy(network).to("cpu", torch.float64).eval().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, Scattering):
            module.backend = "reference"
    x = node_features(graph)
    starts = baselines(baseline, x, draws)
    with unchecked(network):
        copies = Copies(network, graph, len(x))
        read, name = reader(task, target, copies.outputs(x.unsqueeze(0)))
        values = read(copies.outputs(torch.cat([x.unsqueeze(0), starts])))
        value, before = float(values[0]), float(values[1:].mean())
        miss = tolerance * max(abs(value - before), 1e-4 * (abs(value) + abs(before)), 1e-12)
        lines = [
            integrate(partial(copies.slopes, start=start, end=x, read=read), miss, most)
            for start in starts
        ]
        ends = copies.embed(torch.cat([x.unsqueeze(0), starts]))
        features = [
            integrate(partial(head_slopes, network, start=start, end=ends[0], read=read), miss)
            for start in ends[1:]
        ]
    channels = torch.stack([line.shares for line in lines]).mean(0).numpy()
    by_feature = torch.stack([line.shares for line in features]).mean(0).numpy()
    columns = path_columns(network, len(by_feature))
    nodes = channels.sum(1)
    return Attribution(
        name,
        value,
        before,
        nodes,
        channels,
        _summed([column.path for column in columns], by_feature) if columns else {},
        _summed([column.moment for column in columns], by_feature) if columns else {},
        value - before - float(nodes.sum()),
    )


def _summed(names: list[str], values: Floats) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + value
    return found
