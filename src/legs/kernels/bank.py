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
from legs.kernels import cpu
from legs.kernels.csr import make_batch
from legs.kernels.gpu import launch
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


# States of the largest graph that a CPU thread keeps, in bytes.
MAX_STATES = 2**26
MAX_BANDS = 16


def why_not(x: Tensor, edge_weight: Tensor | None, batch: Tensor | None, bands: int) -> str | None:
    """Why the fused bank cannot serve; ``None`` if it can."""
    if torch.compiler.is_compiling():
        return "torch.compile traces plain PyTorch"
    if x.dtype not in (torch.float32, torch.float64):
        return f"x is {x.dtype}, not float32 or float64"
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        return "edge_weight needs a gradient"
    if bands > MAX_BANDS:
        return f"there are more than {MAX_BANDS} bands"
    if x.device.type == "cpu":
        return None if cpu.available() else "numba is not installed (pip install torch-legs[fast])"
    if x.device.type == "cuda":
        if batch is None:
            return "on GPUs it needs batch, the graph of each node"
        return None if launch.available() else "kernels cannot be compiled for this GPU"
    return f"there are no kernels for {x.device.type} devices"


def prepare(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    states: int = 2,
    validate: bool = True,
) -> Graph | None:
    """Sorts the edges of undirected graphs by row; ``None`` if a graph is too large for kernels.

    Args:
        x: signals, ``[nodes, channels]``.
        edge_index: ``[2, edges]``, both directions of every edge.
        edge_weight: ``[edges]`` or ``None``.
        batch: the graph of each node, sorted. On the CPU, it may be left out: graphs then end
            where no edge passes over.
        batch_size: number of graphs.
        states: diffusion steps + 1, that memory has to be enough for.
        validate: whether to check weights and symmetry (default).
    """
    if batch is not None and batch_size is None:
        batch_size = int(batch[-1]) + 1 if len(batch) else 0
    made = make_batch(
        x.detach(), edge_index, edge_weight, batch, batch_size or 1, validate=validate
    )
    ptr, largest = made.ptr, None
    if x.device.type == "cpu":
        if batch is None:
            ptr = _cuts(made.rowptr, made.col)
        largest = int(ptr.diff().max()) if len(ptr) > 1 else 0
        width = min(x.shape[1], 128)
        if states * largest * width * x.element_size() > MAX_STATES:
            return None
    return make_graph(made.rowptr, made.col, made.weight, ptr, x.dtype, largest=largest)


def _cuts(rowptr: Tensor, col: Tensor) -> Tensor:
    """Where nodes begin that no edge joins with those before, and the number of nodes."""
    nodes = len(rowptr) - 1
    row = torch.repeat_interleave(torch.arange(nodes), rowptr.diff())
    change = torch.zeros(nodes + 1, dtype=torch.long)
    one = torch.ones_like(row)
    change.index_add_(0, torch.minimum(row, col), one)
    change.index_add_(0, torch.maximum(row, col), -one)
    inner = (change.cumsum(0)[: max(nodes - 1, 0)] == 0).nonzero().flatten() + 1
    return torch.cat([inner.new_zeros(1), inner, inner.new_full((min(nodes, 1),), nodes)])


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
            'the fused filter bank has no second derivatives; compute them with backend="reference"'
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
