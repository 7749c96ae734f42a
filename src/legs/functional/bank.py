r"""Filter banks of a lazy walk that are differentiable in everything.

A bank of polynomial filters :math:`F` of a walk :math:`P`, applied to signals :math:`x`:

.. math::
    \mathrm{out}_b = \sum_{t=0}^{m} F_{bt}\, P^t x, \qquad P = \tfrac12 (I + A).

The operator :math:`A` is one of

- ``"walk"``: :math:`W D^{-1}`, the paper's: a node sends its value to its neighbors in equal parts;
- ``"row"``: :math:`D^{-1} W`, the transposed walk: a node takes the mean over its neighbors;
- ``"symmetric"``: :math:`D^{-1/2} W D^{-1/2}`.

They are similar to one another: :math:`S\,(D^{-1} W)\,S^{-1}` with :math:`S = D`, :math:`I`,
:math:`D^{1/2}`. With another laziness the filters change, not the walk (:func:`lazy_mixture`).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from legs.functional.diffusion import BASE, Walk
from legs.functional.sparse import spmm

Operator = Literal["walk", "row", "symmetric"]
OPERATORS = ("walk", "row", "symmetric")


def operator_values(walk: Walk, operator: Operator) -> Tensor:
    """The entries of :math:`A`, in the order of the walk's pattern."""
    if operator == "walk":
        return walk.forth
    if operator == "row":
        return walk.back
    return (walk.forth * walk.back).sqrt()


def filter_bank(x: Tensor, walk: Walk, filters: Tensor, operator: Operator = "walk") -> Tensor:
    r"""Applies polynomial filters of a lazy walk, :math:`\sum_t F_{bt} P^t x`.

    Differentiable (twice) in everything; maps and compiles.

    Args:
        x: signals, ``[nodes, channels]``.
        walk: from :func:`~legs.functional.random_walk`.
        filters: :math:`F`, ``[bands, steps + 1]``, or ``[bands, steps + 1, channels]`` for filters
            of each channel.
        operator: ``"walk"`` (default), ``"row"`` or ``"symmetric"``.

    Returns:
        ``[nodes, bands, channels]``.

    >>> from legs.functional import random_walk
    >>> walk = random_walk(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> bands = torch.tensor([[1.0, -1.0], [0.0, 1.0]])  # I - P, and P
    >>> filter_bank(torch.tensor([[1.0], [0.0]]), walk, bands).squeeze(-1)
    tensor([[ 0.5000,  0.5000],
            [-0.5000,  0.5000]])
    """
    values, states = operator_values(walk, operator), [x]
    for _ in range(filters.shape[1] - 1):
        states.append(torch.lerp(spmm(walk.pattern, values, states[-1]), states[-1], BASE))
    rule = "btc,tnc->nbc" if filters.dim() == 3 else "bt,tnc->nbc"
    return torch.einsum(rule, filters, torch.stack(states))


def difference_filters(filters: Tensor) -> Tensor:
    r"""The same filters by differences: :math:`f_0 x + \sum_{k \ge 1} f_k P^{k-1} (I - P)\, x`.

    With :math:`f_0 = \sum_t F_t` and :math:`f_k = -\sum_{t \ge k} F_t`. A filter whose weights sum
    to zero is then exactly zero for constants, and loses fewer digits for smooth signals.

    >>> difference_filters(torch.tensor([[0.0, 1.0, -1.0]]))
    tensor([[0., -0., 1.]])
    """
    sums = filters.flip(1).cumsum(1).flip(1)
    return torch.cat([sums[:, :1], -sums[:, 1:]], dim=1)


def power_filters(filters: Tensor) -> Tensor:
    """Undoes :func:`difference_filters`.

    >>> power_filters(difference_filters(torch.tensor([[3.0, 1.0, -1.0]])))
    tensor([[ 3.,  1., -1.]])
    """
    sums = torch.cat([filters[:, :1], -filters[:, 1:]], dim=1)
    return sums - torch.cat([sums[:, 1:], torch.zeros_like(sums[:, :1])], dim=1)
