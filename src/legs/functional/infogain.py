r"""Scales that share out the information that diffusion loses, without labels.

InfoGain wavelets (Johnson, Krishnaswamy and Perlmutter, `arXiv:2504.08802
<https://arxiv.org/abs/2504.08802>`_), on one grid of times. For the distribution
:math:`p_t \propto |P^t x|` over the nodes of a graph and a last time :math:`T`,

.. math::
    I(t) = \sum_i p_t(i) \log \frac{p_t(i)}{p_T(i)}, \qquad
    I(t_j) = \frac{J - j}{J - 1}\, I(1), \quad j = 1, \dots, J,

with :math:`I` averaged over graphs, so that every wavelet after the first stands for as much
information as every other, :math:`t_1 = 1` and :math:`t_J = T`. For a walk and signals that are
not negative it falls with every step (data processing inequality); between two steps it is
interpolated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legs.functional.moments import graph_sum
from legs.functional.operators import DiffusionOperator


@torch.no_grad()
def infogain_scales(
    x: Tensor,
    operator: DiffusionOperator,
    num_scales: int,
    steps: int,
    batch: Tensor | None = None,
    num_graphs: int = 1,
) -> Tensor:
    r"""Times :math:`1 = t_1 < \dots < t_J = \mathrm{steps}` of every channel.

    Args:
        x: signals of training graphs, ``[nodes, channels]``. Of channels with negative values, the
            least value of each graph is subtracted first.
        operator: from :func:`~legs.functional.graph_operator`.
        num_scales: number :math:`J` of scales, at most ``steps``.
        steps: the last time :math:`T`.
        batch: the graph of each node; ``None`` for a single graph.
        num_graphs: number of graphs (default 1).

    Returns:
        ``[channels + 1, num_scales]`` in float64: of every channel, then of their mean information.
        Where nothing diffuses, equally spaced.

    >>> from legs.functional import graph_operator
    >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> x = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    >>> infogain_scales(x, graph_operator("walk", path, None, 4), 3, 16)[0].round(decimals=2)
    tensor([ 1.0000,  2.0200, 16.0000], dtype=torch.float64)
    """
    if not 2 <= num_scales <= steps:
        raise ValueError(f"num_scales must be between 2 and steps={steps}; got {num_scales}")
    graph = torch.zeros(len(x), dtype=torch.long, device=x.device) if batch is None else batch
    least = x.new_zeros(num_graphs, x.shape[1])
    least = least.scatter_reduce(0, graph.unsqueeze(-1).expand_as(x), x, "amin")
    state, states = x - least[graph], []
    for _ in range(steps):
        state = operator.apply(state)
        mass = state.abs().double()
        total = graph_sum(mass, graph, num_graphs).clamp_min(1e-30)
        states.append(mass / total[graph])
    last = states[-1].clamp_min(1e-30)
    lost = [
        graph_sum(p * (p.clamp_min(1e-30) / last).log(), graph, num_graphs).mean(0) for p in states
    ]
    information = torch.stack(lost, dim=1)
    information = torch.cat([information, information.mean(0, keepdim=True)])
    return torch.stack([_crossings(curve, num_scales) for curve in information]).cpu()


def _crossings(curve: Tensor, num_scales: int) -> Tensor:
    """Where a curve has fallen by each of ``num_scales`` equal parts, 1 to its length."""
    steps = len(curve)
    if float(curve[0]) < 1e-12:
        return torch.linspace(1, steps, num_scales, dtype=torch.float64)
    # A slope of 1e-9 makes the fall strict where the curve is flat.
    fallen = torch.cummax(1 - curve / curve[0], dim=0).values
    fallen = fallen + 1e-9 * torch.arange(steps, dtype=fallen.dtype, device=fallen.device)
    fallen = fallen / fallen[-1]
    parts = torch.linspace(0, 1, num_scales, dtype=fallen.dtype, device=fallen.device)
    above = torch.searchsorted(fallen, parts[1:-1]).clamp(1, steps - 1)
    low, high = fallen[above - 1], fallen[above]
    inner = above + (parts[1:-1] - low) / (high - low)
    return torch.cat([inner.new_ones(1), inner, inner.new_full((1,), steps)])
