"""Training steps recorded once on the GPU and replayed: small steps are all launch overhead."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from legs.models import GNN, MPLEGS, LEGSNet, Network
from legs.training.inputs import Inputs
from legs.training.options import TrainingOptions

WARM_UP = 3
# Graphs that take the nodes a batch is filled up with: one alone would be larger than any other,
# and all would wait for it.
FILLERS = 32


class Stepper(Protocol):
    """What is recorded: a stack of models."""

    y: Tensor
    options: TrainingOptions
    version: int
    adam: Any

    def step(
        self, given: tuple[Any, ...], powers: Tensor | None, index: Tensor, valid: Tensor | None
    ) -> None:
        """One step on the graphs ``index``; places that are not ``valid`` count nowhere."""


def replayable(network: Network, inputs: Inputs) -> bool:
    """Whether steps can be recorded: on a GPU, by layers that never look at their data."""
    if inputs.data.x.device.type != "cuda":
        return False
    if inputs.features is not None:
        return True
    # GCN's and GAT's layers search for self-loops at every step.
    plain = isinstance(network, GNN) and network.description["layer"] in ("gin", "graphsage")
    return plain or isinstance(network, LEGSNet | MPLEGS)


class Replay:
    """Records a step and replays it on other batches.

    A recording has one shape. Batches of graphs are filled up with lone nodes, in graphs that
    count nowhere; when a batch does not fit, or models have stopped, the step is recorded anew.

    Args:
        stack: whose steps to record.
        inputs: its data.
    """

    def __init__(self, stack: Stepper, inputs: Inputs) -> None:
        self.stack, self.inputs = stack, inputs
        device = stack.y.device
        graphs = min(stack.options.batch_size, len(stack.y))
        size = graphs if inputs.features is not None else graphs + FILLERS
        self.index = torch.zeros(size, dtype=torch.long, device=device)
        self.valid = torch.zeros(size, dtype=torch.bool, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.version, self.warm_up = -1, 0
        self.nodes = self.edges = 0
        if inputs.features is None:
            sizes = inputs.data.sizes.double()
            degrees = inputs.data.rowptr[inputs.data.ptr].diff().double()
            self.nodes, self.edges = (_room(counts, graphs) for counts in (sizes, degrees))
            self._allocate()

    def __call__(self, index: Tensor) -> None:
        """One step on the graphs ``index``."""
        self.index[: len(index)] = index
        self.valid[: len(index)] = True
        self.valid[len(index) :] = False
        if self.inputs.features is None:
            self._fill(index)
        if self.version != self.stack.version:
            self.version, self.graph, self.warm_up = self.stack.version, None, WARM_UP
        if self.graph is not None:
            self.graph.replay()
        elif self.warm_up:
            # Real steps, on a stream of their own: libraries set themselves up on first use.
            self.warm_up -= 1
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step()
            torch.cuda.current_stream().wait_stream(stream)
        else:
            self.stack.adam.zero_grad()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
            self.graph.replay()

    def _step(self) -> None:
        if self.inputs.features is not None:
            given: tuple[Any, ...] = (self.inputs.features[self.index],)
            self.stack.step(given, None, self.index, self.valid)
            return
        x, powers = self.x, None
        if self.inputs.steps is not None:
            channels, steps = self.inputs.channels, self.inputs.steps
            x, flat = self.x.split([channels, steps * channels], dim=1)
            powers = flat.unflatten(1, (steps, channels))
        given = (x, self.edge_index, self.edge_weight, self.batch, len(self.index))
        self.stack.step(given, powers, self.index, self.valid)

    def _allocate(self) -> None:
        data = self.inputs.data
        device = data.x.device
        self.x = data.x.new_zeros(self.nodes, data.x.shape[1])
        self.edge_index = torch.zeros(2, self.edges, dtype=torch.long, device=device)
        self.edge_weight = data.x.new_zeros(self.edges)
        self.batch = torch.zeros(self.nodes, dtype=torch.long, device=device)

    def _fill(self, index: Tensor) -> None:
        graphs = self.inputs.data.batch(index)
        nodes, edges = len(graphs.x), graphs.edge_index.shape[1]
        if nodes >= self.nodes or edges > self.edges:
            self.nodes, self.edges = max(self.nodes, nodes + 1), max(self.edges, edges)
            self._allocate()
            self.version = -1
        self.x[:nodes] = graphs.x
        self.x[nodes:] = 0
        self.batch[:nodes] = graphs.batch
        spare = torch.arange(self.nodes - nodes, device=self.x.device)
        first = len(self.index) - FILLERS
        self.batch[nodes:] = first + spare * FILLERS // len(spare)
        self.edge_index[:, :edges] = graphs.edge_index
        # Edges of no weight, from a filling node to itself, and no node with very many of them.
        idle = torch.arange(self.edges - edges, device=self.x.device)
        self.edge_index[:, edges:] = nodes + idle % len(spare)
        self.edge_weight[:edges] = 1 if graphs.edge_weight is None else graphs.edge_weight
        self.edge_weight[edges:] = 0


def _room(counts: Tensor, batch: int) -> int:
    """Room for nearly all random batches: mean and five deviations of their sum."""
    spread = float(counts.std()) if len(counts) > 1 else 0.0
    return int(float(counts.mean()) * batch + 5 * spread * math.sqrt(batch)) + 8
