"""Between the order of axes, in which filters and moments come and go, and the order of lanes.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legs.kernels.cpu_jit import inlined, inner
from legs.kernels.cpu_vectors import at, load, store, zeros


class Sizes(NamedTuple):
    """What a call computes, in numbers."""

    graphs: int
    channels: int
    units: int  # channels of all models
    scales: int
    steps: int
    increasing: bool  # paths, or all
    paths: int
    parents: int  # wavelets that have children; each has as many children at most
    lanes: int  # of a block
    row: int  # lanes of the first order of a unit
    group: int  # units whose lanes fill some blocks
    blocks: int  # of a group
    groups: int
    together: bool  # whether the parents of a unit always lie in one block
    weighted: bool  # edges
    counted: bool  # nodes, as often as their copies


@inner
def path_of(size: Any, parent: int, child: int) -> Any:
    """The place of a path of order two; negative if there is none."""
    if not size.increasing:
        return 1 + size.scales + parent * size.scales + child
    if child < parent:  # children are counted from the second wavelet on
        return -1
    return 1 + size.scales + parent * (2 * size.scales - 1 - parent) // 2 + child - parent


@inner
def filter_of(size: Any, u: int, child: int) -> Any:
    """Where a child's filter begins in ``[units, scales, steps]``."""
    skipped = 1 if size.increasing else 0
    return (u * size.scales + child + skipped) * size.steps


@inner
def bank_of(size: Any, u: int, parent: int, child: int) -> Any:
    """Where it begins in the bank of the second order, ``[blocks, steps, children, lanes]``."""
    lane = (u % size.group) * size.parents + parent
    block = (u // size.group) * size.blocks + lane // size.lanes
    return (block * size.steps * size.parents + child) * size.lanes + lane % size.lanes


@inner
def pack_banks(size: Any, filters: Any, work: Any, first: int, second: int) -> None:
    """Writes filters ``[units, scales, steps]`` as the banks of both orders, zeros around them."""
    width = max(size.parents, 1) * size.lanes
    work[first : first + size.units * size.steps * size.row] = 0
    work[second : second + size.groups * size.blocks * size.steps * width] = 0
    for u in range(size.units):
        for s in range(size.steps):
            for j in range(size.scales):
                place = first + (u * size.steps + s) * size.row + j
                work[place] = filters[(u * size.scales + j) * size.steps + s]
            for parent in range(size.parents):
                for child in range(size.parents):
                    if path_of(size, parent, child) >= 0:
                        place = second + bank_of(size, u, parent, child) + s * width
                        work[place] = filters[filter_of(size, u, child) + s]


@inner
def unpack_banks(size: Any, work: Any, first: int, second: int, filters: Any) -> None:
    """The transpose of :func:`pack_banks`: from the gradients of the banks to the filters'."""
    width = max(size.parents, 1) * size.lanes
    for u in range(size.units):
        for s in range(size.steps):
            for j in range(size.scales):
                place = first + (u * size.steps + s) * size.row + j
                filters[(u * size.scales + j) * size.steps + s] = work[place]
            for parent in range(size.parents):
                for child in range(size.parents):
                    if path_of(size, parent, child) >= 0:
                        place = second + bank_of(size, u, parent, child) + s * width
                        filters[filter_of(size, u, child) + s] += work[place]


class Routes(NamedTuple):
    """Which lanes of the moments belong where in the output.

    Entries ``start[k]`` to ``start[k + 1]`` are those of unit ``k`` (orders zero and one), or of
    block ``k`` less the number of units (order two).
    """

    start: Any
    lane: Any  # where a lane's four moments begin among those of the unit or block
    place: Any  # and where in the output of the first graph


@inner
def make_routes(size: Any) -> Any:
    """All routes, to an output ``[models, graphs, paths, channels, 4]``."""
    blocks = size.groups * size.blocks
    most = size.units * (size.scales + 1 + size.parents * size.parents)
    start = np.zeros(size.units + blocks + 1, np.int64)
    lanes, places = np.empty(most, np.int64), np.empty(most, np.int64)
    count = 0
    for u in range(size.units):
        for j in range(size.scales + 1):
            path = 0 if j == size.scales else 1 + j
            lanes[count], places[count] = 4 * j, _place_of(size, u, path)
            count += 1
        start[u + 1] = count
    for block in range(blocks):
        for lane in range(size.lanes):
            number = block % size.blocks * size.lanes + lane
            u = block // size.blocks * size.group + number // size.parents
            parent = number % size.parents
            if number >= size.group * size.parents or u >= size.units:
                break
            for child in range(size.parents):
                path = path_of(size, parent, child)
                if path >= 0:
                    lanes[count] = 4 * (child * size.lanes + lane)
                    places[count] = _place_of(size, u, path)
                    count += 1
        start[size.units + block + 1] = count
    return Routes(start, lanes, places)


@inner
def _place_of(size: Any, u: int, path: int) -> Any:
    model, channel = u // size.channels, u % size.channels
    return ((model * size.graphs * size.paths + path) * size.channels + channel) * 4


@inlined
def scatter(routes: Any, which: int, work: Any, moments: int, out: Any, place: int) -> None:
    """Writes the moments ``[lanes, 4]`` of a unit or block to a graph's place in the output."""
    four = zeros(work, 4, 1)
    for k in range(at(routes.start, which), at(routes.start, which + 1)):
        value = load(four, work, moments + at(routes.lane, k))
        store(value, out, place + at(routes.place, k))


@inlined
def gather(routes: Any, which: int, grad: Any, place: int, work: Any, moments: int) -> None:
    """The transpose of :func:`scatter`; lanes that belong nowhere are left as they are."""
    four = zeros(work, 4, 1)
    for k in range(at(routes.start, which), at(routes.start, which + 1)):
        value = load(four, grad, place + at(routes.place, k))
        store(value, work, moments + at(routes.lane, k))
