"""Losses of the models of a stack, each on its own graphs and at its own scale of targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from legs.training.task import SCALES, Task


class StackedLoss:
    """What :class:`~legs.training.task.Task` computes for one model, for all of a stack.

    ``y`` are unscaled targets of all graphs, ``dtype`` is that of the models.
    """

    def __init__(self, tasks: list[Task], y: Tensor, dtype: torch.dtype) -> None:
        self.y, self.task = y, tasks[0]
        self.scales = {
            # [models, 1, classes or targets]
            name: torch.stack([getattr(task, name) for task in tasks]).to(y.device, dtype)[:, None]
            for name in SCALES
            if getattr(tasks[0], name) is not None
        }

    def keep(self, models: Tensor) -> None:
        """Continues with some of the models only."""
        self.scales = {name: scale[models] for name, scale in self.scales.items()}

    def terms(
        self, out: Tensor, index: Tensor, models: Tensor | slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Loss and weight of each graph for some of the models, ``[models, graphs]`` both.

        ``out`` is ``[models, graphs, outputs]`` for the graphs ``index``.
        """
        scales: dict[str, Any] = {name: scale[models] for name, scale in self.scales.items()}
        task = replace(self.task, **scales)
        # Standardized in the precision of the targets, as for one model.
        target = task.targets(self.y[index])
        return task.terms(out, target.to(out.dtype) if target.is_floating_point() else target)

    def total(self, out: Tensor, index: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of all models' losses, and the weight of each model's graphs, ``[models]``.

        ``mask`` is one where a graph is a model's own, else zero, ``[models, graphs]``.
        """
        losses, weights = self.terms(out, index)
        count = (weights * mask).sum(1)
        share = mask / count.clamp_min(1e-12).unsqueeze(-1)
        return (losses * share).sum(), count
