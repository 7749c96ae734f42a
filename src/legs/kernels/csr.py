"""Graphs in compressed rows: batches for the fused operator, and products with large graphs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from legs import functional as fn
from legs.functional.bank import Operator
from legs.functional.sparse import Pattern, row_pointers, sort_indices
from legs.kernels import cpu
from legs.kernels.gpu import launch

# A product is worth a kernel from 2**20 multiplications on; reading an entry counts as 16 of them.
# Below, what is gained does not make up for the time to compile.
MIN_WORK = 2**20
ENTRY_WORK = 16


class Batch(NamedTuple):
    """Undirected graphs in compressed rows, and their signals: what the fused operator reads."""

    x: Tensor  # [nodes, channels]
    powers: Tensor | None  # [nodes, steps, channels] walk powers of x, for GPUs
    rowptr: Tensor  # [nodes + 1]
    col: Tensor  # [edges]
    weight: Tensor | None  # [edges], None for ones
    ptr: Tensor  # [graphs + 1] the first node of each graph
    multiplicity: Tensor | None  # [nodes] of merged nodes, None for ones
    operator: Operator = "walk"  # what diffuses; powers are those of "walk"


def make_batch(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    num_graphs: int = 1,
    powers: Tensor | None = None,
    multiplicity: Tensor | None = None,
    validate: bool = True,
    is_sorted: bool = False,
    operator: Operator = "walk",
) -> Batch:
    """Sorts the edges of undirected graphs by row.

    Args:
        x: ``[nodes, channels]``, float32 or float64.
        edge_index: ``[2, edges]``, both directions of every edge.
        edge_weight: ``[edges]`` or ``None``.
        batch: the graph of each node, sorted; ``None`` for a single graph.
        num_graphs: number of graphs.
        powers: :func:`~legs.functional.walk_powers` of ``x``, if they were computed before: GPUs
            need not diffuse it then, and CPUs do that as fast as they could read them.
        multiplicity: of merged nodes, ``[nodes]`` (:func:`legs.data.merge_equivalent`).
        validate: whether to check weights and symmetry (default). On the CPU, indices are checked
            in any case: out of range, they would crash the process.
        is_sorted: whether ``edge_index[1]`` is sorted (default ``False``): GPUs need not sort then.
        operator: ``"walk"`` (default), ``"row"`` or ``"symmetric"`` (:mod:`legs.functional.bank`).

    >>> make_batch(torch.ones(2, 1), torch.tensor([[1, 0], [0, 1]])).col
    tensor([1, 0])
    """
    nodes, merged = x.shape[0], multiplicity is not None
    # Transforms of torch.func would wrap what is made here; the graphs are plain under any of them.
    with torch._C._DisableFuncTorch():
        given = (powers, multiplicity, edge_weight)
        powers, multiplicity, weight = (t if t is None else t.detach().to(x.dtype) for t in given)
        if x.device.type == "cuda":
            if validate:
                check_graphs(edge_index, edge_weight, batch, nodes, num_graphs, merged)
            col, row = edge_index
            if not is_sorted:
                row, order = sort_indices(row, nodes)
                col = col.index_select(0, order)
                weight = None if weight is None else weight.index_select(0, order)
            if batch is None:
                ptr = torch.arange(2, device=x.device) * nodes
            else:
                ptr = row_pointers(batch, num_graphs)
            rows = (row_pointers(row.contiguous(), nodes), col.contiguous(), weight, ptr)
            return Batch(x, powers, *rows, multiplicity, operator)
        from legs.kernels.cpu import graph  # imports numba, an extra

        checks = (validate, validate and not merged)
        status, rows = graph.sorted_rows(edge_index, weight, batch, nodes, num_graphs, *checks)
        if status != graph.VALID:  # the reference says in detail what is wrong
            check_graphs(edge_index, edge_weight, batch, nodes, num_graphs, merged)
        if status == graph.INVALID:
            raise ValueError("edge_index, edge_weight and batch are not those of a batch of graphs")
        return Batch(x, powers, *rows, multiplicity, operator)


def check_graphs(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    num_nodes: int,
    num_graphs: int | None,
    merged: bool = False,
) -> None:
    """All checks of :mod:`legs.functional` that apply; edges of merged nodes may be asymmetric."""
    fn.check_graph(edge_index, edge_weight, num_nodes)
    if not merged:  # classes of nodes have unequally many neighbors in each other
        fn.check_undirected(edge_index, edge_weight, num_nodes)
    if batch is not None:
        fn.check_batch(batch, num_nodes, num_graphs, edge_index)


def accelerated(walk: fn.Walk) -> fn.Walk:
    """The same walk, whose products are those of :func:`product` where they pay."""
    return walk._replace(pattern=walk.pattern._replace(product=product))


def product(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor | None:
    """Sparse times dense, :math:`S x`; ``None`` where PyTorch's own product is the better choice.

    Args:
        pattern: where the entries of the matrix are.
        values: their values, ``[entries]``.
        x: ``[columns, channels]``.
    """
    if values.shape[0] * (ENTRY_WORK + x.shape[1]) < MIN_WORK:
        return None
    if x.dtype not in (torch.float32, torch.float64) or values.dtype != x.dtype:
        return None
    if not all(_is_plain(tensor) for tensor in (values, x, pattern.col)):
        return None  # traced or mapped over: there is no memory to read from
    if x.device.type == "cpu" and cpu.available():
        from legs.kernels.cpu import spmm

        return spmm.product(pattern.rowptr, pattern.col, values, x)
    if x.device.type == "cuda" and launch.available():
        from legs.kernels.gpu.stacked import product as multiply

        return multiply(pattern.rowptr, pattern.col, None, values, x.unsqueeze(0)).squeeze(0)
    return None


def _is_plain(x: Tensor) -> bool:
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return type(x) in (Tensor, Parameter) and not wrapped
