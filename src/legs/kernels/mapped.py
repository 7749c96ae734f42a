"""Autograd functions that map over models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Folded(torch.autograd.Function):
    """A function whose first ``mapped`` arguments, and outputs, have one axis of models in front.

    Mapping over models (:func:`torch.func.vmap`) folds them into it; the other arguments must be
    the same for all models. The first ``shared`` arguments keep an axis of length 1 if they are the
    same, too.

    A subclass has ``forward``, and ``gradients(grad, needs, *inputs, *outputs)``: those of the
    first arguments, as far as they are needed. Only the first output has a gradient; outputs are
    passed on from number ``kept``.
    """

    mapped, shared, kept = 1, 0, 1
    once = True  # whether gradients have no derivatives themselves

    @classmethod
    def call(cls, *args: Any) -> Any:
        """``apply``; without transforms, it skips a signature check that takes some 50 µs."""
        if torch._C._are_functorch_transforms_active():
            return cls.apply(*args)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @classmethod
    def single(cls, *args: Any) -> Tensor:
        """The first output for one model, whose arguments have no axis of models."""
        out = cls.call(*(arg.unsqueeze(0) for arg in args[: cls.mapped]), *args[cls.mapped :])
        first: Tensor = out[0] if isinstance(out, tuple) else out
        return first.squeeze(0)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.set_materialize_grads(False)
        kept = (*inputs, *outputs[cls.kept :])
        ctx.others = [None if isinstance(each, Tensor) else each for each in kept]
        ctx.save_for_backward(*(each if isinstance(each, Tensor) else None for each in kept))

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        return (once_differentiable(cls._backward) if cls.once else cls._backward)(ctx, *grads)

    @classmethod
    def _backward(cls, ctx: Any, *grads: Any) -> Any:
        found, needs = (), ctx.needs_input_grad
        if grads[0] is not None:
            saved = zip(ctx.saved_tensors, ctx.others, strict=True)
            args = [other if tensor is None else tensor for tensor, other in saved]
            found = cls.gradients(grads[0], needs, *args)  # type: ignore[attr-defined]
        return *found, *[None] * (len(needs) - len(found))

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        if any(dim is not None for dim in in_dims[cls.mapped :]):
            raise RuntimeError("The graphs must be the same for all models mapped over.")
        size, stacked = info.batch_size, list(args)
        for place, (arg, dim) in enumerate(zip(args[: cls.mapped], in_dims, strict=False)):
            if dim is not None:
                stacked[place] = arg.movedim(dim, 0).flatten(0, 1)
            elif place >= cls.shared and arg is not None:
                stacked[place] = arg.expand(size, *arg.shape).flatten(0, 1)
        out = cls.apply(*stacked)  # type: ignore[no-untyped-call]
        many = out if isinstance(out, tuple) else (out,)
        found = tuple(x.unflatten(0, (size, -1)) for x in many)
        return (found, (0,) * len(found)) if isinstance(out, tuple) else (found[0], 0)
