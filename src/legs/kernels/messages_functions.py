"""Message passing as autograd functions over the kernels, with rules for mapping over models.

Mapped models are one more leading axis, and are folded into the one that the kernels know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from legs.kernels import messages_cpu, messages_cuda
from legs.kernels.dispatch import chosen
from legs.kernels.transforms import Last, fixed_signatures


class Kernels(Protocol):
    """What a device has."""

    aggregate: Callable[..., Tensor]
    rows_forward: Callable[..., Tensor]
    rows_backward: Callable[..., tuple[Tensor | None, Tensor]]
    attend: Callable[..., tuple[Tensor, Tensor]]
    attend_backward: Callable[..., Tensor]


def kernels_of(x: Tensor) -> Kernels:
    """The kernels of the device where ``x`` is; none is to be asked for that has none."""
    found: Any = messages_cuda if messages_cuda.applies(x) else messages_cpu
    return found  # type: ignore[no-any-return]


def applies(x: Tensor) -> bool:
    """Whether there are kernels for ``x``, ``[..., nodes, channels]``, and they are to be used."""
    if chosen() == "reference":
        return False
    return messages_cuda.applies(x) or messages_cpu.applies(x)


class Aggregate(torch.autograd.Function):
    """:func:`legs.kernels.messages_cuda.aggregate`; its own adjoint, scales in and out swapped.

    With ``copies`` these are :func:`adjoint_scales`.
    """

    @staticmethod
    def forward(h: Tensor, own: Tensor | None, copies: Tensor | None, *graph: Any) -> Tensor:
        return kernels_of(h).aggregate(h, own, *graph)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, *tensors, ctx.once, ctx.side = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *graph, pre, post = ctx.saved_tensors
        scales = adjoint_scales(pre, post, graph[1])
        found = Aggregate.apply(grads[0], *graph, *scales, ctx.once, (0, 2, 1)[ctx.side])  # type: ignore[no-untyped-call]
        return found, *[None] * 9

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        (h, own), size = _folded(info, in_dims, inputs, 2)
        out: Tensor = Aggregate.apply(h, own, *inputs[2:])  # type: ignore[no-untyped-call]
        return out.unflatten(0, (size, -1)), 0


class Rows(torch.autograd.Function):
    """:func:`legs.kernels.messages_cuda.rows_forward`."""

    @staticmethod
    def forward(
        z: Tensor,
        bias: Tensor | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        weight: Tensor | None,
        share: Tensor | None,
        ptr: Tensor,
        graph: Tensor,
        act: str,
        eps: float,
    ) -> Tensor:
        return kernels_of(z).rows_forward(z, bias, gamma, beta, weight, share, ptr, act, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        z, bias, gamma, beta, weight, share, _, graph, ctx.act, ctx.eps = inputs
        # A plain sum does not need what it summed.
        kept = None if ctx.act == "none" else z
        ctx.save_for_backward(kept, bias, gamma, beta, weight, share, graph)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _, bias, _, _, weight, *_ = saved = ctx.saved_tensors
        known = (*saved, ctx.act, ctx.eps, ctx.needs_input_grad[0])
        found, terms = RowsGrad.apply(grads[0], *known)  # type: ignore[no-untyped-call]
        of_norm: tuple[Tensor | None, ...] = (None, None)
        rest = 0
        if ctx.act == "norm":
            of_norm, rest = (terms[:, 0], terms[:, 1]), 2
        of_bias = None if bias is None else terms[:, rest]
        of_weight = None
        if weight is not None:
            of_weight = terms[:, rest + (bias is not None) :].mT
            found = None if found is None else torch.bmm(found, weight)
        return found, of_bias, *of_norm, of_weight, *[None] * 5

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        own, size = _folded(info, in_dims, inputs, 5)
        out: Tensor = Rows.apply(*own, *inputs[5:])  # type: ignore[no-untyped-call]
        return out.unflatten(0, (size, -1)), 0


class RowsGrad(Last):
    """:func:`legs.kernels.messages_cuda.rows_backward`."""

    @staticmethod
    def forward(grad: Tensor, *given: Any) -> tuple[Tensor | None, Tensor]:
        return kernels_of(grad).rows_backward(grad, *given)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor | None, ...], tuple[int | None, int]]:
        own, size = _folded(info, in_dims, inputs, 6)
        found, terms = RowsGrad.apply(*own, *inputs[6:])  # type: ignore[no-untyped-call]
        terms = terms.unflatten(0, (size, -1))
        if found is None:
            return (None, terms), (None, 0)
        return (found.unflatten(0, (size, -1)), terms), (0, 0)


class Attend(torch.autograd.Function):
    """:func:`legs.kernels.messages_cuda.attend`."""

    @staticmethod
    def forward(u: Tensor, copies: Tensor | None, *graph: Any) -> tuple[Tensor, Tensor]:
        return kernels_of(u).attend(u, *graph)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        u, copies, *rows, ctx.heads, ctx.slope = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # zeros for these
        ctx.save_for_backward(u, output[1], *rows, copies)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        found = AttendGrad.apply(grads[0], *ctx.saved_tensors, ctx.heads, ctx.slope)  # type: ignore[no-untyped-call]
        return found, *[None] * 6

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
        (u,), size = _folded(info, in_dims, inputs, 1)
        out = Attend.apply(u, *inputs[1:])  # type: ignore[no-untyped-call]
        return tuple(x.unflatten(0, (size, -1)) for x in out), (0, 0)


class AttendGrad(Last):
    """:func:`legs.kernels.messages_cuda.attend_backward`."""

    @staticmethod
    def forward(grad: Tensor, *given: Any) -> Tensor:
        return kernels_of(grad).attend_backward(grad, *given)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        own, size = _folded(info, in_dims, inputs, 3)
        out: Tensor = AttendGrad.apply(*own, *inputs[3:])  # type: ignore[no-untyped-call]
        return out.unflatten(0, (size, -1)), 0


def adjoint_scales(
    pre: Tensor | None, post: Tensor | None, copies: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    r"""Scales in and out of the adjoint of a sum over neighbours.

    They are swapped. With copies, a node's gradient is that of all :math:`n_i` nodes it stands for.
    That of one is gathered as states are, :math:`\mathrm{adjoint}(g) = n K (g / n)`, because
    :math:`n_i w_{ij} = n_j w_{ji}`. Both factors go into the scales; what a node sends to itself
    is left as it is.
    """
    if copies is None:
        return post, pre
    times = copies.clamp_min(1)  # nodes that fill a batch up may stand for none
    sent = times.reciprocal() if post is None else post / times
    return sent, times if pre is None else pre * times


def _folded(
    info: Any, in_dims: tuple[Any, ...], inputs: tuple[Any, ...], own: int
) -> tuple[list[Tensor | None], int]:
    """The first inputs, a model's ``own``, with mapped models folded into their first axis."""
    if any(dim is not None for dim in in_dims[own:]):
        raise RuntimeError("The graphs must be the same for all models mapped over.")
    size = info.batch_size
    found: list[Tensor | None] = []
    for x, dim in zip(inputs[:own], in_dims[:own], strict=True):
        if x is None:
            found.append(None)
            continue
        leading = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        found.append(leading.flatten(0, 1))
    return found, size


fixed_signatures(Aggregate, Rows, RowsGrad, Attend, AttendGrad)
