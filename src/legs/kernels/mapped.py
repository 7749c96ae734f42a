"""Autograd functions that map over models."""

from __future__ import annotations

from typing import Any

import torch


class Mapped(torch.autograd.Function):
    """A function whose first ``mapped`` arguments may have leading axes of models.

    Mapping over models (:func:`torch.func.vmap`) adds one. The other arguments must be the same
    for all models.
    """

    mapped = 1

    @classmethod
    def call(cls, *args: Any) -> Any:
        """``apply``; without transforms, it skips a signature check that takes some 50 µs."""
        if torch._C._are_functorch_transforms_active():
            return cls.apply(*args)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @classmethod
    def stack(cls, size: int, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
        """The arguments with ``size`` models in front of those that are mapped over."""
        if any(dim is not None for dim in in_dims[cls.mapped :]):
            raise RuntimeError("The graphs must be the same for all models mapped over.")
        stacked = [
            arg.expand(size, *arg.shape) if dim is None else arg.movedim(dim, 0)
            for arg, dim in zip(args[: cls.mapped], in_dims, strict=False)
        ]
        return [*stacked, *args[cls.mapped :]]

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        return cls.apply(*cls.stack(info.batch_size, in_dims, args)), 0  # type: ignore[no-untyped-call]


class Folded(Mapped):
    """A function whose first ``mapped`` arguments, and outputs, have one axis of models in front.

    Mapping over models folds them into it. The first ``shared`` arguments keep an axis of length 1
    if they are the same for all models.
    """

    shared = 0

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        size, stacked = info.batch_size, cls.stack(info.batch_size, in_dims, args)
        for place in range(cls.mapped):
            alone = place < cls.shared and in_dims[place] is None
            stacked[place] = args[place] if alone else stacked[place].flatten(0, 1)
        out = cls.apply(*stacked)  # type: ignore[no-untyped-call]
        many = out if isinstance(out, tuple) else (out,)
        found = tuple(x.unflatten(0, (size, -1)) for x in many)
        return (found, (0,) * len(found)) if isinstance(out, tuple) else (found[0], 0)
