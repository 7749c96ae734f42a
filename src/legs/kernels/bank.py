r"""The filters of learned scales as one operation: ``sources/bank.cu`` on NVIDIA GPUs, else loops.

What :func:`legs.functional.select_scales` (ordered) and
:func:`~legs.functional.wavelet_weights` make of the logits :math:`\Theta`, for laziness ½, and its
gradient. In PyTorch that is a dozen operations each way, for a hundred numbers: on a GPU as many
launches, on the CPU (:mod:`legs.kernels.cpu_filters`) a tenth of the time of a small batch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from legs.kernels import cpu, messages_cuda
from legs.kernels.cuda_launch import TYPES, Kernel
from legs.kernels.transforms import Last, fixed_signatures, leading

THREADS = 64
MOST = 4096  # numbers of a bank, which lie in shared memory


def applies(theta: Tensor) -> bool:
    """Whether there is a kernel for logits ``[J, m]``."""
    if theta.dtype not in TYPES:
        return False
    if theta.device.type == "cpu":
        return cpu.available()
    return theta.device.type == "cuda" and theta.shape[-2] * theta.shape[-1] <= MOST


def learned_filters(theta: Tensor, channels: int) -> Tensor:
    """Filters ``[channels, J, m]`` of logits ``[J, m]``, the same for all channels.

    Differentiable once, and may be mapped over (:func:`torch.func.vmap`).
    """
    filters: Tensor = _Bank.apply(theta.unsqueeze(0), channels)[0]  # type: ignore[no-untyped-call]
    return filters.squeeze(0)


@cache
def _compiled(
    name: str, dtype: torch.dtype, device: int, channels: int, scales: int, steps: int
) -> Kernel:
    known = {"real": TYPES[dtype], "THREADS": THREADS, "C": channels, "J": scales, "M": steps}
    return Kernel(("bank.cu",), f"bank_{name}", device, known)


def _run(name: str, like: Tensor, channels: int, given: list[Tensor]) -> None:
    if like.device.type == "cpu" and not messages_cuda.applies(like):
        from legs.kernels import cpu_filters

        getattr(cpu_filters, name)(*(x.detach().numpy() for x in given))
        return
    models, scales, steps = like.shape
    device = like.device.index
    with torch.cuda.device(device):
        _compiled(name, like.dtype, device, channels, scales, steps)(models, THREADS, given)


class _Bank(torch.autograd.Function):
    """Of logits ``[models, J, m]``: filters, and for the way back softmax and order."""

    @staticmethod
    def forward(theta: Tensor, channels: int) -> tuple[Tensor, Tensor, Tensor]:
        models, scales, steps = theta.shape
        filters = theta.new_empty(models, channels, scales, steps)
        rows, order = theta.new_empty(theta.shape), theta.new_empty(theta.shape, dtype=torch.int32)
        _run("forward", theta, channels, [theta.contiguous(), filters, rows, order])
        return filters, rows, order

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        if grads[0] is None:
            return None, None
        return _BankGrad.apply(grads[0], *ctx.saved_tensors), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], theta: Tensor, channels: int
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        folded = leading(theta, in_dims[0], info.batch_size)
        out: tuple[Tensor, ...] = _Bank.apply(folded.flatten(0, 1), channels)  # type: ignore[no-untyped-call]
        return tuple(part.unflatten(0, folded.shape[:2]) for part in out), (0, 0, 0)


class _BankGrad(Last):
    @staticmethod
    def forward(grad: Tensor, rows: Tensor, order: Tensor) -> Tensor:
        out = torch.empty_like(rows)
        given = [grad.contiguous(), rows.contiguous(), order.contiguous(), out]
        _run("backward", rows, grad.shape[1], given)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        found = [leading(x, d, info.batch_size) for x, d in zip(inputs, in_dims, strict=True)]
        out: Tensor = _BankGrad.apply(*(x.flatten(0, 1) for x in found))  # type: ignore[no-untyped-call]
        return out.unflatten(0, found[0].shape[:2]), 0


fixed_signatures(_Bank, _BankGrad)
