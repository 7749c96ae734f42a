r"""Diffusion scales: fixed, or learned as rows of a softmax.

A bank of :math:`J` scales is a matrix :math:`F \in [0, 1]^{J \times m}` whose row :math:`j` is a
distribution over the diffusion times :math:`1, \dots, m`; a fixed scale is a one-hot row. All
computations use the *cumulative* form, with columns :math:`t = 0, \dots, m - 1`,

.. math::
    c_j(t) = \sum_{s \le t} F_{js}, \qquad c_j(0) = 0,

because the filters are non-negative combinations of diffusions exactly when
:math:`c_1 \ge c_2 \ge \dots \ge c_J` at every :math:`t` (the rows are *stochastically ordered*).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

Ordering = Literal["ordered", "softmax"]
LARGEST_SCALE = 1_000_000


def dyadic_scales(num_scales: int) -> tuple[int, ...]:
    """The paper's scales.

    >>> dyadic_scales(5)
    (1, 2, 4, 8, 16)
    """
    return tuple(2**k for k in range(num_scales))


def default_scales(num_scales: int, steps: int) -> tuple[int, ...]:
    """Dyadic scales where they fit into ``steps``, else distinct log-spaced ones from 1 to it.

    >>> default_scales(4, 16), default_scales(7, 16)
    ((1, 2, 4, 8), (1, 2, 3, 4, 6, 10, 16))
    """
    if not 1 <= num_scales <= steps:
        raise ValueError(
            f"num_scales must be between 1 and steps; got num_scales={num_scales}, steps={steps}"
        )
    dyadic = dyadic_scales(num_scales)
    if dyadic[-1] <= steps:
        return dyadic
    scales = [round(steps ** (k / (num_scales - 1))) for k in range(num_scales)]
    for k in range(1, num_scales):  # push collisions of the small scales upwards ...
        scales[k] = max(scales[k], scales[k - 1] + 1)
    for k in reversed(range(num_scales)):  # ... and whatever left the range back into it
        scales[k] = min(scales[k], steps - (num_scales - 1 - k))
    return tuple(scales)


def check_scales(scales: Sequence[float], steps: int | None = None) -> tuple[float, ...]:
    """Increasing numbers from 1 on, none above ``steps``; a clear error otherwise."""
    checked = tuple(t if isinstance(t, int) else float(t) for t in scales)
    checked = tuple(int(t) if t == t // 1 and t - t == 0 else t for t in checked)
    if not checked or any(t - t != 0 for t in checked):  # infinite or NaN
        raise ValueError(f"scales must be a non-empty list of numbers; got {list(scales)}")
    if checked[0] < 1 or any(a >= b for a, b in pairwise(checked)):
        raise ValueError(f"scales must be at least 1 and strictly increasing; got {list(checked)}")
    if checked[-1] > LARGEST_SCALE:
        raise ValueError(f"scales must be at most {LARGEST_SCALE:,}")
    if steps is not None and steps < checked[-1]:
        raise ValueError(
            f"steps must be at least the largest scale; got steps={steps}, scales={list(checked)}"
        )
    return checked


def cumulative_of_scales(
    scales: Sequence[float] | Tensor, steps: int, dtype: torch.dtype | None = None
) -> Tensor:
    r"""Cumulative form ``[..., J, steps]`` of fixed scales ``[..., J]``.

    Times between integers interpolate the powers,
    :math:`P^{n + f} \to (1 - f) P^n + f P^{n + 1}`; increasing ones are stochastically ordered.

    >>> cumulative_of_scales([1, 3], steps=3)
    tensor([[0., 1., 1.],
            [0., 0., 0.]])
    >>> cumulative_of_scales([1.25], steps=2)
    tensor([[0.0000, 0.7500]])
    """
    times = torch.as_tensor(scales, dtype=torch.float64).unsqueeze(-1)
    shares = (torch.arange(steps, dtype=torch.float64) + 1 - times).clamp(0, 1)
    return shares.to(dtype or torch.get_default_dtype())


def initial_logits(scales: Sequence[float], steps: int) -> Tensor:
    r"""Logits :math:`\Theta_{jt} = -2 |t - t_j|`: a learned bank that starts near fixed scales.

    Not one peak on a flat background: that ties most cumulative sums, and ties are kinks.

    >>> initial_logits([1, 2], steps=3)
    tensor([[-0., -2., -4.],
            [-2., -0., -2.]])
    """
    times = torch.arange(1, steps + 1, dtype=torch.get_default_dtype())
    return -2 * (times - torch.tensor(list(scales)).unsqueeze(-1)).abs()


def select_scales(theta: Tensor, ordering: Ordering = "ordered") -> Tensor:
    r"""Cumulative form ``[J, m]`` of the learned selection :math:`F = \mathrm{softmax}(\Theta)`.

    Args:
        theta: logits, ``[J, m]``.
        ordering: ``"ordered"`` sorts the cumulative sums pointwise. The result is stochastically
            ordered, so the filter bank never expands; it is the identity where the rows are
            ordered already, and differentiable almost everywhere. ``"softmax"`` is the paper's:
            rows sorted by the position of their largest entry; it may expand.

    >>> theta = torch.tensor([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]])
    >>> select_scales(theta).round(decimals=2)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    rows = torch.softmax(theta, dim=-1)
    if ordering == "softmax":
        order = torch.argsort(rows.argmax(dim=-1), stable=True)
        rows = torch.take_along_dim(rows, order.unsqueeze(-1), dim=-2)
    sums = torch.cumsum(rows[..., :-1], dim=-1)
    if ordering == "ordered":
        sums = torch.sort(sums, dim=-2, descending=True, stable=True).values
    return torch.cat([torch.zeros_like(rows[..., :1]), sums], dim=-1)


def scale_weights(cumulative: Tensor) -> Tensor:
    """The selection matrix ``F`` ``[J, m]`` of a cumulative form.

    >>> scale_weights(cumulative_of_scales([1, 3], steps=3))
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    last = torch.ones_like(cumulative[..., :1])
    return torch.diff(torch.cat([cumulative, last], dim=-1), dim=-1)


def expected_scales(cumulative: Tensor) -> Tensor:
    r"""Mean diffusion time of every row, :math:`\sum_t t F_{jt} = \sum_t (1 - c_j(t))`.

    >>> expected_scales(cumulative_of_scales([1, 3], steps=4))
    tensor([1., 3.])
    """
    return (1 - cumulative).sum(-1)


def harden_scales(weights: Tensor) -> tuple[int, ...]:
    r"""The increasing :math:`t_1 < \dots < t_J` that maximise :math:`\sum_j \log F_{j, t_j}`.

    By dynamic programming; a row-wise argmax may choose one time twice.

    >>> harden_scales(torch.tensor([[0.6, 0.4, 0.0], [0.7, 0.2, 0.1]]))
    (1, 2)
    """
    # A floor keeps impossible entries comparable when every choice has one.
    score = weights.detach().double().cpu().clamp_min(1e-300).log()
    best, previous = score[0], []
    for row in score[1:]:
        value, where = torch.cummax(best, dim=0)
        previous.append(where)
        best = row + torch.cat([value.new_tensor([-torch.inf]), value[:-1]])
    times = [int(best.argmax())]
    for where in reversed(previous):
        times.append(int(where[times[-1] - 1]))
    return tuple(t + 1 for t in reversed(times))
