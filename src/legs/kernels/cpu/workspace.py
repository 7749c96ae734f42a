"""What a scattering kernel is compiled for, what it reads, and the buffers it works in.

A *unit* is one channel of one model. A *lane* is one parent wavelet of one unit; a *block* is as
many lanes as are processed together, and a *group* as many units as fill whole blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np

from legs.kernels.cpu.jit import Constants, inlined, inner
from legs.kernels.cpu.simd import at, len_of, load, put, store

UNROLL = 8  # independent sums of the first order: each has to wait for its own additions
ALIGNMENT = 64  # bytes, a cache line


@dataclass(frozen=True)
class Shape(Constants):
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


@lru_cache(maxsize=256)
def make_shape(
    units: int, channels: int, scales: int, steps: int, increasing: bool, itemsize: int
) -> Shape:
    """The sizes of a kernel; ``itemsize`` is in bytes."""
    parents = scales - 1 if increasing else scales
    # As many lanes as a vector of the CPU has, or half if they suffice.
    features = llvmlite.binding.get_host_cpu_features()
    widest = (64 if features.get("avx512f") else 32) // itemsize
    lanes = widest if units * parents > widest // 2 else max(widest // 2, 4)
    group = min(units, lanes // math.gcd(lanes, parents))
    return Shape(
        channels=channels,
        scales=scales,
        steps=steps,
        padded_steps=-(-steps // UNROLL) * UNROLL,
        increasing=int(increasing),
        paths=1 + scales + (scales * parents // 2 if increasing else scales * scales),
        parents=parents,
        lanes=lanes,
        row=max(4, 1 << scales.bit_length()),  # at least scales + 1
        group=group,
        blocks=-(-group * parents // lanes),
        together=int(lanes % parents == 0),
    )


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


class Inputs(NamedTuple):
    """Graphs, signals and filters, as flat arrays."""

    units: int
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
    place: int  # where its moments begin in the output of a model
    apart: int  # from one model to the next in the output


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
    data: Any  # all other buffers, after filters of the first order, [units, padded steps, row]
    weights: Any  # data, or None without edge weights
    counts: Any  # data, or None without multiplicities
    edge_weight: int  # [entries]
    node_count: int  # [n] multiplicities
    degree: int  # [n]
    inverse: int  # [n] of the degree
    energy_weight: int  # [n] see graph.energy_weights
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
    ping: int  # [2, n, lanes] of the backward recurrence, or scratch
    bank: int  # filters of the second order, [groups, blocks, steps, children, lanes]
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
    groups = (inputs.units + shape.group - 1) // shape.group
    width, block = shape.parents * shape.lanes, nodes * shape.lanes
    first = inputs.units * shape.padded_steps * shape.row
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
            bank=first,
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


@inner
def pack_filters(shape: Any, routes: Any, inputs: Any, space: Any) -> None:
    """Writes filters ``[units, scales, steps]`` to the banks of both orders."""
    start, bank, source = routes.start, routes.bank, routes.filter
    data, filters = space.data, inputs.filters
    for k in range(start.size - 1):
        stride = shape.row if k < inputs.units else shape.parents * shape.lanes
        for r in range(start[k], start[k + 1]):
            for s in range(shape.steps if source[r] >= 0 else 0):
                data[bank[r] + s * stride] = filters[source[r] + s]


@inner
def unpack_gradients(shape: Any, routes: Any, inputs: Any, space: Any, grad: Any) -> None:
    """The adjoint of :func:`pack_filters`: sums gradients of banks to those of filters."""
    start, bank, source = routes.start, routes.bank, routes.filter
    data, begin = space.data, space.grad
    grad[:] = 0
    for k in range(start.size - 1):
        stride = shape.row if k < inputs.units else shape.parents * shape.lanes
        for r in range(start[k], start[k + 1]):
            for s in range(shape.steps if source[r] >= 0 else 0):
                grad[source[r] + s] += data[begin + bank[r] + s * stride]


@inlined
def write_moments(routes: Any, k: int, moments: Any, graph: Any, out: Any, space: Any) -> None:
    """Writes the four moments of the lanes of a unit or block to a graph's place in the output."""
    data, start, width = space.data, space.moments, len_of(moments[0])
    for m in range(4):
        store(moments[m], data, start + m * width)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        place = at(routes.model, r) * graph.apart + graph.place + at(routes.place, r)
        for m in range(4):
            put(out, place + m, at(data, start + m * width + at(routes.lane, r)))


@inlined
def read_gradients(routes: Any, k: int, zero: Any, graph: Any, grad: Any, space: Any) -> Any:
    """The adjoint of :func:`write_moments`: four vectors like ``zero``, zero without a path."""
    data, start, width = space.data, space.moments, len_of(zero)
    for m in range(4):
        store(zero, data, start + m * width)
    for r in range(at(routes.start, k), at(routes.start, k + 1)):
        place = at(routes.model, r) * graph.apart + graph.place + at(routes.place, r)
        for m in range(4):
            put(data, start + m * width + at(routes.lane, r), at(grad, place + m))
    by_mean, by_variance = load(zero, data, start), load(zero, data, start + width)
    start += 2 * width
    return by_mean, by_variance, load(zero, data, start), load(zero, data, start + width)
