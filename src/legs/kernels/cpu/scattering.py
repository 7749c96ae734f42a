"""The fused operator on the CPU: a compiled loop over the graphs of a batch, forward and backward.

See :mod:`legs.kernels.op` for what is computed.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legs.functional.scattering import PathPolicy
from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import energy_weights, flat, load_graph, node_share
from legs.kernels.cpu.jit import entry, inlined, merged
from legs.kernels.cpu.moments import gradient_cubic, moments_of
from legs.kernels.cpu.orders import (
    diffuse_signals,
    first_moments,
    first_order,
    gradient_first,
    gradient_second,
    second_order,
)
from legs.kernels.cpu.simd import zeros
from legs.kernels.cpu.workspace import (
    Graph,
    Inputs,
    Routes,
    Shape,
    make_routes,
    make_shape,
    make_workspace,
    pack_filters,
    read_gradients,
    unpack_gradients,
    write_moments,
)
from legs.kernels.csr import Batch


def forward(batch: Batch, filters: Tensor, policy: PathPolicy) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``."""
    shape, *args, ranges = _prepare(batch, filters, policy)
    sizes = (filters.shape[0], len(batch.ptr) - 1, shape.paths, shape.channels, 4)
    out = torch.empty(sizes, dtype=batch.x.dtype)
    target = out.view(-1).numpy()
    threads.run([partial(_scatter, shape, *args, None, target, part) for part in ranges])
    return out


def backward(
    batch: Batch, filters: Tensor, grad: Tensor, out: Tensor, policy: PathPolicy
) -> Tensor:
    """The gradient of the filters, from that of the moments (``out`` is not needed here).

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    *args, ranges = _prepare(batch, filters, policy)
    shares = torch.empty(len(ranges), *filters.shape, dtype=filters.dtype)  # one per thread
    source, targets = flat(grad), shares.flatten(1).numpy()
    calls = zip(targets, ranges, strict=True)
    threads.run([partial(_scatter, *args, source, target, part) for target, part in calls])
    return reduce(Tensor.add_, shares.unbind())


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy
) -> tuple[Shape, Inputs, Routes, list[tuple[int, int, int, int]]]:
    """Also first and last graph, first and last group of units of each thread's part."""
    models, channels, scales, steps = filters.shape
    units, x = models * channels, flat(batch.x)
    shape = make_shape(units, channels, scales, steps, policy == "increasing", filters.itemsize)
    inputs = Inputs(
        units,
        x,
        x[:0] if batch.powers is None else flat(batch.powers),
        flat(batch.rowptr),
        flat(batch.col),
        None if batch.weight is None else flat(batch.weight),
        flat(batch.ptr),
        None if batch.multiplicity is None else flat(batch.multiplicity),
        flat(filters),
    )
    routes = make_routes(shape, units)
    count, graphs, groups = torch.get_num_threads(), len(inputs.ptr) - 1, -(-units // shape.group)
    if count == 1 or graphs == 0:
        return shape, inputs, routes, [(0, graphs, 0, groups)]
    if graphs < 4 * count <= groups * graphs:
        parts = threads.split(np.arange(groups + 1), count)
        return shape, inputs, routes, [(0, graphs, *part) for part in parts]
    # A node costs about as much as eight entries.
    work = 8 * inputs.ptr + inputs.rowptr[inputs.ptr]
    return shape, inputs, routes, [(*part, 0, groups) for part in threads.split(work, count)]


@merged
def _load(shape: Any, inputs: Any, g: int, space: Any) -> Any:
    """Loads a graph into the workspace."""
    first = inputs.ptr[g]
    n = inputs.ptr[g + 1] - first
    load_graph(inputs, first, n, shape.lanes, space)
    energy_weights(n, shape.lanes, space)
    if inputs.powers.size:
        powers, source = inputs.powers, first * shape.steps * shape.channels
    else:
        diffuse_signals(shape, inputs.x, first, n, space)
        powers, source = space.data, space.powers
    size = shape.paths * shape.channels * 4
    share, apart = node_share(inputs.counts, first, n), (inputs.ptr.size - 1) * size
    return Graph(first, n, share, powers, source, g * size, apart)


@entry
def _scatter(shape: Any, inputs: Any, routes: Any, grad: Any, out: Any, part: Any) -> None:
    """Moments of some graphs and groups of units.

    Args:
        grad: ``None``, or the gradient of the moments ``[models, graphs, paths, channels, 4]``.
        out: written, the moments; or, with ``grad``, what these graphs and units contribute to the
            gradient of the filters ``[units, scales, steps]``.
        part: first and last graph, first and last group.
    """
    begin, end, low, high = part
    space = make_workspace(shape, inputs, begin, end, grad is not None)
    pack_filters(shape, routes, inputs, space)
    # Not all inputs are passed on: for every graph that would count references to all of them.
    units, x = inputs.units, inputs.x
    for g in range(begin, end):
        if inputs.ptr[g] < inputs.ptr[g + 1]:
            graph = _load(shape, inputs, g, space)
            for group in range(low, high):
                if grad is None:
                    _moments(shape, x, units, routes, graph, group, out, space)
                else:
                    _gradients(shape, x, units, routes, graph, group, grad, space)
        elif grad is None:
            size = shape.paths * shape.channels * 4
            for model in range(units // shape.channels):
                place = (model * (inputs.ptr.size - 1) + g) * size
                out[place : place + size] = 0
    if grad is not None:
        unpack_gradients(shape, routes, inputs, space, out)


@inlined
def _sizes(shape: Any, units: int, group: int) -> Any:
    """First and last unit of a group, its blocks, and the size of a block's bank."""
    low = group * shape.group
    high = min(units, low + shape.group)
    blocks = ((high - low) * shape.parents + shape.lanes - 1) // shape.lanes
    return low, high, blocks, shape.steps * shape.parents * shape.lanes


@merged
def _moments(
    shape: Any, x: Any, units: int, routes: Any, graph: Any, group: int, out: Any, space: Any
) -> None:
    """Writes the moments of a group of units on one graph."""
    low, high, blocks, bank_size = _sizes(shape, units, group)
    first_order(shape, x, graph, low, high, space)
    for u in range(low, high):
        mean, centred, root = first_moments(shape, graph, u - low, space)
        moments = moments_of(mean, centred, root * root)
        write_moments(routes, u, moments, graph, out, space)
    for block in range(blocks):
        k = group * shape.blocks + block
        bank = space.bank + k * bank_size
        means, centreds, roots = second_order(shape, graph, high - low, block, bank, space)
        wide_moments = moments_of(means, centreds, roots * roots)
        write_moments(routes, units + k, wide_moments, graph, out, space)


@merged
def _gradients(
    shape: Any, x: Any, units: int, routes: Any, graph: Any, group: int, grad: Any, space: Any
) -> None:
    """Adds what a group of units on one graph contributes to the gradient of the banks."""
    line = zeros(space.data, shape.row, 1)
    wide = zeros(space.data, shape.lanes, shape.parents)
    low, high, blocks, bank_size = _sizes(shape, units, group)
    first_order(shape, x, graph, low, high, space)
    for block in range(blocks):
        k = group * shape.blocks + block
        bank = space.bank + k * bank_size
        means, centreds, roots = second_order(shape, graph, high - low, block, bank, space)
        slopes = read_gradients(routes, units + k, wide, graph, grad, space)
        cubics = gradient_cubic(slopes, graph.share, centreds, roots)
        signal = space.signal + block * graph.n * shape.lanes
        gradient_second(shape, graph.n, means, cubics, bank, signal, space)
    for u in range(low, high):
        mean, centred, root = first_moments(shape, graph, u - low, space)
        slope = read_gradients(routes, u, line, graph, grad, space)
        cubic = gradient_cubic(slope, graph.share, centred, root)
        gradient_first(shape, graph, u, u - low, mean, cubic, space)
