"""Graphs as modules take them: edges, or a sparse adjacency matrix."""

from __future__ import annotations

from typing import Any

import torch
from scipy.sparse import issparse
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import from_scipy_sparse_matrix, to_edge_index

from legs.functional.bank import OPERATORS as WALKS
from legs.functional.diffusion import Walk
from legs.functional.operators import (
    DiffusionOperator,
    OperatorLike,
    graph_operator,
    walk_operator,
)
from legs.kernels.bank import Graph, prepare
from legs.kernels.csr import check_graphs
from legs.kernels.op import Backend, use_fused


def read_edges(
    edge_index: Any, edge_weight: Tensor | None, x: Tensor
) -> tuple[Tensor, Tensor | None]:
    """``edge_index`` ``[2, edges]`` and weights of a graph given as either, or as a matrix.

    Args:
        edge_index: ``[2, edges]``, a PyG ``EdgeIndex``, or the adjacency matrix as a sparse tensor
            or matrix of SciPy: entry ``[i, j]`` is the weight of the edge from ``i`` to ``j``.
        edge_weight: ``[edges]`` or ``None``; a matrix has its own.
        x: signals of the nodes, ``[nodes, channels]``.

    >>> from scipy.sparse import csr_array
    >>> read_edges(csr_array([[0, 2], [2, 0]]), None, torch.ones(2, 1))
    (tensor([[0, 1],
            [1, 0]]), tensor([2., 2.]))
    """
    if isinstance(edge_index, EdgeIndex):
        return edge_index.as_tensor(), edge_weight
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.strided:
        return edge_index, edge_weight
    if not (isinstance(edge_index, Tensor) or issparse(edge_index)):
        raise TypeError(
            "edge_index must be a tensor [2, edges], an EdgeIndex, or a sparse matrix of PyTorch "
            f"or SciPy; got {type(edge_index).__name__}"
        )
    if edge_weight is not None:
        raise ValueError("a sparse adjacency matrix has its own weights; leave edge_weight out")
    matrix: Any = edge_index
    if tuple(matrix.shape) != (len(x), len(x)):
        raise ValueError(
            f"the adjacency matrix has shape {list(matrix.shape)}, but x has {len(x)} rows"
        )
    read = to_edge_index if isinstance(matrix, Tensor) else from_scipy_sparse_matrix
    edges, weight = read(matrix)
    return edges.to(x.device), weight.to(x.device, x.dtype)


def prepare_operator(
    operator: OperatorLike,
    laziness: Tensor | float,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    *,
    backend: Backend = "auto",
    validate: bool = True,
    **options: Any,
) -> Graph | Walk | DiffusionOperator:
    """What diffuses: graphs for the fused bank, the paper's walk, or another operator.

    Options are those of :func:`legs.kernels.bank.prepare`.
    """
    graph = (edge_index, edge_weight)
    if operator in WALKS:
        walk = prepare(backend, x, *graph, batch, batch_size, validate=validate, **options)
        if isinstance(walk, Graph) or operator == "walk":
            return walk
        return walk_operator(walk, str(operator), laziness)
    use_fused(backend, x, edge_weight, unsupported="the operator has no compiled kernels")
    if validate and not torch.compiler.is_compiling():
        may_be_directed = operator != "heat"
        check_graphs(*graph, batch, len(x), batch_size, merged=may_be_directed)
    return graph_operator(operator, *graph, x.shape[0], x.dtype, laziness)
