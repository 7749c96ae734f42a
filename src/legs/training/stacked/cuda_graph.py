"""Training steps recorded once on the GPU and replayed: small steps are all launch overhead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from legs.models import GNN, MPLEGS, LEGSNet, Network, Snowball
from legs.training.inputs import Inputs
from legs.training.stacked.padded import FilledBatches

if TYPE_CHECKING:
    from legs.training.stacked.trainer import Stack

WARM_UP = 3
# Nodes that fill a recorded batch up, times models. They cost as much as others: above about so
# many (milliseconds of a large GPU) more than the launches that a recording saves.
FILLED_AT_MOST = 150_000


def replayable(network: Network, inputs: Inputs) -> bool:
    """Whether steps can be recorded: on a GPU, by layers that never look at their data."""
    if inputs.data.x.device.type != "cuda":
        return False
    if inputs.features is not None or inputs.own_features is not None:
        return True
    return isinstance(network, GNN | Snowball | LEGSNet | MPLEGS)


class Replay:
    """Records a step, gathering of the batch included, and replays it on other batches.

    A recording has one shape (:class:`~legs.training.stacked.padded.FilledBatches`). When a batch
    does not fit, or models have stopped, the step is recorded again. Where much would have to be
    filled up, nothing is recorded.
    """

    def __init__(self, stack: Stack, inputs: Inputs) -> None:
        self.stack, self.inputs = stack, inputs
        device = stack.y.device
        size = min(stack.options.batch_size, len(stack.y))
        embedded = inputs.features is not None or inputs.own_features is not None
        self.filled = None if embedded else FilledBatches(inputs.data, size)
        slots = size if self.filled is None else self.filled.slots
        self.index = torch.zeros(slots, dtype=torch.long, device=device)
        self.valid = torch.zeros(slots, dtype=torch.bool, device=device)
        self.used = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.version, self.warm_up = -1, WARM_UP

    def __call__(self, index: Tensor) -> None:
        """One step on the graphs ``index``, on the host."""
        if self.filled is not None:
            if self.filled.spare * len(self.stack.running) > FILLED_AT_MOST:
                here = index.to(self.stack.y.device)
                self.stack.step(*self.inputs.gather(here), here, None)
                return
            if self.filled.grow(index):
                self.graph = None
        self.index[: len(index)] = index.to(self.index.device, non_blocking=True)
        if len(index) != self.used:
            self.valid[: len(index)] = True
            self.valid[len(index) :] = False
            self.used = len(index)
        if self.version != self.stack.version:
            self.version, self.graph, self.warm_up = self.stack.version, None, self.warm_up or 1
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
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
            self.graph.replay()

    def _step(self) -> None:
        if self.filled is None:
            self.stack.step(*self.inputs.gather(self.index), self.index, self.valid)
            return
        graphs = self.filled.gather(self.index, self.valid)
        graphs, keywords = self.inputs.split(graphs)
        self.stack.step(graphs[:5], keywords, self.index, self.valid)
