"""Scattering moments on the CPU: one compiled loop over the graphs of a batch.

Compiled by numba, an extra (``pip install torch-legs[fast]``), at the first call with new sizes;
that takes some seconds, and a moment in every later process. See :mod:`legs.kernels.fused` for what
is computed.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from legs.functional.scattering import PathPolicy
from legs.functional.sparse import row_pointers

# What imports numba is imported where it is needed: numba is an extra, and takes its time.


@cache
def available() -> bool:
    """Whether the CPU kernels can be used here: whether numba is installed."""
    return find_spec("numba") is not None


def forward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    policy: PathPolicy = "increasing",
    laziness: float = 0.0,
    copies: Tensor | None = None,
) -> Tensor:
    r"""Normalized moments of all paths up to order two, of many graphs and models.

    Args:
        x: signals, ``[nodes, channels]``, float32 or float64.
        powers: :math:`P^s (I - P) x`, ``[nodes, steps, channels]``; ``None``: they are computed.
        rowptr, col, weight: undirected graphs in compressed rows, ``[nodes + 1]``, ``[edges]`` and
            ``[edges]`` or ``None`` for ones (:func:`counting_sort_csr`).
        ptr: the first node of each graph, and the number of nodes; ``[graphs + 1]``
            (:func:`batch_ptr`).
        filters: ``[models, channels, scales, steps]``, the weights of :math:`P^s (I - P)` in every
            wavelet.
        policy: ``"increasing"`` (default) or ``"all"`` paths.
        laziness: of the walk :math:`P` that powers and filters refer to (default 0: the walk
            :math:`A` itself). In float32 ½ is far better for graphs with hubs: :math:`A` sends
            large numbers to and fro that cancel only in the sums.
        copies: how many nodes each one stands for, ``[nodes]``, where nodes that are alike have
            been merged (:func:`legs.data.merge_alike`); ``None`` (default) for ones. The weights of
            a row are then numbers of neighbours of each kind.

    Returns:
        ``[models, graphs, paths, channels, 4]``; zeros for graphs without nodes.

    >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> graphs = (*counting_sort_csr(edges, None, 3), batch_ptr(torch.zeros(3).long(), 1))
    >>> forward(torch.rand(3, 2), None, *graphs, torch.rand(1, 2, 5, 16)).shape
    torch.Size([1, 1, 16, 2, 4])
    """
    _need_numba()
    from legs.kernels import cpu_call, cpu_kernels

    graphs = (rowptr, col, weight, ptr)
    call = cpu_call.prepare(x, powers, *graphs, filters, policy, laziness, copies)
    size = call.size
    out = torch.empty(filters.shape[0], size.graphs, size.paths, size.channels, 4, dtype=x.dtype)
    call.run(cpu_kernels.forward, cpu_call.flat(out, x.dtype))
    return out


def backward(
    x: Tensor,
    powers: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    ptr: Tensor,
    filters: Tensor,
    grad: Tensor,
    policy: PathPolicy = "increasing",
    laziness: float = 0.0,
    copies: Tensor | None = None,
) -> Tensor:
    """The gradient of the filters, ``[models, channels, scales, steps]``; as :func:`forward`.

    Args:
        grad: the gradient of the moments, ``[models, graphs, paths, channels, 4]``.

    The same number of threads (:func:`torch.get_num_threads`) gives the same bits.
    """
    _need_numba()
    from legs.kernels import cpu_call, cpu_kernels

    graphs = (rowptr, col, weight, ptr)
    call = cpu_call.prepare(x, powers, *graphs, filters, policy, laziness, copies)
    size = call.size
    wanted = [filters.shape[0], size.graphs, size.paths, size.channels, 4]
    if list(grad.shape) != wanted:
        raise ValueError(f"grad must have shape {wanted}; got {list(grad.shape)}")
    given = cpu_call.flat(grad, x.dtype)
    found = torch.empty(len(call.ranges), *filters.shape, dtype=x.dtype)
    call.run(cpu_kernels.backward, given, found.flatten(1).numpy())
    total = found[0]
    for more in found[1:]:
        total += more
    return total


def counting_sort_csr(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Edges in compressed rows: those that end in a node, in their order.

    Args:
        edge_index: ``[2, edges]``, from ``edge_index[0]`` to ``edge_index[1]``.
        edge_weight: ``[edges]`` or ``None``.
        num_nodes: number of nodes.

    Returns:
        Row pointers ``[num_nodes + 1]``, columns ``[edges]`` and weights ``[edges]`` or ``None``.

    >>> counting_sort_csr(torch.tensor([[3, 0, 2], [1, 0, 1]]), None, 4)
    (tensor([0, 1, 3, 3, 3]), tensor([0, 3, 2]), None)
    """
    _need_numba()
    from legs.kernels import cpu_edges
    from legs.kernels.cpu_call import flat

    col, row = (flat(part, torch.int64) for part in edge_index)
    size = col.size
    rowptr, place, out = (np.empty(k, np.int64) for k in (num_nodes + 1, num_nodes, size))
    order = np.empty(0 if edge_weight is None else size, np.int64)
    if not cpu_edges.sort_rows(row, col, rowptr, place, out, order):
        raise ValueError(
            f"edge_index must hold numbers from 0 to {num_nodes - 1} ({num_nodes} nodes); "
            f"got {int(edge_index.min())} to {int(edge_index.max())}"
        )
    weight = None if edge_weight is None else edge_weight.detach()[torch.from_numpy(order)]
    return torch.from_numpy(rowptr), torch.from_numpy(out), weight


def batch_ptr(batch: Tensor, num_graphs: int) -> Tensor:
    """Where the nodes of each graph begin, ``[num_graphs + 1]``, from a sorted batch vector.

    >>> batch_ptr(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    return row_pointers(batch, num_graphs)


def _need_numba() -> None:
    if not available():
        raise ImportError("the CPU kernels need numba: pip install torch-legs[fast]")
