"""What a stack of models is put together from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legs.models import Network
from legs.training.task import Task


class Head(torch.nn.Module):
    """A network that starts from its embedding."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Predictions, ``[graphs, out_channels]``."""
        return self.network.predict_from(features, mask)


def inside_head(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A network's state as that of its :class:`Head`."""
    return {f"network.{name}": value for name, value in state.items()}


# Models with this many different sets of graphs and more look at all graphs together: one pass over
# many graphs is faster than very many over few.
MOST_GROUPS = 20


def together(masks: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Models that need the same graphs, and these graphs, given which graphs each model needs.

    >>> [(models.tolist(), graphs.tolist()) for models, graphs in together(torch.eye(2) > 0)]
    [([1], [1]), ([0], [0])]
    """
    rows, group = torch.unique(masks, dim=0, return_inverse=True)
    if len(rows) > MOST_GROUPS:
        everyone = torch.arange(len(masks), device=masks.device)
        return [(everyone, masks.any(0).nonzero().flatten())]
    return [
        ((group == number).nonzero().flatten(), row.nonzero().flatten())
        for number, row in enumerate(rows)
    ]


def masks_of(parts: list[Any], graphs: int, device: torch.device) -> Tensor:
    """Which graphs are in each part, ``[parts, graphs]``."""
    masks = torch.zeros(len(parts), graphs, dtype=torch.bool)
    for row, part in zip(masks, parts, strict=True):
        row[torch.as_tensor(part)] = True
    return masks.to(device)


def scales_of(tasks: list[Task], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """What scales the targets and weighs the classes of each task, ``[tasks, ...]``."""
    names = [n for n in ("class_weights", "mean", "deviation") if getattr(tasks[0], n) is not None]
    return {n: torch.stack([getattr(t, n) for t in tasks]).to(device, dtype) for n in names}
