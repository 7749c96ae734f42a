"""Lines from baselines to a graph, and what a network says along them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from legs.models import Network
from legs.training.task import Task

Baseline = Literal["shuffled", "mean", "zero"] | Tensor
# Network outputs [graphs, outputs] -> what is explained [graphs].
Read = Callable[[Tensor], Tensor]
# Nodes of all copies of a graph that go through a network at a time.
AT_ONCE = 20_000


class Copies:
    """A graph many times over, with other node features each time, as one batch.

    Args:
        network: in float64, in evaluation mode.
        graph: its edges and their weights.
        nodes: of the graph.
    """

    def __init__(self, network: Network, graph: Data, nodes: int) -> None:
        self.network = network
        self.edges = graph.edge_index
        weight = graph.get("edge_weight")
        self.weight = None if weight is None else weight.double()
        self.nodes = nodes

    def _batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor, int]:
        count = len(x)
        shift = torch.arange(count) * self.nodes
        edges = (self.edges.unsqueeze(1) + shift.view(1, -1, 1)).flatten(1)
        weight = None if self.weight is None else self.weight.repeat(count)
        batch = torch.arange(count).repeat_interleave(self.nodes)
        return x.reshape(-1, x.shape[-1]), edges, weight, batch, count

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Features of copies with node features ``x`` ``[copies, nodes, channels]``."""
        return self.network.embed(*self._batch(x))

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """Outputs for copies with node features ``x`` ``[copies, nodes, channels]``."""
        return self.network.predict_from(self.embed(x))

    def slopes(
        self, points: Tensor, *, start: Tensor, end: Tensor, read: Read
    ) -> tuple[Tensor, Tensor]:
        """Values at points of a line, and what each feature of each node adds to the slope."""
        values, slopes = [], []
        for some in points.split(max(1, AT_ONCE // self.nodes)):
            x = (start + some.view(-1, 1, 1) * (end - start)).requires_grad_(True)
            value = read(self.network.predict_from(self.network.embed(*self._batch(x))))
            (gradient,) = torch.autograd.grad(value.sum(), x)
            values.append(value.detach())
            slopes.append(gradient * (end - start))
        return torch.cat(values), torch.cat(slopes)


def head_slopes(
    network: Network, points: Tensor, *, start: Tensor, end: Tensor, read: Read
) -> tuple[Tensor, Tensor]:
    """The same for graph features ``[features]`` and the network's head alone."""
    features = (start + points.unsqueeze(1) * (end - start)).requires_grad_(True)
    value = read(network.predict_from(features))
    (gradient,) = torch.autograd.grad(value.sum(), features)
    return value.detach(), gradient * (end - start)


def node_features(graph: Data) -> Tensor:
    """Node features of a graph in float64, ``[nodes, channels]``."""
    if graph.x is None or graph.x.dim() != 2 or not len(graph.x):
        raise ValueError("the graph has no node features x [nodes, channels]")
    x: Tensor = graph.x.double()
    return x


def baselines(baseline: Baseline, x: Tensor, draws: int) -> Tensor:
    """What a graph with node features ``x`` is compared with, ``[baselines, nodes, channels]``.

    >>> baselines("mean", torch.tensor([[1.0], [3.0]]), draws=8)
    tensor([[[2.],
             [2.]]])
    """
    if isinstance(baseline, Tensor):
        if baseline.shape != x.shape:
            raise ValueError(
                f"the baseline has shape {list(baseline.shape)}, the graph {list(x.shape)}"
            )
        return baseline.to(x).unsqueeze(0)
    if baseline == "shuffled":
        if draws < 1:
            raise ValueError(f"draws must be at least 1; got {draws}")
        generator = torch.Generator().manual_seed(0)
        return torch.stack([x[torch.randperm(len(x), generator=generator)] for _ in range(draws)])
    if baseline == "mean":
        return x.mean(0, keepdim=True).expand_as(x).clone().unsqueeze(0)
    if baseline == "zero":
        return torch.zeros_like(x).unsqueeze(0)
    raise ValueError(f'baseline must be "shuffled", "mean", "zero" or a tensor; got {baseline!r}')


def reader(task: Task | None, target: str | int | None, out: Tensor) -> tuple[Read, str]:
    """What is explained, as a function of the network's outputs, and its name.

    Args:
        task: of the model, or ``None`` for a bare network.
        target: as in :func:`legs.explain.attribute`.
        out: the outputs for the graph, ``[1, outputs]``.
    """
    names = tuple(map(str, range(out.shape[1]))) if task is None else task.names
    if target is None:
        classes = task is not None and task.kind == "classification"
        place = int(out[0].argmax()) if classes else 0
    elif isinstance(target, str):
        if target not in names:
            raise ValueError(f"no target is called {target!r}; there are {', '.join(names)}")
        place = names.index(target)
    elif not -len(names) <= target < len(names):
        raise ValueError(f"target {target} of {len(names)}")
    else:
        place = target % len(names)
    if task is None:
        return (lambda out: out[:, place]), names[place]
    if task.kind == "regression":
        return (lambda out: task.answers(out)[:, place]), names[place]
    others = [k for k in range(out.shape[1]) if k != place]
    return (lambda out: out[:, place] - out[:, others].logsumexp(1)), names[place]
