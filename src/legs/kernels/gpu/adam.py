"""Steps of Adam for stacks of models: ``adam.cu``. In PyTorch, a dozen passes over memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from legs.kernels.gpu import launch

THREADS, EACH = 256, 4  # per block; numbers per thread


def adam_step(
    grad: Tensor,
    lr: Tensor,
    steps: Tensor,
    active: Tensor,
    weights: Tensor,
    first: Tensor,
    second: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """A step of Adam in place; see :class:`legs.training.stacked.adam.StackedAdam`.

    Args:
        grad: ``[models, width]``.
        lr: ``[models]``.
        steps: ``[models]``, this one included.
        active: ``[models]``; other models stay as they are.
        weights: ``[models, width]``, rows apart.
        first: moments, ``[models, width]``.
        second: moments, ``[models, width]``.
        betas: of the moments.
        eps: added to the root of the second.
    """
    models, width = grad.shape
    blocks = -(-width // (THREADS * EACH))
    start = weights.as_strided((1,), (1,), weights.storage_offset())
    args: list[Any] = [grad.contiguous(), lr, steps, active, start, first, second]
    args += [width, weights.stride(0), blocks, *betas, eps]
    launch.run("adam", "adam", grad, models * blocks, THREADS, args, THREADS=THREADS)
