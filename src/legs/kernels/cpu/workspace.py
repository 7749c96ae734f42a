"""What a scattering kernel is compiled for, what it reads, and the buffers it works in.

A *unit* is one channel of one model. A *lane* is one parent wavelet of one unit; a *block* is as
many lanes as are processed together, and a *group* as many units as fill whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from legs.functional.diffusion import BASE
from legs.kernels.cpu.jit import constants, inlined, inner
from legs.kernels.cpu.simd import at, load, store, zeros

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
    four_lanes: int
    four_row: int
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
    stay: Any  # laziness of the walk
    move: Any  # 1 - laziness
    edge_weight: int  # [entries]
    node_count: int  # [n] multiplicities
    degree: int  # [n]
    inverse: int  # [n] of the degree
    energy_weight: int  # [n] see graph.energy_weights
    scratch: int  # [n]
    flip: int  # [row] -1 for wavelets, 1 for the signal
    root: int  # [group] square root of the energy
    root_lanes: int  # [lanes] the same, of the lanes of a block
    moments: int  # [lanes, 4] or [row, 4], or their gradients
    mean: int  # [group, row] of the first order
    first: int  # [group, n, row] first order, then its gradient
    signal: int  # [blocks, n, lanes] the parents, then their gradients
    states: int  # [steps, n, lanes] the parents of a block, diffused
    second: int  # [n, children, lanes] second order of a block, then its gradient
    powers: int  # [n, steps, channels]
    ping: int  # [2, n, lanes] of the backward recurrence
    extra: int  # [n, row]
    bank_first: int  # [units, padded steps, row]
    bank_second: int  # [groups, blocks, steps, children, lanes]
    grad_first: int  # gradients of the banks
    grad_second: int


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
    second = groups * shape.blocks * shape.steps * width
    size, data = np.zeros(1, np.int64), inputs.x[:0]
    for attempt in range(2):  # the first one finds the size
        size[0] = 0
        space = Workspace(
            order=np.empty(nodes + UNROLL, np.int32),
            place=np.empty(nodes, np.int32),
            start=np.empty(nodes + 1, np.int32),
            near=np.empty(entries + nodes, np.int32),
            step=np.minimum(np.arange(shape.padded_steps), shape.steps - 1),
            data=data,
            weights=_none_if(inputs.weight, data),
            counts=_none_if(inputs.counts, data),
            stay=data.dtype.type(BASE),
            move=data.dtype.type(1 - BASE),
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
            extra=_reserve(size, nodes * shape.row),
            bank_first=_reserve(size, first),
            bank_second=_reserve(size, second),
            grad_first=_reserve(size, first * backward),
            grad_second=_reserve(size, second * backward),
        )
        if attempt == 0:
            memory = np.empty(size[0] + ALIGNMENT // data.itemsize, data.dtype)
            skip = (-memory.ctypes.data % ALIGNMENT) // data.itemsize
            data = memory[skip : skip + size[0]]
    data[space.bank_first :] = 0
    data[space.flip : space.flip + shape.row] = -1
    data[space.flip + shape.scales] = 1
    return space


class Routes(NamedTuple):
    """Where the lanes of moments and banks belong in the output and in the filters.

    Entries ``start[k]`` to ``start[k + 1]`` are those of unit ``k`` (orders zero and one), or of
    block ``k`` less the number of units (order two).
    """

    start: Any
    lane: Any  # where a lane's four moments begin among those of the unit or block
    place: Any  # and where in the output for the first graph
    bank: Any  # where a lane's filter begins in the bank of the first or second order
    filter: Any  # and where in the filters; -1 for the signal, which has none


@inner
def make_routes(shape: Any, units: int, graphs: int) -> Any:
    """All routes, to outputs ``[models, graphs, paths, channels, 4]``."""
    scales, steps, parents, lanes = shape.scales, shape.steps, shape.parents, shape.lanes
    blocks = (units + shape.group - 1) // shape.group * shape.blocks
    most = units * (scales + 1 + parents * parents)
    start = np.zeros(units + blocks + 1, np.int64)
    lane, place, bank, source = (
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )
    count = 0
    for k in range(units + blocks):
        block = k - units
        for local in range(shape.row if block < 0 else parents * lanes):
            if block < 0:  # the wavelets of a unit, then its signal
                u, child = k, local
                path = 0 if child == scales else 1 + child
                valid = child <= scales
                begin = k * shape.padded_steps * shape.row + local
            else:
                child = local // lanes + shape.increasing
                number = block % shape.blocks * lanes + local % lanes
                u, parent = (
                    block // shape.blocks * shape.group + number // parents,
                    number % parents,
                )
                valid = number < shape.group * parents and u < units
                path = 1 + scales + parent * scales + child
                if shape.increasing:
                    valid = valid and child > parent
                    path = scales + parent * (2 * scales - 1 - parent) // 2 + child - parent
                begin = block * steps * parents * lanes + local
            if valid:
                model, channel = u // shape.channels, u % shape.channels
                row = model * graphs * shape.paths + path
                lane[count], place[count] = 4 * local, (row * shape.channels + channel) * 4
                bank[count] = begin
                source[count] = (u * scales + child) * steps if child < scales else -1
                count += 1
        start[k + 1] = count
    return Routes(start, lane, place, bank, source)


@inner
def pack_filters(shape: Any, routes: Any, units: int, filters: Any, space: Any) -> None:
    """Writes filters ``[units, scales, steps]`` to the banks of both orders."""
    for k in range(routes.start.size - 1):
        base = space.bank_first if k < units else space.bank_second
        stride = shape.row if k < units else shape.parents * shape.lanes
        for r in range(routes.start[k], routes.start[k + 1]):
            for s in range(shape.steps if routes.filter[r] >= 0 else 0):
                space.data[base + routes.bank[r] + s * stride] = filters[routes.filter[r] + s]


@inner
def unpack_gradients(shape: Any, routes: Any, units: int, space: Any, grad: Any) -> None:
    """The adjoint of :func:`pack_filters`: sums gradients of banks to those of filters."""
    grad[:] = 0
    for k in range(routes.start.size - 1):
        base = space.grad_first if k < units else space.grad_second
        stride = shape.row if k < units else shape.parents * shape.lanes
        for r in range(routes.start[k], routes.start[k + 1]):
            for s in range(shape.steps if routes.filter[r] >= 0 else 0):
                grad[routes.filter[r] + s] += space.data[base + routes.bank[r] + s * stride]


@inlined
def write_moments(routes: Any, k: int, space: Any, out: Any, place: int) -> None:
    """Writes the moments ``[lanes, 4]`` of a unit or block to a graph's place in the output."""
    four = zeros(out, 4, 1)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        value = load(four, space.data, space.moments + at(routes.lane, r))
        store(value, out, place + at(routes.place, r))


@inlined
def read_gradients(routes: Any, k: int, space: Any, grad: Any, place: int) -> None:
    """The adjoint of :func:`write_moments`; lanes without a path are not written."""
    four = zeros(grad, 4, 1)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        value = load(four, grad, place + at(routes.place, r))
        store(value, space.data, space.moments + at(routes.lane, r))
