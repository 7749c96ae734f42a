r"""The lazy random walk on a graph.

With weights :math:`W \ge 0`, degrees :math:`d_j = \sum_i W_{ij}` and :math:`A = W D^{-1}`,

.. math::
    (P_\alpha x)_i = \alpha x_i + (1 - \alpha) \sum_j W_{ij}\, x_j / d_j .

The weight is divided by the degree of the *sending* node: columns of :math:`P` sum to one, mass is
conserved. A node of degree zero is its own neighbour and keeps its value.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from legs.functional.sparse import Pattern, build_pattern, spmm

# Laziness of the walk whose powers are shared by all others: the least that keeps all guarantees.
BASE = 0.5


class Walk(NamedTuple):
    """A random walk :math:`A = W D^{-1}` ready to be applied many times.

    Every node has a diagonal entry: 1 where the node would otherwise have degree zero, else 0
    (added to the node's own loops). That makes all formulas hold on every graph without exceptions.
    """

    pattern: Pattern
    forth: Tensor  # [entries] W_ij / d_j, the walk's own probabilities
    back: Tensor  # [entries] W_ij / d_i
    leak: Tensor  # [nodes] (d_i - Σ_j W_ij) / d_i: zero for undirected graphs, up to rounding
    degree: Tensor  # [nodes] d_i, 1 for nodes of degree zero


def random_walk(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype | None = None,
) -> Walk:
    """Prepares the walk of a graph, or of a batch of graphs as one block-diagonal graph.

    Args:
        edge_index: ``[2, edges]``, from ``edge_index[0]`` to ``edge_index[1]``, both directions of
            an undirected edge. Parallel edges add up; self-loops count.
        edge_weight: ``[edges]``, non-negative, or ``None`` for ones. Differentiable.
        num_nodes: number of nodes.
        dtype: of the walk (default: the weights', or PyTorch's default).

    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=3)
    >>> diffuse(torch.tensor([[1.0], [0.0], [5.0]]), walk, laziness=0.5)
    tensor([[0.5000],
            [0.5000],
            [5.0000]])
    """
    source, target = edge_index
    if edge_weight is None:
        edge_weight = torch.ones(source.shape[0], device=source.device, dtype=dtype)
    elif dtype is not None:
        edge_weight = edge_weight.to(dtype)
    degree = edge_weight.new_zeros(num_nodes).index_add(0, source, edge_weight)
    alone = (degree == 0).to(degree.dtype)
    degree = degree + alone

    nodes = torch.arange(num_nodes, device=source.device)
    entries = torch.cat([target, nodes]), torch.cat([source, nodes])
    pattern, order = build_pattern(*entries, num_nodes, num_nodes)
    weight = torch.cat([edge_weight, alone]).index_select(0, order)
    inflow = weight.new_zeros(num_nodes).index_add(0, pattern.row, weight)
    return Walk(
        pattern,
        forth=weight / degree.index_select(0, pattern.col),
        back=weight / degree.index_select(0, pattern.row),
        leak=(degree - inflow) / degree,
        degree=degree,
    )


def masses(
    x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, multiplicity: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Merged nodes (:func:`legs.data.merge_equivalent`) as an undirected graph again.

    A node that stands for :math:`n_c` nodes, each with :math:`W'_{cd}` neighbours in :math:`d`, has
    :math:`E_{cd} = n_c W'_{cd} = E_{dc}` edges to these. The mass :math:`y = n x` of the signal
    diffuses on that graph as on the one with all nodes,
    :math:`E D_E^{-1} y = n \cdot (W D^{-1} x)`.

    Args:
        x: signals, ``[nodes, channels]``.
        edge_index: ``[2, edges]``.
        edge_weight: :math:`W'`, ``[edges]``; ``None`` for ones.
        multiplicity: :math:`n`, ``[nodes]``.

    Returns:
        Masses, weights :math:`E`, and :math:`n` as a column of the dtype of ``x``.
    """
    times = multiplicity.to(x.dtype).unsqueeze(-1)
    weight = times.squeeze(-1).index_select(0, edge_index[1])
    if edge_weight is not None:
        weight = weight * edge_weight.to(x.dtype)
    return x * times, weight, times


def diffuse(x: Tensor, walk: Walk, laziness: Tensor | float) -> Tensor:
    r"""One step of the lazy walk, :math:`P_\alpha x`.

    Args:
        x: ``[nodes, ..., channels]``.
        walk: from :func:`random_walk`.
        laziness: :math:`\alpha`, one value or ``[channels]``.
    """
    weight = laziness.expand_as(x) if isinstance(laziness, Tensor) else laziness
    return torch.lerp(spmm(walk.pattern, walk.forth, x), x, weight)


def high_pass(x: Tensor, walk: Walk, laziness: Tensor | float) -> Tensor:
    r"""The difference that one step of the lazy walk makes, :math:`y = (I - P_\alpha) x`.

    Computed edge by edge,

    .. math::
        y_i = (1 - \alpha) \Big[\sum_j \Big(\frac{W_{ij}}{d_i} x_i - \frac{W_{ij}}{d_j} x_j\Big)
              + \frac{d_i - \sum_j W_{ij}}{d_i} x_i \Big],

    so that a constant signal on a regular graph gives exactly zero, and a smooth signal does not
    lose its digits to the difference of two nearly equal sums. The last term vanishes for
    undirected graphs.

    >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    >>> high_pass(torch.full((3, 1), 0.1), random_walk(ring, None, 3), 0.5).abs().max()
    tensor(0.)
    """
    flat = x.reshape(x.shape[0], -1)
    here = flat.index_select(0, walk.pattern.row) * walk.back.unsqueeze(-1)
    there = flat.index_select(0, walk.pattern.col) * walk.forth.unsqueeze(-1)
    lost = (flat * walk.leak.unsqueeze(-1)).index_add(0, walk.pattern.row, here - there)
    return (1 - laziness) * lost.view_as(x)


def diffusions(x: Tensor, walk: Walk, laziness: Tensor | float, steps: int) -> Tensor:
    r"""All of :math:`x, P x, \dots, P^{\mathrm{steps} - 1} x`, stacked along a new first axis."""
    states = [x]
    for _ in range(steps - 1):
        states.append(diffuse(states[-1], walk, laziness))
    return torch.stack(states)


def walk_powers(x: Tensor, walk: Walk, steps: int) -> Tensor:
    r"""What all lazy walks share: :math:`P_½^s (I - P_½) x` for :math:`s < \mathrm{steps}`.

    Independent of laziness and scales, so it is computed once per data set for all models, folds
    and epochs (see :func:`lazy_mixture`). Not of :math:`A` itself: around a hub it makes large
    values that cancel only in the sums, and leave their rounding errors in float32.

    Returns:
        ``[nodes, steps, channels]``: the values of a node are contiguous, to be gathered fast.
    """
    states = diffusions(high_pass(x, walk, BASE), walk, BASE, steps)
    return states.movedim(0, 1).contiguous()


def beyond_base(laziness: Tensor | float) -> Tensor | float:
    r"""The laziness :math:`\beta = 2 \alpha - 1` of :math:`P_\alpha` as a walk made of steps of
    :math:`P_½`: :math:`P_\alpha = \beta I + (1 - \beta) P_½`.

    >>> beyond_base(0.5), beyond_base(0.75)
    (0.0, 0.5)
    """
    return (laziness - BASE) / (1 - BASE)


def lazy_mixture(laziness: Tensor | float, steps: int, like: Tensor | None = None) -> Tensor:
    r"""Weights of the powers of a walk :math:`A` in those of a lazier walk; row t of the result is

    .. math::
        P_\alpha^t (I - P_\alpha) = (1 - \alpha) \sum_{s \le t} \binom ts
        \alpha^{t - s} (1 - \alpha)^s A^s (I - A), \qquad P_\alpha = \alpha I + (1 - \alpha) A .

    For :func:`walk_powers`, the walk is :math:`P_½` and the laziness that of :func:`beyond_base`.

    Args:
        laziness: :math:`\alpha`, one value or ``[channels]``.
        steps: number of powers.
        like: a tensor of the dtype and device wanted (default: PyTorch's default).

    Returns:
        ``[steps, steps]``, or ``[channels, steps, steps]`` for one laziness per channel.

    >>> lazy_mixture(0.5, 3)
    tensor([[0.5000, 0.0000, 0.0000],
            [0.2500, 0.2500, 0.0000],
            [0.1250, 0.2500, 0.1250]])
    """
    if not isinstance(laziness, Tensor):
        example = torch.empty(()) if like is None else like
        laziness = torch.full((), laziness, dtype=example.dtype, device=example.device)
    # Through logarithms, in float64: binomials alone overflow beyond some hundred steps.
    s = torch.arange(steps, dtype=torch.float64, device=laziness.device)
    t, stays = s.unsqueeze(-1), (s.unsqueeze(-1) - s).clamp_min(0)
    binomial = torch.lgamma(t + 1) - torch.lgamma(s + 1) - torch.lgamma(stays + 1)
    binomial = binomial.masked_fill(s > t, -torch.inf)
    alpha = laziness.double()[..., None, None]
    mixture = torch.exp(binomial + torch.xlogy(stays, alpha) + (s + 1) * torch.log1p(-alpha))
    return mixture.to(laziness.dtype)
