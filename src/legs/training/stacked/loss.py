"""Losses of the models of a stack, each on its own graphs and at its own scale of targets."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import one_hot

from legs.training.task import Task


class StackedLoss:
    """What :class:`~legs.training.task.Task` computes for one model, for all of a stack.

    What depends on targets alone is prepared once.
    ``y`` are unscaled targets of all graphs, ``dtype`` is that of the models.
    """

    def __init__(self, tasks: list[Task], y: Tensor, dtype: torch.dtype) -> None:
        self.y, self.kind, self.names = y, tasks[0].kind, tasks[0].names
        self.scales = {
            name: torch.stack([getattr(task, name) for task in tasks]).to(y.device, dtype)
            for name in ("class_weights", "mean", "deviation")
            if getattr(tasks[0], name) is not None
        }
        if self.kind == "classification":
            # Minus one at every graph's class: times log-probabilities, that is its loss.
            self.minus_one_hot = -one_hot(y, len(self.names)).to(dtype)
        else:
            self.values, self.present = y.nan_to_num(), (~y.isnan()).to(dtype)

    def keep(self, models: Tensor) -> None:
        """Continues with some of the models only."""
        self.scales = {name: scale[models] for name, scale in self.scales.items()}

    def total(self, out: Tensor, index: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of all models' losses, and the weight of each model's graphs, ``[models]``.

        ``out`` is ``[models, graphs, outputs]`` for the graphs ``index``; ``mask`` is one where a
        graph is a model's own, else zero, ``[models, graphs]``.
        """
        if self.kind == "classification":
            weight = mask
            if "class_weights" in self.scales:
                weight = weight * self.scales["class_weights"][:, self.y[index]]
            count = weight.sum(1)
            share = (weight / count.clamp_min(1e-12).unsqueeze(-1)).unsqueeze(-1)
            return (out.log_softmax(-1) * (self.minus_one_hot[index] * share)).sum(), count
        # Standardized in the precision of the targets, as for one model.
        scales = (self.scales[name].to(self.y.dtype) for name in ("mean", "deviation"))
        mean, deviation = (scale.unsqueeze(1) for scale in scales)
        target = ((self.values[index] - mean) / deviation).to(out.dtype)
        weight = mask.unsqueeze(-1) * self.present[index]
        count = weight.sum((1, 2))
        share = weight / count.clamp_min(1e-12).view(-1, 1, 1)
        return ((out - target).square() * share).sum(), count

    def terms(self, out: Tensor, index: Tensor, models: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and weight of each graph for some of the models, ``[models, graphs]`` both."""
        y = self.y[index]

        def one(out: Tensor, scales: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            task = Task(self.kind, self.names, **scales)
            target = task.targets(y)
            return task.terms(out, target.to(out.dtype) if target.is_floating_point() else target)

        scales = {name: scale[models] for name, scale in self.scales.items()}
        pair: tuple[Tensor, Tensor] = vmap(one)(out, scales)
        return pair
