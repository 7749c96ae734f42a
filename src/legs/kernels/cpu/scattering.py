"""The fused operator on the CPU: a compiled loop over the graphs of a batch, forward and backward.

See :mod:`legs.kernels.op` for what is computed. A *unit* is one channel of one model, with the
channels of a model padded; a *block* is as many units as fill a vector with their parents; and a
*chunk* is the channels of a block, which blocks of several models may share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

from legs.functional.bank import OPERATORS, Operator
from legs.functional.scattering import PathPolicy
from legs.kernels.cpu import filters as learned
from legs.kernels.cpu import orders, threads
from legs.kernels.cpu.graph import flat
from legs.kernels.cpu.jit import Constants, entry, inlined, inner
from legs.kernels.cpu.orders import Block, Order, Workspace
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
    logits: bool = False,
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``, or
    of logits ``[models, J, m]``.

    What backward would compute again is appended to the list ``record``, unless it is large.
    """
    prepared = _prepare(batch, filters, policy, logits, record is not None)
    (kernel, paths), args, parts = prepared
    sizes = (filters.shape[0], batch.ptr.shape[0] - 1, paths, batch.x.shape[1], 4)
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
    logits: bool = False,
) -> Tensor:
    """The gradient of what forward takes, from that of the moments ``out`` (not needed here).

    That of the signals is written to ``by_x``; of one model, and not of merged nodes.

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    shape = (len(grad), batch.x.shape[1], *filters.shape[-2:])
    # A record serves once, its buffers are overwritten; and none if only gradients are mapped over.
    if record and record[0][1][2].size == math.prod(shape):
        (kernel, _), args, parts = record.pop()
    else:
        (kernel, _), args, parts = _prepare(batch, filters, policy, logits, False)
    source, signals = flat(grad), None if by_x is None else flat(by_x)
    shares = np.zeros((len(parts), args[2].size), source.dtype)  # one per thread
    calls = zip(parts, shares, strict=True)
    threads.run([partial(kernel, *args, part, source, to, signals) for part, to in calls])
    change = torch.from_numpy(reduce(np.add, shares)).view(shape)
    return learned.backward(filters, change) if logits else change


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy, logits: bool, keep: bool
) -> tuple[tuple[Any, int], tuple[Any, ...], list[tuple[int, int, int, int]]]:
    """The kernel and its paths; its arguments: those of all threads, and the part of each."""
    if logits:
        filters = learned.forward(filters, batch.x.shape[1])
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
def _make_workspace(shape, rows, data, nodes, blocks):
    """Buffers from ``data`` on, and where the record of one block may be."""
    moments, row = 2 * blocks * shape.bank, rounded(nodes + UNROLL)
    before = moments + 4 * shape.size
    for k in range(before):
        put(data, k, 0)
    x = before + 3 * row
    signal = x + rounded(nodes * shape.chunks * shape.units)
    states = signal + nodes * shape.width
    factors = pointer(data, before), pointer(data, before + row), pointer(data, before + 2 * row)
    signals = pointer(data, x), pointer(data, signal), pointer(data, states)
    bank = pointer(data, 0), pointer(data, blocks * shape.bank)
    space = Workspace(rows, *factors, *signals, pointer(data, moments), *bank)
    return space, pointer(data, states + nodes * shape.states)


@inner
def _make_blocks(shape, n, data, block, low, space):
    """The orders of a block on a graph whose record, of blocks from ``low`` on, is at ``data``."""
    chunk, size = block % shape.chunks, n * shape.node + shape.fixed
    x, states = pointer(space.x, chunk * n * shape.units), pointer(data, chunk * n * shape.powers)
    first = pointer(data, shape.chunks * n * shape.powers + (block - low) * size)
    second, end = pointer(first, n * shape.width), pointer(first, size)
    means = pointer(end, -4 * shape.size - rounded(shape.units))
    bank = pointer(space.bank, block * shape.bank), pointer(space.grad, block * shape.bank)
    own = means, pointer(end, -rounded(shape.units)), *bank
    order_0 = Block(x, shape.units, states, x, first, *own)
    order_1 = Block(x, shape.units, states, first, first, *own)
    return order_0, order_1, Block(first, shape.width, space.states, second, second, *own)


@inlined
def _load_factors(shape, n, space):
    for i in range(n):
        degree = at(space.rows.degree, i)
        scale = 1.0 if shape.operator == 1 else np.sqrt(degree) if shape.operator == 2 else degree
        put(space.after, i, scale)
        put(space.before, i, 1 / scale)


@inlined
def _load_signals(shape, x, first, n, space):
    """Copies the signals of a graph by chunks; zeros for padding."""
    for chunk in range(shape.chunks):
        for i in range(n):
            node = first + at(space.rows.order, i)
            for k in range(shape.units):
                c = (chunk * shape.units + k) % shape.padded
                value = at(x, node * shape.channels + c) if c < shape.channels else 0
                put(space.x, (chunk * n + i) * shape.units + k, value)


@inlined
def _node_share(count, n):
    """The share of one node in means over the graph."""
    if count is None:
        return 1.0 / n
    total = 0.0
    for i in range(n):
        total += at(count, i)
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
        space, data = _make_workspace(shape, rows, start, nodes, blocks)
        _move_filters(shape, place, wavelet, filters, space.bank, False)
        fresh, total = grad is None or kept.size == 0, graphs.ptr.size - 1
        for g in range(begin, end):
            if at(graphs.ptr, g) == at(graphs.ptr, g + 1):
                continue
            node, n = load_graph(graphs, g, 1, rows)
            share = _node_share(rows.count, n)
            _load_factors(shape, n, space)
            if kept.size:
                start = node * (per_node + (blocks - 1) * shape.node) + g * blocks * shape.fixed
                data = pointer(kept, start)
            if fresh or by_x is not None:
                orders.energy_weights(n, space)
                _load_signals(shape, x, node, n, space)
            scale_places(rows, n, 1, first.lanes)
            for chunk in range(shape.chunks if fresh else 0):
                _, one, _ = _make_blocks(shape, n, data, chunk, chunk, space)
                orders.diffuse(first, n, one, space)
            scale_places(rows, n, first.lanes, second.lanes)
            for block in range(low, high):
                base = 0 if kept.size else block  # one record serves all blocks, unless it is kept
                none, one, two = _make_blocks(shape, n, data, block, base, space)
                if fresh:
                    orders.root_energy(zero, n, share, none, space)
                    orders.take_means(zero, n, share, none, space)
                    orders.apply_filters(first, n, one, space)
                    orders.take_means(first, n, share, one, space)
                orders.diffuse(second, n, two, space)
                if fresh:
                    orders.apply_filters(second, n, two, space)
                    orders.take_means(second, n, share, two, space)
                if grad is None:
                    orders.take_moments(zero, none, space)
                    orders.take_moments(first, one, space)
                    orders.take_moments(second, two, space)
                    _move_moments(shape, place, models, total, g, block, out, space, False)
                    continue
                _move_moments(shape, place, models, total, g, block, grad, space, True)
                orders.gradient_values(second, n, share, two, space)
                orders.gradient_filters(second, n, two, space)
                orders.gradient_signals(second, n, two, space)
                orders.gradient_values(first, n, share, one, space)
                orders.gradient_filters(first, n, one, space)
                if by_x is not None:
                    scale_places(rows, n, second.lanes, first.lanes)
                    orders.gradient_signals(first, n, one, space)
                    scale_places(rows, n, first.lanes, second.lanes)
                    orders.gradient_values(zero, n, share, none, space)
                    _move_signals(shape, n, share, node, block, none, by_x, space)
        if grad is not None:
            _move_filters(shape, place, wavelet, out, space.grad, True)
        return memory[0].size  # it has been in use until here

    return scatter


@inlined
def _move_filters(shape, place, wavelet, filters, bank, back):
    """Copies filters ``[models, channels, J, m]`` to the banks, or adds the banks to them."""
    for row in range(filters.size // (shape.scales * shape.steps)):
        unit = row // shape.channels * shape.padded + row % shape.channels
        block, k = unit // shape.units, unit % shape.units
        for path in range(1, wavelet.size):
            lane = block * shape.bank + place[path] + k
            source = (row * shape.scales + wavelet[path]) * shape.steps
            for s in range(shape.steps):
                if back:
                    filters[source + s] += at(bank, lane + s * shape.size)
                else:
                    put(bank, lane + s * shape.size, filters[source + s])


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
            for m in range(4):
                lane = place[path] + k + m * shape.size
                if back:
                    put(space.moments, lane, at(out, target + m))
                else:
                    put(out, target + m, at(space.moments, lane))
            target += 4 * shape.channels


@inlined
def _move_signals(shape, n, share, first, chunk, own, out, space):
    """Writes the gradient of the signals of a chunk, after that of their moments."""
    for k in range(min(shape.units, shape.channels - chunk * shape.units)):
        by_energy = 0.0
        for lane in range(k, shape.size, shape.units):
            by_energy += at(space.moments, lane)
        for i in range(n):
            cell = i * shape.units + k
            total = 2 * share * by_energy * at(space.energy, i) * at(own.z, cell)
            total += at(own.slopes, cell) + at(space.signal, cell)
            node = first + at(space.rows.order, i)
            put(out, node * shape.channels + chunk * shape.units + k, total)
