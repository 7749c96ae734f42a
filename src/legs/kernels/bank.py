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

from legs.functional import graph_mean, random_walk
from legs.functional.bank import Operator, power_filters
from legs.functional.bank import filter_bank as reference
from legs.functional.diffusion import Walk
from legs.kernels.csr import accelerated, check_graphs, make_batch
from legs.kernels.mapped import Folded
from legs.kernels.op import Backend, bank_filters, kernels_for, use_fused


class Graph(NamedTuple):
    """Undirected graphs in compressed rows."""

    rowptr: Tensor  # [nodes + 1]
    col: Tensor  # [edges]
    weight: Tensor | None  # [edges], None for ones
    ptr: Tensor  # [graphs + 1] the first node of each graph
    degree: Tensor  # [nodes]; 1 for nodes without edges
    largest: int | None = None  # nodes of the largest graph at most, where that is known


# States of the largest graph that a CPU thread keeps, in bytes.
MAX_STATES = 2**26
MAX_BANDS = 16


def prepare(
    backend: Backend,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    *,
    bands: int = 1,
    states: int = 2,
    validate: bool = True,
    is_sorted: bool = False,
    largest: int | None = None,
) -> Graph | Walk:
    """Undirected graphs for :func:`difference_bank`: a walk where the reference is to compute it.

    Args:
        backend: see :func:`legs.kernels.op.use_fused`.
        x: signals, ``[nodes, channels]``.
        edge_index: ``[2, edges]``, both directions of every edge.
        edge_weight: ``[edges]`` or ``None``.
        batch: the graph of each node, sorted; ``None`` for a single graph. On the CPU, graphs then
            end where no edge passes over.
        batch_size: number of graphs.
        bands: number of filters.
        states: number of diffusion steps + 1.
        validate: whether to check weights and symmetry (default).
        is_sorted: whether ``edge_index[1]`` is sorted (default ``False``).
        largest: number of nodes that no graph exceeds, where that is known: GPUs need not look for
            larger ones.
    """
    if batch is not None and batch_size is None:
        batch_size = int(batch[-1]) + 1 if len(batch) else 0
    graphs = 1 if batch is None else batch_size or 0
    many = f"there are more than {MAX_BANDS} bands" if bands > MAX_BANDS else None
    # Who knows the largest graph trains on it: a batch of merged nodes may be small.
    options: dict[str, Any] = {"unsupported": many, "repeated": largest is not None}
    if use_fused(backend, x, edge_weight, graphs, **options):
        with torch._C._DisableFuncTorch():  # x may be mapped over: its shape and dtype serve alone
            like = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            edges = (edge_index, edge_weight, batch, graphs)
            csr = make_batch(like, *edges, validate=validate, is_sorted=is_sorted)
            ptr = csr.ptr
            if x.device.type == "cpu":
                ptr = _cuts(csr.rowptr, csr.col) if batch is None else ptr
                largest = int(ptr.diff().max()) if len(ptr) > 1 else 0
            graph = make_graph(csr.rowptr, csr.col, csr.weight, ptr, x.dtype, largest)
        width = min(x.shape[1], 128)
        if states * (graph.largest or 0) * width * x.element_size() <= MAX_STATES:
            return graph
        if backend == "fused":
            raise ValueError('backend="fused" is not possible: a graph is too large')
    elif validate and not torch.compiler.is_compiling():
        check_graphs(edge_index, edge_weight, batch, len(x), batch_size)
    walk = random_walk(edge_index, edge_weight, x.shape[0], x.dtype)
    plain = backend == "reference" or torch.compiler.is_compiling()
    return walk if plain else accelerated(walk)


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
    largest: int | None = None,
) -> Graph:
    """Adds degrees to graphs in compressed rows."""
    if weight is None:
        degree = rowptr.diff().to(dtype)
    else:
        weight = weight.to(dtype)
        degree = torch.segment_reduce(weight, "sum", offsets=rowptr)
    return Graph(rowptr, col, weight, ptr, torch.where(degree > 0, degree, 1), largest)


def difference_bank(
    graph: Graph | Walk, x: Tensor, filters: Tensor, operator: Operator = "row"
) -> Tensor:
    """Filters by differences (:func:`legs.functional.bank.difference_filters`) of signals.

    Args:
        graph: from :func:`prepare`.
        x: ``[nodes, channels]``.
        filters: ``[bands, states]``, or ``[bands, states, channels]``.
        operator: ``"row"`` (default), ``"walk"`` or ``"symmetric"``.

    Returns:
        ``[nodes, bands, channels]``. Differentiable in ``x`` and ``filters``, and may be mapped
        over (:func:`torch.func.vmap`) both.
    """
    if isinstance(graph, Walk):
        return reference(x, graph, power_filters(filters), operator)
    if filters.dim() == 2:
        filters = filters.unsqueeze(-1)
    filters = filters.movedim(1, 0)  # [states, bands, channels or 1]
    states, _, own = filters.shape
    out: Tensor = _Form.call(x, filters, None, states, own, operator, graph)
    return out


def wavelet_transform(
    x: Tensor,
    graph: Graph,
    laziness: Tensor | float,
    cumulative: Tensor,
    *,
    wavelets: bool = True,
    lowpass: bool = False,
    operator: Operator = "walk",
) -> Tensor:
    """:func:`legs.functional.wavelet_transform`, but ``[nodes, filters, ..., channels]``."""
    rows, flat = bank_filters(cumulative, laziness, wavelets, lowpass), x.flatten(1)
    if rows.dim() == 3:  # [channels, bands, states], for each of the axes between
        rows = rows.movedim(0, -1).repeat(1, 1, flat.shape[1] // x.shape[-1])
    out: Tensor = difference_bank(graph, flat, rows, operator).unflatten(2, x.shape[1:])
    return out


def signal_energy(
    x: Tensor,
    graph: Graph,
    batch: Tensor | None,
    num_graphs: int,
    operator: Operator = "walk",
) -> Tensor:
    """:func:`legs.functional.signal_energy` on prepared graphs."""
    square = x * x
    steps = difference_bank(  # A = I - 2 (I - P)
        graph, torch.cat([torch.ones_like(x[:, :1]), square], 1), x.new_tensor([[1, -2]]), operator
    )
    inflow, spread = steps[:, 0].tensor_split([1], dim=1)
    return graph_mean(square + inflow * spread, batch, num_graphs)


class _Form(Folded):
    r"""The gradient of :math:`\sum_b \langle g_b, \mathrm{out}_b \rangle` in the one of ``x``, the
    filters and :math:`g` that is ``None``: in :math:`g`, that is the bank itself.

    It is linear in each of them, so gradients are again of this form. All have an axis of models in
    front; filters have ``states`` states and ``own`` channels.
    """

    mapped, shared, once = 3, 1, False

    @staticmethod
    def compute(
        x: Tensor | None,
        filters: Tensor | None,
        grad: Tensor | None,
        states: int,
        own: int,
        operator: Operator,
        graph: Graph,
    ) -> Tensor:
        signals = grad if x is None else x
        assert signals is not None
        _, nodes, *_, channels = signals.shape
        if filters is None:
            assert grad is not None
            sizes: tuple[int, ...] = (len(signals), states, nodes, channels)
        else:
            sizes = (len(filters), nodes, *[filters.shape[2]] * (x is not None), channels)
        # The adjoint is that of the operator with walk and transposed walk exchanged.
        back = {"row": "walk", "walk": "row"}.get(operator, operator)
        scale, out = _scale(graph, back if x is None else operator), signals.new_empty(sizes)
        if out.numel():
            kernels_for(out, "bank").run(graph, signals, filters, scale, out)
        if filters is not None or grad is None:
            return out
        if own > 1:
            return (out.permute(0, 3, 1, 2) @ grad.permute(0, 3, 1, 2)).movedim(1, -1)
        return (out.flatten(2) @ grad.movedim(2, 1).flatten(2).mT).unsqueeze(-1)

    @staticmethod
    def gradients(change: Tensor, needs: tuple[bool, ...], *args: Any) -> list[Tensor | None]:
        factors = [change if arg is None else arg for arg in args[:3]]
        grads: list[Tensor | None] = []
        for place, arg in enumerate(args[:3]):
            others = (*factors[:place], None, *factors[place + 1 :])
            grads.append(None)
            if needs[place]:
                grads[-1] = _Form.call(*others, *args[3:], stacked=True).sum_to_size(arg.shape)
        return grads


def _scale(graph: Graph, operator: str) -> Tensor | None:
    """:math:`S` such that the operator is :math:`S D^{-1} W S^{-1}`."""
    if operator == "row":
        return None
    return graph.degree if operator == "walk" else graph.degree.sqrt()
