"""Numbers taken from trained networks of a cross-validation while they are there."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from legs.training.inputs import Inputs, predict
from legs.training.stacked.trainer import Member

# From a trained member, its data and the unscaled targets of all graphs, on the member's device;
# ``None`` where a network has nothing to measure.
Measure = Callable[[Member, Inputs, Tensor], Tensor | None]


def train_mse(member: Member, inputs: Inputs, y: Tensor) -> Tensor:
    """Mean squared error of whitened targets on the member's own training graphs, ``[targets]``.

    In evaluation mode, with the weights that are kept: what to hold against the test error.
    """
    index = torch.as_tensor(member.split.train).to(y.device)
    out = predict(inputs, member.network, index)
    return squared_error(out, member.task.targets(y[index]))


def squared_error(out: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of each column; missing numbers (NaN) count nowhere.

    Args:
        out: predictions, ``[graphs, targets]``.
        target: the truth, the same shape.

    >>> nan = float("nan")
    >>> squared_error(
    ...     torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[0.0, 2.0], [3.0, nan]])
    ... )
    tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    known = ~target.isnan()
    error = torch.where(known, out.double() - target.double().nan_to_num(), 0.0)
    return error.square().sum(0) / known.sum(0)
