r"""Attribution of a prediction to nodes and to scattering paths, by integrated gradients.

.. math::
    A_i = (x_i - x'_i) \int_0^1 \frac{\partial f}{\partial x_i}\big(x' + a (x - x')\big)\, da,
    \qquad \sum_i A_i = f(x) - f(x') .

The line is cut into panels. The shares of a panel must sum to the difference of :math:`f` between
its ends, which shows how accurate the panel is; inaccurate ones are cut again. Near zero, cuts are
geometric: skewness and kurtosis do not depend on the size of a signal, so they change where a
signal emerges from nothing.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from legs.models import MPLEGS, Ensemble, LEGSNet, Network
from legs.nn import Scattering
from legs.nn.columns import SIZE_COLUMNS
from legs.training.inputs import unchecked
from legs.training.predictor import Predictor
from legs.training.task import Task

Floats = npt.NDArray[np.float64]
Baseline = Literal["shuffled", "mean", "zero"] | Tensor
Function = Callable[[Tensor], Tensor]
# Points a, [points] -> values f [points] and shares of df/da, [points, ...].
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
# Nodes of all copies of a graph that pass through a network at a time.
AT_ONCE = 20_000
# Absolute values and activations have kinks: few points on many panels beat many on few.
POINTS = 4
START = (0.0, 1 / 64, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
# The first cut of a panel that starts at zero; after a few of them every float is reached.
LEAP = 1000.0


@dataclass(frozen=True)
class Attribution:
    """Contributions to a prediction.

    Args:
        target: what was explained: the log-odds of a class, a target in its units, or an output.
        value: of the graph.
        baseline: of the baseline.
        nodes: contribution of each node, ``[nodes]``; with ``gap`` they sum to
            ``value - baseline``.
        channels: the same by node feature, ``[nodes, channels]``.
        paths: contribution of each scattering path, by its name, with the same sum. Empty for
            networks without scattering.
        moments: the same by moment.
        gap: the error of the numerical integration.

    All are zero for a graph whose nodes have equal features.
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
            ``edge_weight``, ``edge_attr`` and ``graph_features``), both directions of every edge.
        target: the class or target to explain, by name or index (default: the predicted class, or
            the first target). Of a class or label, the log-odds :math:`\log p / (1 - p)` are
            attributed; of a bare network, the output itself.
        baseline: what the graph is compared with. ``"shuffled"`` (default): the same graph with
            its nodes' features permuted at random, the mean over some draws. ``"mean"``: the mean
            of its nodes at every node. ``"zero"``: no signal; normalized moments do not depend on
            the size of a signal, so contributions of single nodes become large and cancel. Or node
            features of your own, ``[nodes, channels]``.
        draws: of ``"shuffled"`` (default 8; always the same ones).
        tolerance: error of the sum of contributions, relative to it (default 0.001).
        most: evaluations of the network per baseline, roughly (default 4,000).

    >>> from legs.models import create
    >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    >>> graph = Data(x=torch.tensor([[1.0], [0.5], [0.0]]), edge_index=ring)
    >>> shares = attribute(create("legs-fcn", 1, 2), graph, target=1, baseline="mean")
    >>> round(abs(float(shares.nodes.sum()) - (shares.value - shares.baseline)), 2)
    0.0
    """
    task = model.task if isinstance(model, Predictor) else None
    network = model.network if isinstance(model, Predictor) else model
    # In float64, and a copy: the model itself stays as it is.
    network = copy.deepcopy(network).to("cpu", torch.float64).eval().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, Scattering):
            module.backend = "reference"
    if graph.x is None or graph.x.dim() != 2 or not len(graph.x):
        raise ValueError("the graph has no node features x [nodes, channels]")
    x = graph.x.double()
    starts = _baselines(baseline, x, draws)
    with unchecked(network):
        with torch.no_grad():
            embedded = network.embed(**_copies(graph, torch.cat([x.unsqueeze(0), starts])))
            outputs = network.predict_from(embedded)
        read, name = _reader(task, target, outputs[:1])
        values = read(outputs)
        value, before = float(values[0]), float(values[1:].mean())
        miss = tolerance * max(abs(value - before), 1e-4 * (abs(value) + abs(before)), 1e-12)

        def of_features(features: Tensor) -> Tensor:
            return read(network.predict_from(features))

        def of_nodes(x: Tensor) -> Tensor:
            return of_features(network.embed(**_copies(graph, x)))

        by_node = [integrate(_slopes(of_nodes, start, x), miss, most) for start in starts]
        end = embedded[0]
        by_feature = [integrate(_slopes(of_features, start, end), miss) for start in embedded[1:]]
    channels = torch.stack([integral.shares for integral in by_node]).mean(0).numpy()
    features = torch.stack([integral.shares for integral in by_feature]).mean(0).tolist()
    paths, moments = defaultdict[str, float](float), defaultdict[str, float](float)
    columns = path_columns(network, len(features))
    for (path, moment), share in zip(columns, features, strict=False):  # none without scattering
        paths[path] += share
        moments[moment] += share
    nodes = channels.sum(1)
    gap = value - before - float(nodes.sum())
    return Attribution(name, value, before, nodes, channels, dict(paths), dict(moments), gap)


def _copies(graph: Data, x: Tensor) -> dict[str, Any]:
    """Copies of a graph with node features ``x``, ``[copies, nodes, channels]``, as one batch."""
    batch = Batch.from_data_list([graph] * len(x))
    more = {name: batch.get(name) for name in ("edge_weight", "edge_attr", "graph_features")}
    return {
        "x": x.flatten(0, 1),
        "edge_index": batch.edge_index,
        "batch": batch.batch,
        "batch_size": len(x),
        **{name: None if values is None else values.double() for name, values in more.items()},
    }


def _slopes(function: Function, start: Tensor, end: Tensor) -> Evaluate:
    """Values at points of a line, and how much each entry contributes to the slope there."""

    def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = [], []
        for some in points.split(max(1, AT_ONCE // len(start)) if start.dim() > 1 else AT_ONCE):
            x = start + some.view(-1, *[1] * start.dim()) * (end - start)
            value = function(x.requires_grad_(True))
            (gradient,) = torch.autograd.grad(value.sum(), x)
            values.append(value.detach())
            slopes.append(gradient * (end - start))
        return torch.cat(values), torch.cat(slopes)

    return evaluate


def _baselines(baseline: Baseline, x: Tensor, draws: int) -> Tensor:
    """What a graph with node features ``x`` is compared with, ``[baselines, nodes, channels]``."""
    if isinstance(baseline, Tensor):
        shape = list(baseline.shape)
        if shape != list(x.shape):
            raise ValueError(f"the baseline has shape {shape}, the graph {list(x.shape)}")
        return baseline.to(x).unsqueeze(0)
    if baseline == "shuffled":
        if draws < 1:
            raise ValueError(f"draws must be at least 1; got {draws}")
        generator = torch.Generator().manual_seed(0)
        return torch.stack([x[torch.randperm(len(x), generator=generator)] for _ in range(draws)])
    if baseline == "mean":
        return x.mean(0).repeat(1, len(x), 1)
    if baseline == "zero":
        return torch.zeros_like(x).unsqueeze(0)
    raise ValueError(f'baseline must be "shuffled", "mean", "zero" or a tensor; got {baseline!r}')


def _reader(task: Task | None, target: str | int | None, out: Tensor) -> tuple[Function, str]:
    """What is explained, as a function of the network's outputs, and its name."""
    names = tuple(map(str, range(out.shape[1]))) if task is None else task.names
    classes = task is not None and task.kind == "classification"
    if target is None:
        target = int(out[0].argmax()) if classes else 0
    if isinstance(target, str):
        if target not in names:
            raise ValueError(f"no target is called {target!r}; there are {', '.join(names)}")
        target = names.index(target)
    if not -len(names) <= target < len(names):
        raise ValueError(f"target {target} of {len(names)}")
    index = target % len(names)
    if classes:
        others = [k for k in range(out.shape[1]) if k != index]
        return (lambda out: out[:, index] - out[:, others].logsumexp(1)), names[index]
    if task is not None and task.kind == "multilabel":
        return (lambda out: out[:, index]), names[index]
    return (lambda out: (task.answers(out) if task else out)[:, index]), names[index]


def path_columns(network: Network, width: int) -> list[tuple[str, str]]:
    """Path and moment of each graph feature, ``width`` of them; empty without scattering."""
    second = network.second if isinstance(network, Ensemble) else network
    if not isinstance(second, LEGSNet | MPLEGS):
        return []
    last = second.scattering.selection.num_scales
    named = []
    for column in second.scattering.columns():
        path = " ".join("Φ" if j == last else f"Ψ{j}" for j in column.path) or "x"
        if column.channel < 0:
            path = "size" if column in SIZE_COLUMNS else "mixed"
        named.append((path, column.moment))
    # Features of the first network of an ensemble have no path.
    other = [("other network", "other network")] * (width - len(named))
    return [*other, *named] if second is not network else named


class Integral(NamedTuple):
    """Shares of a difference, and ``difference - sum(shares)``."""

    shares: Tensor
    gap: float


def integrate(evaluate: Evaluate, tolerance: float = 1e-6, most: int = 4000) -> Integral:
    """Shares of the difference between the two ends of a line.

    Panels are cut until the sum of shares misses the difference by at most ``tolerance``, or there
    were ``most`` evaluations.
    """
    ends = torch.tensor(START, dtype=torch.float64).unfold(0, 2, 1)
    shares, gaps = _measure(evaluate, ends)
    count = len(ends) * (POINTS + 2)
    while gaps.abs().sum() > tolerance and count < most:
        # The most accurate panels stay, up to half of the tolerance; the others are cut.
        order = gaps.abs().argsort(stable=True)
        good = int((gaps[order].abs().cumsum(0) <= tolerance / 2).sum())
        left, right = ends[order[good:]].unbind(1)
        middle = torch.where(right > 4 * left, (left * right).sqrt(), (left + right) / 2)
        middle = torch.where(left > 0, middle, right / LEAP)
        cuts = torch.stack([left, middle, right], 1).unfold(1, 2, 1).flatten(0, 1)
        new, stay = (cuts, *_measure(evaluate, cuts)), order[:good]
        old = (ends[stay], shares[stay], gaps[stay])
        ends, shares, gaps = map(torch.cat, zip(old, new, strict=True))
        count += len(cuts) * (POINTS + 2)
    return Integral(shares.sum(0), float(gaps.sum()))


def _measure(evaluate: Evaluate, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre quadrature between ends, ``[panels, 2]``: shares, and what they miss."""
    points, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(POINTS))
    width = ends.diff(dim=1)
    values, slopes = evaluate(
        torch.cat([ends[:, :1] + width * (points + 1) / 2, ends], 1).flatten()
    )
    values, slopes = (each.double().unflatten(0, (len(ends), -1)) for each in (values, slopes))
    shares = torch.einsum("pk,pk...->p...", width * weights / 2, slopes[:, :POINTS])
    return shares, values[:, -1] - values[:, -2] - shares.flatten(1).sum(1)
