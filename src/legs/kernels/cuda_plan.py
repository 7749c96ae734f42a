"""Which kernels a GPU runs for a batch: classes of graphs by size, each with threads that suit it.

Small graphs get a block of threads each, with everything in registers and shared memory; larger
ones a team with a few nodes a thread; those too large for that a block and global memory. The
classes are set by the mean size of the graphs, which is known without waiting for the GPU; a block
passes over graphs of another class.
"""

from __future__ import annotations

from typing import NamedTuple

# Threads of a multiprocessor, which bounds the registers of each; measured on an H200.
BOUND = {
    "block_forward": 1024,
    "block_backward": 768,
    "team_forward": 512,
    "team_backward": 512,
}
MOST_THREADS = 512  # of a block for a small graph
ANY_THREADS = 512  # of a block for one of any size
# Threads and nodes of a thread, for teams of graphs with so many nodes at most.
TEAMS = {512: (256, 2), 1024: (512, 2), 2048: (1024, 2), 4096: (1024, 4)}


class Sizes(NamedTuple):
    """What kernels are compiled for."""

    channels: int
    scales: int
    steps: int
    every: bool  # whether all paths count, not only increasing ones
    bytes: int  # of a number

    @property
    def wavelets(self) -> int:
        """That have children, and that may be children."""
        return self.scales if self.every else self.scales - 1

    @property
    def lanes(self) -> int:
        """What a node diffuses in the second order: parents and channels."""
        return self.wavelets * self.channels

    @property
    def paths(self) -> int:
        """Of order at most two."""
        pairs = self.wavelets * self.scales // (1 if self.every else 2)
        return 1 + self.scales + pairs

    @property
    def bank(self) -> int:
        """Numbers in the filters of a model."""
        return self.channels * self.scales * self.steps

    @property
    def items(self) -> int:
        """Lanes of nodes that a thread of a block has: blocks end at 1024 threads."""
        return 2 if self.lanes <= 16 else 4 if self.lanes <= 64 else 8

    @property
    def wide(self) -> int:
        """Lanes that a team diffuses together: at most what a load takes, and whole channels."""
        for wide in (4, 2):
            whole = wide % self.channels == 0 or self.channels % wide == 0
            if self.lanes % wide == 0 and whole and wide * self.bytes <= 16:
                return wide
        return 1


class Class(NamedTuple):
    """Graphs of like size, and who works on them."""

    kernel: str  # block or team
    most: int | None  # nodes of the largest graph; None: any
    threads: int
    shared: int  # bytes of a block's shared memory
    constants: dict[str, int]  # of the kernel


def classes(sizes: Sizes, mean: float, back: bool, most_shared: int) -> list[Class]:
    """The classes of a batch, by rising size; the last takes any graph.

    Args:
        sizes: of the filters.
        mean: size of the graphs.
        back: whether it is the way back.
        most_shared: bytes of shared memory that a block may have.

    >>> [(c.kernel, c.most) for c in classes(Sizes(2, 5, 16, False, 4), 30, False, 200_000)]
    [('block', 32), ('block', 64), ('block', 128), ('team', 512), ('team', 4096), ('block', None)]
    """
    found: list[Class] = []
    kind = "backward" if back else "forward"
    items, lanes = sizes.items, sizes.lanes
    fitting = (t for t in (64, 128, 256) if t * items >= mean * lanes)
    smallest = next(fitting, MOST_THREADS)
    for threads in (smallest, 2 * smallest, 4 * smallest):
        most = items * threads // lanes
        shared = (sizes.bank + _block_memory(sizes, most, back)) * sizes.bytes
        if threads <= MOST_THREADS and most and shared <= most_shared:
            constants = {"THREADS": threads, "ITEMS": items, "SMALL": 1}
            found.append(Class("block", most, threads, shared, constants))
    above = found[-1].most or 0 if found else 0
    few = mean <= above  # larger graphs: two classes do for them
    for most, (team, held) in TEAMS.items():
        shared = _team_memory(sizes, team, held, back) * sizes.bytes
        if most > above and not (few and most in (1024, 2048)) and shared <= most_shared:
            constants = {"TEAM": team, "HELD": held, "W": sizes.wide}
            found.append(Class("team", most, team, shared, constants))
    constants = {"THREADS": ANY_THREADS, "ITEMS": items, "SMALL": 0}
    found.append(Class("block", None, ANY_THREADS, sizes.bank * sizes.bytes, constants))
    bounds = ({"BOUND": BOUND[f"{c.kernel}_{kind}"]} for c in found)
    return [
        c._replace(constants=c.constants | bound) for c, bound in zip(found, bounds, strict=True)
    ]


def scratch(sizes: Sizes) -> tuple[int, int]:
    """Global memory of the last class: at most so many numbers a node, and besides a graph."""
    states = max(sizes.steps, 2) * max(sizes.lanes, sizes.channels)
    return states + _coefficients(sizes) + 1, max(sizes.steps, 2) * (32 + sizes.channels)


def _block_memory(sizes: Sizes, nodes: int, keep: bool) -> int:
    """Numbers in a block's shared memory for a graph: as ``lay_out`` in ``block.cuh`` has it."""
    channels, steps = sizes.channels, sizes.steps
    state = -(-nodes * max(sizes.lanes, channels) // 32) * 32 + channels
    states = max((max(steps, 2) if keep else 2) * state, nodes * (steps * channels | 1))
    return states + nodes * _coefficients(sizes)


def _coefficients(sizes: Sizes) -> int:
    return (sizes.scales * sizes.channels | 1) + (sizes.wavelets * sizes.lanes | 1) + 1


def _team_memory(sizes: Sizes, team: int, held: int, back: bool) -> int:
    """Numbers in a team's shared memory: as ``lay_out`` in ``team.cuh`` has it."""
    same, columns = min(sizes.wide, sizes.channels), sizes.wide * sizes.wavelets
    sums = _up_to(columns, 16) + _up_to(3 * columns, 16)
    size = sizes.steps * same * _up_to(sizes.scales, 4)
    size += _up_to(2 * (team * held + 1) * sizes.wide, 4)
    size += sums + max(team // 32 * sums, team if back else 0)
    if back:
        size += 8 * sizes.wide * (sizes.wavelets + 1) + sizes.bank
    return _up_to(size, 4)


def _up_to(number: int, unit: int) -> int:
    return -(-number // unit) * unit
