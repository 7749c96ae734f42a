"""What a scattering kernel is compiled for, what it reads, and the buffers it works in.

A *unit* is one channel of one model. A *lane* is one parent wavelet of one unit; a *block* is as
many lanes as are processed together, and a *group* as many units as fill whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from legs.kernels.cpu.jit import constants, inlined, inner
from legs.kernels.cpu.simd import at, len_of, load, put, store

UNROLL = 8  # independent sums of the first order: each has to wait for its own additions
ALIGNMENT = 64  # bytes, a cache line


@constants
@dataclass(frozen=True)
class Shape:
    """Sizes that are known at compile time."""

    channels: int
    scales: int
    steps: int
    padded_steps: int  # a multiple of UNROLL
    increasing: int  # 1 for increasing paths, 0 for all
    paths: int
    parents: int  # wavelets with children; also the number of children, at most
    lanes: int  # of a block
    row: int  # lanes of the first order of a unit: the wavelets, the signal, padding
    group: int  # units
    blocks: int  # of a group
    together: int  # 1 if the parents of a unit are always in one block


class Inputs(NamedTuple):
    """Graphs, signals and filters, as flat arrays."""

    x: Any  # [nodes, channels]
    powers: Any  # [nodes, steps, channels]; empty: they are computed
    rowptr: Any  # [nodes + 1]
    col: Any  # [edges]
    weight: Any  # [edges], or None for ones
    ptr: Any  # [graphs + 1]
    counts: Any  # [nodes] multiplicities, or None for ones
    filters: Any  # [units, scales, steps]


class Graph(NamedTuple):
    """One graph of a batch."""

    first: int  # node
    n: int  # nodes
    share: float  # of one node in a mean
    powers: Any  # array with the walk powers [n, steps, channels]
    source: int  # where they begin


class Workspace(NamedTuple):
    """Buffers for one graph and one group of units: arrays, then offsets into ``data``.

    One graph's nodes are kept in an order of their own, short rows first: then branches on the
    length of a row are predictable. A node of degree zero is its own neighbour.
    """

    order: Any  # [n + UNROLL] the node in each place; the last one is repeated
    place: Any  # [n] the place of each node
    start: Any  # [n + 1] where the entries of a row begin
    near: Any  # [entries] place of a neighbour, times lanes
    step: Any  # [padded steps] numbers of steps; the last one is repeated
    data: Any  # all floating-point buffers
    weights: Any  # data, or None without edge weights
    counts: Any  # data, or None without multiplicities
    edge_weight: int  # [entries]
    node_count: int  # [n] multiplicities
    degree: int  # [n]
    inverse: int  # [n] of the degree
    energy_weight: int  # [n] see graph.energy_weights
    scratch: int  # [n]
    flip: int  # [row] -1 for wavelets, 1 for the signal
    root: int  # [group] square root of the energy
    root_lanes: int  # [lanes] the same, of the lanes of a block
    moments: int  # [4, lanes] or [4, row], or their gradients
    mean: int  # [group, row] of the first order
    first: int  # [group, n, row] first order, then its gradient
    signal: int  # [blocks, n, lanes] the parents, then their gradients
    states: int  # [steps, n, lanes] the parents of a block, diffused
    second: int  # [n, children, lanes] second order of a block, then its gradient
    powers: int  # [n, steps, channels]
    ping: int  # [2, n, lanes] of the backward recurrence
    bank: int  # filters of the first order, [units, padded steps, row]
    bank_second: int  # and of the second, behind them, [groups, blocks, steps, children, lanes]
    grad: int  # the gradient of a number in the banks is so far behind it


@inlined
def _none_if(array: Any, data: Any) -> Any:
    """``data``, or ``None`` if the array is."""
    # Not a literal None: the two branches must have one type where the array is given.
    return array if array is None else data


@inlined
def _reserve(end: Any, size: int) -> Any:
    begin = end[0]
    end[0] += (size + 15) // 16 * 16
    return begin


@inner
def make_workspace(shape: Any, inputs: Any, begin: int, end: int, backward: bool) -> Any:
    """Buffers for the largest of the graphs ``begin`` to ``end``."""
    nodes, entries = 1, 0
    for g in range(begin, end):
        low, high = inputs.ptr[g], inputs.ptr[g + 1]
        nodes = max(nodes, high - low)
        entries = max(entries, inputs.rowptr[high] - inputs.rowptr[low])
    units = inputs.filters.size // (shape.scales * shape.steps)
    groups = (units + shape.group - 1) // shape.group
    width, block = shape.parents * shape.lanes, nodes * shape.lanes
    first = units * shape.padded_steps * shape.row
    banks = first + groups * shape.blocks * shape.steps * width
    size, data = np.zeros(1, np.int64), inputs.x[:0]
    for attempt in range(2):  # the first one finds the size
        size[0] = 0
        _reserve(size, banks * (1 + backward))
        space = Workspace(
            order=np.empty(nodes + UNROLL, np.int32),
            place=np.empty(nodes, np.int32),
            start=np.empty(nodes + 1, np.int32),
            near=np.empty(entries + nodes, np.int32),
            step=np.minimum(np.arange(shape.padded_steps), shape.steps - 1),
            data=data,
            weights=_none_if(inputs.weight, data),
            counts=_none_if(inputs.counts, data),
            edge_weight=_reserve(size, entries + nodes),
            node_count=_reserve(size, nodes),
            degree=_reserve(size, nodes),
            inverse=_reserve(size, nodes),
            energy_weight=_reserve(size, nodes),
            scratch=_reserve(size, nodes),
            flip=_reserve(size, shape.row),
            root=_reserve(size, shape.group),
            root_lanes=_reserve(size, shape.lanes),
            moments=_reserve(size, 4 * max(shape.row, width)),
            mean=_reserve(size, shape.group * shape.row),
            first=_reserve(size, (shape.group * nodes + UNROLL) * shape.row),
            signal=_reserve(size, shape.blocks * block),
            states=_reserve(size, shape.steps * block),
            second=_reserve(size, nodes * width),
            powers=_reserve(size, nodes * shape.steps * shape.channels + shape.lanes),
            ping=_reserve(size, 2 * block),
            bank=0,
            bank_second=first,
            grad=banks,
        )
        if attempt == 0:
            memory = np.empty(size[0] + ALIGNMENT // data.itemsize, data.dtype)
            skip = (-memory.ctypes.data % ALIGNMENT) // data.itemsize
            data = memory[skip : skip + size[0]]
    data[: banks * (1 + backward)] = 0
    data[space.flip : space.flip + shape.row] = -1
    data[space.flip + shape.scales] = 1
    return space


class Routes(NamedTuple):
    """Where the lanes of moments and banks belong in the output and in the filters.

    Entries ``start[k]`` to ``start[k + 1]`` are those of unit ``k`` (orders zero and one), or of
    block ``k`` less the number of units (order two).
    """

    start: Any
    lane: Any  # among those of the unit or block
    model: Any
    place: Any  # where a lane's four moments begin in the output for a model's first graph
    bank: Any  # where its filter begins in the banks
    filter: Any  # and in the filters; -1 for the signal, which has none


@lru_cache(maxsize=64)
def make_routes(shape: Shape, units: int) -> Routes:
    """All routes, to outputs ``[models, graphs, paths, channels, 4]``."""
    scales, steps, parents, lanes = shape.scales, shape.steps, shape.parents, shape.lanes
    first, second = shape.padded_steps * shape.row, steps * parents * lanes
    rows = []
    for u in range(units):
        model, channel = divmod(u, shape.channels)
        path = 0
        rows.append((u, scales, model, 4 * channel, u * first + scales, -1))
        for child in range(scales):
            path += 1
            place, source = 4 * (path * shape.channels + channel), (u * scales + child) * steps
            rows.append((u, child, model, place, u * first + child, source))
        for parent in range(parents):
            number = u % shape.group * parents + parent
            block = u // shape.group * shape.blocks + number // lanes
            for child in range(shape.increasing * (parent + 1), scales):
                path += 1
                place, source = 4 * (path * shape.channels + channel), (u * scales + child) * steps
                lane = (child - shape.increasing) * lanes + number % lanes
                bank = units * first + block * second + lane
                rows.append((units + block, lane, model, place, bank, source))
    owner, *columns = np.array(sorted(rows)).T.copy()
    blocks = -(-units // shape.group) * shape.blocks
    return Routes(np.searchsorted(owner, np.arange(units + blocks + 1)), *columns)


@inlined
def _stride(shape: Any, units: int, k: int) -> Any:
    """From one step to the next in the bank of a unit or block."""
    return shape.row if k < units else shape.parents * shape.lanes


@inner
def pack_filters(shape: Any, routes: Any, units: int, filters: Any, space: Any) -> None:
    """Writes filters ``[units, scales, steps]`` to the banks of both orders."""
    for k in range(routes.start.size - 1):
        for r in range(routes.start[k], routes.start[k + 1]):
            for s in range(shape.steps if routes.filter[r] >= 0 else 0):
                place = space.bank + routes.bank[r] + s * _stride(shape, units, k)
                space.data[place] = filters[routes.filter[r] + s]


@inner
def unpack_gradients(shape: Any, routes: Any, units: int, space: Any, grad: Any) -> None:
    """The adjoint of :func:`pack_filters`: sums gradients of banks to those of filters."""
    grad[:] = 0
    for k in range(routes.start.size - 1):
        for r in range(routes.start[k], routes.start[k + 1]):
            for s in range(shape.steps if routes.filter[r] >= 0 else 0):
                place = space.bank + routes.bank[r] + s * _stride(shape, units, k)
                grad[routes.filter[r] + s] += space.data[place + space.grad]


@inlined
def write_moments(
    routes: Any, k: int, moments: Any, space: Any, out: Any, g: int, size: Any
) -> None:
    """Writes the four moments of the lanes of a unit or block to graph ``g``'s place.

    ``size``: of one graph, and of one model, in the output.
    """
    width = len_of(moments[0])
    for m in range(4):
        store(moments[m], space.data, space.moments + m * width)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        place = at(routes.model, r) * size[1] + g * size[0] + at(routes.place, r)
        for m in range(4):
            put(out, place + m, at(space.data, space.moments + m * width + at(routes.lane, r)))


@inlined
def read_gradients(routes: Any, k: int, zero: Any, space: Any, grad: Any, g: int, size: Any) -> Any:
    """The adjoint of :func:`write_moments`: four vectors like ``zero``, zero without a path."""
    width, data, start = len_of(zero), space.data, space.moments
    for m in range(4):
        store(zero, data, start + m * width)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        place = at(routes.model, r) * size[1] + g * size[0] + at(routes.place, r)
        for m in range(4):
            put(data, start + m * width + at(routes.lane, r), at(grad, place + m))
    return (
        load(zero, data, start),
        load(zero, data, start + width),
        load(zero, data, start + 2 * width),
        load(zero, data, start + 3 * width),
    )
