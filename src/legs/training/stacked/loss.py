"""Losses of the models of a stack, each on its own graphs and at its own scale of targets."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from legs.training.task import SCALES, Task, label_terms


class StackedLoss:
    """What :class:`~legs.training.task.Task` computes for one model, for all of a stack.

    What depends on targets alone is prepared once.
    ``y`` are unscaled targets of all graphs, ``dtype`` is that of the models.
    """

    def __init__(self, tasks: list[Task], y: Tensor, dtype: torch.dtype) -> None:
        self.y, self.classifies = y, tasks[0].kind == "classification"
        self.labels = tasks[0].kind == "multilabel"
        self.scales = {
            name: torch.stack([getattr(task, name) for task in tasks]).to(y.device, dtype)
            for name in SCALES
            if getattr(tasks[0], name) is not None
        }
        if self.classifies:
            # Minus one at every graph's class: times log-probabilities, that is its loss.
            self.minus_one_hot = -one_hot(y, len(tasks[0].names)).to(dtype)
        else:
            self.values, self.present = y.nan_to_num(), (~y.isnan()).to(dtype)

    def keep(self, models: Tensor) -> None:
        """Continues with some of the models only."""
        self.scales = {name: scale[models] for name, scale in self.scales.items()}

    def terms(
        self, out: Tensor, index: Tensor, models: Tensor | slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Loss and weight of each graph for some of the models, ``[models, graphs]`` both.

        ``out`` is ``[models, graphs, outputs]`` for the graphs ``index``.
        """
        if self.classifies:
            loss = (out.log_softmax(-1) * self.minus_one_hot[index]).sum(-1)
            if "class_weights" not in self.scales:
                return loss, torch.ones_like(loss)
            weight = self.scales["class_weights"][models][:, self.y[index]]
            return loss * weight, weight
        if self.labels:
            ones = self.scales.get("class_weights")
            target = self.y[index].to(out.dtype)
            return label_terms(out, target, None if ones is None else ones[models].unsqueeze(1))
        # Standardized in the precision of the targets, as for one model.
        scales = (self.scales[name][models].to(self.y.dtype) for name in ("mean", "deviation"))
        mean, deviation = (scale.unsqueeze(1) for scale in scales)
        error = out - ((self.values[index] - mean) / deviation).to(out.dtype)
        present = self.present[index]
        return (error.square() * present).sum(-1), present.sum(-1).expand(len(out), -1)

    def total(self, out: Tensor, index: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of all models' losses, and the weight of each model's graphs, ``[models]``.

        ``mask`` is one where a graph is a model's own, else zero, ``[models, graphs]``.
        """
        losses, weights = self.terms(out, index)
        count = (weights * mask).sum(1)
        share = mask / count.clamp_min(1e-12).unsqueeze(-1)
        return (losses * share).sum(), count
