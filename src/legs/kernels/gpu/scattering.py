"""Scattering moments on GPUs: ``scattering.cu``, a block of threads per graph.

Small graphs are in registers and shared memory, others in global memory. Blocks of 64 to 512
threads serve classes of graphs by size. Which of them are launched depends on the mean size, which
is known without waiting for the GPU; a block passes over graphs of another class.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.functional.bank import OPERATORS
from legs.functional.moments import ABSOLUTE_FLOOR, RELATIVE_FLOOR
from legs.kernels.csr import Batch
from legs.kernels.gpu import filters as learned
from legs.kernels.gpu import launch
from legs.kernels.gpu.launch import Kernel, compiled

MAX_SCRATCH = 2 * 2**30
MIN_BLOCKS = 2048  # enough to fill a GPU a few times; with more, a block computes several models
MAX_MODELS = 16  # per block
MAX_THREADS = 512  # of a block for a small graph
ANY_THREADS = 512  # of a block for one of any size
PREPARE_THREADS = 128  # of a block that prepares a graph
# Threads of a multiprocessor, forward and backward; bounds the registers of each. Measured: H200.
BOUNDS = (1024, 768)


class Sizes(NamedTuple):
    """What kernels are compiled for; ``scattering.cu`` computes the same."""

    channels: int
    scales: int
    steps: int
    all_paths: bool
    bytes: int  # of a number

    @property
    def lanes(self) -> int:
        """What a node diffuses in the second order: channels of wavelets that one may follow."""
        return (self.scales if self.all_paths else self.scales - 1) * self.channels

    @property
    def coefficients(self) -> int:
        """Numbers per node, and its degree."""
        pairs = self.lanes * self.lanes // self.channels
        return (self.scales * self.channels | 1) + (pairs | 1) + 1

    def shared(self, nodes: int, backward: bool) -> int:
        """Bytes of shared memory for a small graph."""
        state = -(-nodes * max(self.lanes, self.channels) // 32) * 32 + self.channels
        states = (max(self.steps, 2) if backward else 2) * state
        bank = self.channels * self.scales * self.steps
        return (bank + states + nodes * self.coefficients) * self.bytes

    def scratch(self) -> tuple[int, int]:
        """Numbers in global memory for graphs of any size: per node, and per graph."""
        states = max(self.steps, 2)
        per_node = states * max(self.lanes, self.channels) + self.coefficients
        return per_node, states * (32 + self.channels)


class Class(NamedTuple):
    """Graphs of similar size and the block that serves them."""

    largest: int | None  # number of nodes; None for any
    threads: int
    shared: int  # bytes of shared memory
    items: int  # of a thread, in registers


def classes(sizes: Sizes, mean: float, backward: bool, max_shared: int) -> list[Class]:
    """The classes of a batch by size; the last serves all others.

    >>> [c.largest for c in classes(Sizes(2, 5, 16, False, 4), 30, False, 200_000)]
    [32, 64, 128, None]
    """
    lanes, small = sizes.lanes, []
    items = 2 if lanes <= 16 else 4 if lanes <= 64 else 8
    smallest = next((t for t in (64, 128, 256) if t * items >= mean * lanes), MAX_THREADS)
    for threads in (smallest, 2 * smallest, 4 * smallest):
        largest = items * threads // lanes
        shared = sizes.shared(largest, backward)
        if threads <= MAX_THREADS and largest and shared <= max_shared:
            small.append(Class(largest, threads, shared, items))
    return [*small, Class(None, ANY_THREADS, sizes.shared(0, backward), 1)]


@cache
def _plan(
    sizes: Sizes, mean: int, backward: bool, batch: tuple[Any, ...], dtype: torch.dtype, device: int
) -> tuple[Kernel, list[tuple[Kernel, Class]]]:
    """The first kernel, and one per class; they are compiled in parallel."""
    own: tuple[tuple[str, Any], ...] = (("RELATIVE_FLOOR", RELATIVE_FLOOR),)
    own += (("ABSOLUTE_FLOOR", ABSOLUTE_FLOOR), ("THREADS", PREPARE_THREADS))
    common = (("C", sizes.channels), ("J", sizes.scales), ("M", sizes.steps), *batch)
    common += (("ALL", int(sizes.all_paths)), ("BACKWARD", int(backward)))
    limit = launch.max_shared(device)

    def build(kind: Class) -> Kernel:
        small, bound = ("SMALL", int(kind.largest is not None)), ("BOUND", BOUNDS[backward])
        constants = (*common, ("THREADS", kind.threads), small, ("ITEMS", kind.items), bound)
        return compiled("scattering", "scattering", dtype, device, constants, limit)

    by_size = classes(sizes, mean, backward, limit)
    with ThreadPoolExecutor(max_workers=8) as pool:
        kernels = pool.map(build, by_size)
        first = compiled("prepare", "prepare", dtype, device, (*common, *own))
        return first, list(zip(kernels, by_size, strict=True))


def _run(batch: Batch, filters: Tensor, policy: str, out: Tensor, *gradient: Tensor) -> Tensor:
    """Writes ``out``; backward from moments and their ``gradient``."""
    x, device = batch.x.contiguous(), batch.x.device.index
    models, channels, scales, steps = filters.shape
    sizes = Sizes(channels, scales, steps, policy == "all", x.element_size())
    graphs, nodes = batch.ptr.shape[0] - 1, x.shape[0]
    optional = (batch.powers, batch.weight, batch.multiplicity)
    powers, weight, multiplicity = (t if t is None else t.contiguous() for t in optional)
    powers = powers if batch.operator == "walk" else None
    inverse, shares = x.new_empty(nodes), x.new_empty(graphs)
    floors, near = x.new_empty(graphs, channels), torch.empty_like(batch.col, dtype=torch.int16)
    operator = ("OPERATOR", OPERATORS.index(batch.operator))
    merged = ("MERGED", int(multiplicity is not None))
    flags = (("WEIGHTED", int(weight is not None)), merged, operator)
    mean = -(-nodes // max(graphs, 1))
    prepare, kernels = _plan(sizes, mean, bool(gradient), flags, x.dtype, device)
    per_block = min(MAX_MODELS, max(1, graphs * models // MIN_BLOCKS))
    above, (per_node, per_graph) = -1, sizes.scratch()
    each = nodes * per_node + graphs * per_graph
    graph = [batch.rowptr, batch.col, weight, batch.ptr, multiplicity]
    derived = [near, inverse, floors, shares]
    ends: list[Any] = [t.contiguous() for t in gradient] or [None, None]
    with torch.cuda.device(device):
        prepare(graphs, PREPARE_THREADS, [x, *graph, *derived])
        for kernel, kind in kernels:
            blocks, scratch = -(-models // per_block), None  # blocks per graph
            if kind.largest is None:
                blocks = max(1, min(blocks, MAX_SCRATCH // max(each * sizes.bytes, 1)))
                scratch = x.new_empty(blocks * each)
            args: list[Any] = [x, powers, *graph, *derived, filters.contiguous(), scratch]
            args += [graphs, models, blocks, per_node, per_graph, nodes]
            args += [above, kind.largest or 2**31 - 1, *ends, out]
            kernel(graphs * blocks, kind.threads, args, kind.shared)
            above = kind.largest or 0
    return out


def forward(
    batch: Batch,
    filters: Tensor,
    policy: str = "increasing",
    _: object = None,
    logits: bool = False,
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]``; see :mod:`legs.kernels.op`."""
    filters = learned.forward(filters, batch.x.shape[1]) if logits else filters
    models, channels, scales = filters.shape[:3]
    pairs = scales * scales if policy == "all" else scales * (scales - 1) // 2
    out = batch.x.new_empty(models, batch.ptr.shape[0] - 1, 1 + scales + pairs, channels, 4)
    return _run(batch, filters, policy, out)


def backward(
    batch: Batch,
    filters: Tensor,
    grad: Tensor,
    out: Tensor,
    policy: str = "increasing",
    record: object = None,
    by_x: object = None,
    logits: bool = False,
) -> Tensor:
    """Gradient of ``filters``, ``[models, channels, scales, steps]``; ``out`` is the forward's."""
    mixed = learned.forward(filters, batch.x.shape[1]) if logits else filters
    # One partial sum per graph, added in a fixed order: no atomics, the same bits every time.
    partial = batch.x.new_empty(mixed.shape[0], batch.ptr.shape[0] - 1, *mixed.shape[1:])
    change = _run(batch, mixed, policy, partial, out, grad).sum(1)
    return learned.backward(filters, change) if logits else change
