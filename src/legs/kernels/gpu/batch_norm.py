"""Batch norm over graphs under a mask, for one model or many: ``batch_norm.cu``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

THREADS, LANES = 256, 32  # per block; channels of a block


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for such features and parameters."""
    if torch.compiler.is_compiling() or not x.numel():
        return False
    return launch.applies(x) and x.dtype == weight.dtype


def batch_norm(
    x: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
) -> Tensor:
    """Normalizes graph features in training, and updates the running averages in place.

    Args:
        x: ``[graphs, channels]``.
        mask: ``[graphs]``, one where a graph enters the statistics, else zero.
        weight: ``[channels]``.
        bias: ``[channels]``.
        running_mean: ``[channels]``.
        running_var: ``[channels]``.
        eps: added to variances.
        momentum: of the running averages.

    Returns:
        ``[graphs, channels]``. Differentiable once in ``x``, ``weight`` and ``bias``; may be mapped
        over (:func:`torch.func.vmap`).
    """
    tensors = (x, mask, weight, bias, running_mean, running_var)
    out: Tensor = _Norm.call(*(tensor.unsqueeze(0) for tensor in tensors), eps, momentum)[0]
    return out.squeeze(0)


class _Norm(Folded):
    """The result, and for backward ``[models, 2, channels]``: means and one over deviations."""

    mapped, shared = 6, 1

    @staticmethod
    def forward(x: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        weight, bias, running_mean, running_var, eps, momentum = rest
        (models, graphs), channels = mask.shape, x.shape[2]
        out, stats = x.new_empty(models, graphs, channels), x.new_empty(models, 2, channels)
        tensors = [t.contiguous() for t in (x, mask, weight, bias)]
        tensors += [running_mean, running_var, out, stats]
        _run("norm_forward", x, models, [*tensors, graphs, channels], [eps, momentum])
        return out, stats

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, mask, weight, stats), grad = ctx.saved_tensors, grads[0]
        models, graphs, channels = grad.shape
        change = grad.new_empty(grad.shape if ctx.needs_input_grad[0] else 0)  # 0: a null pointer
        terms = torch.empty_like(stats)  # gradients of weight and bias
        tensors = [t.contiguous() for t in (grad, x, mask, weight, stats)]
        _run("norm_backward", x, models, [*tensors, change, terms, graphs, channels], [])
        of_x = change.sum_to_size(x.shape) if ctx.needs_input_grad[0] else None
        return of_x, None, terms[:, 0], terms[:, 1], *[None] * 4


def _run(name: str, x: Tensor, models: int, args: list[Any], numbers: list[float]) -> None:
    tiles = -(-x.shape[2] // LANES)
    constants = {"THREADS": THREADS, "SAME": int(len(x) < models)}
    args = [*args, tiles, *numbers]
    launch.run("batch_norm", name, x, models * tiles, THREADS, args, **constants)
