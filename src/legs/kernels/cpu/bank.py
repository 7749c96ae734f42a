"""Filter banks of the lazy walk on the CPU: compiled loops over the graphs of a batch.

See :mod:`legs.kernels.bank` for what is computed. All states of a graph stay in cache, for some
channels at a time; the last channels may overlap with those before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import array_of, flat
from legs.kernels.cpu.jit import Constants, entry, inlined
from legs.kernels.cpu.simd import at, cover, fold_product, load, multiply_add, pointer, store, zeros
from legs.kernels.cpu.walk import allocate, difference, load_graph, make_graphs, step, times, walk

if TYPE_CHECKING:
    from legs.kernels.bank import Graph

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


def run(graph: Graph, x: Tensor, filters: Tensor | None, scale: Tensor | None, out: Tensor) -> None:
    """Writes the bank, its adjoint or, without filters, the states.

    Args:
        graph: the batch.
        x: ``[models, nodes, channels]``; for the adjoint ``[models, nodes, bands, channels]``. One
            model in place of many if it is the same for all.
        filters: ``[models, states, bands, channels]``, or one channel for all.
        scale: of rows, ``[nodes]``: divided by before, and multiplied with after.
        out: the bank ``[models, nodes, bands, channels]``, its adjoint ``[models, nodes,
            channels]``, or the states ``[models, states, nodes, channels]``.
    """
    adjoint, channels = x.dim() == 4, x.shape[-1]
    states, bands, own = (out.shape[1], 1, 1) if filters is None else filters.shape[1:]
    lanes, parts = cover(channels, x.itemsize, MAX_PARTS)
    block = Block(lanes, parts, lanes * parts, bands, int(own > 1), int(adjoint))
    graphs = make_graphs(graph.rowptr, graph.col, graph.weight, graph.ptr, None)
    work = graphs.rowptr[graphs.ptr] + bands * graphs.ptr
    most = 1 + int(work[-1]) * states * channels // MIN_WORK
    ranges = threads.split(work, min(torch.get_num_threads(), most))
    wide = -1 if own > 1 else lanes
    factors = None if scale is None else array_of(scale)
    for model, one in enumerate(out):
        bank = None if filters is None else flat(filters[model].expand(-1, -1, wide))
        args = (block, graphs, flat(x[model % len(x)]), factors, bank, states, channels)
        target = one.view(-1).numpy()
        threads.run([partial(_bank, *args, *part, target) for part in ranges])


@inlined
def _over(scale, node, value):
    return value if scale is None else value / at(scale, node)


@inlined
def _filters(block, filters, like, k, channel, channels):
    """The filters of all bands for state ``k`` and the channels from ``channel`` on."""
    if block.own:
        return load(like, filters, k * block.bands * channels + channel, channels)
    return load(like, filters, k * block.bands * block.lanes)


@entry
def _bank(block, graphs, x, scale, filters, states, channels, begin, end, out):
    """Writes the bank, its adjoint, or the states of some graphs."""
    memory, rows, data, _ = allocate(graphs, begin, end, x, states * block.width, 0)
    lanes, width = block.lanes, block.width
    one, all_bands = zeros(x, block.lanes, 1), zeros(x, block.lanes, block.bands)
    wide = zeros(x, block.lanes, block.parts)
    for g in range(begin, end):
        first, n = load_graph(graphs, g, width, rows)
        size = n * width
        for done in range(0, channels, width):
            c = min(done, channels - width)
            if not block.adjoint:
                for i in range(n):
                    node = first + at(rows.order, i)
                    value = load(wide, x, node * channels + c)
                    store(_over(scale, node, value), data, i * width)
                walk(wide, states - 1, n, data, pointer(data, size), rows)
            for i in range(n):
                node = first + at(rows.order, i)
                if filters is None:
                    for s in range(states):
                        state = times(scale, node, load(wide, data, s * size + i * width))
                        store(state, out, (s * (graphs.rowptr.size - 1) + node) * channels + c)
                    continue
                for k in range(0, width, lanes):
                    place, total = i * width + k, all_bands
                    target = node * block.bands * channels + c + k
                    if block.adjoint:
                        slope = _over(scale, node, load(all_bands, x, target, channels))
                        for s in range(states):
                            mine = _filters(block, filters, all_bands, s, c + k, channels)
                            store(fold_product(one, mine, slope), data, s * size + place)
                    else:
                        for s in range(states):
                            mine = _filters(block, filters, all_bands, s, c + k, channels)
                            total = multiply_add(load(one, data, s * size + place), mine, total)
                        store(times(scale, node, total), out, target, channels)
            if block.adjoint:
                for s in range(states - 2, 0, -1):
                    now = pointer(data, s * size)
                    step(wide, n, pointer(now, size), now, rows, True)
                for i in range(n):
                    node, value = first + at(rows.order, i), load(wide, data, i * width)
                    if states > 1:
                        value = value + difference(wide, pointer(data, size), rows, i)
                    store(times(scale, node, value), out, node * channels + c)
    return memory[0].size  # it has been in use until here
