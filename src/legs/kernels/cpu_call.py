"""A call of the CPU kernels: what they are compiled for, what they get, and who does what.

Importing this module imports numba.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.functional.scattering import PathPolicy
from legs.kernels import cpu_fork, cpu_threads
from legs.kernels.cpu_banks import Sizes
from legs.kernels.cpu_edges import share_out
from legs.kernels.cpu_parts import Arrays
from legs.kernels.cpu_room import DISORDER, LEFT
from legs.kernels.cpu_shape import Shape, source_checksum

_MESSAGES = {
    DISORDER: "rowptr must run from 0 to the number of edges and ptr from 0 to the number of "
    "nodes, and neither may decrease",
    LEFT: "an edge leads from one graph to another or to a node that is not there; "
    "check edge_index and batch",
}


class Call(NamedTuple):
    """One call. ``ranges``: the graphs and the groups of units of each thread, ``[threads, 4]``."""

    shape: Shape
    size: Sizes
    arrays: Arrays
    ranges: NDArray[np.int64]

    def run(self, kernel: Any, *targets: Any, shared: int = 1) -> None:
        """Calls a kernel for every range.

        Args:
            kernel: of :mod:`legs.kernels.cpu_kernels`.
            targets: the arrays it writes and further ones that it reads.
            shared: how many of them are for all ranges (default 1); others have a row for each.
        """
        places, parts = cpu_fork.addresses(), len(self.ranges)
        trouble = np.zeros(parts, np.int64)
        known = (self.shape, self.size, self.arrays)
        if parts == 1 or places != cpu_fork.NOWHERE:
            # The parts are the same whoever does them: so are the sums, to the last bit.
            threads = 1 if parts == 1 or cpu_fork.busy() else parts
            kernel(places, threads, *known, *targets, self.ranges, trouble)
        else:
            of_one = (slice(k, k + 1) for k in range(parts))
            cpu_threads.run(
                [
                    partial(
                        kernel,
                        places,
                        1,
                        *known,
                        *targets[:shared],
                        *(target[one] for target in targets[shared:]),
                        self.ranges[one],
                        trouble[one],
                    )
                    for one in of_one
                ]
            )
        if trouble.any():
            raise ValueError(_MESSAGES[int(trouble.max())])


def prepare(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    policy: PathPolicy,
    laziness: float,
    copies: Tensor | None,
) -> Call:
    """Checks the arguments of :func:`legs.kernels.cpu.forward` and makes a call of them."""
    if policy not in ("increasing", "all"):
        raise ValueError(f'policy must be "increasing" or "all"; got {policy!r}')
    _check(x, powers, rowptr, col, weight, ptr, filters, copies)
    models, channels, scales, steps = filters.shape
    signals = flat(x, x.dtype)
    arrays = Arrays(
        signals,
        signals if powers is None else flat(powers, x.dtype),
        powers is not None,
        flat(rowptr, torch.int64),
        flat(col, torch.int64),
        None if weight is None else flat(weight, x.dtype),
        flat(ptr, torch.int64),
        flat(filters, x.dtype),
        float(laziness),
        None if copies is None else flat(copies, x.dtype),
    )
    graphs, weighted, counted = ptr.numel() - 1, weight is not None, copies is not None
    shape, size = _sizes(
        graphs, models, channels, scales, steps, policy, x.dtype, weighted, counted
    )
    return Call(shape, size, arrays, _ranges(size, arrays))


def flat(tensor: Tensor, dtype: torch.dtype) -> Any:
    """The numbers of a tensor as a flat array, copied only if they must be."""
    if tensor.dtype is not dtype:
        tensor = tensor.to(dtype)
    return tensor.detach().contiguous().numpy().reshape(-1)


def _check(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    copies: Tensor | None,
) -> None:
    """Compiled code looks at no shapes: they must be right here."""
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"x must be float32 or float64; got {x.dtype}")
    nodes, channels = x.shape
    models, _, scales, steps = filters.shape
    expected = {
        "powers": (powers, [nodes, steps, channels]),
        "rowptr": (rowptr, [nodes + 1]),
        "weight": (weight, [col.numel()]),
        "filters": (filters, [models, channels, scales, steps]),
        "copies": (copies, [nodes]),
    }
    for name, (tensor, shape) in expected.items():
        if tensor is not None and list(tensor.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}; got {list(tensor.shape)}")
    if ptr.dim() != 1 or ptr.numel() == 0:
        raise ValueError(f"ptr must have shape [graphs + 1]; got {list(ptr.shape)}")
    if filters.numel() == 0:
        raise ValueError(f"filters must not be empty; got shape {list(filters.shape)}")


@lru_cache(maxsize=256)
def _sizes(
    graphs: int,
    models: int,
    channels: int,
    scales: int,
    steps: int,
    policy: PathPolicy,
    dtype: torch.dtype,
    weighted: bool,
    counted: bool,
) -> tuple[Shape, Sizes]:
    increasing = policy == "increasing"
    parents = scales - 1 if increasing else scales
    children = max(parents, 1)
    units = models * channels
    lanes = _lanes(units * parents, dtype)
    row = 4
    while row < scales + 1:
        row *= 2
    # So many units fill whole blocks with the lanes of their parents.
    group = min(units, lanes // math.gcd(lanes, children))
    size = Sizes(
        graphs=graphs,
        channels=channels,
        units=units,
        scales=scales,
        steps=steps,
        increasing=increasing,
        paths=1 + scales + (scales * parents // 2 if increasing else scales * scales),
        parents=parents,
        lanes=lanes,
        row=row,
        group=group,
        blocks=-(-group * parents // lanes),
        groups=-(-units // group),
        together=parents > 0 and lanes % children == 0,
        weighted=weighted,
        counted=counted,
    )
    shape = Shape(
        channels, scales, steps, children, lanes, row, 4 * lanes, 4 * row, source_checksum()
    )
    return shape, size


def _lanes(needed: int, dtype: torch.dtype) -> int:
    """How many lanes a block has: as many as a vector of the machine, or half if those will do."""
    widest = (64 if _features().get("avx512f") else 32) // dtype.itemsize
    return widest if needed > widest // 2 else max(widest // 2, 4)


@cache
def _features() -> dict[str, bool]:
    return dict(llvmlite.binding.get_host_cpu_features())


def _ranges(size: Sizes, arrays: Arrays) -> NDArray[np.int64]:
    """Graphs, or groups of units if the graphs are few, for every thread."""
    threads = torch.get_num_threads()
    if threads == 1 or size.graphs == 0:
        return np.array([[0, size.graphs, 0, size.groups]])
    found = np.empty((threads, 4), np.int64)
    if size.graphs < 4 * threads <= size.groups * size.graphs:
        cuts = np.arange(threads + 1) * size.groups // threads
        found[:, 0], found[:, 1], found[:, 2], found[:, 3] = 0, size.graphs, cuts[:-1], cuts[1:]
        return found[cuts[:-1] < cuts[1:]]
    return found[: share_out(arrays.ptr, arrays.rowptr, size.groups, found)]
