"""What autograd functions that map over models share."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

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
    """Has PyTorch find out cheaply what a forward is called with.

    At every call it asks for the signature and sorts the arguments by it, to fill in defaults. Our
    functions are always given all of them, in their places.
    """
    for function in functions:
        forward: Any = function.forward
        known = inspect.signature(forward)
        forward.__signature__ = _InPlace(list(known.parameters.values()))


class _InPlace(inspect.Signature):
    """Of a function that is given all its arguments in their places."""

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        return super().bind(*args, **kwargs) if kwargs else _Given(args)


class _Given:
    """Arguments; what PyTorch asks of :class:`inspect.BoundArguments`."""

    __slots__ = ("args",)
    kwargs: ClassVar[dict[str, Any]] = {}

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.args = args

    def apply_defaults(self) -> None:
        """There are none."""
