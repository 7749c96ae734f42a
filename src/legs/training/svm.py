"""GS-SVM: fixed scattering, standardized, and a support vector machine with an RBF kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from torch import Tensor

from legs.data.dataset import GraphDataset
from legs.models import create
from legs.training.inputs import embed
from legs.training.task import Task

Floats = NDArray[np.float64]

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Times 1 / number of features.
WIDTHS = (0.01, 0.1, 1.0, 10.0)
# C and γ are chosen on at most so many training graphs: that takes a hundred fits, each in a time
# that grows with more than the square of the graphs.
MOST_TUNED = 2000


@dataclass(eq=False)
class ScatteringSVM:
    """Support vector machines on fixed scattering: one for classes, one per continuous target.

    Saved as what they were fitted on: a fit is deterministic, and nothing is unpickled.
    """

    in_channels: int
    kind: str  # "classification" or "regression"
    penalty: list[float]  # C of each machine
    width: list[float]  # γ of the kernel of each machine
    features: Tensor  # of the graphs it was fitted on, [graphs, features]
    target: Tensor  # classes, or standardized values [graphs, targets]; NaN where missing
    class_weights: Tensor  # per class; empty: all the same
    calibration: Tensor  # decision values to class scores, [classes, values + 1]

    def __post_init__(self) -> None:
        columns = _columns(self.features, self.target)
        self.machines = [
            _machine(self.kind, self.class_weights).set_params(svm__C=C, svm__gamma=gamma).fit(x, y)
            for (x, y), C, gamma in zip(columns, self.penalty, self.width, strict=True)
        ]

    def decisions(self, features: Tensor) -> Floats:
        """Decision values (one per class, or one for two classes), or standardized predictions."""
        x = features.double().numpy()
        if self.kind == "regression":
            return np.stack([machine.predict(x) for machine in self.machines], axis=1)
        values = np.asarray(self.machines[0].decision_function(x), dtype=np.float64)
        return values[:, None] if values.ndim == 1 else values

    def answers(self, data: GraphDataset, task: Task) -> Tensor:
        features = self.embedding(data)
        finite = features.isfinite().all(1, keepdim=True)
        # scikit-learn refuses all graphs for the sake of one; that one has no answer.
        values = torch.from_numpy(self.decisions(torch.where(finite, features, 0)))
        values[~finite.squeeze(1)] = torch.nan
        if self.kind == "regression":
            return task.answers(values).float()
        weights = self.calibration.double()
        return (values @ weights[:, :-1].T + weights[:, -1]).softmax(-1).float()

    @staticmethod
    def embedding(data: GraphDataset) -> Tensor:
        """Fixed scattering with normalized moments, ``[graphs, features]``."""
        # Any head will do: only the embedding is used.
        return embed(create("legs-fixed", data.in_channels, 2), data)

    def num_parameters(self) -> int:
        machines = [machine[-1] for machine in self.machines]
        return int(sum(m.dual_coef_.size + m.intercept_.size for m in machines))

    def describe(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "machines" and not torch.is_tensor(v)}

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if torch.is_tensor(value)}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Tensor]) -> ScatteringSVM:
        """Fits the machines again on what they were fitted on."""
        parts: dict[str, Any] = {**described, **tensors}
        svm = cls(**parts)
        values, shape = svm.decisions(svm.features[:1]).shape[1], svm.calibration.shape
        if svm.kind == "classification" and (len(shape) != 2 or shape[1] != values + 1):
            raise ValueError(f"the calibration is not one of {values} decision values")
        return svm


def fit_svm(
    data: GraphDataset,
    task: Task,
    train: Tensor,
    validation: Tensor,
    folds: int = 5,
    seed: int = 0,
    workers: int = 1,
    features: Tensor | None = None,
) -> ScatteringSVM:
    """Chooses C and γ by cross-validation within the training graphs, then fits on all of them.

    The validation graphs calibrate class probabilities; they choose nothing. Each target of a
    regression gets a machine, with C and γ of its own, from the graphs that have a value of it.
    ``workers`` are processes for the choice, ``features`` those of all graphs, if there already.
    """
    if task.kind == "multilabel":
        raise ValueError("gs-svm predicts one class, not several labels; choose a network")
    features = ScatteringSVM.embedding(data) if features is None else features
    assert data.y is not None
    target = task.targets(data.y)[train]
    weights = torch.zeros(0) if task.class_weights is None else task.class_weights
    grid = {"svm__C": list(PENALTIES), "svm__gamma": [w / features.shape[1] for w in WIDTHS]}
    best = []
    for k, (x, y) in enumerate(_columns(features[train], target)):
        if len(y) < 2:
            raise ValueError(f"gs-svm needs two training graphs with a value of {task.names[k]}")
        if len(y) > MOST_TUNED:
            classes = y if task.kind == "classification" else None
            x, _, y, _ = train_test_split(
                x, y, train_size=MOST_TUNED, random_state=seed, stratify=classes
            )
        machine, cv = _machine(task.kind, weights), _folds(task.kind, y, folds, seed)
        search = GridSearchCV(machine, grid, cv=cv, refit=False, n_jobs=workers).fit(x, y)
        best.append(search.best_params_)
    penalties, widths = ([float(b[f"svm__{name}"]) for b in best] for name in ("C", "gamma"))
    tensors = (features[train].contiguous(), target.contiguous(), weights, torch.zeros(0))
    svm = ScatteringSVM(data.in_channels, task.kind, penalties, widths, *tensors)
    if task.kind == "classification":
        y = data.y[validation]
        svm.calibration = _calibrate(svm, features[validation], y, len(task.names))
    return svm


def _columns(features: Tensor, target: Tensor) -> Iterator[tuple[Floats, Any]]:
    """What each machine is fitted on: the graphs that have its target."""
    x = features.double().numpy()
    for column in target.reshape(len(target), -1).unbind(1):
        present = ~column.isnan().numpy()
        yield x[present], column.numpy()[present]


def _folds(kind: str, y: Any, folds: int, seed: int) -> Any:
    """Shuffled: data sets come sorted by class, source or size."""
    if kind == "regression":
        return KFold(min(folds, len(y)), shuffle=True, random_state=seed)
    rarest = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(max(2, min(folds, rarest)), shuffle=True, random_state=seed)


def _calibrate(svm: ScatteringSVM, features: Tensor, y: Tensor, classes: int) -> Tensor:
    """One positive factor, so that probabilities change and decisions do not.

    It minimizes the log loss on the validation graphs, their labels smoothed as in Platt's scaling.
    """
    trained = np.unique(svm.target.numpy())
    two = len(trained) == 2
    weights = np.zeros((classes, 2 if two else len(trained) + 1))
    weights[:, -1] = -1e9  # classes without training graphs are never predicted
    weights[trained] = [[-0.5, 0], [0.5, 0]] if two else np.eye(*weights[trained].shape)
    usable = np.isin(y.numpy(), trained)
    if not usable.any():
        return torch.from_numpy(weights)
    place = np.searchsorted(trained, y.numpy()[usable])
    scores = svm.decisions(features)[usable] @ weights[trained, :-1].T
    smoothed = np.full(scores.shape, 1 / (len(usable) + 2) / (len(trained) - 1))
    smoothed[np.arange(len(place)), place] = 1 - 1 / (len(usable) + 2)
    balance = svm.class_weights.double().numpy()
    share = balance[trained][place] if len(balance) else np.ones(len(place))

    def loss(log_factor: float) -> float:
        chances = log_softmax(np.exp(log_factor) * scores, axis=1)
        return float(-(share * (smoothed * chances).sum(1)).sum())

    weights[trained, :-1] *= np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x)
    return torch.from_numpy(weights)


def _machine(kind: str, class_weights: Tensor) -> Pipeline:
    weights = dict(enumerate(class_weights.tolist())) or None
    svm = SVR() if kind == "regression" else SVC(class_weight=weights)
    return Pipeline([("scale", StandardScaler()), ("svm", svm)])
