"""Autograd functions that map over models."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_leaves

_ADD_AXIS, _DROP_AXIS = methodcaller("unsqueeze", 0), methodcaller("squeeze", 0)


class Folded(torch.autograd.Function):
    """A function whose first ``mapped`` arguments, and outputs, may have an axis of models.

    Mapping over models (:func:`torch.func.vmap`) folds them into it; the other arguments must be
    the same for all models. A subclass sees the axis, in front, in any case. The first ``shared``
    arguments have an axis of length 1 if they are the same for all.

    A subclass has ``compute``, and ``gradients(grad, needs, *inputs, *outputs)``: those of the
    first arguments, as far as they are needed. Only the first output has a gradient; outputs are
    passed on from number ``first_output``.
    """

    mapped, shared, first_output = 1, 0, 1
    once = True  # whether gradients have no derivatives themselves

    @classmethod
    def call(cls, *args: Any, stacked: bool = False) -> Any:
        """``apply``; ``stacked`` arguments have an axis of models."""
        if torch._C._are_functorch_transforms_active():
            return cls.apply(stacked, *args)  # type: ignore[no-untyped-call]
        # Without transforms, it skips a signature check that takes some 50 µs.
        return super(torch.autograd.Function, cls).apply(stacked, *args)  # type: ignore[misc]

    @classmethod
    def forward(cls, stacked: bool, *args: Any) -> Any:
        if stacked:
            return cls.compute(*args)  # type: ignore[attr-defined]
        out = cls.compute(*_change(args, cls.mapped, _ADD_AXIS))  # type: ignore[attr-defined]
        return (
            tuple(_change(out, len(out), _DROP_AXIS)) if isinstance(out, tuple) else out.squeeze(0)
        )

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*(each for each in outputs[1:] if isinstance(each, Tensor)))
        ctx.set_materialize_grads(False)
        ctx.stacked, *args = *inputs, *outputs[cls.first_output :]
        ctx.others = [None if isinstance(each, Tensor) else each for each in args]
        ctx.save_for_backward(*(each if isinstance(each, Tensor) else None for each in args))

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        return (once_differentiable(cls._backward) if cls.once else cls._backward)(ctx, *grads)

    @classmethod
    def _backward(cls, ctx: Any, *grads: Any) -> Any:
        grad, needs, changes = grads[0], ctx.needs_input_grad[1:], []
        if grad is not None:
            saved = zip(ctx.saved_tensors, ctx.others, strict=True)
            args = [other if tensor is None else tensor for tensor, other in saved]
            if not ctx.stacked:
                inputs, outputs = args[: len(needs)], args[len(needs) :]
                args = _change(inputs, cls.mapped, _ADD_AXIS)
                args += _change(outputs, len(outputs), _ADD_AXIS)
                grad = grad.unsqueeze(0)
            changes = cls.gradients(grad, needs, *args)  # type: ignore[attr-defined]
            if not ctx.stacked:
                changes = _change(changes, cls.mapped, _DROP_AXIS)
        return None, *changes, *[None] * (len(needs) - len(changes))

    @classmethod
    def vmap(
        cls, info: Any, in_dims: tuple[Any, ...], stacked: bool, *args: Any
    ) -> tuple[Any, Any]:
        if any(dim is not None for dim in tree_leaves(in_dims[1 + cls.mapped :])):
            raise RuntimeError("The graphs must be the same for all models mapped over.")
        many, size = (
            list(args if stacked else _change(args, cls.mapped, _ADD_AXIS)),
            info.batch_size,
        )
        for place, (arg, dim) in enumerate(zip(args[: cls.mapped], in_dims[1:], strict=False)):
            if dim is not None:
                arg = arg.movedim(dim, 0)
                many[place] = arg.flatten(0, 1) if stacked else arg
            elif place >= cls.shared and arg is not None:
                arg = arg.expand(size, *arg.shape)
                many[place] = arg.flatten(0, 1) if stacked else arg
        out = cls.apply(True, *many)  # type: ignore[no-untyped-call]
        outs = list(out) if isinstance(out, tuple) else [out]
        dims = tuple(0 if isinstance(each, Tensor) else None for each in outs)
        if stacked:
            outs = _change(outs, len(outs), lambda each: each.unflatten(0, (size, -1)))
        return (tuple(outs), dims) if isinstance(out, tuple) else (outs[0], 0)


def _change(args: Any, count: int, change: Callable[[Tensor], Tensor]) -> list[Any]:
    """The first arguments changed, those that are tensors."""
    first = [change(arg) if isinstance(arg, Tensor) else arg for arg in args[:count]]
    return [*first, *args[count:]]
