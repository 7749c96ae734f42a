"""What autograd functions that map over models share."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor


class Last(torch.autograd.Function):
    """A gradient that has none itself."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "the kernels have no second derivatives; compute them under "
            'legs.kernels.use("reference")'
        )


def leading(x: Tensor, dim: int | None, size: int) -> Tensor:
    """A tensor that is mapped over, with the models in front; repeated if it is the same for all.

    >>> leading(torch.zeros(2, 3), 1, 3).shape, leading(torch.zeros(2), None, 3).shape
    (torch.Size([3, 2]), torch.Size([3, 2]))
    """
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def fixed_signatures(*functions: type[torch.autograd.Function]) -> None:
    """PyTorch asks for the signature of a forward at every call; found once, it costs nothing."""
    for function in functions:
        forward: Any = function.forward
        forward.__signature__ = inspect.signature(forward)
