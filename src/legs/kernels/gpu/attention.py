"""Graph attention for stacks of models: ``attention.cu``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from legs.functional.sparse import Pattern
from legs.kernels.gpu import launch
from legs.kernels.gpu.spmm import product
from legs.kernels.mapped import Folded

WARPS = 8


def attend(
    hidden: Tensor, source: Tensor, target: Tensor, weight: Tensor, pattern: Pattern, slope: float
) -> Tensor:
    """Sums over neighbors weighted by attention, ``[nodes, heads * channels]``.

    The weights are the softmax over the entries of a row of ``leaky_relu(source + target)``.
    Differentiable once, and may be mapped over (:func:`torch.func.vmap`).

    Args:
        hidden: ``[nodes, heads * channels]``.
        source: scores of nodes as neighbors, ``[nodes, heads]``, a power of two up to 32.
        target: scores of nodes as centers, ``[nodes, heads]``.
        weight: how many times each entry counts, ``[entries]``.
        pattern: where the entries are; every row needs one.
        slope: of ``leaky_relu`` below zero.
    """
    tensors = (x.unsqueeze(0) for x in (hidden, source, target))
    out: Tensor = _Attend.call(*tensors, weight, slope, *pattern[:8])[0]
    return out.squeeze(0)


class _Attend(Folded):
    mapped = 3

    @staticmethod
    def forward(
        hidden: Tensor, source: Tensor, target: Tensor, weight: Tensor, slope: float, *tensors: Any
    ) -> tuple[Tensor, Tensor]:
        pattern = Pattern(*tensors)
        models, nodes, heads = source.shape
        share = source.new_empty(models, len(weight), heads)
        scores = [source.contiguous(), target.contiguous()]
        args = [pattern.rowptr, pattern.col, weight, *scores, share]
        _run("attention_forward", hidden, source, [*args, models, nodes, len(weight), slope])
        return product(pattern.rowptr, pattern.col, None, share, hidden), share

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        hidden, source, target, _, ctx.slope, *tensors = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, source, target, output[1], *tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, source, target, share, *tensors = ctx.saved_tensors
        pattern = Pattern(*tensors)
        (models, nodes, _), grad = source.shape, grads[0].contiguous()
        change, of_target = torch.empty_like(share), source.new_empty(source.shape)
        args = [pattern.rowptr, pattern.col, source.contiguous(), target.contiguous(), share]
        args += [hidden.contiguous(), grad, change, of_target]
        sizes = [models, nodes, share.shape[1], ctx.slope]
        _run("attention_backward", hidden, source, [*args, *sizes])
        columns = (pattern.rowptr_t, pattern.col_t, pattern.to_columns)
        of_hidden = product(*columns, share, grad)
        of_source = product(*columns, change, source.new_ones(source.shape))
        return of_hidden, of_source, of_target, None, None, *[None] * len(tensors)


def _run(name: str, hidden: Tensor, source: Tensor, args: list[Any]) -> None:
    models, nodes, heads = source.shape
    constants = {"HEADS": heads, "WIDTH": hidden.shape[2] // heads, "WARPS": WARPS}
    blocks = -(-models * nodes // WARPS)
    launch.run("attention", name, source, blocks, WARPS * 32, args, **constants)
