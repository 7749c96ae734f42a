"""What is to be predicted: losses, the scale of targets, and predictions in original units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from legs.data.dataset import GraphDataset
from legs.data.dataset import Task as TaskKind
from legs.data.splits import Split

if TYPE_CHECKING:
    import pandas as pd

# Tensors of a task, each with a value per class or target.
SCALES = ("class_weights", "mean", "deviation")
ERRORS = ("log_loss", "whitened_mse", "rmse:", "mae:")  # scores of which lower ones are better


@dataclass(frozen=True)
class Task:
    """Classification of graphs, regression of one or more targets, or labels that are 0 or 1.

    Continuous targets are standardized: the network predicts ``(y - mean) / deviation``, both from
    the training graphs. A missing value (NaN) counts nowhere.

    Args:
        kind: ``"classification"``, ``"regression"`` or ``"multilabel"``.
        names: of the classes, targets or labels.
        class_weights: weight of each class in the loss, or ``None``; of a label, that of ones.
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
        y, classes = data.y[train], data.task == "classification"
        names = data.class_names if classes else data.target_names
        count = int(data.y.max()) + 1 if classes else data.y.shape[1]
        names = names or tuple(map(str, range(count)))
        if classes:
            return cls.of_classes(y, names, balanced)
        for k in data.y.isinf().any(0).nonzero().flatten().tolist():
            raise ValueError(f"target {names[k]} holds infinite values")
        if data.task == "multilabel":
            return cls.of_labels(y, names, balanced)
        values = y.double()  # a constant column must come out as one
        mean = values.nanmean(0).nan_to_num()
        deviation = (values - mean).square().nanmean(0).nan_to_num().sqrt()
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

    @classmethod
    def of_labels(cls, y: Tensor, names: tuple[str, ...], balanced: bool = False) -> Task:
        """Labels ``names``; ``y`` are those of the training graphs: 0, 1, or NaN if missing."""
        if not bool((y.isnan() | (y == 0) | (y == 1)).all()):
            raise ValueError("labels must be 0, 1 or NaN")
        ones, zeros = (y == 1).sum(0), (y == 0).sum(0)
        if not bool(((ones > 0) & (zeros > 0)).any()):
            raise ValueError("no label of the training graphs varies: nothing to learn")
        weights = zeros.clamp_min(1) / ones.clamp_min(1).float() if balanced else None
        return cls("multilabel", names, weights)

    def targets(self, y: Tensor) -> Tensor:
        """Targets as the loss takes them: classes, labels, or standardized values."""
        if self.kind == "classification":
            return y
        if self.kind == "multilabel":
            return y if y.is_floating_point() else y.float()
        assert self.mean is not None and self.deviation is not None
        return (y - self.mean.to(y)) / self.deviation.to(y)

    def terms(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and weight of each graph, ``[..., graphs]``; the loss is Σ loss / Σ weight."""
        ones = None if self.class_weights is None else self.class_weights.to(out)
        if self.kind == "classification":
            place = target.expand(out.shape[:-1]).unsqueeze(-1)
            loss = -out.log_softmax(-1).gather(-1, place).squeeze(-1)
            if ones is None:
                return loss, torch.ones_like(loss)
            weight = ones.expand(out.shape).gather(-1, place).squeeze(-1)
            return loss * weight, weight
        present, target = ~target.isnan(), target.nan_to_num()
        weight = present.to(out.dtype)
        if self.kind == "regression":
            loss = (out - target).square()
        else:  # as F.binary_cross_entropy_with_logits, which does not broadcast
            loss = F.softplus(out) - out * target
            if ones is not None:
                weight = weight * torch.where(target > 0, ones, 1.0)
        return (loss * weight).sum(-1), weight.expand(out.shape).sum(-1)

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Mean loss of a batch."""
        losses, weights = self.terms(out, target)
        return losses.sum() / weights.sum().clamp_min(1e-12)

    def answers(self, out: Tensor) -> Tensor:
        """Probabilities of classes or labels, or targets in original units."""
        if self.kind == "classification":
            return out.softmax(-1)
        if self.kind == "multilabel":
            return out.sigmoid()
        assert self.mean is not None and self.deviation is not None
        return out * self.deviation.to(out) + self.mean.to(out)

    def scores(self, answers: Tensor, y: Tensor) -> dict[str, float]:
        """Scores by name, as scikit-learn has them.

        Classification: accuracy, balanced accuracy, log loss, Matthews correlation, ROC-AUC and
        average precision (the area below the precision-recall curve) of the second class, of more
        than two the mean over one class against the rest, and ``recall:CLASS`` of each.
        Regression: MSE of standardized targets, R² and Spearman correlation, means over targets,
        and each ``rmse:T`` and ``mae:T`` in the units of T. Labels: average precision and ROC-AUC,
        means over the labels with zeros and ones, and log loss.

        Targets of which no value is known are left out; NaN where a score is not defined.
        """
        if self.kind == "classification":
            predicted = answers.argmax(-1)
            right = (predicted == y).double()
            recall = {int(k): float(right[y == k].mean()) for k in y.unique()}
            chosen = answers[torch.arange(len(y)), y].clamp_min(1e-12)
            # Shares of classes that are true and predicted, with no warning about missing ones.
            true, said = (F.one_hot(k, len(self.names)).double().mean(0) for k in (y, predicted))
            spread = ((1 - true @ true) * (1 - said @ said)).sqrt()
            classes = torch.arange(answers.shape[1])[1 if answers.shape[1] == 2 else 0 :]
            ranked = label_scores(answers[:, classes], (y.unsqueeze(1) == classes).double())
            return {
                "accuracy": float(right.mean()),
                "balanced_accuracy": sum(recall.values()) / len(recall),
                "log_loss": float(-chosen.log().mean()),
                "mcc": float((right.mean() - true @ said) / spread) if spread > 0 else 0.0,
                "roc_auc": ranked["roc_auc"],
                "average_precision": ranked["average_precision"],
                **{f"recall:{self.names[k]}": value for k, value in recall.items()},
            }
        if self.kind == "multilabel":
            return label_scores(answers, y)
        assert self.deviation is not None
        truth = y.double()
        error = answers.double() - truth
        mean_square, absolute = error.square().nanmean(0), error.abs().nanmean(0)
        spread = (truth - truth.nanmean(0)).square().nanmean(0)
        scored = ~y.isnan().all(0)  # a target that is missing throughout has no score
        # Where the truth does not vary: 1 if it is met, else 0, as scikit-learn has it.
        unexplained = torch.where(spread > 0, mean_square / spread, (mean_square > 0).double())
        scores = {
            "whitened_mse": float((mean_square / self.deviation.double().square())[scored].mean()),
            "r2": float((1 - unexplained)[scored].mean()),
            "spearman": spearman(answers[:, scored], truth[:, scored]),
        }
        for k in scored.nonzero().flatten().tolist():
            scores[f"rmse:{self.names[k]}"] = float(mean_square[k].sqrt())
            scores[f"mae:{self.names[k]}"] = float(absolute[k])
        return scores

    def scores_by_part(
        self, answers: Tensor, y: Tensor, split: Split
    ) -> dict[str, dict[str, float]]:
        """Scores on each part of a split; ``"guess"``: of a baseline that ignores the graphs."""
        parts = {name: part for name, part in split._asdict().items() if len(part)}
        scores = {name: self.scores(answers[part], y[part]) for name, part in parts.items()}
        if len(split.test):
            scores["guess"] = self.scores(self.baseline(y, split), y[split.test])
        return scores

    def baseline(self, y: Tensor, split: Split) -> Tensor:
        """Answers for the test graphs that ignore them: shares of classes in training, or means."""
        answer = self.mean
        if self.kind == "multilabel":
            answer = y[split.train].float().nanmean(0).nan_to_num(0.5)
        if answer is None:
            counts = torch.bincount(y[split.train], minlength=len(self.names))
            answer = counts.float() / len(split.train)
        return answer.expand(len(split.test), -1)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        tensors = {name: getattr(self, name) for name in SCALES}
        lists = {name: None if t is None else t.tolist() for name, t in tensors.items()}
        return {"kind": self.kind, "names": list(self.names), **lists}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Task:
        """Back from :meth:`to_json`; raises ``ValueError`` for parts that do not fit together."""
        tensors = {n: None if values[n] is None else torch.tensor(values[n]) for n in SCALES}
        task = cls(values["kind"], tuple(values["names"]), **tensors)
        if task.kind not in get_args(TaskKind) or not task.names:
            raise ValueError(f"a task of kind {task.kind!r} with {len(task.names)} names")
        for name, tensor in tensors.items():
            if name != "class_weights" and (tensor is None) != (task.kind != "regression"):
                raise ValueError("mean and deviation are those of continuous targets")
            if tensor is not None and tensor.shape != (len(task.names),):
                raise ValueError(f"{name} must hold one value per name")
            if tensor is not None and not bool(tensor.isfinite().all()):
                raise ValueError(f"{name} must be finite")
        return task


def to_minimize(metric: str, scores: Mapping[str, float]) -> float:
    """A score by name, negated where higher is better."""
    if metric not in scores:
        raise ValueError(f"no score is called {metric!r}; choose one of {', '.join(scores)}")
    return scores[metric] if metric.startswith(ERRORS) else -scores[metric]


def spearman(answers: Tensor, y: Tensor) -> float:
    """The mean rank correlation of columns, over values that are there; NaN if none varies."""
    from scipy.stats import rankdata

    correlations = []
    for answer, truth in zip(answers.double().T, y.double().T, strict=True):
        present = ~truth.isnan()
        ranks = [torch.from_numpy(rankdata(c[present].numpy())) for c in (answer, truth)]
        if all(len(rank.unique()) > 1 for rank in ranks):
            correlations.append(float(torch.corrcoef(torch.stack(ranks))[0, 1]))
    return sum(correlations) / (len(correlations) or math.nan)


def label_scores(answers: Tensor, y: Tensor) -> dict[str, float]:
    """Scores of probabilities of labels; NaN where no label has both zeros and ones."""
    from scipy.stats import rankdata

    precisions, areas = [], []
    for answer, truth in zip(answers.double().T, y.double().T, strict=True):
        present = ~truth.isnan()
        ones, falling = (truth[present] > 0).numpy(), -answer[present].numpy()
        if 0 < (positive := int(ones.sum())) < len(ones):
            # Of each positive: the share of positives among all that score as high.
            above = rankdata(falling, "max")[ones]
            precisions.append(float((rankdata(falling[ones], "max") / above).mean()))
            area = positive * (positive + 1) / 2 - rankdata(falling)[ones].sum()
            areas.append(float(1 + area / (positive * (len(ones) - positive))))
    chosen = torch.where(y > 0, answers, 1 - answers).double().clamp_min(1e-12)
    count = len(areas) or math.nan
    return {
        "average_precision": sum(precisions) / count,
        "roc_auc": sum(areas) / count,
        "log_loss": float(-chosen.log()[~y.isnan()].mean()),
    }


def prediction_table(task: Task, answers: Tensor, data: GraphDataset) -> pd.DataFrame:
    """A row per graph: its id, SMILES where there is one, prediction, and the truth if known."""
    import pandas as pd  # a model can be fitted without

    columns: dict[str, object] = {"id": data.ids or [str(i) for i in range(len(data))]}
    if data.smiles:
        columns["smiles"] = data.smiles
    columns |= prediction_columns(task, answers)
    if data.y is not None and task.kind == "classification":
        names = data.class_names or task.names
        columns["truth"] = [names[k] for k in data.y.tolist()]
    elif data.y is not None:
        columns |= {f"truth:{name}": data.y[:, k].numpy() for k, name in enumerate(task.names)}
    return pd.DataFrame(columns)


def public_columns(
    task: Task,
    table: pd.DataFrame,
    target: str = "class",
    half_widths: Sequence[float | None] = (),
) -> pd.DataFrame:
    """:func:`prediction_table` as people get it: id, measured and predicted values, the rest.

    Columns are called ``measured:T``, ``predicted:T``, ``lower:T`` and ``upper:T``, and
    ``probability:T=CLASS``; ``target`` is the name of T in classification.
    """
    names = {f"truth:{name}": f"measured:{name}" for name in task.names}
    if task.kind == "classification":
        names = {"truth": f"measured:{target}", "prediction": f"predicted:{target}"}
        names |= {f"probability:{name}": f"probability:{target}={name}" for name in task.names}
    elif task.kind == "multilabel":
        names |= {f"probability:{name}": f"probability:{name}=1" for name in task.names}
    else:
        names |= {name: f"predicted:{name}" for name in task.names}
        table, ends = table.copy(), [*zip(task.names, half_widths, strict=False)]
        for side, sign in (("lower", -1), ("upper", 1)):
            for name, half in ends:
                if half is not None:
                    table[f"{side}:{name}"] = table[name] + sign * half
                    names[f"{side}:{name}"] = f"{side}:{name}"
    first = ["id", *(name for name in names if name in table)]
    return table[[*first, *(c for c in table if c not in first)]].rename(columns=names)


def prediction_columns(task: Task, answers: Tensor) -> dict[str, Any]:
    """The predicted class and the probability of each, of each label, or targets, by name."""
    columns: dict[str, Any] = {}
    if task.kind == "classification":
        columns["prediction"] = [task.names[k] for k in answers.argmax(-1).tolist()]
    if task.kind == "regression":
        names: Sequence[str] = task.names
    else:
        names = [f"probability:{name}" for name in task.names]
    return columns | {name: answers[:, k].numpy() for k, name in enumerate(names)}
