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
from legs.kernels.cpu.graph import flat
from legs.kernels.cpu.jit import Constants, entry, inlined, merged
from legs.kernels.cpu.orders import UNROLL
from legs.kernels.cpu.simd import at, load, put, store, zeros
from legs.kernels.cpu.walk import Workspace, load_graph, make_graphs, make_workspace
from legs.kernels.csr import Batch


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
    group: int  # units of a block
    second: int  # where the second order begins, after the rows of all units
    size: int  # lanes of both orders


@lru_cache(maxsize=256)
def make_shape(
    units: int, channels: int, scales: int, steps: int, increasing: bool, itemsize: int
) -> tuple[Shape, tuple[NDArray[Any], NDArray[Any]]]:
    """Sizes of a kernel; the lane of each path of a block's units, and the filter of each path."""
    parents = scales - increasing
    # As many lanes as a vector of the CPU has, or half if they suffice.
    features = llvmlite.binding.get_host_cpu_features()
    widest = (64 if features.get("avx512f") else 32) // itemsize
    lanes = widest if units * parents > widest // 2 else max(widest // 2, 4)
    lanes = max(lanes, 1 << (parents - 1).bit_length())
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
    shape = Shape(channels, scales, steps, padded, parents, lanes, row, group, second, size)
    return shape, (np.array(places), np.array(wavelets))


def forward(batch: Batch, filters: Tensor, policy: PathPolicy) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``."""
    args, parts = _prepare(batch, filters, policy, False)
    shape, paths = args[0], args[1][0].shape[1]
    sizes = (filters.shape[0], len(batch.ptr) - 1, paths, shape.channels, 4)
    out = torch.from_numpy(np.zeros(sizes, args[3].dtype))
    target = out.view(-1).numpy()
    threads.run([partial(_scatter, *args, *part, None, target) for part in parts])
    return out


def backward(
    batch: Batch, filters: Tensor, grad: Tensor, out: Tensor, policy: PathPolicy
) -> Tensor:
    """The gradient of the filters, from that of the moments (``out`` is not needed here).

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    args, parts = _prepare(batch, filters, policy, True)
    shares = torch.zeros(len(parts), *filters.shape, dtype=filters.dtype)  # one per thread
    source, targets = flat(grad), shares.flatten(1).numpy()
    calls = zip(parts, targets, strict=True)
    threads.run([partial(_scatter, *args, *part, source, target) for part, target in calls])
    return reduce(Tensor.add_, shares.unbind())


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy, backward: bool
) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Arguments of the kernel: those of all threads, and those of each."""
    models, channels, scales, steps = filters.shape
    units, x = models * channels, flat(batch.x)
    increasing = policy == "increasing"
    shape, places = make_shape(units, channels, scales, steps, increasing, filters.itemsize)
    graphs = make_graphs(batch.rowptr, batch.col, batch.weight, batch.ptr, batch.multiplicity)
    powers = x[:0] if batch.powers is None else flat(batch.powers)
    args = (shape, places, graphs, x, powers, flat(filters))
    count, total, blocks = torch.get_num_threads(), len(graphs.ptr) - 1, -(-units // shape.group)
    if count == 1 or total == 0:
        ranges = [(0, total, 0, blocks)]
    elif total < 4 * count <= blocks * total:
        ranges = [(0, total, *part) for part in threads.split(np.arange(blocks + 1), count)]
    else:  # a node costs about as much as eight entries
        work = 8 * graphs.ptr + graphs.rowptr[graphs.ptr]
        ranges = [(*part, 0, blocks) for part in threads.split(work, count)]

    def sizes(nodes: int) -> dict[str, int]:
        bank, states = blocks * shape.padded_steps * shape.size, nodes * shape.lanes
        return {
            "states": steps * states,
            "second": shape.parents * states,
            "x": nodes * channels + shape.lanes,
            "powers": (nodes + UNROLL) * steps * channels + shape.lanes,
            "energy": nodes,
            "flip": shape.row,
            "root": shape.lanes,
            "moments": 4 * shape.size,
            "mean": shape.group * shape.row,
            "first": (shape.group * nodes + UNROLL) * shape.row,
            "signal": states,
            "ping": 2 * states,
            "bank": bank,
            "grad": bank * backward,
        }

    def space(begin: int, end: int) -> Workspace:
        made = make_workspace(graphs, begin, end, x.dtype, sizes)
        made.data[made.x :] = 0
        made.data[made.flip : made.flip + scales] = -1
        made.data[made.flip + scales] = 1
        made.data[made.root : made.root + shape.lanes] = 1
        return made

    return args, [(space(*part[:2]), part) for part in ranges]


@entry
def _scatter(shape, places, graphs, x, powers, filters, space, part, grad, out):
    """Moments of some graphs and blocks.

    Args:
        grad: ``None``, or the gradient of the moments ``[models, graphs, paths, channels, 4]``.
        out: written, the moments; or, with ``grad``, what these graphs and units contribute to the
            gradient of the filters ``[units, scales, steps]``.
        part: first and last graph, first and last block.
    """
    begin, end, low, high = part
    lane, wavelet = places
    units, size = filters.size // (shape.scales * shape.steps), shape.padded_steps * shape.size
    _move_filters(shape, lane, wavelet, filters, space.bank, space.data, False)
    for g in range(begin, end):
        if graphs.ptr[g] == graphs.ptr[g + 1]:
            continue
        first, n = load_graph(graphs, g, shape.lanes, space)
        orders.load_signals(shape, x, powers, first, n, space)
        orders.energy_weights(n, shape.lanes, space)
        share = _node_share(space.counts, space.multiplicity, n)
        for block in range(low, high):
            a, bank = block * shape.group, space.bank + block * size
            b = min(units, a + shape.group)
            if grad is None:
                _moments(shape, n, share, a, b, bank, space)
                _move_moments(shape, lane, graphs.ptr.size - 1, g, a, b, out, space, False)
            else:
                _move_moments(shape, lane, graphs.ptr.size - 1, g, a, b, grad, space, True)
                _gradients(shape, n, share, a, b, bank, bank + space.grad - space.bank, space)
    if grad is not None:
        _move_filters(shape, lane, wavelet, out, space.grad, space.data, True)


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
                    filters[source + s] += data[place + s * shape.size]
                else:
                    data[place + s * shape.size] = filters[source + s]


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
def _moments(shape, n, share, low, high, bank, space):
    """Writes the moments of a block to the workspace."""
    orders.first_order(shape, n, share, low, high, bank, space)
    for k in range(high - low):
        mean, centred, root = orders.first_moments(shape, n, share, k, space)
        moments = orders.moments_of(mean, centred, root * root)
        for m in range(4):
            store(moments[m], space.data, space.moments + m * shape.size + k * shape.row)
    means, centreds, roots = orders.second_order(shape, n, share, bank + shape.second, space)
    wide_moments = orders.moments_of(means, centreds, roots * roots)
    for m in range(4):
        store(wide_moments[m], space.data, space.moments + m * shape.size + shape.second)


@inlined
def _slopes(shape, like, place, space):
    """The gradients of the four moments of the lanes from ``place`` on."""
    data, size = space.data, shape.size
    start = space.moments + place
    by_mean, by_variance = load(like, data, start), load(like, data, start + size)
    start += 2 * size
    return by_mean, by_variance, load(like, data, start), load(like, data, start + size)


@merged
def _gradients(shape, n, share, low, high, bank, grad, space):
    """Adds what a block on one graph contributes to ``grad``, the gradient of its bank."""
    line, wide = zeros(space.data, shape.row, 1), zeros(space.data, shape.lanes, shape.parents)
    orders.first_order(shape, n, share, low, high, bank, space)
    means, centreds, roots = orders.second_order(shape, n, share, bank + shape.second, space)
    cubics = orders.gradient_cubic(
        _slopes(shape, wide, shape.second, space), share, centreds, roots
    )
    orders.gradient_second(shape, n, means, cubics, bank + shape.second, grad + shape.second, space)
    for k in range(high - low):
        mean, centred, root = orders.first_moments(shape, n, share, k, space)
        cubic = orders.gradient_cubic(
            _slopes(shape, line, k * shape.row, space), share, centred, root
        )
        orders.gradient_first(shape, n, (low + k) % shape.channels, k, grad, mean, cubic, space)
