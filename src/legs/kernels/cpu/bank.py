"""Filter banks of the lazy walk on the CPU: compiled loops over the graphs of a batch.

See :mod:`legs.kernels.bank` for what is computed. All states of a graph stay in cache, for some
channels at a time; the last channels may overlap with those before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import array_of, load_graph, row_difference, row_sum
from legs.kernels.cpu.jit import Constants, entry, inlined, inner
from legs.kernels.cpu.simd import (
    at,
    fold_product,
    load,
    load_rows,
    multiply_add,
    store,
    store_rows,
    zeros,
)
from legs.kernels.cpu.workspace import UNROLL

if TYPE_CHECKING:
    from legs.kernels.bank import Graph

LINE = 64  # bytes of the widest vectors
MAX_PARTS = 8  # vectors that are diffused at a time
MIN_WORK = 2**20  # multiplications of a thread; waking one for fewer takes longer than they do


@dataclass(frozen=True)
class Block(Constants):
    """What kernels are compiled for."""

    lanes: int  # channels of a vector
    parts: int  # vectors that are diffused at a time
    width: int  # lanes * parts
    bands: int
    own: int  # 1 if every channel has filters of its own


class Inputs(NamedTuple):
    """Graphs, signals and filters as flat arrays."""

    x: Any  # [nodes, channels]; for the adjoint gradients [nodes, bands, channels]
    rowptr: Any  # [nodes + 1]
    col: Any  # [edges]
    weight: Any  # [edges], or None for ones
    ptr: Any  # [graphs + 1]
    counts: Any  # None
    scale: Any  # [nodes], or None for ones
    filters: Any  # [states, bands, channels], or [states, bands, lanes] where channels share them
    states: int
    channels: int


class Space(NamedTuple):
    """Buffers for one graph; as in :class:`legs.kernels.cpu.workspace.Workspace`."""

    order: Any  # [n + UNROLL] the node in each place
    place: Any  # [n]
    start: Any  # [n + 1]
    near: Any  # [entries]
    data: Any
    weights: Any  # data, or None without edge weights
    counts: Any  # None
    edge_weight: int  # [entries]
    node_count: int
    degree: int  # [n]
    inverse: int  # [n]
    states: int  # [states, n, width]
    grads: int  # [n, parts, bands, lanes]


@cache
def block_of(channels: int, bands: int, own: bool, itemsize: int) -> Block:
    """Few wide vectors that cover the channels with little overlap.

    >>> blocks = [block_of(channels, 6, False, 4) for channels in (2, 16, 40, 64, 80)]
    >>> [(block.lanes, block.parts) for block in blocks]
    [(2, 1), (16, 1), (8, 5), (16, 4), (16, 5)]
    """
    best = (float("inf"), 1, 1)
    for lanes in (1, 2, 4, 8, 16):
        for parts in range(1, MAX_PARTS + 1):
            if lanes * itemsize <= LINE and lanes * parts <= channels:
                passes = -(-channels // (lanes * parts))
                vectors = parts * max(1.0, lanes * itemsize / 48)
                best = min(best, (passes * (vectors + 1), -lanes, parts))
    lanes, parts = -best[1], best[2]
    return Block(lanes, parts, lanes * parts, bands, int(own))


def run(graph: Graph, x: Tensor, filters: Tensor, scale: Tensor | None, adjoint: bool) -> Tensor:
    """The bank ``[models, nodes, bands, channels]``, or its adjoint ``[models, nodes, channels]``.

    Args:
        graph: the batch.
        x: ``[models, nodes, channels]``; for the adjoint ``[models, nodes, bands, channels]``. One
            model in place of many if it is the same for all.
        filters: ``[models, states, bands, channels]``, or one channel for all.
        scale: of rows, ``[nodes]``: divided by before, and multiplied with after.
        adjoint: whether to compute the adjoint.
    """
    models, _, bands, _ = filters.shape
    shape = (models, x.shape[1], *([] if adjoint else [bands]), x.shape[-1])
    out = torch.empty(shape, dtype=x.dtype)
    kernel = _adjoint if adjoint else _forward
    for model in range(models if out.numel() else 0):
        block, inputs, ranges = _prepare(graph, x[model % len(x)], filters[model], scale)
        target = out[model].view(-1).numpy()
        threads.run([partial(kernel, block, inputs, target, *part) for part in ranges])
    return out


def gradient(
    graph: Graph, x: Tensor, filters: Tensor, scale: Tensor | None, grad: Tensor
) -> Tensor:
    """The gradient of the filters, of their shape, from that of the bank.

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    out = torch.zeros_like(filters)
    for model in range(len(out) if x.numel() else 0):
        block, inputs, ranges = _prepare(graph, x[model % len(x)], filters[model], scale)
        size = inputs.states * block.bands * inputs.channels
        totals, source = np.zeros((len(ranges), size), inputs.x.dtype), array_of(grad[model])
        pairs = zip(totals, ranges, strict=True)
        threads.run(
            [partial(_gradient, block, inputs, source.ravel(), t, *part) for t, part in pairs]
        )
        total = torch.from_numpy(totals).sum(0).view(inputs.states, block.bands, -1)
        out[model] = total if block.own else total.sum(-1, keepdim=True)
    return out


def _prepare(
    graph: Graph, x: Tensor, filters: Tensor, scale: Tensor | None
) -> tuple[Block, Inputs, list[tuple[int, int]]]:
    (states, bands, own), channels = filters.shape, x.shape[-1]
    block = block_of(channels, bands, own > 1, x.itemsize)
    inputs = Inputs(
        array_of(x).reshape(-1),
        array_of(graph.rowptr),
        array_of(graph.col),
        None if graph.weight is None else array_of(graph.weight),
        array_of(graph.ptr),
        None,
        None if scale is None else array_of(scale),
        array_of(filters if own > 1 else filters.expand(-1, -1, block.lanes)).reshape(-1),
        states,
        channels,
    )
    work = inputs.rowptr[inputs.ptr] + bands * inputs.ptr
    most = 1 + int(work[-1]) * states * channels // MIN_WORK
    return block, inputs, threads.split(work, min(torch.get_num_threads(), most))


@inlined
def _data_if(weight: Any, data: Any) -> Any:
    return weight if weight is None else data


@inner
def _make_space(block: Any, inputs: Any, begin: int, end: int, grads: bool) -> Any:
    """Buffers for the largest of the graphs ``begin`` to ``end``."""
    nodes, entries = 1, 1
    for g in range(begin, end):
        low, high = inputs.ptr[g], inputs.ptr[g + 1]
        nodes = max(nodes, high - low)
        entries = max(entries, inputs.rowptr[high] - inputs.rowptr[low] + nodes)
    states = (entries + 2 * nodes + 15) // 16 * 16
    size = states + inputs.states * nodes * block.width
    data = np.empty(size + nodes * block.width * block.bands * grads, inputs.x.dtype)
    return Space(
        np.empty(nodes + UNROLL, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes + 1, np.int32),
        np.empty(entries, np.int32),
        data,
        _data_if(inputs.weight, data),
        inputs.counts,
        0,
        0,
        entries,
        entries + nodes,
        states,
        size,
    )


@inlined
def _times(scale: Any, node: int, value: Any) -> Any:
    return value if scale is None else value * at(scale, node)


@inlined
def _over(scale: Any, node: int, value: Any) -> Any:
    return value if scale is None else value / at(scale, node)


@inlined
def _filters(block: Any, inputs: Any, like: Any, k: int, channel: int) -> Any:
    """The filters of all bands for state ``k`` and the channels from ``channel`` on."""
    if block.own:
        place = k * block.bands * inputs.channels + channel
        return load_rows(like, inputs.filters, place, inputs.channels)
    return load(like, inputs.filters, k * block.bands * block.lanes)


@inner
def _diffuse(block: Any, inputs: Any, first: int, n: int, c: int, space: Any) -> None:
    """All states of the channels from ``c`` on."""
    data, width, size = space.data, block.width, n * block.width
    wide = zeros(data, block.lanes, block.parts)
    for i in range(n):
        node = first + at(space.order, i)
        value = load(wide, inputs.x, node * inputs.channels + c)
        store(_over(inputs.scale, node, value), data, space.states + i * width)
    for k in range(1, inputs.states):
        before = space.states + (k - 1) * size
        for i in range(n):
            half = at(data, space.inverse + i) * 0.5
            if k == 1:
                value = row_difference(wide, before, space, i) * half
            else:
                here = load(wide, data, before + i * width)
                value = multiply_add(row_sum(wide, before, space, i), half, here * 0.5)
            store(value, data, before + size + i * width)


@entry
def _forward(block: Any, inputs: Any, out: Any, begin: int, end: int) -> None:
    space = _make_space(block, inputs, begin, end, False)
    data, channels, lanes = space.data, inputs.channels, block.lanes
    one, all_bands = zeros(data, block.lanes, 1), zeros(data, block.lanes, block.bands)
    for g in range(begin, end):
        first = inputs.ptr[g]
        n = inputs.ptr[g + 1] - first
        load_graph(inputs, first, n, block.width, space)
        c = 0
        while c < channels:
            c = min(c, channels - block.width)
            _diffuse(block, inputs, first, n, c, space)
            for i in range(n):
                node = first + at(space.order, i)
                for part in range(block.parts):
                    place, total = space.states + i * block.width + part * lanes, all_bands
                    for k in range(inputs.states):
                        state = load(one, data, place + k * n * block.width)
                        mine = _filters(block, inputs, total, k, c + part * lanes)
                        total = multiply_add(state, mine, total)
                    target = node * block.bands * channels + c + part * lanes
                    store_rows(_times(inputs.scale, node, total), out, target, channels)
            c += block.width


@entry
def _adjoint(block: Any, inputs: Any, out: Any, begin: int, end: int) -> None:
    space = _make_space(block, inputs, begin, end, False)
    data, channels, lanes, width = space.data, inputs.channels, block.lanes, block.width
    one, all_bands = zeros(data, block.lanes, 1), zeros(data, block.lanes, block.bands)
    wide = zeros(data, block.lanes, block.parts)
    for g in range(begin, end):
        first = inputs.ptr[g]
        n = inputs.ptr[g + 1] - first
        load_graph(inputs, first, n, width, space)
        c = 0
        while c < channels:
            c = min(c, channels - width)
            for i in range(n):
                node = first + at(space.order, i)
                for part in range(block.parts):
                    channel = c + part * lanes
                    source = node * block.bands * channels + channel
                    grad = load_rows(all_bands, inputs.x, source, channels)
                    grad = _over(inputs.scale, node, grad)
                    place = space.states + i * width + part * lanes
                    for k in range(inputs.states):
                        mine = _filters(block, inputs, all_bands, k, channel)
                        store(fold_product(one, mine, grad), data, place + k * n * width)
            for k in range(inputs.states - 2, -1, -1):
                now = space.states + k * n * width
                after = now + n * width
                for i in range(n):
                    half, value = (
                        at(data, space.inverse + i) * 0.5,
                        load(wide, data, now + i * width),
                    )
                    if k:
                        value = multiply_add(load(wide, data, after + i * width), 0.5, value)
                        value = multiply_add(row_sum(wide, after, space, i), half, value)
                    else:
                        value = multiply_add(row_difference(wide, after, space, i), half, value)
                    store(value, data, now + i * width)
            for i in range(n):
                node = first + at(space.order, i)
                value = load(wide, data, space.states + i * width)
                store(_times(inputs.scale, node, value), out, node * channels + c)
            c += width


@entry
def _gradient(block: Any, inputs: Any, grad: Any, out: Any, begin: int, end: int) -> None:
    space = _make_space(block, inputs, begin, end, True)
    data, channels, lanes, width = space.data, inputs.channels, block.lanes, block.width
    one, all_bands = zeros(data, block.lanes, 1), zeros(data, block.lanes, block.bands)
    mask = np.ones(2 * width, data.dtype)
    mask[:width] = 0
    piece = block.bands * lanes
    for g in range(begin, end):
        first = inputs.ptr[g]
        n = inputs.ptr[g + 1] - first
        load_graph(inputs, first, n, width, space)
        c, done = 0, 0
        while c < channels:
            c = min(c, channels - width)
            _diffuse(block, inputs, first, n, c, space)
            for i in range(n):
                node = first + at(space.order, i)
                for part in range(block.parts):
                    source = node * block.bands * channels + c + part * lanes
                    value = _times(inputs.scale, node, load_rows(all_bands, grad, source, channels))
                    # Channels that were counted before count no more.
                    value = value * load(one, mask, width - (done - c) + part * lanes)
                    store(value, data, space.grads + (i * block.parts + part) * piece)
            for part in range(block.parts):
                for k in range(inputs.states):
                    target = k * block.bands * channels + c + part * lanes
                    total = load_rows(all_bands, out, target, channels)
                    place = space.states + k * n * width + part * lanes
                    for i in range(n):
                        state = load(one, data, place + i * width)
                        from_here = space.grads + (i * block.parts + part) * piece
                        total = multiply_add(state, load(all_bands, data, from_here), total)
                    store_rows(total, out, target, channels)
            c += width
            done = c
