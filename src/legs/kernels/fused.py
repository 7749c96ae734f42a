r"""Scattering moments of a batch of graphs in one fused operation.

The second order is not written to memory: a graph is diffused, filtered, rectified, diffused again
and reduced to its moments while it lies in cache. With :math:`P` the walk of laziness ½,

.. math::
    \Psi_j u = \sum_{s < m} f_{js}\, P^s (I - P)\, u, \qquad
    f = \text{wavelet weights} \cdot \text{lazy mixture} ,

so the kernels know neither another laziness nor the form of the scales: whatever is learned there
reaches them, and gets its gradient, through :math:`f`. Backward is a recurrence of the same walk,

.. math::
    g_s = \sum_k f_{ks}\, \bar g_k + P^\top g_{s+1}, \qquad
    \partial f_{ks} = \langle \bar g_k, P^s (I - P) u \rangle, \qquad
    \partial u = (I - P^\top)\, g_0 ,

where :math:`\bar g_k` is the gradient of :math:`\Psi_k u`. The states are computed anew instead of
stored. Signals and edge weights get no gradient here; where they need one, the reference serves.

Nodes may stand for several that are alike (:func:`legs.data.merge_alike`): sums over nodes count
each as often. A row's weights are then numbers of neighbours of each kind; the walk and its adjoint
are those of all nodes, and need not be told apart, for both are the same at nodes that are alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from legs.functional import beyond_base, lazy_mixture, wavelet_weights
from legs.functional.diffusion import BASE
from legs.functional.scattering import PathPolicy
from legs.kernels import cpu, cuda
from legs.kernels.cuda_rows import graph_pointers, sorted_rows
from legs.kernels.transforms import Last, fixed_signatures, leading


class Batch(NamedTuple):
    """Undirected graphs as one, in compressed rows, and their signals.

    ``powers`` are the walk powers ``[nodes, steps, channels]`` of ``x`` if they are at hand.
    """

    x: Tensor  # [nodes, channels]
    powers: Tensor | None
    rowptr: Tensor  # [nodes + 1]
    col: Tensor  # [edges]
    weight: Tensor | None  # [edges], None for ones
    ptr: Tensor  # [graphs + 1], the first node of each graph
    copies: Tensor | None = None  # [nodes], how many each stands for, None for ones


def make_batch(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    num_graphs: int,
    powers: Tensor | None = None,
    copies: Tensor | None = None,
) -> Batch:
    """Sorts the edges of undirected graphs by row.

    Args:
        x: ``[nodes, channels]``.
        edge_index: ``[2, edges]``, both directions of every edge.
        edge_weight: ``[edges]`` or ``None``.
        batch: the graph of each node, sorted; ``None`` for a single graph.
        num_graphs: number of graphs.
        powers: :func:`~legs.functional.walk_powers` of ``x``, if at hand.
        copies: how many nodes each one stands for, ``[nodes]`` (default one).

    >>> make_batch(torch.ones(2, 1), torch.tensor([[1, 0], [0, 1]]), None, None, 1).col
    tensor([1, 0])
    """
    weight = None if edge_weight is None else edge_weight.detach().to(x.dtype)
    rowptr, col, weight, ptr = _Rows.apply(edge_index, weight, batch, x.shape[0], num_graphs)  # type: ignore[no-untyped-call]
    return Batch(
        x, powers, rowptr, col, weight, ptr, None if copies is None else copies.to(x.dtype)
    )


def mixed_filters(cumulative: Tensor, laziness: Tensor | float, channels: int) -> Tensor:
    r"""The filters :math:`f`, ``[channels, J, m]``, of scales in cumulative form ``[J, m]``."""
    mixed, beyond = wavelet_weights(cumulative), beyond_base(laziness)
    if isinstance(beyond, Tensor) or beyond != 0:
        mixture = lazy_mixture(beyond, cumulative.shape[-1], like=mixed)
        # Not a matrix product: those may be set to round their factors.
        mixed = (mixed.unsqueeze(-1) * mixture.unsqueeze(-3)).sum(-2)
    return mixed.expand(channels, *mixed.shape[-2:])


def scattering_moments(batch: Batch, filters: Tensor, policy: PathPolicy = "increasing") -> Tensor:
    """Normalized moments of all paths up to order two.

    Args:
        batch: the graphs.
        filters: ``[channels, J, m]``, from :func:`mixed_filters`. Differentiable, and may be
            mapped over (:func:`torch.func.vmap`).
        policy: ``"increasing"`` (default) or ``"all"``.

    Returns:
        ``[graphs, paths, channels, 4]``.
    """
    out: Tensor = _Scatter.apply(filters.unsqueeze(0), policy, *batch)  # type: ignore[no-untyped-call]
    return out.squeeze(0)


class _Rows(torch.autograd.Function):
    """Edges sorted by row. A function, because inside it tensors are plain under any transform."""

    @staticmethod
    def forward(
        edge_index: Tensor, weight: Tensor | None, batch: Tensor | None, nodes: int, graphs: int
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        if edge_index.device.type == "cuda":
            return sorted_rows(edge_index, weight, batch, nodes, graphs)
        ptr = graph_pointers(batch, nodes, graphs, edge_index)
        return *cpu.counting_sort_csr(edge_index, weight, nodes), ptr

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.mark_non_differentiable(*(x for x in output if x is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        return (None,) * 5

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Tensor | None, ...], tuple[None, ...]]:
        _same_graphs(in_dims)
        out: tuple[Tensor | None, ...] = _Rows.apply(*inputs)  # type: ignore[no-untyped-call]
        return out, (None,) * len(out)


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(filters: Tensor, policy: PathPolicy, *tensors: Any) -> Tensor:
        batch = Batch(*tensors)
        if filters.device.type == "cuda":
            return cuda.forward(*batch, filters, policy)
        return cpu.forward(*batch[:6], filters, policy, BASE, batch.copies)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        filters, ctx.policy, *batch = inputs
        ctx.save_for_backward(output, filters, *batch)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out, filters, *batch = ctx.saved_tensors
        found = _ScatterGrad.apply(grads[0], out, filters, ctx.policy, *batch)  # type: ignore[no-untyped-call]
        return found, None, *(None for _ in batch)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        filters, policy, *batch = inputs
        _same_graphs(in_dims[2:])
        folded = filters.movedim(in_dims[0], 0)
        out: Tensor = _Scatter.apply(folded.flatten(0, 1), policy, *batch)  # type: ignore[no-untyped-call]
        return out.unflatten(0, folded.shape[:2]), 0


class _ScatterGrad(Last):
    @staticmethod
    def forward(
        grad: Tensor, out: Tensor, filters: Tensor, policy: PathPolicy, *tensors: Any
    ) -> Tensor:
        batch = Batch(*tensors)
        if filters.device.type == "cuda":
            return cuda.backward(*batch, filters, grad, out, policy)
        return cpu.backward(*batch[:6], filters, grad, policy, BASE, batch.copies)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        grad, out, filters, policy, *batch = inputs
        mapped = (grad, out, filters)
        _same_graphs(in_dims[4:])
        found = [leading(x, d, info.batch_size) for x, d in zip(mapped, in_dims[:3], strict=True)]
        folded = [x.flatten(0, 1) for x in found]
        grads: Tensor = _ScatterGrad.apply(*folded, policy, *batch)  # type: ignore[no-untyped-call]
        return grads.unflatten(0, found[0].shape[:2]), 0


def _same_graphs(in_dims: tuple[int | None, ...]) -> None:
    if any(dim is not None for dim in in_dims):
        raise RuntimeError("The graphs must be the same for all models mapped over.")


fixed_signatures(_Rows, _Scatter, _ScatterGrad)
