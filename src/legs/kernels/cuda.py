"""The fused kernels on NVIDIA GPUs: ``sources/``, compiled at run time for the sizes at hand.

Graphs come in classes by size (:mod:`legs.kernels.cuda_plan`); a block or team of threads works on
one graph, for some models one after another.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.kernels.cuda_launch import TYPES, Kernel
from legs.kernels.cuda_plan import Class, Sizes, classes, scratch

MOST_SHARED = 224 * 1024  # of a block, where the GPU has as much
MOST_SCRATCH = 2 * 2**30
MOST_BLOCKS = 16_384  # of teams at a time; they take more than one graph each if there are more
# Enough blocks to fill a GPU a few times; with more work than that, a block does several models.
ENOUGH_BLOCKS = 2048
MOST_MODELS = 16  # of a block
_BLOCK = ("block.cuh", "block_walk.cuh", "block_moments.cuh")
_TEAM = ("team.cuh", "team_nodes.cuh", "team_columns.cuh", "team_groups.cuh")
PARTS = {
    "prepare": ("prepare.cu",),
    "block_forward": (*_BLOCK, "block_forward.cu"),
    "block_backward": (*_BLOCK, "block_backward.cu"),
    "team_forward": (*_TEAM, "team_forward.cu"),
    "team_backward": (*_TEAM, "team_backward.cu"),
}


@cache
def available() -> bool:
    """Whether kernels can be compiled: a CUDA device, and PyTorch's run-time compiler."""
    if not torch.cuda.is_available() or torch.version.hip:
        return False
    try:
        source = 'extern "C" __global__ void nothing() {}'
        torch.cuda._compile_kernel(source, "nothing")
    except Exception:  # whatever is missing, the reference serves
        return False
    return True


@cache
def _compiled(
    name: str, dtype: torch.dtype, device: int, constants: tuple[tuple[str, int], ...]
) -> Kernel:
    known = {"real": TYPES[dtype], **dict(constants)}
    return Kernel(PARTS[name], name.split("_")[-1], device, known, most_shared(device))


@cache
def most_shared(device: int) -> int:
    """Bytes of shared memory that a block may have: GPUs for desktops have less than others."""
    known = torch.cuda.get_device_properties(device)
    return min(MOST_SHARED, int(getattr(known, "shared_memory_per_block_optin", 48 * 1024)))


class _Step(NamedTuple):
    """A kernel, and the graphs that it works on."""

    kernel: Kernel
    graphs: Class


@cache
def _plan(
    name: str,
    sizes: Sizes,
    mean: int,
    given: tuple[tuple[str, int], ...],
    dtype: torch.dtype,
    device: int,
) -> tuple[Kernel, list[_Step]]:
    """What runs first, and then for each class; what is not compiled yet is compiled side by side.

    Args:
        name: ``forward`` or ``backward``.
        sizes: of the filters.
        mean: nodes of a graph.
        given: whether there are weights, powers and copies.
        dtype: of signals.
        device: index of the GPU.
    """
    channels, scales, steps, every, _ = sizes
    known = {"C": channels, "J": scales, "M": steps, "ALL": int(every), **dict(given)}
    found = classes(sizes, mean, name == "backward", most_shared(device))
    chosen = [("prepare", dtype, device, tuple(known.items()))]
    for kind in found:
        constants = tuple((known | kind.constants).items())
        chosen.append((f"{kind.kernel}_{name}", dtype, device, constants))
    with ThreadPoolExecutor(max_workers=8) as pool:
        first, *kernels = pool.map(lambda one: _compiled(*one), chosen)
    return first, [_Step(kernel, kind) for kernel, kind in zip(kernels, found, strict=True)]


class _Launch:
    """Sizes and buffers of a call, the same for forward and backward."""

    def __init__(
        self,
        x: Tensor,
        powers: Tensor | None,
        rowptr: Tensor,
        col: Tensor,
        weight: Tensor | None,
        ptr: Tensor,
        copies: Tensor | None,
        filters: Tensor,
        every: bool,
    ) -> None:
        self.x, self.filters = x.contiguous(), filters.contiguous()
        self.models, channels, scales, steps = filters.shape
        self.sizes = Sizes(channels, scales, steps, every, x.element_size())
        self.graphs, self.nodes = ptr.shape[0] - 1, x.shape[0]
        nothing = x.new_empty(0)  # its address is null
        self.given = (
            ("WEIGHTED", int(weight is not None)),
            ("POWERS", int(powers is not None)),
            ("COPIES", int(copies is not None)),
        )
        self.powers = nothing if powers is None else powers.contiguous()
        # Once more with nodes side by side: threads of neighbouring nodes read them together.
        self.by_step = nothing if powers is None else powers.flatten(1).T.contiguous()
        weights = nothing if weight is None else weight.contiguous()
        self.graph = (rowptr, col, weights, ptr)
        self.copies = nothing if copies is None else copies.contiguous()
        self.shares = x.new_empty(self.graphs)
        self.inverse = x.new_empty(self.nodes)
        self.floors = x.new_empty(self.graphs, channels)
        self.near = torch.empty_like(col, dtype=torch.int16)

    def __call__(self, name: str, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        """Runs a kernel for all graphs and models."""
        device, mean = self.x.device.index, -(-self.nodes // max(self.graphs, 1))
        prepare, steps = _plan(name, self.sizes, mean, self.given, self.x.dtype, device)
        above = -1
        with torch.cuda.device(device):
            made = [self.x, *self.graph, self.copies, self.inverse, self.floors]
            made += [self.shares, self.near]
            prepare(self.graphs, 128, made)
            for kernel, kind in steps:
                if kind.kernel == "team":
                    first, blocks = self._for_teams()
                else:
                    first, blocks = self._for_blocks(needs_scratch=kind.most is None)
                arguments = [*first, above, kind.most or 2**31 - 1, *given, out]
                kernel(blocks, kind.threads, arguments, kind.shared)
                above = kind.most or 0
        return out

    def _for_teams(self) -> tuple[list[Any], int]:
        """Arguments of a team's kernel, and blocks."""
        rowptr, _, weights, ptr = self.graph
        known: list[Any] = [self.x, self.powers, self.by_step, rowptr, self.near, weights, ptr]
        known += [self.copies, self.inverse, self.floors, self.shares, self.filters]
        blocks = self._blocks()
        known += [self.nodes, self.graphs, self.models, blocks]
        return known, min(self.graphs * blocks, MOST_BLOCKS)

    def _for_blocks(self, needs_scratch: bool) -> tuple[list[Any], int]:
        """Arguments of a block's kernel, and blocks."""
        per_node, per_graph = scratch(self.sizes)
        each = self.nodes * per_node + self.graphs * per_graph
        blocks, room = self._blocks(), self.x.new_empty(0)
        if needs_scratch:
            most = MOST_SCRATCH // max(each * self.sizes.bytes, 1)
            blocks = max(1, min(blocks, most))
            room = self.x.new_empty(blocks * each)
        rowptr, col, weights, ptr = self.graph
        known: list[Any] = [self.x, self.powers, rowptr, col, self.near, weights, ptr]
        known += [self.copies, self.inverse]
        known += [self.floors, self.shares, self.filters, room, self.graphs, self.models, blocks]
        return [*known, per_node, per_graph, self.nodes], self.graphs * blocks

    def _blocks(self) -> int:
        """Blocks of a graph: they share its models."""
        models = min(MOST_MODELS, max(1, self.graphs * self.models // ENOUGH_BLOCKS))
        return -(-self.models // models)


def forward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    copies: Tensor | None,
    filters: Tensor,
    policy: str = "increasing",
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]``; see :mod:`legs.kernels.fused`."""
    launch = _Launch(x, powers, rowptr, col, weight, ptr, copies, filters, policy == "all")
    shape = (launch.models, launch.graphs, launch.sizes.paths, x.shape[1], 4)
    return launch("forward", (), x.new_empty(shape))


def backward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    copies: Tensor | None,
    filters: Tensor,
    grad: Tensor,
    out: Tensor,
    policy: str = "increasing",
) -> Tensor:
    """Gradient of the filters, ``[models, channels, scales, steps]``; ``out`` is the forward's."""
    launch = _Launch(x, powers, rowptr, col, weight, ptr, copies, filters, policy == "all")
    # One partial sum a graph, added in a fixed order: no atomics, the same bits every time.
    partial = x.new_empty(launch.models, launch.graphs, *filters.shape[1:])
    return launch("backward", (out.contiguous(), grad.contiguous()), partial).sum(1)
