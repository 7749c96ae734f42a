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

import numpy as np
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
    information = torch.stack(lost, dim=1).cpu().numpy()
    curves = np.vstack([information, information.mean(0)])
    curves[curves[:, 0] < 1e-12] = 0  # rounding errors
    fallen = 1 - curves / curves[:, :1].clip(1e-12)
    # A slope of 1e-9 keeps times apart where nothing is lost.
    fallen = np.maximum.accumulate(fallen, axis=1) + 1e-9 * np.arange(steps)
    fallen = (fallen - fallen[:, :1]) / (fallen[:, -1:] - fallen[:, :1])
    parts, times = np.linspace(0, 1, num_scales), np.arange(1.0, steps + 1)
    return torch.from_numpy(np.stack([np.interp(parts, own, times) for own in fallen]))
