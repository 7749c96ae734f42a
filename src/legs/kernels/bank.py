r"""Filter banks of a lazy walk on a batch of graphs as one operator, differentiable in signals.

:func:`legs.functional.filter_bank` in the form of differences: with :math:`P = (I + D^{-1} W)/2`,

.. math::
    s_0 = x, \quad s_1 = (I - P) x, \quad s_{k+1} = P s_k, \qquad
    \mathrm{out}_b = \sum_k f_{kb}\, s_k .

For undirected graphs all operators are similar to :math:`P`, and so is its transpose,
:math:`P^\top = D P D^{-1}`. One kernel with rows scaled before and after computes them all, and the
gradient of :math:`x` is Horner's scheme with the same walk,

.. math::
    h_k = P^\top h_{k+1} + \sum_b f_{kb}\, g_b, \qquad
    \partial x = (I - P^\top) h_1 + \sum_b f_{0b}\, g_b, \qquad
    \partial f_{kb} = \langle g_b, s_k \rangle .
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.functional.bank import Operator, difference_filters
from legs.kernels.mapped import Folded


class Graph(NamedTuple):
    """Undirected graphs in compressed rows."""

    rowptr: Tensor  # [nodes + 1]
    col: Tensor  # [edges]
    weight: Tensor | None  # [edges], None for ones
    ptr: Tensor  # [graphs + 1] the first node of each graph
    inverse: Tensor  # [nodes] of degrees; 1 for nodes without edges
    mass: Tensor  # [nodes] the degree times the multiplicity of a merged node
    largest: int | None = None  # nodes of the largest graph, where that is known


def make_graph(
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    dtype: torch.dtype,
    multiplicity: Tensor | None = None,
    largest: int | None = None,
) -> Graph:
    """Adds degrees to graphs in compressed rows."""
    if weight is None:
        degree = rowptr.diff().to(dtype)
    else:
        weight = weight.to(dtype)
        degree = torch.segment_reduce(weight, "sum", offsets=rowptr)
    degree = torch.where(degree > 0, degree, 1)
    mass = degree if multiplicity is None else degree * multiplicity.to(dtype)
    return Graph(rowptr, col, weight, ptr, 1 / degree, mass, largest)


def filter_bank(graph: Graph, x: Tensor, filters: Tensor, operator: Operator = "row") -> Tensor:
    """:func:`legs.functional.filter_bank` on a prepared batch, ``[nodes, bands, channels]``.

    Differentiable once in ``x`` and ``filters``; may be mapped over (:func:`torch.func.vmap`) both.
    """
    return difference_bank(graph, x, difference_filters(filters), operator)


def difference_bank(graph: Graph, x: Tensor, filters: Tensor, operator: Operator = "row") -> Tensor:
    """The same for filters by differences (:func:`legs.functional.bank.difference_filters`)."""
    if filters.dim() == 2:
        filters = filters.unsqueeze(-1)
    filters = filters.movedim(1, 0).unsqueeze(0)  # [1, states, bands, channels or 1]
    out: Tensor = _Bank.call(x.unsqueeze(0), filters.contiguous(), operator, *graph)
    return out.squeeze(0)


class _Bank(Folded):
    """``[models, nodes, bands, channels]``."""

    mapped, shared = 2, 1

    @staticmethod
    def forward(x: Tensor, filters: Tensor, operator: Operator, *tensors: Any) -> Tensor:
        graph = Graph(*tensors)
        out: Tensor = _kernels(x).run(graph, x, filters, _scale(graph, operator), False)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, filters, ctx.operator, *graph, ctx.largest = inputs
        ctx.save_for_backward(x, filters, *graph)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, filters, *tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[:2]
        args = (grads[0], x, filters, ctx.operator, *needed, *tensors, ctx.largest)
        of_x, of_filters = _BankGrad.call(*args)
        of_x = of_x.sum_to_size(x.shape) if needed[0] else None
        return of_x, of_filters if needed[1] else None, *[None] * (len(tensors) + 2)


class _BankGrad(Folded):
    """Gradients of ``x`` and of the filters, as far as they are needed."""

    mapped, shared = 3, 0

    @staticmethod
    def forward(
        grad: Tensor,
        x: Tensor,
        filters: Tensor,
        operator: Operator,
        needs_x: bool,
        needs_filters: bool,
        *tensors: Any,
    ) -> tuple[Tensor, Tensor]:
        graph, kernels = Graph(*tensors), _kernels(x)
        grad, nothing = grad.contiguous(), x.new_empty(len(grad))
        back = _scale(graph, {"row": "walk", "walk": "row"}.get(operator, operator))
        of_x = kernels.run(graph, grad, filters, back, True) if needs_x else nothing
        forth = _scale(graph, operator)
        of_filters = kernels.gradient(graph, x, filters, forth, grad) if needs_filters else nothing
        return of_x, of_filters

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "the fused filter bank has no second derivatives; compute them with "
            'backend="reference"'
        )


def _scale(graph: Graph, operator: str) -> Tensor | None:
    """:math:`S` such that the operator is :math:`S D^{-1} W S^{-1}`."""
    if operator == "row":
        return None
    return graph.mass if operator == "walk" else graph.mass.sqrt()


def _kernels(x: Tensor) -> Any:
    if x.device.type == "cuda":
        from legs.kernels.gpu import bank
    else:
        from legs.kernels.cpu import bank  # type: ignore[no-redef]
    return bank
