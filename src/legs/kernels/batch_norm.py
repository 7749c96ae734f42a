"""Batch norm over graphs under a mask as one operation, for one model or many at once, on GPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legs.kernels import messages_cuda, stack_cuda
from legs.kernels.dispatch import chosen
from legs.kernels.transforms import Last, fixed_signatures


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for such features and parameters."""
    if torch.compiler.is_compiling() or chosen() == "reference" or not x.numel():
        return False
    return messages_cuda.applies(x) and x.dtype == weight.dtype


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
    """Normalises graph features in training, and updates the running averages in place.

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
    given = (x, mask, weight, bias, running_mean, running_var)
    out, _ = _Norm.apply(*(g.unsqueeze(0) for g in given), eps, momentum)  # type: ignore[no-untyped-call]
    found: Tensor = out.squeeze(0)
    return found


class _Norm(torch.autograd.Function):
    """:func:`legs.kernels.stack_cuda.norm_forward`."""

    @staticmethod
    def forward(
        x: Tensor,
        mask: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        eps: float,
        momentum: float,
    ) -> tuple[Tensor, Tensor]:
        averages = (running_mean, running_var)
        return stack_cuda.norm_forward(x, mask, weight, bias, *averages, eps, momentum)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, mask, weight, *_ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, mask, weight, output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, wanted = ctx.saved_tensors, ctx.needs_input_grad[0]
        change, terms = _NormGrad.apply(grads[0], *saved, wanted)  # type: ignore[no-untyped-call]
        if change is not None and len(saved[0]) < len(change):
            change = change.sum(0, keepdim=True)
        return change, None, terms[:, 0], terms[:, 1], *[None] * 4

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
        folded = [_folded(x, dim, info.batch_size) for x, dim in zip(inputs, in_dims, strict=True)]
        if in_dims[0] is None:
            folded[0] = inputs[0]  # the same for all models, once
        out = _Norm.apply(*folded)  # type: ignore[no-untyped-call]
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in out), (0, 0)


class _NormGrad(Last):
    """:func:`legs.kernels.stack_cuda.norm_backward`."""

    @staticmethod
    def forward(
        grad: Tensor, x: Tensor, mask: Tensor, weight: Tensor, kept: Tensor, wanted: bool
    ) -> tuple[Tensor | None, Tensor]:
        return stack_cuda.norm_backward(grad, x, mask, weight, kept, wanted)


def _folded(x: Any, dim: int | None, size: int) -> Any:
    """Mapped models as the first axis; that of one model alone goes into it."""
    if not isinstance(x, Tensor):
        return x
    leading = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return leading.flatten(0, 1)


fixed_signatures(_Norm, _NormGrad)
