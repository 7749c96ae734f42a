"""Message passing on the CPU: compiled loops over the rows of a batch.

The functions are those of :mod:`legs.kernels.messages_cuda`, and take the same: everything is
``[models, nodes, channels]``. Loops are compiled by numba, an extra. Nodes are shared out to
:func:`torch.get_num_threads` threads; any number of them gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from legs.kernels import cpu
from legs.kernels.cpu_threads import over_parts, share_out
from legs.kernels.dispatch import CROSSOVERS, chosen

# What imports numba is imported where it is needed: numba is an extra, and takes its time.

ROWS_OF_A_SUM = 8192  # rows whose gradients are added up before those of others are


def applies(x: Tensor) -> bool:
    """Whether the loops can be had for ``x``, ``[..., nodes, channels]``, and pay."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return False
    pays = chosen() == "fused" or x.shape[-2] >= CROSSOVERS["cpu"][0]
    return pays and cpu.available()


def aggregate(
    h: Tensor,
    own: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    pre: Tensor | None,
    post: Tensor | None,
    once: bool,
    side: int,
    out: Tensor | None = None,
) -> Tensor:
    r"""See :func:`legs.kernels.messages_cuda.aggregate`.

    Both scales of a node go into the matrix, which has far fewer entries than the states have:
    :math:`S_{ij} = b_i w_{ij} a_j`.
    """
    from legs.kernels.cpu_csr import step

    rowptr = rowptr.long()
    value = h.new_ones(col.shape) if weight is None else weight
    if pre is not None:
        value = value * pre.index_select(0, col)
    if post is not None:
        value = value * post.repeat_interleave(rowptr.diff())
    x = (h.chunk(2, dim=-1)[0] if side == 1 else h).contiguous()
    found = torch.empty_like(x)
    for k in range(len(x)):
        step(rowptr, col, value.contiguous(), x[k], out=found[k])
    if own is not None or once:
        scale = x.new_ones(()) if own is None else own.reshape(-1, 1, 1)
        for each in (pre, post):
            scale = scale if each is None else scale * each.unsqueeze(-1)
        found.addcmul_(x, scale)
    if side == 1:
        found += h.chunk(2, dim=-1)[1]
    if side == 2:
        found = torch.cat([found, h], dim=-1)
    return found if out is None else out.copy_(found)


def rows_forward(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    weight: Tensor | None,
    share: Tensor | None,
    ptr: Tensor,
    act: str,
    eps: float,
) -> Tensor:
    """See :func:`legs.kernels.messages_cuda.rows_forward`; there is never a ``weight`` here."""
    from legs.kernels import cpu_rows

    if act == "tanh":
        z = torch.tanh(z if bias is None else z + bias.unsqueeze(1))
        if share is None:
            return z
    models, rows, channels = z.shape
    layer = _layer(z, bias, gamma, beta, eps) if act == "norm" else [()] * models
    states = _arrays(z)
    if share is None:
        out = z.new_empty(z.shape)
        known = [(states[k], *layer[k], to) for k, to in enumerate(_arrays(out))]
        over_parts(cpu_rows.norm_rows, known, np.arange(rows + 1), channels)
        return out
    out = z.new_empty(models, len(ptr) - 1, share.shape[1] * channels)
    loop = cpu_rows.norm_pooled if act == "norm" else cpu_rows.pooled
    sums = _arrays(share), _arrays(ptr)
    known = [(states[k], *layer[k], *sums, to) for k, to in enumerate(_arrays(out))]
    over_parts(loop, known, sums[1], channels)
    return out


def rows_backward(
    grad: Tensor,
    z: Tensor | None,
    bias: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    weight: Tensor | None,
    share: Tensor | None,
    graph: Tensor,
    act: str,
    eps: float,
    wanted: bool = True,
    out: Tensor | None = None,
) -> tuple[Tensor | None, Tensor]:
    """See :func:`legs.kernels.messages_cuda.rows_backward`."""
    from legs.kernels import cpu_rows

    models, rows = grad.shape[0], graph.shape[0]
    channels = grad.shape[2] if share is None else grad.shape[2] // share.shape[1]
    sums = _arrays(grad.new_empty(rows, 0) if share is None else share)
    changes = grad.new_empty(models, rows, channels)
    given, to, graphs = _arrays(grad), _arrays(changes), _arrays(graph)
    if act == "norm":
        assert z is not None
        layer, states = _layer(z, bias, gamma, beta, eps), _arrays(z)
        # One partial sum a block, added in a fixed order.
        starts = range(0, rows, ROWS_OF_A_SUM)
        terms = grad.new_zeros(models, len(starts), 3, channels)
        calls = [
            (given[k], states[k], *layer[k], sums, graphs, to[k], part, *_block(start, rows))
            for k, parts in enumerate(_arrays(terms))
            for start, part in zip(starts, parts, strict=True)
        ]
        share_out(cpu_rows.norm_backward, calls, rows * channels * models)
        found = terms.sum(1)[:, : 2 if bias is None else 3]
    else:
        known = [(given[k], sums, graphs, to[k]) for k in range(models)]
        over_parts(cpu_rows.spread, known, np.arange(rows + 1), channels)
        if act == "tanh":
            assert z is not None
            after = torch.tanh(z if bias is None else z + bias.unsqueeze(1))
            changes *= 1 - after.square_()
        found = changes.sum(1, keepdim=True)[:, : int(bias is not None)]
    if out is not None:
        return out.copy_(changes), found
    return changes if wanted else None, found


def attend(
    u: Tensor, rowptr: Tensor, col: Tensor, weight: Tensor | None, heads: int, slope: float
) -> tuple[Tensor, Tensor]:
    """See :func:`legs.kernels.messages_cuda.attend`."""
    from legs.kernels import cpu_attend

    models, rows, width = u.shape
    out, stats = u.new_empty(models, rows, width - 2 * heads), u.new_empty(models, rows, 2, heads)
    graph = [_arrays(x) for x in (rowptr, col, _or_nothing(u, weight))]
    each = zip(_arrays(u), _arrays(out), _arrays(stats), strict=True)
    size = cpu_attend.heads_of(heads, width)
    known = [(size, *graph, *arrays, _real(u, slope)) for arrays in each]
    over_parts(cpu_attend.attend, known, graph[0], width)
    return out, stats


def attend_backward(
    grad: Tensor,
    u: Tensor,
    stats: Tensor,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    copies: Tensor | None,
    heads: int,
    slope: float,
) -> Tensor:
    """See :func:`legs.kernels.messages_cuda.attend_backward`."""
    from legs.kernels import cpu_attend

    models, rows, width = u.shape
    change, seen = u.new_empty(u.shape), u.new_empty(models, rows, 4, heads)
    graph = [_arrays(x) for x in (rowptr, col, _or_nothing(u, weight), _or_nothing(u, copies))]
    given = list(zip(*(_arrays(x) for x in (u, grad, stats, change, seen)), strict=True))
    size, real = cpu_attend.heads_of(heads, width), _real(u, slope)
    known = [(size, *graph, *arrays, real) for arrays in given]
    over_parts(cpu_attend.receivers, known, graph[0], width)
    known = [(size, *graph, a, b, seen_by, to, real) for a, b, _, to, seen_by in given]
    over_parts(cpu_attend.senders, known, graph[0], width)
    return change


def _arrays(x: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = x.contiguous().numpy(force=True)
    return found


def _or_nothing(like: Tensor, x: Tensor | None) -> Tensor:
    return like.new_empty(0) if x is None else x


def _real(like: Tensor, number: float) -> Any:
    """A number of the same type: with Python's, loops would compute in double precision."""
    return np.float32(number) if like.dtype == torch.float32 else np.float64(number)


def _layer(
    z: Tensor, bias: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float
) -> list[tuple[Any, ...]]:
    assert gamma is not None and beta is not None
    bias = torch.zeros_like(gamma) if bias is None else bias
    each = zip(*(_arrays(x) for x in (bias, gamma, beta)), strict=True)
    return [(*arrays, _real(z, eps)) for arrays in each]


def _block(start: int, rows: int) -> tuple[int, int]:
    return start, min(start + ROWS_OF_A_SUM, rows)
