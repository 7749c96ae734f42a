"""The fused kernels on NVIDIA GPUs: ``sources/``, compiled at run time for the sizes at hand.

PyTorch brings the run-time compiler along; no tool kit is needed. A team of threads works on one
graph, for some models one after another. Graphs come in classes by size, each with teams that suit
it: what they keep lies in registers and shared memory, and for the largest graphs alone in global
memory. The classes are set by the mean size of the graphs, which is known without waiting for the
GPU; a team passes over graphs of another class.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import torch
from torch import Tensor

MOST_SHARED = 224 * 1024  # of a block, where the GPU has as much
MOST_SCRATCH = 2 * 2**30
FEW_GRAPHS = 1024  # times models
MOST_BLOCKS = 16_384  # at a time; they take more than one graph each if there are more
# Enough teams to fill a GPU a few times; with more work than that, a team does several models.
ENOUGH_TEAMS = 8192
MOST_MODELS = 8  # of a team
# Threads of a multiprocessor, which bounds the registers of each.
BOUND = {"forward": 512, "backward": 512}
_TEAM = ("team.cuh", "nodes.cuh", "columns.cuh", "groups.cuh")
_ANY = ("any.cuh", "any_moments.cuh")
PARTS = {
    "prepare": ("prepare.cu",),
    "team_forward": (*_TEAM, "team_forward.cu"),
    "team_backward": (*_TEAM, "team_backward.cu"),
    "any_forward": (*_ANY, "any_forward.cu"),
    "any_backward": (*_ANY, "any_backward.cu"),
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


_seen: set[tuple[Any, ...]] = set()  # what has been compiled


@cache
def _compiled(
    name: str,
    dtype: torch.dtype,
    device: int,
    sizes: tuple[int, int, int],
    constants: tuple[tuple[str, int], ...],
) -> Any:
    known = {"real": _TYPES[dtype], **dict(constants)}
    known |= dict(zip(("C", "J", "M"), sizes, strict=True))
    source = "".join(f"#define {key} {value}\n" for key, value in known.items())
    source += "".join(source_of(part) for part in PARTS[name])
    with torch.cuda.device(device):
        kernel = torch.cuda._compile_kernel(source, name.split("_")[-1])
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


class _Class(NamedTuple):
    """Graphs of like size, and the teams of threads that work on them."""

    team: int  # threads
    held: int  # nodes of a thread
    shared: int  # bytes of shared memory of a block

    @property
    def most(self) -> int:
        """Nodes of the largest graph."""
        return self.team * self.held

    @property
    def teams(self) -> int:
        """Teams of a block: those of one warp share one."""
        return 4 if self.team == 32 else 1


class _Call(NamedTuple):
    """A launch of a kernel."""

    chosen: tuple[Any, ...]  # what it is compiled for
    blocks: int
    threads: int
    shared: int
    arguments: list[Any]


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
        self.given_powers = powers is not None
        self.powers = nothing if powers is None else powers.contiguous()
        # Once more with nodes side by side: threads of neighbouring nodes read them together.
        self.by_step = nothing if powers is None else powers.flatten(1).T.contiguous()
        self.weighted = weight is not None
        weights = nothing if weight is None else weight.contiguous()
        self.graph = (rowptr, col, weights, ptr)
        self.lanes = (scales if every else scales - 1) * channels
        # Little work is done sooner by more threads.
        most = 16 if self.graphs * self.models > FEW_GRAPHS else 8
        self.wide = _wide(self.lanes, channels, x.element_size(), most)
        self.paths = 1 + scales + (scales * scales if every else scales * (scales - 1) // 2)
        self.inverse = x.new_empty(self.nodes)
        self.floors = x.new_empty(self.graphs, channels)
        self.near = torch.empty_like(col, dtype=torch.int16)
        given = [self.x, *self.graph, self.inverse, self.floors, self.near]
        self.prepare = self._call("prepare", self.graphs, 128, given)

    def __call__(self, name: str, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        """Runs a kernel for all graphs and models."""
        rowptr, _, weights, ptr = self.graph
        groups, teams = self.lanes // self.wide, self._teams()
        first = [self.x, self.by_step, rowptr, self.near, weights, ptr]
        first += [self.inverse, self.floors, self.filters]
        calls, above = [self.prepare], -1
        for kind in self._classes(name):
            known = [*first, self.nodes, self.graphs, self.models, teams, above, kind.most]
            calls.append(
                self._call(
                    f"team_{name}",
                    min(-(-self.graphs * teams * groups // kind.teams), MOST_BLOCKS),
                    kind.team * kind.teams,
                    [*known, *given, out],
                    kind.shared,
                    TEAM=kind.team,
                    HELD=kind.held,
                    W=self.wide,
                    POWERS=int(self.given_powers),
                    BOUND=BOUND[name],
                )
            )
            above = kind.most
        _run([*calls, self._any(name, above, [*given, out])])
        return out

    def _any(self, name: str, above: int, given: list[Tensor]) -> _Call:
        """Graphs of any size above that of the classes, in global memory."""
        per_node, per_graph = self._most()
        each = self.nodes * per_node + self.graphs * per_graph
        most = MOST_SCRATCH // max(each * self.x.element_size(), 1)
        teams = max(1, min(self._teams(), most))
        arguments: list[Any] = [self.x, self.powers, *self.graph, self.inverse, self.floors]
        arguments += [self.filters, self.x.new_empty(teams * each), self.graphs, self.models, teams]
        arguments += [per_node, per_graph, self.nodes, above, 2**31 - 1, *given]
        shared = self.filters[0].numel() * self.x.element_size()
        blocks, known = self.graphs * teams, {"THREADS": 512, "W": self.wide}
        return self._call(f"any_{name}", blocks, 512, arguments, shared, **known)

    def _teams(self) -> int:
        """Teams of a graph and group: they share its models."""
        models = min(MOST_MODELS, max(1, self.graphs * self.models // ENOUGH_TEAMS))
        return -(-self.models // models)

    def _classes(self, name: str) -> list[_Class]:
        """The first is for graphs of mean size, each of the others for twice as large ones."""
        mean = self.nodes / max(self.graphs, 1)
        least = next((n for n in (32, 64, 128, 256) if n >= mean), 512)
        found = []
        for nodes in (least, 2 * least, 4 * least, 8 * least):
            team = nodes if nodes <= 512 else 512 if nodes == 1024 else 1024
            held = nodes // team
            teams = 4 if team == 32 else 1
            shared = teams * self._shared(team, held, name == "backward")
            if shared <= most_shared(self.x.device.index):
                found.append(_Class(team, held, shared))
        return found

    def _shared(self, team: int, held: int, back: bool) -> int:
        """Bytes of shared memory of a team: as ``lay_out`` in ``team.cuh`` has it."""
        channels, scales, steps = self.sizes
        same, wavelets = min(self.wide, channels), scales - (not self.every)
        sums = _up_to(self.wide * wavelets, 16) + _up_to(3 * self.wide * wavelets, 16)
        partial = max(sums, steps * self.wide if back else 0) * (team // 32) if team > 32 else 0
        size = steps * same * _up_to(scales, 4) + _up_to(2 * (team * held + 1) * self.wide, 4)
        size += sums + partial
        if back:
            size += 8 * self.wide * (wavelets + 1) + same * scales * steps
        return _up_to(size, 4) * self.x.element_size()

    def _most(self) -> tuple[int, int]:
        """For graphs of any size: at most so many numbers a node, and besides a graph."""
        channels, scales, steps = self.sizes
        wavelets = scales if self.every else scales - 1
        coefficients = (scales * channels | 1) + (wavelets * self.lanes | 1) + 1
        states = max(steps, 2) * max(self.lanes, channels)
        return states + coefficients + 1, max(steps, 2) * (32 + channels)

    def _call(
        self,
        name: str,
        blocks: int,
        threads: int,
        arguments: list[Any],
        shared: int = 0,
        **constants: int,
    ) -> _Call:
        known = {"ALL": int(self.every), "WEIGHTED": int(self.weighted), **constants}
        chosen = (name, self.x.dtype, self.x.device.index, self.sizes, tuple(known.items()))
        return _Call(chosen, blocks, threads, shared, arguments)


def _compile_in_thread(chosen: tuple[Any, ...]) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize(chosen[2])  # gives a new thread the context of the device
    _compiled(*chosen)


def _run(calls: list[_Call]) -> None:
    """Launches kernels, in order; what is not compiled yet is compiled side by side."""
    if new := {call.chosen for call in calls} - _seen:
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(_compile_in_thread, new))
        _seen.update(new)
    for call in calls:
        if call.blocks:
            kernel = _compiled(*call.chosen)
            with torch.cuda.device(call.chosen[2]):
                kernel((call.blocks, 1, 1), (call.threads, 1, 1), call.arguments, call.shared)


def _up_to(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _wide(lanes: int, channels: int, size: int, most: int) -> int:
    """Lanes that are diffused together: at most so many bytes, and whole channels."""
    for wide in (4, 2):
        whole = wide % channels == 0 or channels % wide == 0
        if lanes % wide == 0 and whole and wide * size <= most:
            return wide
    return 1


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
    # Partial sums, added in a fixed order: no atomics, the same bits every time.
    models, graphs, (channels, scales, steps) = launch.models, launch.graphs, launch.sizes
    same, groups = min(launch.wide, channels), launch.lanes // launch.wide
    partial = x.new_empty(models, graphs, groups, same * scales * steps)
    launch("backward", (out.contiguous(), grad.contiguous()), partial)
    found = partial.sum(1).view(models, -1, channels // same, same, scales, steps).sum(1)
    return found.flatten(1, 2)
