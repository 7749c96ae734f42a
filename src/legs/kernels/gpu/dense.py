"""Layers over the rows of many models, whose passes over memory are few: ``norm_relu.cu``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

WARPS = 8
BLOCKS = 2048  # that fill a GPU
# A weight's gradient is a sum over all rows, which a matrix product leaves to one block per tile of
# the weight. With rows in parts there are enough blocks, and parts are added in a fixed order.
PARTS, PART_ROWS = 64, 64


def padded_rows(x: Tensor) -> int:
    """The number of rows to pad ``x`` to, so that :func:`linear` can cut them into parts."""
    return -(-x.shape[0] // PARTS) * PARTS if launch.applies(x) else x.shape[0]


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.mT``, ``[rows, outputs]``; on GPUs with rows in parts where that is possible.

    >>> linear(torch.ones(3, 2), torch.eye(2)).shape
    torch.Size([3, 2])
    """
    parts = PARTS
    while parts > 1 and (x.shape[0] % parts or x.shape[0] < parts * PART_ROWS):
        parts //= 2
    if parts == 1 or not launch.applies(x):
        return x @ weight.mT
    cut = x.unflatten(0, (parts, -1))
    return torch.bmm(cut, weight.mT.expand(parts, -1, -1)).flatten(0, 1)


def norm_relu(x: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float) -> Tensor:
    """``relu(layer_norm(x + bias, weight, shift))`` over the channels.

    On GPUs one pass forward and one backward. Differentiable once there, and may be mapped over
    (:func:`torch.func.vmap`).

    Args:
        x: ``[rows, channels]``.
        bias: ``[channels]``.
        weight: of the layer norm, ``[channels]``.
        shift: bias of the layer norm, ``[channels]``.
        eps: added to variances.
    """
    if not launch.applies(x) or not x.numel():
        return F.layer_norm(x + bias, weight.shape, weight, shift, eps).relu()
    tensors = (tensor.unsqueeze(0) for tensor in (x, bias, weight, shift))
    out: Tensor = _NormRelu.call(*tensors, eps)
    return out.squeeze(0)


def _launch(name: str, x: Tensor, tensors: list[Tensor], parts: int, eps: float) -> None:
    models, rows, channels = x.shape
    args = [*tensors, rows, parts, eps]
    launch.run("norm_relu", name, x, models * parts, WARPS * 32, args, C=channels, WARPS=WARPS)


def _parts(x: Tensor) -> int:
    return max(1, min(BLOCKS // x.shape[0], -(-x.shape[1] // WARPS)))


class _NormRelu(Folded):
    mapped = 4

    @staticmethod
    def forward(x: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float) -> Tensor:
        tensors = [tensor.contiguous() for tensor in (x, bias, weight, shift)]
        out = torch.empty_like(tensors[0])
        _launch("norm_relu_forward", x, [*tensors, out], _parts(x), eps)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.eps = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors = [tensor.contiguous() for tensor in (*ctx.saved_tensors, grads[0])]
        x, parts = tensors[0], _parts(tensors[0])
        change, sums = torch.empty_like(x), x.new_empty(x.shape[0], parts, 3, x.shape[2])
        _launch("norm_relu_backward", x, [*tensors, change, sums], parts, ctx.eps)
        return change, *sums.sum(1).unbind(1), None
