"""The fused operator on the CPU: a compiled loop over the graphs of a batch, forward and backward.

See :mod:`legs.kernels.op` for what is computed. A *unit* is one channel of one model. A *lane* is
one parent wavelet of one unit; a *block* is as many units as fill the lanes of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.functional.scattering import PathPolicy
from legs.kernels.cpu import orders, threads
from legs.kernels.cpu.filters import fill_filters
from legs.kernels.cpu.graph import array_of, flat
from legs.kernels.cpu.jit import Constants, entry, inlined, inner, merged
from legs.kernels.cpu.orders import Record, Workspace
from legs.kernels.cpu.simd import at, load, pointer, put, store, zeros
from legs.kernels.cpu.walk import (
    UNROLL,
    allocate,
    load_graph,
    make_graphs,
    multiply_places,
    rounded,
)
from legs.kernels.csr import Batch

# Elements that forward leaves for backward, at most: they should stay in cache.
MAX_RECORD = 2**20


@dataclass(frozen=True)
class Shape(Constants):
    """Sizes that are known at compile time."""

    channels: int
    scales: int
    steps: int
    padded_steps: int  # a multiple of UNROLL
    parents: int  # wavelets with children; also the number of children, at most
    lanes: int  # of the second order of a block
    row: int  # lanes of the first order of a unit: the wavelets, the signal, padding
    wide: int  # all children of a node are a vector of so many lanes
    parts: int  # and parts
    group: int  # units of a block
    second: int  # where the second order begins, after the rows of all units
    size: int  # lanes of both orders
    width: int  # channels that are diffused together
    powers: int  # elements of a record: per node, walk powers
    node: int  # per node and block
    fixed: int  # per graph and block


@lru_cache(maxsize=256)
def make_shape(
    units: int, channels: int, scales: int, steps: int, increasing: bool, itemsize: int
) -> tuple[Shape, int, Any]:
    """Sizes of a kernel, the number of paths, and the kernel."""
    parents = scales - increasing
    # As many lanes as a vector of the CPU has, or half if they suffice.
    features = llvmlite.binding.get_host_cpu_features()
    widest = (64 if features.get("avx512f") else 32) // itemsize
    lanes = widest if units * parents > widest // 2 else max(widest // 2, 4)
    lanes = max(lanes, 1 << (parents - 1).bit_length())
    double = 1 + (2 * lanes <= widest and parents % 2 == 0)  # two children share a vector
    row = max(4, 1 << scales.bit_length())  # at least scales + 1
    group = min(units, lanes // parents)
    second = -(-group * row // lanes) * lanes
    pairs = [
        (parent, child)
        for parent in range(parents)
        for child in range(increasing * (parent + 1), scales)
    ]
    places = [
        [unit * row + wavelet for wavelet in (scales, *range(scales))]
        + [second + (b - increasing) * lanes + unit * parents + a for a, b in pairs]
        for unit in range(group)
    ]
    wavelets = [-1, *range(scales), *(child for _, child in pairs)]
    padded = -(-steps // UNROLL) * UNROLL
    size = second + parents * lanes
    width = min(lanes, 1 << (channels - 1).bit_length())
    powers = padded * -(-channels // width) * width
    node = group * row + parents * lanes
    fixed = UNROLL * row + 4 * size + lanes
    sizes = (parents, lanes, row, double * lanes, parents // double, group, second, size)
    shape = Shape(channels, scales, steps, padded, *sizes, width, powers, node, fixed)
    return shape, len(wavelets), _make_kernel(shape, np.array(places), np.array(wavelets))


def forward(
    batch: Batch,
    filters: Tensor,
    policy: PathPolicy,
    record: Any = None,
    logits: Tensor | None = None,
) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``.

    What backward would compute again is appended to the list ``record``, unless it is large. With
    ``logits``, ``[models, J, m]``, their filters are written first.
    """
    (kernel, paths), args, parts = prepared = _prepare(batch, filters, policy, record is not None)
    sizes = (filters.shape[0], batch.ptr.shape[0] - 1, paths, filters.shape[1], 4)
    out, scales = np.zeros(sizes, args[1].dtype), None if logits is None else array_of(logits)
    target = out.reshape(-1)
    threads.run([partial(kernel, *args, part, None, target, scales, None) for part in parts])
    if record is not None and args[-1].size:
        record.append(prepared)
    return torch.from_numpy(out)


def backward(
    batch: Batch,
    filters: Tensor,
    grad: Tensor,
    out: Tensor,
    policy: PathPolicy,
    record: Any = None,
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
    threads.run([partial(kernel, *args, part, source, to, None, signals) for part, to in calls])
    return torch.from_numpy(reduce(np.add, shares)).view(filters.shape)


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy, keep: bool
) -> tuple[Any, tuple[Any, ...], list[tuple[int, int, int, int]]]:
    """The kernel and its paths; its arguments: those of all threads, and the part of each."""
    models, channels, scales, steps = filters.shape
    units, x = models * channels, flat(batch.x)
    increasing = policy == "increasing"
    shape, paths, kernel = make_shape(units, channels, scales, steps, increasing, filters.itemsize)
    graphs = make_graphs(batch.rowptr, batch.col, batch.weight, batch.ptr, batch.multiplicity)
    powers = x[:0] if batch.powers is None else flat(batch.powers)
    count, total, blocks = torch.get_num_threads(), graphs.ptr.size - 1, -(-units // shape.group)
    if count == 1 or total == 0:
        ranges = [(0, total, 0, blocks)]
    elif total < 4 * count <= blocks * total:
        ranges = [(0, total, *part) for part in threads.split(np.arange(blocks + 1), count)]
    else:  # a node costs about as much as eight entries
        work = 8 * graphs.ptr + graphs.rowptr[graphs.ptr]
        ranges = [(*part, 0, blocks) for part in threads.split(work, count)]
    size = batch.x.shape[0] * (shape.powers + blocks * shape.node) + total * blocks * shape.fixed
    size = size + UNROLL * shape.powers if keep and size < MAX_RECORD else 0  # read beyond its end
    kept = torch.empty(size, dtype=filters.dtype)
    return (kernel, paths), (graphs, x, powers, flat(filters), kept.numpy()), ranges


@inner
def _make_workspace(shape, rows, place, nodes, blocks):
    """Buffers from ``place`` on; also where the record of one block may be."""
    states, bank = nodes * shape.lanes, blocks * shape.padded_steps * shape.size
    moments = place + rounded(2 * shape.row)
    filters = moments + 4 * shape.size
    signal = filters + 2 * bank
    x = signal + states * (shape.steps + 1)
    energy = x + rounded(nodes * shape.channels + shape.width)
    for k in range(place, signal):
        put(rows.data, k, 0)
    for k in range(shape.scales):
        put(rows.data, place + k, -1)
    for k in range(shape.parents):
        put(rows.data, place + shape.row + k, 1)
    put(rows.data, place + shape.scales, 1)
    places = signal + states, signal, x, energy, place, moments, filters, filters + bank
    return Workspace(rows, rows.data, *places), energy + rounded(nodes)


@inner
def _make_record(shape, given, n, data, place, block):
    """The record of a block on a graph whose record begins at ``place``."""
    apart, node, step = shape.padded_steps * n * shape.width, shape.width, n * shape.width
    if given:
        apart, node, step = shape.width, shape.steps * shape.channels, shape.channels
    first = place + n * shape.powers + block * (n * shape.node + shape.fixed)
    second = first + n * shape.group * shape.row
    means = second + n * shape.parents * shape.lanes + UNROLL * shape.row
    root = means + 4 * shape.size
    return Record(data, place, apart, node, step, first, second, means, root)


def _make_kernel(shape: Shape, lane: NDArray[Any], wavelet: NDArray[Any]) -> Any:
    """The kernel, in which sizes and places are constants: as arguments they take time."""

    @entry
    def scatter(graphs, x, powers, filters, kept, part, grad, out, logits, by_x):
        """Moments of some graphs and blocks.

        Args:
            kept: where forward leaves what it has computed for backward; or empty.
            part: first and last graph, first and last block.
            grad: ``None``, or the gradient of the moments ``[models, graphs, paths, channels, 4]``.
            out: written, the moments; or, with ``grad``, what these graphs and units contribute to
                the gradient of the filters ``[units, scales, steps]``.
            logits: ``None``, or those whose filters are written first.
            by_x: ``None``, or written, the gradient of the signals of one model.
        """
        if logits is not None:  # every thread writes the same
            fill_filters(logits, filters.reshape(logits.shape[0], -1, shape.scales, shape.steps))
        begin, end, low, high = part
        units, size = filters.size // (shape.scales * shape.steps), shape.padded_steps * shape.size
        blocks, total = (units + shape.group - 1) // shape.group, graphs.ptr.size - 1
        each = (shape.steps + 1) * shape.lanes + shape.channels + 1 + shape.powers + shape.node
        fixed = 2 * (blocks * size + shape.row) + 4 * shape.size + shape.fixed
        fixed += UNROLL * (shape.powers + shape.lanes + 6)  # to read beyond, and to round
        memory, rows, place, nodes = allocate(graphs, begin, end, x, each, fixed)
        space, own = _make_workspace(shape, rows, place, nodes, blocks)
        _move_filters(shape, lane, wavelet, filters, space.bank, space.data, False)
        fresh, given = grad is None or kept.size == 0, powers.size > 0
        for g in range(begin, end):
            if at(graphs.ptr, g) == at(graphs.ptr, g + 1):
                continue
            first, n = load_graph(graphs, g, 1, rows)
            if fresh or by_x is not None:
                orders.energy_weights(n, space)
            data, start, many = rows.data, own, 0
            if kept.size:
                data, many = pointer(kept, 0), 1
                start = first * (shape.powers + blocks * shape.node) + g * blocks * shape.fixed
            if fresh:
                record = _make_record(shape, given, n, data, start, low * many)
                multiply_places(rows, n, shape.width)
                orders.load_signals(
                    shape, pointer(x, 0), pointer(powers, 0), given, first, n, space, record
                )
            multiply_places(rows, n, shape.lanes // shape.width if fresh else shape.lanes)
            share = _node_share(rows.counts, rows.multiplicity, n)
            for block in range(low, high):
                a, bank = block * shape.group, space.bank + block * size
                b = min(units, a + shape.group)
                record = _make_record(shape, given, n, data, start, block * many)
                if fresh:
                    orders.first_order(shape, n, share, a, b, bank, space, record)
                orders.diffuse_parents(shape, n, b - a, space, record)
                if fresh:
                    orders.second_order(shape, n, share, bank + shape.second, space, record)
                if grad is None:
                    _moments(shape, b - a, space, record)
                    _move_moments(shape, lane, total, g, a, b, out, space, False)
                else:
                    _move_moments(shape, lane, total, g, a, b, grad, space, True)
                    gradient = bank + space.grad - space.bank
                    _gradients(shape, n, share, a, b, bank, gradient, space, record)
                    if by_x is not None:
                        orders.gradient_signals(
                            shape, n, share, a, b, bank, x, first, by_x, space, record
                        )
        if grad is not None:
            _move_filters(shape, lane, wavelet, out, space.grad, space.data, True)
        return memory[0].size  # it has been in use until here

    return scatter


@inlined
def _node_share(counts, place, n):
    """The share of one node in means over the graph."""
    if counts is None:
        return 1.0 / n
    total = 0.0
    for i in range(place, place + n):
        total += at(counts, i)
    return 1.0 / max(total, 1.0)


@inlined
def _move_filters(shape, lane, wavelet, filters, bank, data, back):
    """Copies filters ``[units, scales, steps]`` to the banks, or adds the banks to them."""
    for u in range(filters.size // (shape.scales * shape.steps)):
        block, k = u // shape.group, u % shape.group
        for path in range(1, wavelet.size):
            place = bank + block * shape.padded_steps * shape.size + lane[k, path]
            source = (u * shape.scales + wavelet[path]) * shape.steps
            for s in range(shape.steps):
                if back:
                    filters[source + s] += at(data, place + s * shape.size)
                else:
                    put(data, place + s * shape.size, filters[source + s])


@inlined
def _move_moments(shape, lane, graphs, g, low, high, out, space, back):
    """Copies the moments of a block to a graph's place in the output, or back."""
    paths = lane.shape[1]
    for k in range(high - low):
        model, channel = (low + k) // shape.channels, (low + k) % shape.channels
        target = 4 * ((model * graphs + g) * paths * shape.channels + channel)
        for path in range(paths):
            source = space.moments + lane[k, path]
            for m in range(4):
                if back:
                    put(space.data, source + m * shape.size, at(out, target + m))
                else:
                    put(out, target + m, at(space.data, source + m * shape.size))
            target += 4 * shape.channels


@merged
def _moments(shape, units, space, record):
    """Writes the moments of a block to the workspace."""
    line, wide = zeros(space.data, shape.row, 1), zeros(space.data, shape.wide, shape.parts)
    for k in range(units):
        root = line + at(record.data, record.root + k * shape.parents)
        _moments_of(shape, line, k * shape.row, root, space, record)
    root = wide + load(zeros(space.data, shape.lanes, 1), record.data, record.root)
    _moments_of(shape, wide, shape.second, root, space, record)


@inlined
def _moments_of(shape, like, place, root, space, record):
    """Writes the moments of the lanes from ``place`` on."""
    means = orders.four_rows(like, record.data, record.means + place, shape.size)
    moments = orders.moments_of(means[0], means[1:], root * root)
    for m in range(4):
        store(moments[m], space.data, space.moments + m * shape.size + place)


@inlined
def _cubic(shape, like, place, root, share, space, record):
    """The mean of the lanes from ``place`` on, and their gradient as a cubic.

    The gradient in the energy replaces that of the mean.
    """
    means = orders.four_rows(like, record.data, record.means + place, shape.size)
    slopes = orders.four_rows(like, space.data, space.moments + place, shape.size)
    cubic, by_energy = orders.gradient_cubic(slopes, share, means[1:], root)
    store(by_energy, space.data, space.moments + place)
    return means[0], cubic


@merged
def _gradients(shape, n, share, low, high, bank, grad, space, record):
    """Adds what a block on one graph contributes to ``grad``, the gradient of its bank."""
    line, wide = zeros(space.data, shape.row, 1), zeros(space.data, shape.wide, shape.parts)
    root = wide + load(zeros(space.data, shape.lanes, 1), record.data, record.root)
    means, cubics = _cubic(shape, wide, shape.second, root, share, space, record)
    second, grad_second = bank + shape.second, grad + shape.second
    orders.gradient_second(shape, n, means, cubics, second, grad_second, space, record)
    for k in range(high - low):
        root_k = line + at(record.data, record.root + k * shape.parents)
        mean, cubic = _cubic(shape, line, k * shape.row, root_k, share, space, record)
        c = (low + k) % shape.channels
        orders.gradient_first(shape, n, c, k, grad, mean, cubic, space, record)
