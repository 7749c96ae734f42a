"""Timing on shared machines, and the networks that scattering is compared with.

Competitors take turns, which spreads whatever else the machine does over all of them. Short runs
are queued back to back and timed together: a GPU is waited for once per turn.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from legs.data.dataset import GraphBatch

Run = Callable[[], object]

# Seconds of a turn, at least: the clock and a GPU's wake-up are small beside it.
TURN = 4e-3
MOST_TOGETHER = 200
# Runs before a step is recorded.
WARM_UP = 3
# A run that takes this many times the time for all turns is timed once, after its first.
SLOW = 4


@dataclass(frozen=True)
class Timing:
    """Time and memory of one competitor."""

    seconds: float | None  # median of its turns; None where it failed
    first: float | None = None  # of its first run, with compiling
    memory: int | None = None  # bytes at its peak beyond what was in use before; on a GPU only
    failed: str = ""  # why there is no time


def compare(
    candidates: Mapping[str, Run],
    device: torch.device | str = "cpu",
    *,
    rounds: int = 15,
    least: int = 3,
    seconds: float = 2.0,
) -> dict[str, Timing]:
    """Times competitors in turn: ``least`` to ``rounds`` times, as ``seconds`` allow."""
    device = torch.device(device)
    timings: dict[str, Timing] = {}
    together: dict[str, int] = {}
    for name, run in candidates.items():
        try:
            first, memory, once = timed(run, device), peak(run, device), timed(run, device)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            timings[name] = Timing(None, failed="out of memory")
            if device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        timings[name] = Timing(once, first, memory)
        if once < SLOW * seconds:
            together[name] = min(MOST_TOGETHER, math.ceil(TURN / max(once, 1e-9)))
    turns: dict[str, list[float]] = {name: [] for name in together}
    for number in range(rounds):
        # Back and forth: nobody always runs after the same neighbour.
        for name in list(together)[:: -1 if number % 2 else 1]:
            if number < least or sum(turns[name]) * together[name] <= seconds:
                turns[name].append(timed(candidates[name], device, together[name]))
    for name, values in turns.items():
        timings[name] = replace(timings[name], seconds=statistics.median(values))
    return timings


def timed(run: Run, device: torch.device, count: int = 1) -> float:
    """Seconds per run, of so many one after another."""
    wait(device)
    start = time.perf_counter()
    for _ in range(count):
        run()
    wait(device)
    return (time.perf_counter() - start) / count


def peak(run: Run, device: torch.device) -> int | None:
    """Bytes in use at the peak of a run beyond those before it; ``None`` but on a GPU."""
    if device.type != "cuda":
        return None
    wait(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    wait(device)
    return torch.cuda.max_memory_allocated(device) - before


def wait(device: torch.device) -> None:
    """Waits for a GPU to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    words = ("can't allocate memory", "not enough memory")
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or any(text in str(error) for text in words)


@dataclass(frozen=True)
class Recorded:
    """A recording, and the tensors it writes to, which must live as long."""

    graph: torch.cuda.CUDAGraph
    written: object

    def __call__(self) -> None:
        """Replays it."""
        self.graph.replay()


def record(step: Run, device: torch.device) -> Recorded | None:
    """Records a step in a CUDA graph; ``None`` where it cannot be, or there is no GPU.

    A step that looks at its results on the CPU, or chooses shapes by them, cannot be recorded.
    """
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        # On a stream of its own first: libraries set themselves up on first use, and what they
        # allocate then must not end up in the recording.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            wait(device)
            with torch.cuda.graph(graph):
                written = step()
        except RuntimeError:  # memory may also run out: a recording keeps its own
            _recover(device)
            return None
        wait(device)
    return Recorded(graph, written)


def _recover(device: torch.device) -> None:
    # The failed call may report itself once more when the GPU is waited for.
    try:
        wait(device)
    except RuntimeError:
        wait(device)


class Works(NamedTuple):
    """What is timed of one method."""

    train: Run  # forward, and backward to all that is learned, from a fixed random gradient
    inference: Run


def works_of(forward: Callable[[], Tensor], learned: Sequence[Tensor], seed: int = 0) -> Works:
    """A train step and inference of a network."""
    with torch.no_grad():
        out = forward()
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out)

    def inference() -> object:
        with torch.no_grad():
            return forward()

    return Works(lambda: torch.autograd.grad(forward(), learned, gradient), inference)


def gnn(
    kind: Literal["gcn", "gin"], graphs: GraphBatch, seed: int = 0
) -> tuple[Callable[[], Tensor], list[Tensor]]:
    """PyG's GCN (edge weights computed once) or GIN: three layers of width 64, mean over nodes."""
    from torch_geometric.nn import global_mean_pool
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.nn.models import GCN, GIN

    edge_index, weights = graphs.edge_index, {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "gcn":
            network = GCN(graphs.x.shape[1], 64, 3, normalize=False)
            edge_index, weight = gcn_norm(edge_index, graphs.edge_weight, len(graphs.x))
            weights = {"edge_weight": weight}
        else:
            network = GIN(graphs.x.shape[1], 64, 3)
    network.to(graphs.x.device)

    def forward() -> Tensor:
        states = network(graphs.x, edge_index, **weights)
        return global_mean_pool(states, graphs.batch, graphs.batch_size)  # type: ignore[no-any-return]

    return forward, list(network.parameters())


def gnn_works(kind: Literal["gcn", "gin"], graphs: GraphBatch, seed: int = 0) -> Works:
    """PyG's GCN or GIN."""
    return works_of(*gnn(kind, graphs, seed), seed)
