"""Filter banks of the lazy walk on the CPU: compiled loops over the graphs of a batch.

See :mod:`legs.kernels.bank` for what is computed. All states of a graph stay in cache, for some
channels at a time; the last channels may overlap with those before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import array_of, flat
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
from legs.kernels.cpu.walk import (
    allocate,
    difference,
    load_graph,
    make_graphs,
    step,
    times,
    walk,
)

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
    adjoint: int


@cache
def block_of(channels: int, bands: int, own: bool, itemsize: int, adjoint: bool = False) -> Block:
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
    return Block(lanes, parts, lanes * parts, bands, int(own), int(adjoint))


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
    for model in range(models if out.numel() else 0):
        args, parts = _prepare(graph, x[model % len(x)], filters[model], scale, adjoint)
        target = out[model].view(-1).numpy()
        threads.run([partial(_bank, *args, *part, None, target) for part in parts])
    return out


def gradient(
    graph: Graph, x: Tensor, sizes: tuple[int, int], scale: Tensor | None, grad: Tensor
) -> Tensor:
    """The gradient of filters with ``sizes``: states, channels or 1; from that of the bank.

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    out = x.new_zeros(len(grad), sizes[0], grad.shape[2], sizes[1])
    for model, one in enumerate(out if x.numel() else ()):
        args, parts = _prepare(graph, x[model % len(x)], one, scale)
        totals = x.new_zeros(len(parts), *one.shape[:2], x.shape[-1])
        source, targets = flat(grad[model]), totals.flatten(1).numpy()
        calls = zip(parts, targets, strict=True)
        threads.run([partial(_bank, *args, *part, source, target) for part, target in calls])
        one.copy_(totals.sum(0).sum_to_size(one.shape))
    return out


def _prepare(
    graph: Graph, x: Tensor, filters: Tensor, scale: Tensor | None, adjoint: bool = False
) -> tuple[tuple[Any, ...], list[tuple[int, int]]]:
    """Arguments of a kernel: those of all threads, and the graphs of each.

    These are the block; the graphs; ``x``, ``[nodes, channels]`` (for the adjoint ``[nodes, bands,
    channels]``); the scale; the filters, ``[states, bands, channels]``, or ``[states, bands,
    lanes]`` where channels share them; their number of states; and the number of channels.
    """
    (states, bands, own), channels = filters.shape, x.shape[-1]
    block = block_of(channels, bands, own > 1, x.itemsize, adjoint)
    graphs = make_graphs(graph.rowptr, graph.col, graph.weight, graph.ptr, None)
    work = graphs.rowptr[graphs.ptr] + bands * graphs.ptr
    most = 1 + int(work[-1]) * states * channels // MIN_WORK
    args = (
        block,
        graphs,
        flat(x),
        None if scale is None else array_of(scale),
        flat(filters if own > 1 else filters.expand(-1, -1, block.lanes)),
        states,
        channels,
    )

    return args, threads.split(work, min(torch.get_num_threads(), most))


@inlined
def _over(scale, node, value):
    return value if scale is None else value / at(scale, node)


@inlined
def _filters(block, filters, like, k, channel, channels):
    """The filters of all bands for state ``k`` and the channels from ``channel`` on."""
    if block.own:
        return load_rows(like, filters, k * block.bands * channels + channel, channels)
    return load(like, filters, k * block.bands * block.lanes)


@inner
def _diffuse(block, x, scale, states, channels, first, n, c, rows, start):
    """All states of the channels from ``c`` on."""
    wide = zeros(rows.data, block.lanes, block.parts)
    for i in range(n):
        node = first + at(rows.order, i)
        value = _over(scale, node, load(wide, x, node * channels + c))
        store(value, rows.data, start + i * block.width)
    walk(wide, states - 1, n, rows.data, start, start + n * block.width, rows)


@entry
def _bank(block, graphs, x, scale, filters, states, channels, begin, end, grad, out):
    """Writes the bank, its adjoint or, from ``grad``, the gradient of the filters."""
    each = (states + block.bands * (grad is not None)) * block.width
    memory, rows, start, nodes = allocate(graphs, begin, end, x, each, 0)
    data, lanes, width = rows.data, block.lanes, block.width
    one, all_bands = zeros(data, block.lanes, 1), zeros(data, block.lanes, block.bands)
    wide, grads = zeros(data, block.lanes, block.parts), start + states * nodes * width
    mask = np.ones(2 * width, x.dtype)
    mask[:width] = 0
    for g in range(begin, end):
        first, n = load_graph(graphs, g, width, rows)
        for done in range(0, channels, width):
            c = min(done, channels - width)
            if block.adjoint:
                size = n * width
                for i in range(n):
                    node = first + at(rows.order, i)
                    for k in range(0, width, lanes):
                        source = node * block.bands * channels + c + k
                        slope = _over(scale, node, load_rows(all_bands, x, source, channels))
                        for s in range(states):
                            mine = _filters(block, filters, all_bands, s, c + k, channels)
                            place = start + s * size + i * width + k
                            store(fold_product(one, mine, slope), data, place)
                for s in range(states - 2, 0, -1):
                    now = start + s * size
                    step(wide, n, data, now + size, now, rows, True)
                for i in range(n):
                    node, value = first + at(rows.order, i), load(wide, data, start + i * width)
                    if states > 1:
                        value = value + difference(wide, data, start + size, rows, i)
                    store(times(scale, node, value), out, node * channels + c)
                continue
            _diffuse(block, x, scale, states, channels, first, n, c, rows, start)
            for i in range(n):
                node = first + at(rows.order, i)
                for k in range(0, width, lanes):
                    place, total = start + i * width + k, all_bands
                    target = node * block.bands * channels + c + k
                    if grad is None:
                        for s in range(states):
                            state = load(one, data, place + s * n * width)
                            mine = _filters(block, filters, total, s, c + k, channels)
                            total = multiply_add(state, mine, total)
                        store_rows(times(scale, node, total), out, target, channels)
                    else:  # channels that were counted before count no more
                        value = times(scale, node, load_rows(all_bands, grad, target, channels))
                        value = value * load(one, mask, width - (done - c) + k)
                        store(value, data, grads + (i * width + k) * block.bands)
            for k in range(0, 0 if grad is None else width, lanes):
                for s in range(states):
                    target = s * block.bands * channels + c + k
                    total = load_rows(all_bands, out, target, channels)
                    for i in range(n):
                        state = load(one, data, start + (s * n + i) * width + k)
                        slope = load(all_bands, data, grads + (i * width + k) * block.bands)
                        total = multiply_add(state, slope, total)
                    store_rows(total, out, target, channels)
    return memory[0].size  # it has been in use until here
