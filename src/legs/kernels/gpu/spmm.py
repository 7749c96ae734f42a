"""Sparse products for stacks of models: ``spmm.cu``.

States have an axis of models in front, ``[models, nodes, channels]``: nothing is moved or copied to
multiply those of many models with one matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from legs.functional.sparse import Pattern
from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

THREADS = 256


def product(rowptr: Tensor, col: Tensor, order: Tensor | None, values: Tensor, x: Tensor) -> Tensor:
    """A sparse matrix times the states of all models, ``[models, rows, channels]``.

    Args:
        rowptr: ``[rows + 1]``.
        col: ``[entries]``.
        order: where the value of each entry is; ``None`` for the order of the entries.
        values: ``[entries]``; or those of every model and head, ``[models, entries, heads]``.
        x: ``[models, columns, channels]``; heads are equal parts of the channels.
    """
    models, columns, channels = x.shape
    rows, heads = rowptr.shape[0] - 1, values.shape[2] if values.dim() == 3 else 0
    width = next(w for w in (4, 2, 1) if channels // max(heads, 1) % w == 0)
    pieces, out = channels // width, x.new_empty(models, rows, channels)
    tensors = [rowptr, col, col.new_empty(0) if order is None else order]  # empty: a null pointer
    args: list[Any] = [*tensors, values.contiguous(), launch.aligned(x), out]
    args += [models, rows, columns, col.shape[0], pieces]
    blocks = -(-models * rows * pieces // THREADS)
    launch.run("spmm", "spmm", x, blocks, THREADS, args, WIDTH=width, HEADS=heads)
    return out


def spmm(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    """:func:`legs.functional.sparse.spmm` for values that need no gradient, ``[rows, channels]``.

    Differentiable in ``x``, and may be mapped over (:func:`torch.func.vmap`).
    """
    out: Tensor = _Product.call(x.unsqueeze(0), values, *pattern[:8])
    return out.squeeze(0)


class _Product(Folded):
    @staticmethod
    def forward(x: Tensor, values: Tensor, *tensors: Any) -> Tensor:
        pattern = Pattern(*tensors)
        return product(pattern.rowptr, pattern.col, None, values, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        values, *tensors = ctx.saved_tensors
        pattern = Pattern(*tensors)
        values = values.index_select(0, pattern.to_columns)
        change = _Product.call(grads[0], values, *pattern.transpose()[:8])
        return change, None, *[None] * len(tensors)


def pool(x: Tensor, batch: Tensor, num_graphs: int, weights: Tensor) -> Tensor:
    """Weighted sums over the rows of each graph, ``[graphs, channels]``.

    Differentiable in ``x``, and may be mapped over (:func:`torch.func.vmap`).
    """
    out: Tensor = _Pool.call(x.unsqueeze(0), batch, num_graphs, weights)
    return out.squeeze(0)


class _Pool(Folded):
    @staticmethod
    def forward(x: Tensor, batch: Tensor, num_graphs: int, weights: Tensor) -> Tensor:
        out = x.new_zeros(x.shape[0], num_graphs, x.shape[2])
        return out.index_add_(1, batch, x * weights.unsqueeze(-1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], inputs[3])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        batch, weights = ctx.saved_tensors
        rowptr = torch.arange(len(batch) + 1, device=batch.device)  # one entry per row
        return product(rowptr, batch, None, weights, grads[0]), None, None, None
