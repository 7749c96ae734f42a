r"""Linear layers of many models over many rows, whose weights get their gradients in parts.

.. math::
    Z = H W^\top, \qquad \partial W = \bar Z^\top H = \sum_p \bar Z_p^\top H_p

:math:`\partial W` is small, and a sum over all nodes. A matrix product gives each of its tiles to
one block of threads: with ten models, ten blocks on a GPU that could run hundreds. In parts of the
rows there are enough, and the parts are added in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legs.kernels import messages_cuda
from legs.kernels.transforms import fixed_signatures, leading

ENOUGH = 512  # blocks that fill a GPU
TILE = 64  # rows and columns of what a block computes
LEAST_ROWS = 256  # of a part


def linear(z: Tensor, weight: Tensor) -> Tensor:
    """``z @ weight.mT``, faster to train where there are few models.

    Args:
        z: ``[..., rows, inputs]``.
        weight: ``[..., outputs, inputs]``, of as many models, or the same for all.

    >>> linear(torch.ones(3, 2), torch.eye(2)).shape
    torch.Size([3, 2])
    """
    if not messages_cuda.applies(z) or z.dtype != weight.dtype:
        return z @ weight.mT
    rows = z.reshape(-1, *z.shape[-2:])
    own = weight.reshape(-1, *weight.shape[-2:]).expand(len(rows), -1, -1)
    out: Tensor = _Linear.apply(rows, own)  # type: ignore[no-untyped-call]
    return out.reshape(*z.shape[:-1], weight.shape[-2])


def weight_gradient(change: Tensor, seen: Tensor) -> Tensor:
    """``change.mT @ seen``, ``[models, outputs, inputs]``, as a sum over parts of the rows.

    Args:
        change: gradient of the results, ``[models, rows, outputs]``.
        seen: what the layer read, ``[models, rows, inputs]``.
    """
    models, rows, outputs = change.shape
    parts = parts_of(models, rows, outputs, seen.shape[2])
    # What is the same for all models is not to be written down for each.
    if parts == 1 or (models > 1 and 0 in (change.stride(0), seen.stride(0))):
        return torch.bmm(change.mT, seen)
    cut, read = (x.unflatten(1, (parts, -1)).flatten(0, 1) for x in (change, seen))
    found: Tensor = torch.bmm(cut.mT, read).unflatten(0, (models, parts)).sum(1)
    return found


def parts_of(models: int, rows: int, outputs: int, inputs: int) -> int:
    """Into how many equal parts rows are cut: a power of two.

    >>> parts_of(10, 23_296, 64, 64), parts_of(90, 4_160, 64, 64), parts_of(90, 4_161, 64, 64)
    (64, 8, 1)
    """
    blocks = models * -(-outputs // TILE) * -(-inputs // TILE)
    parts = 1
    while parts * blocks < ENOUGH and rows % (2 * parts) == 0 and rows >= 2 * parts * LEAST_ROWS:
        parts *= 2
    return parts


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(z: Tensor, weight: Tensor) -> Tensor:
        return torch.bmm(z, weight.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        z, weight = ctx.saved_tensors
        of_z = torch.bmm(grads[0], weight) if ctx.needs_input_grad[0] else None
        of_weight = weight_gradient(grads[0], z) if ctx.needs_input_grad[1] else None
        return of_z, of_weight

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        pairs = zip(inputs, in_dims, strict=True)
        z, weight = (leading(x, dim, info.batch_size).flatten(0, 1) for x, dim in pairs)
        out: Tensor = _Linear.apply(z, weight)  # type: ignore[no-untyped-call]
        return out.unflatten(0, (info.batch_size, -1)), 0


fixed_signatures(_Linear)
