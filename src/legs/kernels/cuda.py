"""The fused kernels on NVIDIA GPUs: ``sources/``, compiled at run time for the sizes at hand.

PyTorch brings the run-time compiler along; no tool kit is needed. A block works on one graph, for
some models one after another. Graphs come in classes by size, each with blocks that suit it: what a
block keeps lies in registers and shared memory for small graphs, else in global memory. The classes
are set by the mean size of the graphs, which is known without waiting for the GPU; a block whose
graph is of another class does nothing.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

MOST_SHARED = 160 * 1024  # of a block, where the GPU has as much
MOST_SCRATCH = 2 * 2**30
# Enough blocks to fill a GPU a few times; with more work than that, a block does several models.
ENOUGH_BLOCKS = 2048
MOST_MODELS = 8  # of a block
PARTS = {
    "prepare": ("sizes.cuh", "prepare.cu"),
    "forward": ("sizes.cuh", "walk.cuh", "moments.cuh", "forward.cu"),
    "backward": ("sizes.cuh", "walk.cuh", "moments.cuh", "backward.cu"),
}
_TYPES = {torch.float32: "float", torch.float64: "double"}


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
    name: str, dtype: torch.dtype, device: int, sizes: tuple[int, int, int], **constants: int
) -> Any:
    known = {"real": _TYPES[dtype], **constants}
    known |= dict(zip(("C", "J", "M"), sizes, strict=True))
    source = "".join(f"#define {key} {value}\n" for key, value in known.items())
    source += "".join(source_of(part) for part in PARTS[name])
    with torch.cuda.device(device):
        kernel = torch.cuda._compile_kernel(source, name)
        kernel.set_shared_memory_config(most_shared(device))
    return kernel


@cache
def most_shared(device: int) -> int:
    """Bytes of shared memory that a block may have: GPUs for desktops have less than others."""
    known = torch.cuda.get_device_properties(device)
    return min(MOST_SHARED, int(getattr(known, "shared_memory_per_block_optin", 48 * 1024)))


def source_of(name: str) -> str:
    """The text of a file in ``sources/``."""
    return files("legs.kernels").joinpath("sources", name).read_text()


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
        filters: Tensor,
        every: bool,
    ) -> None:
        self.x, self.filters, self.every = x.contiguous(), filters.contiguous(), every
        self.models, channels, scales, steps = filters.shape
        self.sizes = (channels, scales, steps)
        self.graphs, self.nodes = ptr.shape[0] - 1, x.shape[0]
        nothing = x.new_empty(0)  # its address is null
        self.powers = nothing if powers is None else powers.contiguous()
        weights = nothing if weight is None else weight.contiguous()
        self.graph = (rowptr, col, weights, ptr)
        self.weighted = weight is not None
        self.lanes = (scales if every else scales - 1) * channels
        self.paths = 1 + scales + (scales * scales if every else scales * (scales - 1) // 2)
        mean = self.nodes / max(self.graphs, 1)
        # More lanes, more of them in the hands of one thread: blocks end at 1024 threads.
        self.items = 2 if self.lanes <= 16 else 4 if self.lanes <= 64 else 8
        smallest = next((t for t in (64, 128, 256) if t * self.items >= mean * self.lanes), 256)
        self.threads = [t for t in (smallest, 2 * smallest, 4 * smallest) if t <= 512]
        self.inverse = x.new_empty(self.nodes)
        self.floors = x.new_empty(self.graphs, channels)
        given = [self.x, *self.graph, self.inverse, self.floors]
        self._run("prepare", 128, False, self.graphs, given)

    def __call__(self, name: str, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        """Runs a kernel for all graphs and models."""
        per_node, per_graph = self._most()
        each = self.nodes * per_node + self.graphs * per_graph
        blocks = self._blocks(each * self.x.element_size())
        scratch = self.x.new_empty(blocks * each)
        arguments: list[Any] = [self.x, self.powers, *self.graph, self.inverse, self.floors]
        arguments += [self.filters, scratch, self.graphs, self.models, blocks]
        arguments += [per_node, per_graph, self.nodes]
        above = -1
        for threads, most, shared in self._classes(name):
            known = [*arguments, above, most or 2**31 - 1, *given, out]
            self._run(name, threads, most is not None, self.graphs * blocks, known, shared)
            above = most or 0
        return out

    def _blocks(self, scratch: int) -> int:
        """Blocks of a graph: they share its models, and each may need so many bytes."""
        models = min(MOST_MODELS, max(1, self.graphs * self.models // ENOUGH_BLOCKS))
        return max(1, min(-(-self.models // models), MOST_SCRATCH // max(scratch, 1)))

    def _classes(self, name: str) -> list[tuple[int, int | None, int]]:
        """Threads, largest graph and shared memory of each class; the last takes any graph."""
        size, bank = self.x.element_size(), self.filters[0].numel()
        found: list[tuple[int, int | None, int]] = []
        for threads in self.threads:
            most = self.items * threads // self.lanes
            shared = (bank + self._need(most, keep=name == "backward")) * size
            if most and shared <= most_shared(self.x.device.index):
                found.append((threads, most, shared))
        return [*found, (512, None, bank * size)]

    def _need(self, nodes: int, keep: bool) -> int:
        """Memory of a block for a graph, in numbers: as ``lay_out`` in ``scattering.cu`` has it."""
        channels, _, steps = self.sizes
        state = -(-nodes * max(self.lanes, channels) // 32) * 32 + channels
        states = max((max(steps, 2) if keep else 2) * state, nodes * (steps * channels | 1))
        return states + nodes * self._coefficients()

    def _most(self) -> tuple[int, int]:
        """At most so much memory a node, and besides a graph."""
        channels, _, steps = self.sizes
        states = max(steps, 2) * max(self.lanes, channels)
        return states + self._coefficients() + 1, max(steps, 2) * (32 + channels)

    def _coefficients(self) -> int:
        channels, scales, _ = self.sizes
        wavelets = scales if self.every else scales - 1
        return (scales * channels | 1) + (wavelets * self.lanes | 1) + 1

    def _run(
        self,
        name: str,
        threads: int,
        small: bool,
        blocks: int,
        arguments: list[Any],
        shared: int = 0,
    ) -> None:
        if not blocks:
            return
        device = self.x.device.index
        kernel = _compiled(
            name,
            self.x.dtype,
            device,
            self.sizes,
            ALL=int(self.every),
            WEIGHTED=int(self.weighted),
            THREADS=threads,
            SMALL=int(small),
            ITEMS=self.items,
        )
        with torch.cuda.device(device):
            kernel((blocks, 1, 1), (threads, 1, 1), arguments, shared)


def forward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    policy: str = "increasing",
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]``; see :mod:`legs.kernels.fused`."""
    launch = _Launch(x, powers, rowptr, col, weight, ptr, filters, policy == "all")
    shape = (launch.models, launch.graphs, launch.paths, x.shape[1], 4)
    return launch("forward", (), x.new_empty(shape))


def backward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    grad: Tensor,
    out: Tensor,
    policy: str = "increasing",
) -> Tensor:
    """Gradient of the filters, ``[models, channels, scales, steps]``; ``out`` is the forward's."""
    launch = _Launch(x, powers, rowptr, col, weight, ptr, filters, policy == "all")
    # One partial sum a graph, added in a fixed order: no atomics, the same bits every time.
    partial = x.new_empty(launch.models, launch.graphs, *launch.sizes)
    return launch("backward", (out.contiguous(), grad.contiguous()), partial).sum(1)
