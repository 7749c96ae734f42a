"""Training steps recorded once on the GPU and replayed: small steps are all launch overhead."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from legs.models import GNN, MPLEGS, LEGSNet, Network, Snowball
from legs.training.filled import FilledBatches
from legs.training.inputs import Inputs, Known
from legs.training.options import TrainingOptions

WARM_UP = 3
# Nodes of a batch times models. Above that launches no longer dominate, and the nodes that fill a
# recorded batch up cost more than is gained.
RECORDED_AT_MOST = 4_000_000


class Stepper(Protocol):
    """What is recorded: a stack of models."""

    y: Tensor
    options: TrainingOptions
    version: int
    running: Tensor

    def step(
        self, given: tuple[Any, ...], known: Known, index: Tensor, valid: Tensor | None
    ) -> None:
        """One step on the graphs ``index``; places that are not ``valid`` count nowhere."""


def replayable(network: Network, inputs: Inputs) -> bool:
    """Whether steps can be recorded: on a GPU, by layers that never look at their data."""
    if inputs.data.x.device.type != "cuda":
        return False
    if inputs.features is not None or inputs.own_features is not None:
        return True
    if isinstance(network, GNN | Snowball):
        # PyG's GCN and GAT search for self-loops at every step.
        plain = isinstance(network, GNN) and network.description["layer"] in ("gin", "graphsage")
        return plain or network.is_fast(inputs.data.x, training=True)
    return isinstance(network, LEGSNet | MPLEGS)


class Replay:
    """Records a step, gathering of the batch included, and replays it on other batches.

    A recording has one shape: there is one for each room that batches go to
    (:class:`~legs.training.filled.FilledBatches`). When a batch fits nowhere, or models have
    stopped, steps are recorded anew. Large steps are not recorded.

    Args:
        stack: whose steps to record.
        inputs: its data.
    """

    def __init__(self, stack: Stepper, inputs: Inputs) -> None:
        self.stack, self.inputs = stack, inputs
        device = stack.y.device
        size = min(stack.options.batch_size, len(stack.y))
        known = inputs.features is not None or inputs.own_features is not None
        self.filled = None if known else FilledBatches(inputs.data, size)
        slots = size if self.filled is None else self.filled.slots
        self.index = torch.zeros(slots, dtype=torch.long, device=device)
        self.valid = torch.zeros(slots, dtype=torch.bool, device=device)
        self.used = 0
        self.recorded: dict[int, Any] = {}  # by number of the room
        self.warm: set[int] = set()  # rooms where a step was done without recording it
        self.pool: Any = None  # of memory, which they share: one of them runs at a time
        self.version, self.warm_up = -1, WARM_UP

    def __call__(self, index: Tensor) -> None:
        """One step on the graphs ``index``, on the host."""
        if self.filled is not None:
            if self.filled.rooms[-1].nodes * len(self.stack.running) > RECORDED_AT_MOST:
                here = index.to(self.stack.y.device)
                self.stack.step(*self.inputs.gather(here), here, None)
                return
            if self.filled.choose(index):
                self._forget()
        self.index[: len(index)] = index.to(self.index.device, non_blocking=True)
        if len(index) != self.used:
            self.valid[: len(index)] = True
            self.valid[len(index) :] = False
            self.used = len(index)
        if self.version != self.stack.version:
            self.version = self.stack.version
            self._forget()
        number = 0 if self.filled is None else self.filled.number
        if number not in self.recorded and self._warm_up(number):
            return
        if number not in self.recorded:
            self._record_all(number)
        self.recorded[number].replay()

    def _warm_up(self, number: int) -> bool:
        """A real step on the batch, in a room that had none yet; whether there was such a room.

        Kernels for a room are compiled, and libraries set up, where that is not being recorded.
        """
        largest = 0 if self.filled is None else len(self.filled.rooms) - 1
        if self.warm_up:
            self.warm_up -= 1
            number = largest
        elif largest not in self.warm:
            number = largest
        elif number in self.warm:
            return False
        if not self.warm_up:
            self.warm.add(number)
        if self.filled is not None:
            self.filled.number = number
        self._outside()
        return True

    def _record_all(self, number: int) -> None:
        """Records a step for a room, after that for the largest: it makes room for all others."""
        if self.filled is None:
            self.recorded[number] = self._record()
            return
        for each in (len(self.filled.rooms) - 1, number):
            if each not in self.recorded:
                self.filled.number = each
                self.recorded[each] = self._record()

    def _record(self) -> Any:
        """A step that can be replayed; nothing is computed yet."""
        graph = torch.cuda.CUDAGraph()
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self.pool):
            self._step()
        return graph

    def _forget(self) -> None:
        # Their memory with them: a pool without recordings cannot be used again.
        self.recorded.clear()
        self.warm.clear()
        self.pool = None

    def _outside(self) -> None:
        """A real step, on a stream of its own."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)

    def _step(self) -> None:
        if self.filled is None:
            self.stack.step(*self.inputs.gather(self.index), self.index, self.valid)
            return
        graphs = self.filled.gather(self.index, self.valid)
        graphs, known = self.inputs.split(graphs)
        self.stack.step(graphs[:5], known, self.index, self.valid)
