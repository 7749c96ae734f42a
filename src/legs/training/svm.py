"""GS-SVM: fixed scattering, standardised, and a support vector machine with an RBF kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
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


@dataclass(frozen=True)
class ScatteringSVM:
    """A support vector machine on fixed scattering.

    It is saved as what it was fitted on: a fit is deterministic and takes seconds, and pickles are
    not loaded here.

    Args:
        in_channels: number of node features.
        kind: ``"classification"`` or ``"regression"``.
        penalty: C.
        width: γ of the kernel.
        features: of the graphs it was fitted on, ``[graphs, features]``.
        target: classes, or whitened numbers ``[graphs, targets]``.
        calibration: weights that turn decision values into class scores, ``[classes, values + 1]``.
    """

    in_channels: int
    kind: str
    penalty: float
    width: float
    features: Tensor
    target: Tensor
    calibration: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "machine", self._fit())

    machine: Any = None

    def _fit(self) -> Any:
        machine = _machine(self.kind)
        prefix = _prefix(self.kind)
        machine.set_params(**{f"{prefix}C": self.penalty, f"{prefix}gamma": self.width})
        return machine.fit(self.features.double().numpy(), self.target.numpy())

    def decisions(self, features: Tensor) -> Floats:
        """Decision values (a class each, or one for two classes), or whitened predictions."""
        x = features.double().numpy()
        if self.kind == "regression":
            return np.asarray(self.machine.predict(x), dtype=np.float64)
        values = np.asarray(self.machine.decision_function(x), dtype=np.float64)
        return values[:, None] if values.ndim == 1 else values

    def answers(self, data: GraphDataset, task: Task, batch_size: int) -> Tensor:
        found = torch.from_numpy(self.decisions(self.embedding(data)))
        if self.kind == "regression":
            return task.answers(found).float()
        weights = self.calibration.double()
        return (found @ weights[:, :-1].T + weights[:, -1]).softmax(-1).float()

    def embedding(self, data: GraphDataset) -> Tensor:
        return scattering_features(data)

    def num_parameters(self) -> int:
        machines = getattr(self.machine[-1], "estimators_", [self.machine[-1]])
        return int(sum(m.dual_coef_.size + m.intercept_.size for m in machines))

    def saved(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        known = {
            "in_channels": self.in_channels,
            "kind": self.kind,
            "penalty": self.penalty,
            "width": self.width,
        }
        tensors = {
            "features": self.features,
            "target": self.target,
            "calibration": self.calibration,
        }
        return {"svm": known}, tensors

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Tensor]) -> ScatteringSVM:
        """Fits the machine again on what it was fitted on."""
        fields: dict[str, Any] = {**described, **tensors}
        return cls(**fields)


def scattering_features(data: GraphDataset) -> Tensor:
    """Fixed scattering with normalized moments, ``[graphs, features]``."""
    # Any head will do: only the embedding is used.
    return embed(create("legs-fixed", data.in_channels, 2), data)


def fit_svm(
    data: GraphDataset, task: Task, train: Tensor, validation: Tensor, folds: int = 5, seed: int = 0
) -> ScatteringSVM:
    """Chooses C and γ by cross-validation within the training graphs, then fits on all of them.

    The validation graphs calibrate class probabilities; they choose nothing.
    """
    features = scattering_features(data)
    assert data.y is not None
    target = task.targets(data.y)[train]
    widths = [w / features.shape[1] for w in WIDTHS]
    prefix = _prefix(task.kind)
    grid = {f"{prefix}C": list(PENALTIES), f"{prefix}gamma": widths}
    if task.kind == "classification":
        rarest = int(torch.bincount(target).clamp_min(1).min())
        folds = max(2, min(folds, rarest))
    search = GridSearchCV(_machine(task.kind), grid, cv=folds, refit=False)
    search.fit(features[train].double().numpy(), target.numpy())
    best = search.best_params_
    fitted = ScatteringSVM(
        data.in_channels,
        task.kind,
        float(best[f"{prefix}C"]),
        float(best[f"{prefix}gamma"]),
        features[train].contiguous(),
        target.contiguous(),
        torch.zeros(0),
    )
    if task.kind == "regression":
        return fitted
    calibration = _calibrate(fitted, features[validation], data.y[validation], len(task.names))
    return ScatteringSVM(**{**_fields(fitted), "calibration": calibration})


def _fields(machine: ScatteringSVM) -> dict[str, Any]:
    described, tensors = machine.saved()
    return {**described["svm"], **tensors}


def _calibrate(machine: ScatteringSVM, features: Tensor, y: Tensor, classes: int) -> Tensor:
    """Platt's scaling: logistic regression of the classes on the decision values."""
    values = machine.decisions(features)
    known = np.unique(machine.target.numpy())
    weights = np.zeros((classes, values.shape[1] + 1))
    weights[:, -1] = -1e9  # classes without training graphs are never predicted
    if values.shape[1] == 1:
        weights[known] = [[-1.0, 0.0], [1.0, 0.0]]
    else:
        weights[known, :-1], weights[known, -1] = np.eye(len(known)), 0.0
    if set(np.unique(y)) != set(known) or len(y) < 5 * len(known):
        return torch.from_numpy(weights)  # too little to calibrate with: decision values as scores
    fitted = LogisticRegression().fit(values, y.numpy())
    if len(known) == 2:
        weights[known[1]] = [*fitted.coef_[0], fitted.intercept_[0]]
        weights[known[0]] = 0.0
    else:
        weights[known] = np.hstack([fitted.coef_, fitted.intercept_[:, None]])
    return torch.from_numpy(weights)


def _machine(kind: str) -> Any:
    machine = SVC() if kind == "classification" else MultiOutputRegressor(SVR())
    return make_pipeline(StandardScaler(), machine)


def _prefix(kind: str) -> str:
    return "svc__" if kind == "classification" else "multioutputregressor__estimator__"
