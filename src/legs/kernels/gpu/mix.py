"""Bands of node states, weighed and summed, for one model or many: ``mix.cu``."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd.function import once_differentiable

from legs.kernels.gpu import launch
from legs.kernels.mapped import Folded

THREADS = 256
PARTS = 64  # blocks that share the rows of a model


def mix(x: Tensor, bands: Tensor, weight: Tensor, absolute: int) -> Tensor:
    """``weight[0] * x + (weight[1:] * phi(bands)).sum(1)``, ``[rows, channels]``.

    Differentiable once, and may be mapped over (:func:`torch.func.vmap`).

    Args:
        x: ``[rows, channels]``.
        bands: ``[rows, bands, channels]``.
        weight: ``[1 + bands, channels]``.
        absolute: of the first so many bands, ``phi`` is the absolute value; of others, itself.
    """
    out: Tensor = _Mix.call(*(t.unsqueeze(0) for t in (x, bands, weight)), absolute)
    return out.squeeze(0)


class _Mix(Folded):
    mapped = 3

    @staticmethod
    def forward(x: Tensor, bands: Tensor, weight: Tensor, absolute: int) -> Tensor:
        tensors = [t.contiguous() for t in (x, bands, weight)]
        out, constants = tensors[0].new_empty(x.shape), _constants(bands, absolute)
        blocks = -(-out.numel() // THREADS)
        args = [*tensors, out, *x.shape]
        launch.run("mix", "mix_forward", x, blocks, THREADS, args, **constants)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.absolute = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, bands, weight = (t.contiguous() for t in ctx.saved_tensors)
        models, rows, channels = x.shape
        parts = max(1, min(PARTS, rows // (THREADS // 32)))
        of_x, of_bands = x.new_empty(x.shape), bands.new_empty(bands.shape)
        partial = x.new_empty(models, parts, *weight.shape[1:])
        args = [grads[0].contiguous(), x, bands, weight, of_x, of_bands, partial]
        blocks, constants = models * parts * -(-channels // 32), _constants(bands, ctx.absolute)
        launch.run(
            "mix", "mix_backward", x, blocks, THREADS, [*args, parts, rows, channels], **constants
        )
        return of_x, of_bands, partial.sum(1), None


def _constants(bands: Tensor, absolute: int) -> dict[str, int]:
    return {"B": bands.shape[2], "ABSOLUTE": absolute, "THREADS": THREADS}
