"""The compiled loops over the graphs of a batch, forward and backward.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from legs.kernels.cpu_banks import gather, make_routes, scatter, unpack_banks
from legs.kernels.cpu_first import gradient_first, rows_to_gradients
from legs.kernels.cpu_fork import fork
from legs.kernels.cpu_jit import entry, inner
from legs.kernels.cpu_moments import centred_means, gradient_cubic, moments_of
from legs.kernels.cpu_parts import extra_gradient, first_order, load_graph, prepare, second_order
from legs.kernels.cpu_room import LEFT
from legs.kernels.cpu_second import children_to_gradients, gradient_second
from legs.kernels.cpu_vectors import fill, load, store, zeros
from legs.kernels.cpu_weights import share_of


@inner
def _forward(
    shape: Any, size: Any, arrays: Any, out: Any, begin: int, end: int, first: int, last: int
) -> Any:
    """Moments of the graphs ``begin`` to ``end`` and of the groups of units ``first`` to ``last``.

    Args:
        shape: :class:`~legs.kernels.cpu_shape.Shape`.
        size: :class:`~legs.kernels.cpu_banks.Sizes`.
        arrays: :class:`~legs.kernels.cpu_parts.Arrays`.
        out: where to write them, ``[models, graphs, paths, channels, 4]``, flat.

    Returns:
        Zero, or what is wrong with the graphs.
    """
    trouble, room, work, graph = prepare(shape, size, arrays, begin, end, False)
    if trouble:
        return trouble
    line = zeros(work, shape.row, 1)
    flip = load(line, work, room.flip)
    routes = make_routes(size)
    stride = size.paths * shape.channels * 4
    for g in range(begin, end):
        n = arrays.ptr[g + 1] - arrays.ptr[g]
        if n == 0:
            for model in range(size.units // shape.channels):
                place = (model * size.graphs + g) * stride
                out[place : place + stride] = 0
            continue
        stays, powers, source = load_graph(shape, arrays, g, graph, room)
        if not stays:
            return LEFT
        share = share_of(arrays.copies, arrays.ptr[g], n)
        for group in range(first, last):
            low = group * size.group
            high = min(size.units, low + size.group)
            first_order(shape, size, arrays, g, group, powers, source, share, graph, room)
            for u in range(low, high):
                z = room.z_first + (u - low) * n * shape.row
                mean = load(line, work, room.mean + (u - low) * shape.row)
                root = fill(line, work[room.root + u - low])
                centred = centred_means(
                    work, z, n, share, graph.copies, graph.times, mean, flip, 1.0 / root
                )
                store(moments_of(mean, centred, root * root), work, room.moments)
                scatter(routes, u, work, room.moments, out, g * stride)
            for block in range(((high - low) * size.parents + shape.lanes - 1) // shape.lanes):
                means, centreds, roots = second_order(
                    shape, size, n, share, group, block, graph, room
                )
                store(moments_of(means, centreds, roots * roots), work, room.moments)
                which = size.units + group * size.blocks + block
                scatter(routes, which, work, room.moments, out, g * stride)
    return 0


@inner
def _backward(
    shape: Any,
    size: Any,
    arrays: Any,
    grad: Any,
    found: Any,
    begin: int,
    end: int,
    first: int,
    last: int,
) -> Any:
    """What a range adds to the gradient of the filters; as :func:`_forward`.

    Args:
        grad: gradient of the moments, ``[models, graphs, paths, channels, 4]``, flat.
        found: where to write that of the filters, ``[units, scales, steps]``, flat.
    """
    trouble, room, work, graph = prepare(shape, size, arrays, begin, end, True)
    if trouble:
        return trouble
    zero, line = zeros(work, shape.lanes, 1), zeros(work, shape.row, 1)
    wide = zeros(work, shape.lanes, shape.children)
    every, every_line = (
        zeros(work, shape.four_lanes, shape.children),
        zeros(work, shape.four_row, 1),
    )
    flip = load(line, work, room.flip)
    routes = make_routes(size)
    stride = size.paths * shape.channels * 4
    bank_size = shape.steps * shape.children * shape.lanes
    for g in range(begin, end):
        n = arrays.ptr[g + 1] - arrays.ptr[g]
        if n == 0:
            continue
        stays, powers, source = load_graph(shape, arrays, g, graph, room)
        if not stays:
            return LEFT
        share = share_of(arrays.copies, arrays.ptr[g], n)
        for group in range(first, last):
            low = group * size.group
            high = min(size.units, low + size.group)
            first_order(shape, size, arrays, g, group, powers, source, share, graph, room)
            for block in range(((high - low) * size.parents + shape.lanes - 1) // shape.lanes):
                means, centreds, roots = second_order(
                    shape, size, n, share, group, block, graph, room
                )
                which = group * size.blocks + block
                store(every, work, room.moments)
                gather(routes, size.units + which, grad, g * stride, work, room.moments)
                cubics = gradient_cubic(load(every, work, room.moments), share, centreds, roots)
                children_to_gradients(graph, n, means, fill(wide, -1.0), cubics, room.z_second)
                gradient_second(
                    zero,
                    wide,
                    shape.steps,
                    graph,
                    n,
                    room.states,
                    room.bank_second + which * bank_size,
                    room.z_second,
                    room.ping,
                    room.found_second + which * bank_size,
                    room.signal + block * n * shape.lanes,
                )
            for u in range(low, high):
                extra_gradient(shape, size, n, u - low, work, room)
                z = room.z_first + (u - low) * n * shape.row
                mean = load(line, work, room.mean + (u - low) * shape.row)
                root = fill(line, work[room.root + u - low])
                centred = centred_means(
                    work, z, n, share, graph.copies, graph.times, mean, flip, 1.0 / root
                )
                store(every_line, work, room.moments)
                gather(routes, u, grad, g * stride, work, room.moments)
                cubic = gradient_cubic(load(every_line, work, room.moments), share, centred, root)
                rows_to_gradients(n, mean, flip, cubic, work, z, room.extra)
                gradient_first(
                    line,
                    shape.steps,
                    shape.channels,
                    powers,
                    source + u % shape.channels,
                    graph,
                    n,
                    work,
                    z,
                    room.found_first + u * shape.steps * shape.row,
                )
    unpack_banks(size, work, room.found_first, room.found_second, found)
    return 0


@inner
def _forward_some(
    shape: Any, size: Any, arrays: Any, out: Any, ranges: Any, trouble: Any, me: int, all_: int
) -> None:
    for k in range(me, ranges.shape[0], all_):
        begin, end, first, last = ranges[k]
        trouble[k] = _forward(shape, size, arrays, out, begin, end, first, last)


@inner
def _backward_some(
    shape: Any,
    size: Any,
    arrays: Any,
    grad: Any,
    found: Any,
    ranges: Any,
    trouble: Any,
    me: int,
    all_: int,
) -> None:
    for k in range(me, ranges.shape[0], all_):
        begin, end, first, last = ranges[k]
        trouble[k] = _backward(shape, size, arrays, grad, found[k], begin, end, first, last)


@entry
def forward(
    places: Any,
    threads: int,
    shape: Any,
    size: Any,
    arrays: Any,
    out: Any,
    ranges: Any,
    trouble: Any,
) -> None:
    """Moments of some ranges of graphs and units, which threads share.

    Args:
        places: :func:`~legs.kernels.cpu_fork.addresses`, for more than one thread.
        threads: how many.
        shape: :class:`~legs.kernels.cpu_shape.Shape`.
        size: :class:`~legs.kernels.cpu_banks.Sizes`.
        arrays: :class:`~legs.kernels.cpu_parts.Arrays`.
        out: where to write moments, ``[models, graphs, paths, channels, 4]``, flat.
        ranges: first and last graph and group of units, ``[parts, 4]``.
        trouble: zero, or what is wrong with the graphs of a range; ``[parts]``.
    """
    if threads == 1:
        _forward_some(shape, size, arrays, out, ranges, trouble, 0, 1)
    else:
        fork(places, threads, _forward_some, (shape, size, arrays, out, ranges, trouble))


@entry
def backward(
    places: Any,
    threads: int,
    shape: Any,
    size: Any,
    arrays: Any,
    grad: Any,
    found: Any,
    ranges: Any,
    trouble: Any,
) -> None:
    """What ranges add to the gradient of the filters; as :func:`forward`.

    Args:
        grad: gradient of the moments, ``[models, graphs, paths, channels, 4]``, flat.
        found: where to write that of the filters, ``[parts, units * scales * steps]``.
    """
    if threads == 1:
        _backward_some(shape, size, arrays, grad, found, ranges, trouble, 0, 1)
    else:
        given = (shape, size, arrays, grad, found, ranges, trouble)
        fork(places, threads, _backward_some, given)
