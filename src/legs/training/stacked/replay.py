"""Training steps recorded once on the GPU and replayed: small steps are all launch overhead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch, GraphDataset
from legs.kernels.gpu import launch
from legs.training.inputs import Inputs

if TYPE_CHECKING:
    from legs.training.stacked.trainer import Stack

WARM_UP = 3
# Nodes that fill a recorded batch up, times models. They cost as much as others: above about so
# many (milliseconds of a large GPU) more than the launches that a recording saves.
FILLED_AT_MOST = 150_000
# Graphs that take the nodes a batch is filled up with: one alone would be larger than any other,
# and all would wait for it.
FILLERS = 32
THREADS = 256


def replayable(inputs: Inputs) -> bool:
    """Whether steps can be recorded: on a GPU, by layers that never look at their data."""
    if inputs.data.x.device.type != "cuda":
        return False
    return inputs.features is not None or launch.applies(inputs.data.x)


class Replay:
    """Records a step, gathering of the batch included, and replays it on other batches.

    A recording has one shape (:class:`FilledBatches`). When a batch does not fit, or models have
    stopped, the step is recorded again. Where much would have to be filled up, nothing is recorded.
    """

    def __init__(self, stack: Stack, inputs: Inputs) -> None:
        self.stack, self.inputs = stack, inputs
        size = min(stack.options.batch_size, len(stack.y))
        embedded = inputs.features is not None
        self.filled = None if embedded else FilledBatches(inputs.data, size)
        slots = size if self.filled is None else self.filled.slots
        self.index = torch.zeros(slots, dtype=torch.long, device=stack.y.device)
        self.places = torch.arange(slots, device=stack.y.device)
        self.valid = self.places < 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.version, self.warm_up = -1, WARM_UP

    def __call__(self, index: Tensor) -> None:
        """One step on the graphs ``index``, on the host."""
        if self.filled is not None:
            if self.filled.spare * len(self.stack.running) > FILLED_AT_MOST:
                self.stack.step_on(index)
                return
            if self.filled.grow(index):
                self.graph = None
            self.stack.network.bound(-(-self.filled.nodes // FILLERS))
        self.index[: len(index)] = index.to(self.index.device, non_blocking=True)
        torch.lt(self.places, len(index), out=self.valid)
        if self.version != self.stack.version:
            self.version, self.graph, self.warm_up = self.stack.version, None, self.warm_up or 1
        if self.warm_up:
            # Real steps, on a stream of their own: libraries set themselves up on first use.
            self.warm_up -= 1
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step()
            torch.cuda.current_stream().wait_stream(stream)
            return
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
        self.graph.replay()

    def _step(self) -> None:
        if self.filled is None:
            self.stack.step(*self.inputs.gather(self.index), self.index, self.valid)
            return
        graphs, keywords = self.inputs.split(self.filled.gather(self.index, self.valid))
        self.stack.step(graphs[:5], keywords, self.index, self.valid)


class FilledBatches:
    """Gathers batches of at most ``graphs`` graphs of a data set into tensors of fixed size.

    Nothing here waits for its data: a recorded step can gather its batch itself. What the graphs
    leave free is filled with nodes without neighbors, in graphs that count nowhere.
    """

    def __init__(self, data: GraphDataset, graphs: int) -> None:
        self.data, self.slots = data, graphs + FILLERS
        nodes = torch.arange(data.num_nodes, device=data.ptr.device, dtype=data.col.dtype)
        self.row = torch.repeat_interleave(nodes, data.rowptr.diff())
        edges, weight = data.rowptr[data.ptr], data.edge_weight
        self.weight = None if weight is None else weight.to(data.x.dtype)
        # Of each graph: nodes, edges, the first node and the first edge.
        self.rows = torch.stack([data.sizes, edges.diff(), data.ptr[:-1], edges[:-1]], dim=1)
        # On the host too: whether a batch fits must be known without asking the GPU.
        self.host = self.rows[:, :2].T.cpu()
        self.nodes, self.edges = (_capacity(counts.double(), graphs) for counts in self.host)
        # Nodes that fill a batch of average size up.
        self.spare = self.nodes - round(float(self.host[0].double().mean()) * graphs)

    def grow(self, index: Tensor) -> bool:
        """Makes space for the graphs ``index`` (on the host); whether that was needed."""
        nodes, edges = self.host[:, index].sum(1).tolist()
        if nodes < self.nodes and edges <= self.edges:
            return False
        self.spare += max(0, nodes + 1 - self.nodes)
        self.nodes, self.edges = max(self.nodes, nodes + 1), max(self.edges, edges)
        return True

    def gather(self, index: Tensor, valid: Tensor) -> GraphBatch:
        """The graphs ``index`` where they are ``valid``, ``[slots]`` both, and fillers.

        The batch has ``slots`` graphs; those that are not valid have no nodes, or filling ones.
        """
        data, rows, old = self.data, self.rows[index], self.weight
        ends = (rows[:, :2] * valid.unsqueeze(-1)).cumsum(0)
        x, batch = data.x.new_empty(self.nodes, data.x.shape[1]), rows.new_empty(self.nodes)
        edge_index = rows.new_empty(2, self.edges)
        weight = None if old is None else old.new_empty(self.edges)
        args: list[Any] = [rows, ends, data.x, self.row, data.col, old]
        args += [x, batch, edge_index, weight, self.slots, self.nodes, self.edges]
        blocks = -(-(x.numel() + self.edges) // (4 * THREADS))  # four numbers per thread
        constants = {"CHANNELS": x.shape[1], "FILLERS": FILLERS}
        launch.run("gather", "gather", x, blocks, THREADS, args, **constants)
        attr = None if data.edge_attr is None else self._edge_attr(rows, ends, valid)
        own = data.graph_features
        own = None if own is None else own[index].to(x.dtype)
        return GraphBatch(x, edge_index, weight, batch, self.slots, None, attr, own)

    def _edge_attr(self, rows: Tensor, ends: Tensor, valid: Tensor) -> Tensor:
        """Edge features of a batch; fillers have those of some other edge."""
        attr, place = self.data.edge_attr, torch.arange(self.edges, device=rows.device)
        assert attr is not None
        if not len(attr):
            return self.data.x.new_zeros(self.edges, attr.shape[1])
        graph = torch.searchsorted(ends[:, 1].contiguous(), place, right=True)
        graph = graph.clamp_max(self.slots - 1)
        start = rows[:, 3] - ends[:, 1] + rows[:, 1] * valid
        return attr[(start[graph] + place).clamp_max(len(attr) - 1)].to(self.data.x.dtype)


def _capacity(counts: Tensor, batch: int) -> int:
    """Enough for nearly all random batches: mean and three deviations of their sum.

    What is left free costs as much as what is not, and recording a step again is cheap.
    """
    spread = float(counts.std()) if len(counts) > 1 else 0.0
    return int(float(counts.mean()) * batch + 3 * spread * math.sqrt(batch)) + 8
