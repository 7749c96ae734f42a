"""The fused operator on the CPU: a compiled loop over the graphs of a batch, forward and backward.

See :mod:`legs.kernels.op` for what is computed. A *unit* is one channel of one model, with the
channels of a model padded; a *block* is as many units as fill a vector with their parents; and a
*chunk* is the channels of a block, which blocks of several models may share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

from legs.functional.bank import OPERATORS, Operator
from legs.functional.scattering import PathPolicy
from legs.kernels.cpu import orders, threads
from legs.kernels.cpu.graph import flat
from legs.kernels.cpu.jit import Constants, entry, inlined, inner
from legs.kernels.cpu.orders import Order, Record, Workspace
from legs.kernels.cpu.simd import at, pointer, put
from legs.kernels.cpu.walk import (
    ALIGNMENT,
    UNROLL,
    allocate,
    load_graph,
    make_graphs,
    rounded,
    scale_places,
)
from legs.kernels.csr import Batch

# Elements that forward leaves for backward, at most: they should stay in cache.
MAX_RECORD = 2**20


@dataclass(frozen=True)
class Shape(Constants):
    """Sizes that are known at compile time."""

    operator: int  # its place in OPERATORS
    channels: int
    padded: int  # channels of a model, and those that fill the last block
    scales: int
    steps: int
    units: int  # of a block
    chunks: int
    size: int  # lanes of the results of all orders
    width: int  # of the first order's results, at least that of the second order's signals
    bank: int  # elements of the filters of a block
    states: int  # of states of the second order, per node
    powers: int  # of a record, per node and chunk: states of the first order
    node: int  # per node and block
    fixed: int  # per graph and block


def _power(number: int) -> int:
    """The power of two from ``number`` on."""
    return 1 << (number - 1).bit_length()


@lru_cache(maxsize=256)
def make_shape(
    units: int,
    channels: int,
    scales: int,
    steps: int,
    increasing: bool,
    itemsize: int,
    operator: Operator,
) -> tuple[Shape, int, Any]:
    """Sizes of a kernel, the number of paths, and the kernel."""
    features = llvmlite.binding.get_host_cpu_features()
    widest = (64 if features.get("avx512f") else 32) // itemsize
    parents = scales - increasing  # also the number of children, at most
    group = min(max(widest // _power(parents), 1), _power(units))
    padded = _power(channels) if channels <= group else -(-channels // group) * group
    lanes = group * _power(parents)  # of the second order
    padded_steps = -(-steps // UNROLL) * UNROLL

    def layout(lanes: int, wavelets: int, least: int = 0) -> tuple[int, int, int, int]:
        wide = max(lanes, min(widest, lanes * _power(wavelets)))
        parts = -(-max(lanes * wavelets, least) // wide)
        return lanes, wide, parts, wide * parts

    one, two = layout(group, scales, lanes), layout(lanes, parents)  # parents are read as a vector
    begin = one[-1] + two[-1]
    size = -(-(begin + group) // 16) * 16
    same = size, steps, group
    zero = Order(0, group, group, 1, group, begin, *same)
    first, second = Order(1, *one, 0, *same), Order(2, *two, one[-1], *same)
    pairs = [(a, b) for a in range(parents) for b in range(increasing * (a + 1), scales)]
    places = [zero.begin, *range(0, scales * group, group)]
    places += [second.begin + (b - increasing) * lanes + a * group for a, b in pairs]
    wavelets = [-1, *range(scales), *(child for _, child in pairs)]
    fixed = UNROLL * max(first.width, second.width) + 4 * size + -(-group // 16) * 16
    numbers = OPERATORS.index(operator), channels, padded, scales, steps, group
    elements = padded_steps * size, padded_steps * lanes, padded_steps * group, begin, fixed
    shape = Shape(*numbers, max(1, padded // group), size, first.width, *elements)
    kernel = _make_kernel(shape, zero, first, second, np.array(places), np.array(wavelets))
    return shape, len(wavelets), kernel


def forward(
    batch: Batch,
    filters: Tensor,
    policy: PathPolicy,
    record: list[Any] | None = None,
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``.

    What backward would compute again is appended to the list ``record``, unless it is large.
    """
    (kernel, paths), args, parts = prepared = _prepare(batch, filters, policy, record is not None)
    sizes = (filters.shape[0], batch.ptr.shape[0] - 1, paths, filters.shape[1], 4)
    out = np.zeros(sizes, args[1].dtype)
    target = out.reshape(-1)
    threads.run([partial(kernel, *args, part, None, target, None) for part in parts])
    if record is not None and args[-1].size:
        record.append(prepared)
    return torch.from_numpy(out)


def backward(
    batch: Batch,
    filters: Tensor,
    grad: Tensor,
    out: Tensor,
    policy: PathPolicy,
    record: list[Any] | None = None,
    by_x: Tensor | None = None,
) -> Tensor:
    """The gradient of the filters, from that of the moments (``out`` is not needed here).

    That of the signals is written to ``by_x``; of one model, and not of merged nodes.

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    # A record serves once: its buffers are overwritten.
    (kernel, _), args, parts = record.pop() if record else _prepare(batch, filters, policy, False)
    source, signals = flat(grad), None if by_x is None else flat(by_x)
    shares = np.zeros((len(parts), filters.numel()), source.dtype)  # one per thread
    calls = zip(parts, shares, strict=True)
    threads.run([partial(kernel, *args, part, source, to, signals) for part, to in calls])
    return torch.from_numpy(reduce(np.add, shares)).view(filters.shape)


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy, keep: bool
) -> tuple[tuple[Any, int], tuple[Any, ...], list[tuple[int, int, int, int]]]:
    """The kernel and its paths; its arguments: those of all threads, and the part of each."""
    models, channels, scales, steps = filters.shape
    sizes = (channels, scales, steps, policy == "increasing", filters.itemsize, batch.operator)
    shape, paths, kernel = make_shape(models * channels, *sizes)
    graphs = make_graphs(batch.rowptr, batch.col, batch.weight, batch.ptr, batch.multiplicity)
    total, blocks = graphs.ptr.size - 1, -(-models * shape.padded // shape.units)
    count = torch.get_num_threads()
    if count == 1 or total == 0:
        ranges = [(0, total, 0, blocks)]
    elif total < 4 * count <= blocks * total:
        ranges = [(0, total, *part) for part in threads.split(np.arange(blocks + 1), count)]
    else:  # a node costs about as much as eight entries
        work = 8 * graphs.ptr + graphs.rowptr[graphs.ptr]
        ranges = [(*part, 0, blocks) for part in threads.split(work, count)]
    node, fixed = shape.chunks * shape.powers + blocks * shape.node, blocks * shape.fixed
    size = batch.x.shape[0] * node + total * fixed
    x, mixed = flat(batch.x), flat(filters)
    kept = np.empty(size if keep and size < MAX_RECORD else 0, x.dtype)
    return (kernel, paths), (graphs, x, mixed, kept), ranges


@inner
def _make_workspace(shape, rows, place, nodes, blocks):
    """Buffers from ``place`` on; also where the record of one block may be."""
    bank = blocks * shape.bank
    moments = place + 2 * bank
    for k in range(place, moments + 4 * shape.size):
        put(rows.data, k, 0)
    before = moments + 4 * shape.size
    after = before + rounded(nodes + UNROLL)
    energy = after + rounded(nodes + UNROLL)
    x = energy + rounded(nodes)
    signal = x + rounded(nodes * shape.chunks * shape.units)
    states = signal + nodes * shape.width
    places = before, after, energy, x, signal, states, moments, place, place + bank
    return Workspace(rows, rows.data, *places), states + nodes * shape.states


@inner
def _make_record(shape, n, data, place, chunk, block):
    """The record of a block on a graph whose record begins at ``place``."""
    states = place + chunk * n * shape.powers
    first = place + shape.chunks * n * shape.powers + block * (n * shape.node + shape.fixed)
    means = first + n * shape.node + shape.fixed - 4 * shape.size - rounded(shape.units)
    return Record(data, states, first, first + n * shape.width, means, means + 4 * shape.size)


@inlined
def _load_factors(shape, n, space):
    for i in range(n):
        degree = at(space.data, space.rows.degree + i)
        scale = np.sqrt(degree) if shape.operator == 2 else degree
        scale = space.rows.one if shape.operator == 1 else scale
        put(space.data, space.after + i, scale)
        put(space.data, space.before + i, space.rows.one / scale)


@inlined
def _load_signals(shape, x, first, n, space):
    """Copies the signals of a graph by chunks; zeros for padding."""
    for chunk in range(shape.chunks):
        for i in range(n):
            node = first + at(space.rows.order, i)
            for k in range(shape.units):
                value, c = space.rows.one - space.rows.one, (chunk * shape.units + k) % shape.padded
                if c < shape.channels:
                    value = at(x, node * shape.channels + c)
                put(space.data, space.x + (chunk * n + i) * shape.units + k, value)


@inlined
def _node_share(counts, place, n):
    """The share of one node in means over the graph."""
    if counts is None:
        return 1.0 / n
    total = 0.0
    for i in range(place, place + n):
        total += at(counts, i)
    return 1.0 / max(total, 1.0)


def _make_kernel(
    shape: Shape, zero: Order, first: Order, second: Order, place: Any, wavelet: Any
) -> Any:
    """The kernel, in which sizes and places are constants: as arguments they take time."""

    @entry
    def scatter(graphs, x, filters, kept, part, grad, out, by_x):
        """Moments of some graphs and blocks.

        Args:
            kept: where forward leaves what it has computed for backward; or empty.
            part: first and last graph, first and last block.
            grad: ``None``, or the gradient of the moments ``[models, graphs, paths, channels, 4]``.
            out: written, the moments; or, with ``grad``, what these graphs and units contribute to
                the gradient of the filters ``[models, channels, scales, steps]``.
            by_x: ``None``, or written, the gradient of the signals of one model.
        """
        begin, end, low, high = part
        models = filters.size // (shape.channels * shape.scales * shape.steps)
        blocks = (models * shape.padded + shape.units - 1) // shape.units
        per_node = shape.chunks * shape.powers + shape.node
        each = per_node + shape.chunks * shape.units + shape.width + shape.states + 3
        fixed = 2 * blocks * shape.bank + 4 * shape.size + shape.fixed
        fixed += UNROLL * (2 + second.lanes) + 8 * ALIGNMENT
        memory, rows, start, nodes = allocate(graphs, begin, end, x, each, fixed)
        space, own = _make_workspace(shape, rows, start, nodes, blocks)
        _move_filters(shape, place, wavelet, filters, space.bank, space.data, False)
        fresh, total = grad is None or kept.size == 0, graphs.ptr.size - 1
        for g in range(begin, end):
            if at(graphs.ptr, g) == at(graphs.ptr, g + 1):
                continue
            node, n = load_graph(graphs, g, 1, rows)
            share = _node_share(rows.counts, rows.multiplicity, n)
            _load_factors(shape, n, space)
            data, start, many = rows.data, own, 0
            if kept.size:
                data, many = pointer(kept, 0), 1
                start = node * (per_node + (blocks - 1) * shape.node) + g * blocks * shape.fixed
            if fresh or by_x is not None:
                orders.energy_weights(n, space)
                _load_signals(shape, x, node, n, space)
            scale_places(rows, n, 1, first.lanes)
            for chunk in range(shape.chunks if fresh else 0):
                record = _make_record(shape, n, data, start, chunk, low * many)
                signals, line = space.x + chunk * n * shape.units, shape.units
                states, source = record.states, record.first
                orders.diffuse(first, n, space.data, signals, line, data, source, states, space)
            scale_places(rows, n, first.lanes, second.lanes)
            for block in range(low, high):
                chunk = block % shape.chunks
                record = _make_record(shape, n, data, start, chunk, block * many)
                signals, states = space.x + chunk * n * shape.units, space.states
                bank = space.bank + block * shape.bank
                z, width = record.first, first.width
                if fresh:
                    orders.root_energy(zero, n, share, signals, space, record)
                    orders.take_means(zero, n, share, space.data, signals, space, record)
                    orders.apply_filters(first, n, bank, data, record.states, z, space, record)
                    orders.take_means(first, n, share, data, z, space, record)
                orders.diffuse(second, n, data, z, width, space.data, space.signal, states, space)
                z = record.second
                if fresh:
                    orders.apply_filters(second, n, bank, space.data, states, z, space, record)
                    orders.take_means(second, n, share, data, z, space, record)
                if grad is None:
                    orders.take_moments(zero, space, record)
                    orders.take_moments(first, space, record)
                    orders.take_moments(second, space, record)
                    _move_moments(shape, place, models, total, g, block, out, space, False)
                    continue
                _move_moments(shape, place, models, total, g, block, grad, space, True)
                change = bank + space.grad - space.bank
                orders.gradient_values(second, n, share, data, z, data, z, space, record)
                orders.gradient_filters(second, n, space.data, states, z, change, space, record)
                orders.gradient_signals(
                    second, n, bank, space.data, states, z, width, space, record
                )
                z, states = record.first, record.states
                orders.gradient_values(first, n, share, data, z, data, z, space, record)
                orders.gradient_filters(first, n, data, states, z, change, space, record)
                if by_x is not None:
                    scale_places(rows, n, second.lanes, first.lanes)
                    line = first.lanes
                    orders.gradient_signals(first, n, bank, data, states, z, line, space, record)
                    scale_places(rows, n, first.lanes, second.lanes)
                    orders.gradient_values(
                        zero, n, share, space.data, signals, data, z, space, record
                    )
                    _move_signals(shape, n, share, node, chunk, z, signals, by_x, space, record)
        if grad is not None:
            _move_filters(shape, place, wavelet, out, space.grad, space.data, True)
        return memory[0].size  # it has been in use until here

    return scatter


@inlined
def _move_filters(shape, place, wavelet, filters, bank, data, back):
    """Copies filters ``[models, channels, J, m]`` to the banks, or adds the banks to them."""
    for row in range(filters.size // (shape.scales * shape.steps)):
        unit = row // shape.channels * shape.padded + row % shape.channels
        block, k = unit // shape.units, unit % shape.units
        for path in range(1, wavelet.size):
            lane = bank + block * shape.bank + place[path] + k
            source = (row * shape.scales + wavelet[path]) * shape.steps
            for s in range(shape.steps):
                if back:
                    filters[source + s] += at(data, lane + s * shape.size)
                else:
                    put(data, lane + s * shape.size, filters[source + s])


@inlined
def _move_moments(shape, place, models, graphs, g, block, out, space, back):
    """Copies the moments of a block to a graph's place in the output, or back."""
    for k in range(shape.units):
        unit = block * shape.units + k
        model, channel = unit // shape.padded, unit % shape.padded
        if model >= models or channel >= shape.channels:
            continue
        target = 4 * ((model * graphs + g) * place.size * shape.channels + channel)
        for path in range(place.size):
            lane = space.moments + place[path] + k
            for m in range(4):
                if back:
                    put(space.data, lane + m * shape.size, at(out, target + m))
                else:
                    put(out, target + m, at(space.data, lane + m * shape.size))
            target += 4 * shape.channels


@inlined
def _move_signals(shape, n, share, first, chunk, z, signals, out, space, record):
    """Writes the gradient of the signals of a chunk, after that of their moments at ``z``."""
    data, rows = space.data, space.rows
    for k in range(min(shape.units, shape.channels - chunk * shape.units)):
        by_energy = rows.one - rows.one
        for lane in range(k, shape.size, shape.units):
            by_energy += at(data, space.moments + lane)
        for i in range(n):
            cell = i * shape.units + k
            total = at(record.data, z + cell) + at(data, space.signal + cell)
            energy = at(data, space.energy + i) * by_energy * 2.0 * share
            total += energy * at(data, signals + cell)
            put(out, (first + at(rows.order, i)) * shape.channels + chunk * shape.units + k, total)
