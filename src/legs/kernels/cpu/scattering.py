"""The fused operator on the CPU: a compiled loop over the graphs of a batch, forward and backward.

See :mod:`legs.kernels.op` for what is computed.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

from legs.functional.scattering import PathPolicy
from legs.kernels.cpu import threads
from legs.kernels.cpu.graph import array_of, energy_weights, load_graph, node_share
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
    UNROLL,
    Graph,
    Inputs,
    Routes,
    Shape,
    make_routes,
    make_workspace,
    pack_filters,
    read_gradients,
    unpack_gradients,
    write_moments,
)
from legs.kernels.csr import Batch

_NO_POWERS = {
    dtype: torch.empty(0, dtype=dtype).numpy() for dtype in (torch.float32, torch.float64)
}


def forward(batch: Batch, filters: Tensor, policy: PathPolicy) -> Tensor:
    """Moments ``[models, graphs, paths, channels, 4]`` of filters ``[models, channels, J, m]``."""
    shape, inputs, routes, ranges = _prepare(batch, filters, policy)
    sizes = (filters.shape[0], len(inputs.ptr) - 1, shape.paths, shape.channels, 4)
    out = torch.empty(sizes, dtype=batch.x.dtype)
    target = out.view(-1).numpy()
    threads.run([partial(_scatter, shape, inputs, routes, None, target, *part) for part in ranges])
    return out


def backward(
    batch: Batch, filters: Tensor, grad: Tensor, out: Tensor, policy: PathPolicy
) -> Tensor:
    """The gradient of the filters, from that of the moments (``out`` is not needed here).

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    shape, inputs, routes, ranges = _prepare(batch, filters, policy)
    found = torch.empty(len(ranges), *filters.shape, dtype=filters.dtype)
    source, targets = _flat(grad), found.flatten(1).numpy()
    threads.run(
        [
            partial(_scatter, shape, inputs, routes, source, target, *part)
            for target, part in zip(targets, ranges, strict=True)
        ]
    )
    total = found[0]
    for more in found[1:]:
        total += more
    return total


def _prepare(
    batch: Batch, filters: Tensor, policy: PathPolicy
) -> tuple[Shape, Inputs, Routes, list[tuple[int, int, int, int]]]:
    models, channels, scales, steps = filters.shape
    shape = _shape(models * channels, channels, scales, steps, policy, filters.dtype)
    inputs = Inputs(
        _flat(batch.x),
        _NO_POWERS[filters.dtype] if batch.powers is None else _flat(batch.powers),
        batch.rowptr.numpy(),
        batch.col.numpy(),
        None if batch.weight is None else batch.weight.numpy(),
        batch.ptr.numpy(),
        None if batch.multiplicity is None else _flat(batch.multiplicity),
        _flat(filters),
    )
    routes = make_routes(shape, models * channels)
    return shape, inputs, routes, _ranges(inputs, -(-models * channels // shape.group))


def _flat(tensor: Tensor) -> Any:
    return array_of(tensor).reshape(-1)


def _ranges(inputs: Inputs, groups: int) -> list[tuple[int, int, int, int]]:
    """First and last graph, first and last group of units of each thread's part of the work."""
    count, graphs = torch.get_num_threads(), len(inputs.ptr) - 1
    if count == 1 or graphs == 0:
        return [(0, graphs, 0, groups)]
    if graphs < 4 * count <= groups * graphs:
        return [(0, graphs, *part) for part in threads.split(np.arange(groups + 1), count)]
    # A node costs about as much as eight entries.
    work = 8 * inputs.ptr + inputs.rowptr[inputs.ptr]
    return [(*part, 0, groups) for part in threads.split(work, count)]


@lru_cache(maxsize=256)
def _shape(
    units: int, channels: int, scales: int, steps: int, policy: PathPolicy, dtype: torch.dtype
) -> Shape:
    increasing = policy == "increasing"
    parents = scales - 1 if increasing else scales
    # As many lanes as a vector of the CPU has, or half if they suffice.
    widest = (64 if _cpu_features().get("avx512f") else 32) // dtype.itemsize
    lanes = widest if units * parents > widest // 2 else max(widest // 2, 4)
    row = max(4, 1 << scales.bit_length())  # at least scales + 1
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
        row=row,
        group=group,
        blocks=-(-group * parents // lanes),
        together=int(lanes % parents == 0),
    )


@cache
def _cpu_features() -> dict[str, bool]:
    return dict(llvmlite.binding.get_host_cpu_features())


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
    return Graph(first, n, node_share(inputs.counts, first, n), powers, source)


@entry
def _scatter(
    shape: Any,
    inputs: Any,
    routes: Any,
    grad: Any,
    out: Any,
    begin: int,
    end: int,
    low: int,
    high: int,
) -> None:
    """Moments of the graphs ``begin`` to ``end`` and the groups of units ``low`` to ``high``.

    Args:
        grad: ``None``, or the gradient of the moments ``[models, graphs, paths, channels, 4]``.
        out: written, the moments; or, with ``grad``, what these graphs and units contribute to the
            gradient of the filters ``[units, scales, steps]``.
    """
    space = make_workspace(shape, inputs, begin, end, grad is not None)
    units = inputs.filters.size // (shape.scales * shape.steps)
    per_graph = shape.paths * shape.channels * 4
    size = (per_graph, (inputs.ptr.size - 1) * per_graph)
    pack_filters(shape, routes, units, inputs.filters, space)
    for g in range(begin, end):
        if inputs.ptr[g] < inputs.ptr[g + 1]:
            graph = _load(shape, inputs, g, space)
            for group in range(low, high):
                last = min(units, (group + 1) * shape.group)
                first_order(shape, inputs.x, graph, group * shape.group, last, space)
                if grad is None:
                    _moments(shape, graph, group, units, routes, out, g, size, space)
                else:
                    _gradients(shape, graph, group, units, routes, grad, g, size, space)
        elif grad is None:
            for model in range(units // shape.channels):
                place = model * size[1] + g * size[0]
                out[place : place + size[0]] = 0
    if grad is not None:
        unpack_gradients(shape, routes, units, space, out)


@inlined
def _sizes(shape: Any, group: int, units: int) -> Any:
    """First and last unit of a group, its blocks, and the size of a block's bank."""
    low = group * shape.group
    high = min(units, low + shape.group)
    blocks = ((high - low) * shape.parents + shape.lanes - 1) // shape.lanes
    return low, high, blocks, shape.steps * shape.parents * shape.lanes


@merged
def _moments(
    shape: Any,
    graph: Any,
    group: int,
    units: int,
    routes: Any,
    out: Any,
    g: int,
    size: Any,
    space: Any,
) -> None:
    """Writes the moments of a group of units on one graph."""
    low, high, blocks, bank_size = _sizes(shape, group, units)
    for u in range(low, high):
        mean, centred, root = first_moments(shape, graph, u - low, space)
        write_moments(routes, u, moments_of(mean, centred, root * root), space, out, g, size)
    for block in range(blocks):
        k = group * shape.blocks + block
        bank = space.bank_second + k * bank_size
        means, centreds, roots = second_order(shape, graph, high - low, block, bank, space)
        all_moments = moments_of(means, centreds, roots * roots)
        write_moments(routes, units + k, all_moments, space, out, g, size)


@merged
def _gradients(
    shape: Any,
    graph: Any,
    group: int,
    units: int,
    routes: Any,
    grad: Any,
    g: int,
    size: Any,
    space: Any,
) -> None:
    """Adds what a group of units on one graph contributes to the gradient of the banks."""
    data = space.data
    low, high, blocks, bank_size = _sizes(shape, group, units)
    line, wide = zeros(data, shape.row, 1), zeros(data, shape.lanes, shape.parents)
    for block in range(blocks):
        k = group * shape.blocks + block
        bank = space.bank_second + k * bank_size
        means, centreds, roots = second_order(shape, graph, high - low, block, bank, space)
        slopes = read_gradients(routes, units + k, wide, space, grad, g, size)
        cubics = gradient_cubic(slopes, graph.share, centreds, roots)
        signal = space.signal + block * graph.n * shape.lanes
        gradient_second(shape, graph.n, means, cubics, bank, signal, space)
    for u in range(low, high):
        mean, centred, root = first_moments(shape, graph, u - low, space)
        slope = read_gradients(routes, u, line, space, grad, g, size)
        cubic = gradient_cubic(slope, graph.share, centred, root)
        gradient_first(shape, graph, u, u - low, mean, cubic, space)
