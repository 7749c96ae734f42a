"""What is to be predicted: losses, the scale of targets, and predictions in the user's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from legs.data.dataset import GraphDataset
from legs.data.dataset import Task as TaskKind


@dataclass(frozen=True)
class Task:
    """Classification of graphs, or regression of one or many numbers.

    Numbers are whitened: the network predicts ``(y - mean) / deviation``, both from the training
    graphs. A missing number (NaN) counts nowhere.

    Args:
        kind: ``"classification"`` or ``"regression"``.
        names: of the classes or targets.
        class_weights: weight of each class in the loss, or ``None``.
        mean: of each target in training.
        deviation: of each target in training.
    """

    kind: TaskKind
    names: tuple[str, ...]
    class_weights: Tensor | None = None
    mean: Tensor | None = None
    deviation: Tensor | None = None

    @classmethod
    def of(cls, data: GraphDataset, train: Tensor, balanced: bool = False) -> Task:
        """The task of a data set; scales and class weights come from its ``train`` graphs only.

        Args:
            data: with targets.
            train: numbers of the training graphs.
            balanced: whether rare classes weigh more, in inverse proportion to their frequency.
        """
        if data.y is None or data.task is None:
            raise ValueError(f"{data.name or 'the data set'} has no targets to train on")
        y = data.y[train]
        if data.task == "classification":
            names = data.class_names or _numbered(int(data.y.max()) + 1)
            return cls.of_classes(y, names, balanced)
        names = data.target_names or _numbered(data.y.shape[1])
        infinite = data.y.isinf().any(0).nonzero().flatten().tolist()
        if infinite:
            raise ValueError(f"target {names[infinite[0]]} holds infinite values")
        # In float64: a constant column must come out as one.
        known, values = ~y.isnan(), y.double()
        count = known.sum(0).clamp_min(1)
        mean = values.nan_to_num().sum(0) / count
        deviation = (torch.where(known, values - mean, 0.0).square().sum(0) / count).sqrt()
        constant = deviation <= 1e-7 * mean.abs().clamp_min(1e-30)
        if bool(constant.all()):
            raise ValueError("the targets of the training graphs do not vary: nothing to learn")
        deviation = torch.where(constant, 1.0, deviation)
        return cls("regression", names, None, mean.to(y), deviation.to(y))

    @classmethod
    def of_classes(
        cls, y: Tensor, names: tuple[str, ...], balanced: bool = False, what: str = "graphs"
    ) -> Task:
        """Classification into ``names``; ``y`` are the classes of the training graphs or nodes."""
        counts = torch.bincount(y, minlength=len(names))
        present = int((counts > 0).sum())
        if present < 2:
            raise ValueError(f"the training {what} are all of one class: nothing to learn")
        weights = counts.sum() / (present * counts.clamp_min(1).float()) if balanced else None
        return cls("classification", names, weights)

    def targets(self, y: Tensor) -> Tensor:
        """Targets as the loss takes them: classes, or whitened numbers."""
        if self.kind == "classification":
            return y
        assert self.mean is not None and self.deviation is not None
        return (y - self.mean.to(y)) / self.deviation.to(y)

    def has_target(self, target: Tensor) -> Tensor:
        """Whether there is anything to compare a prediction with, ``[graphs]``."""
        if self.kind == "classification":
            return torch.ones_like(target, dtype=torch.bool)
        return ~target.isnan().all(-1)

    def terms(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and weight of each graph, ``[graphs]`` both; the loss is Σ loss / Σ weight."""
        if self.kind == "classification":
            loss = F.cross_entropy(out, target, reduction="none")
            if self.class_weights is None:
                return loss, torch.ones_like(loss)
            weight = self.class_weights.to(loss)[target]
            return loss * weight, weight
        known = ~target.isnan()
        error = torch.where(known, out - target.nan_to_num(), 0.0)
        return error.square().sum(-1), known.sum(-1).to(out.dtype)

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Mean loss of a batch."""
        losses, weights = self.terms(out, target)
        return losses.sum() / weights.sum().clamp_min(1e-12)

    def answers(self, out: Tensor) -> Tensor:
        """What a user wants to read: class probabilities, or numbers in original units."""
        if self.kind == "classification":
            return out.softmax(-1)
        assert self.mean is not None and self.deviation is not None
        return out * self.deviation.to(out) + self.mean.to(out)

    def scores(self, answers: Tensor, y: Tensor) -> dict[str, float]:
        """Accuracy, balanced accuracy and log loss; or whitened MSE, R², and each RMSE and MAE.

        Targets of which no value is known are left out; NaN if none is known at all.
        """
        if self.kind == "classification":
            right = answers.argmax(-1) == y
            recall = [right[y == k].float().mean() for k in y.unique()]
            chosen = answers[torch.arange(len(y)), y].clamp_min(1e-12)
            return {
                "accuracy": float(right.float().mean()),
                "balanced_accuracy": float(torch.stack(recall).mean()),
                "log_loss": float(-chosen.log().mean()),
            }
        assert self.deviation is not None
        known, truth = ~y.isnan(), y.double().nan_to_num()
        count = known.sum(0)
        seen = count > 0  # a target that is missing throughout has no score
        error = torch.where(known, answers.double() - truth, 0.0)
        mean_square, absolute = error.square().sum(0) / count, error.abs().sum(0) / count
        spread = torch.where(known, truth - truth.sum(0) / count, 0.0).square().sum(0) / count
        # Where the truth does not vary: 1 if it is met, else 0, as scikit-learn has it.
        unexplained = torch.where(spread > 0, mean_square / spread, (mean_square > 0).double())
        scores = {
            "whitened_mse": float((mean_square / self.deviation.double().square())[seen].mean()),
            "r2": float((1 - unexplained)[seen].mean()),
        }
        for k in seen.nonzero().flatten().tolist():
            scores[f"rmse:{self.names[k]}"] = float(mean_square[k].sqrt())
            scores[f"mae:{self.names[k]}"] = float(absolute[k])
        return scores

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        lists = {
            key: None if value is None else value.tolist()
            for key, value in (
                ("class_weights", self.class_weights),
                ("mean", self.mean),
                ("deviation", self.deviation),
            )
        }
        return {"kind": self.kind, "names": list(self.names), **lists}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Task:
        """Back from :meth:`to_json`."""
        tensors = {
            key: None if values[key] is None else torch.tensor(values[key])
            for key in ("class_weights", "mean", "deviation")
        }
        made = cls(values["kind"], tuple(values["names"]), **tensors)
        made._check()
        return made

    def _check(self) -> None:
        """Of what a file says: parts that fit together."""
        size = (len(self.names),)
        if self.kind not in ("classification", "regression") or not self.names:
            raise ValueError(f"a task of kind {self.kind!r} with {len(self.names)} names")
        needed = self.kind == "regression"
        for tensor in (self.mean, self.deviation):
            if (tensor is not None) != needed or (tensor is not None and tensor.shape != size):
                raise ValueError("mean and deviation are those of numbers, one each")
        numbers = (self.mean, self.deviation, self.class_weights)
        if not all(tensor is None or bool(tensor.isfinite().all()) for tensor in numbers):
            raise ValueError("mean, deviation and class weights must be finite")
        if self.class_weights is not None and self.class_weights.shape != size:
            raise ValueError("class weights are one a class")


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(count))
