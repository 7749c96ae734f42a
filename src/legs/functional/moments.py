r"""Statistical moments of node signals over each graph.

``sum``: :math:`\sum_i |z_i|^q` for :math:`q = 1, \dots, Q`; ``mean``: the same divided by the
number of nodes; ``normalized``: mean, variance (population), skewness and excess kurtosis.

Skewness and kurtosis divide by the variance :math:`v`. Where it is nearly zero (one node, a
constant signal, a symmetric graph) they would be rounding noise; so they fade out below a floor
:math:`\delta = 10^{-6} e + 10^{-30}` set by the energy :math:`e` of the *input* signal :math:`x` on
the same graph (:func:`signal_energy`),

.. math::
    r = \mathrm{clamp}\big(\tfrac{v/\delta - 1}{3}, 0, 1\big), \quad
    g = r^3 (10 - 15 r + 6 r^2), \quad
    \hat d = \frac{z - \bar z}{\sqrt{\max(v, \delta)}},

skewness :math:`g \cdot \overline{\hat d^3}` and kurtosis :math:`g \cdot (\overline{\hat d^4} - 3)`.
That is twice continuously differentiable, the textbook value where :math:`v \ge 4 \delta`, and
zero with zero gradient on constants.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal

import torch
from torch import Tensor

from legs.functional.diffusion import Walk
from legs.functional.operators import DiffusionOperator
from legs.functional.sparse import spmm

MomentKind = Literal["normalized", "mean", "sum"]

NORMALIZED_NAMES = ("mean", "variance", "skewness", "kurtosis")
RELATIVE_FLOOR = 1e-6
ABSOLUTE_FLOOR = 1e-30


def moment_names(kind: MomentKind = "normalized", order: int = 4) -> tuple[str, ...]:
    """Names of the moments, in the order of the output.

    >>> moment_names("normalized", 3), moment_names("sum", 2)
    (('mean', 'variance', 'skewness'), ('sum1', 'sum2'))
    """
    if kind == "normalized":
        return NORMALIZED_NAMES[:order]
    return tuple(f"{kind}{q}" for q in range(1, order + 1))


def graph_mean(
    x: Tensor, batch: Tensor | None, num_graphs: int, multiplicity: Tensor | None = None
) -> Tensor:
    """Mean over the nodes of each graph, ``[graphs, ...]`` from ``[nodes, ...]``.

    Args:
        x: ``[nodes, ...]``.
        batch: the graph of each node; ``None`` for a single graph.
        num_graphs: number of graphs.
        multiplicity: how many nodes each one stands for, ``[nodes]`` (default one).

    >>> graph_mean(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([2., 5.])
    """
    if batch is None and multiplicity is None:
        return x.mean(0, keepdim=True)
    # Counted by index_add: bincount looks at its result, which makes a GPU wait.
    ones = torch.ones(x.shape[0], dtype=x.dtype, device=x.device)
    each = ones if multiplicity is None else multiplicity
    count = graph_sum(each, batch, num_graphs).clamp_min(1)
    return graph_sum(x, batch, num_graphs, multiplicity) / count.view(-1, *[1] * (x.dim() - 1))


def graph_sum(
    x: Tensor, batch: Tensor | None, num_graphs: int, multiplicity: Tensor | None = None
) -> Tensor:
    """Sum over the nodes of each graph; as :func:`graph_mean`.

    >>> graph_sum(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([4., 5.])
    """
    if multiplicity is not None:
        x = x * multiplicity.view(-1, *[1] * (x.dim() - 1))
    if batch is None:
        return x.sum(0, keepdim=True)
    return x.new_zeros(num_graphs, *x.shape[1:]).index_add(0, batch, x)


def count_graphs(batch: Tensor | None, batch_size: int | None = None) -> int:
    """Number of graphs: ``batch_size`` if it is given, else read off ``batch``."""
    if batch is None:
        return 1
    if batch_size is None:
        return int(batch.max()) + 1 if len(batch) else 0
    return batch_size


def graph_size(
    edge_index: Tensor,
    batch: Tensor | None,
    num_nodes: int,
    num_graphs: int = 1,
    edge_weight: Tensor | None = None,
    multiplicity: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Numbers of nodes and edges of every graph, ``[graphs, 2]``.

    Args:
        edge_index: ``[2, edges]``, both directions of every edge, which counts once; a loop counts
            one half.
        batch: the graph of each node, or ``None`` for a single graph.
        num_nodes: number of nodes.
        num_graphs: number of graphs (default 1).
        edge_weight: of merged nodes: how many neighbours like its source the target has.
        multiplicity: how many nodes each one stands for (default one;
            :func:`legs.data.merge_equivalent`).
        dtype: of the result (default float32).

    >>> triangle = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]])
    >>> graph_size(triangle, None, 3)
    tensor([[3., 3.]])
    """
    target = edge_index[1]
    nodes = torch.ones(num_nodes, dtype=dtype, device=edge_index.device)
    halves = torch.full(target.shape, 0.5, dtype=dtype, device=edge_index.device)
    if multiplicity is not None:
        nodes = multiplicity.to(dtype)
        halves = halves * nodes[target]
        halves = halves if edge_weight is None else halves * edge_weight.to(dtype)
    # Multiples of one half: their sum is the same in any order.
    ends = None if batch is None else batch[target]
    counts = graph_sum(nodes, batch, num_graphs), graph_sum(halves, ends, num_graphs)
    return torch.stack(counts, dim=1)


def signal_energy(
    x: Tensor,
    walk: Walk | DiffusionOperator,
    batch: Tensor | None,
    num_graphs: int,
    multiplicity: Tensor | None = None,
) -> Tensor:
    r"""The energy of a signal on its graph, ``[graphs, channels]``: the scale of rounding errors.

    .. math::
        e = \frac1n \sum_i \Big(x_i^2 + \rho_i \sum_j A_{ij} x_j^2\Big), \qquad
        \rho_i = \sum_j A_{ij}, \quad A = W D^{-1} .

    The second term bounds :math:`(Ax)_i^2`: a hub collects the mass of all its neighbours, with a
    rounding error of that size. The mean square of :math:`x` alone is too small there. With
    ``multiplicity``, the walk is that of all nodes' mass: see :func:`masses`. Of other operators,
    :math:`A` is theirs (:math:`|A|` of a complex one), or :math:`P` itself.
    """
    if isinstance(walk, Walk):
        times: Any = 1 if multiplicity is None else multiplicity.unsqueeze(-1)

        def spread(z: Tensor) -> Tensor:
            out: Tensor = spmm(walk.pattern, walk.forth, times * z) / times
            return out

    else:
        operator: Any = walk
        spread = getattr(operator, "spread", operator.apply)
    square = x * x
    bound = (spread(torch.ones_like(x[:, :1])) * spread(square)).abs()
    return graph_mean(square + bound, batch, num_graphs, multiplicity)


def moments(
    z: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    kind: MomentKind = "normalized",
    order: int = 4,
    energy: Tensor | None = None,
    multiplicity: Tensor | None = None,
) -> Tensor:
    r"""Moments of each column over the nodes of each graph.

    Args:
        z: ``[nodes, ...]``.
        batch: the graph of each node, ``[nodes]``; ``None`` for a single graph.
        num_graphs: number of graphs; needed under ``torch.compile``, else read off ``batch``.
        kind: ``"normalized"`` (default), ``"mean"`` or ``"sum"``.
        order: number of moments (default 4; at most 4 for ``"normalized"``).
        energy: of the signals that ``z`` came from (:func:`signal_energy`), broadcastable to
            ``[graphs, ...]``; sets the variance floor. Default: the mean square of ``z``.
        multiplicity: how many nodes each one stands for, ``[nodes]`` (default one).

    Returns:
        ``[graphs, ..., order]``; zeros for a graph without nodes.

    >>> moments(torch.tensor([[0.0], [0.0], [3.0]])).squeeze().round(decimals=3)
    tensor([ 1.0000,  2.0000,  0.7070, -1.5000])
    """
    num_graphs = count_graphs(batch, num_graphs)
    if kind == "normalized":
        return _normalized(z, order, energy, batch, num_graphs, multiplicity)
    powers = torch.stack(list(accumulate([z.abs()] * order, torch.mul)), dim=-1)
    pool = graph_mean if kind == "mean" else graph_sum
    return pool(powers, batch, num_graphs, multiplicity)


def _normalized(
    z: Tensor, order: int, energy: Tensor | None, batch: Tensor | None, *graphs: Any
) -> Tensor:
    mean = graph_mean(z, batch, *graphs)
    columns = [mean]
    if order > 1:
        # Two passes: raw power sums cancel in float32.
        centred = z - _to_nodes(mean, batch)
        variance = graph_mean(centred * centred, batch, *graphs)
        columns.append(variance)
    if order > 2:
        if energy is None:
            energy = graph_mean(z * z, batch, *graphs)
        floor = (RELATIVE_FLOOR * energy + ABSOLUTE_FLOOR).expand_as(variance)
        ratio = ((variance / floor - 1) / 3).clamp(0, 1)
        fade = ratio**3 * (10 - 15 * ratio + 6 * ratio**2)
        # Divided, not multiplied by rsqrt: its gradient is a cube that overflows at the floor.
        scaled = centred / _to_nodes(torch.maximum(variance, floor).sqrt(), batch)
        cube = scaled**3
        columns.append(fade * graph_mean(cube, batch, *graphs))
    if order > 3:
        columns.append(fade * (graph_mean(cube * scaled, batch, *graphs) - 3))
    return torch.stack(columns, dim=-1)


def _to_nodes(x: Tensor, batch: Tensor | None) -> Tensor:
    return x if batch is None else x.index_select(0, batch)
