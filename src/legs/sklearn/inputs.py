"""What all estimators share: graphs and targets as scikit-learn's users have them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from legs.data.dataset import GraphDataset, Task
from legs.data.errors import BadRows, DataError, listed
from legs.data.features import blocks
from legs.data.readers.objects import _columns, read_objects
from legs.data.readers.targets import encode_targets
from legs.data.validate import Array
from legs.nn.scattering import RENAMED

Graphs: TypeAlias = Iterable[Any] | GraphDataset


class GraphEstimator(BaseEstimator):
    """An estimator of graphs that remembers the node features of ``fit``."""

    def _set_features(self, data: GraphDataset) -> None:
        self.features_: tuple[str, ...] = data.info["features"]
        self.node_features_ = data.feature_names
        self.in_channels_ = data.in_channels

    def _read(self, X: Graphs) -> GraphDataset:
        check_is_fitted(self)
        return align(read_graphs(X, self.features_), self.node_features_)

    def _option(self, name: str) -> Any:
        """The value of an option, which may have been passed under its old name."""
        for old, new in RENAMED.items():
            if new == name and getattr(self, old) is not None:
                message = f"{old}= of {type(self).__name__} is deprecated; use {name}="
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                name = old
        value = getattr(self, name)
        # NumPy scalars, as a grid may hold them: options are saved as JSON.
        return value.item() if isinstance(value, np.generic) else value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list of graphs
        tags.input_tags.string = True  # SMILES
        tags.no_validation = True
        return tags


def read_graphs(X: Graphs, features: str | Sequence[str] | None = None) -> GraphDataset:
    """Graphs as a data set with the node features ``features``; ``info["features"]`` names them.

    A data set already made is taken as it is if these are its features, or none are asked for.
    """
    if isinstance(X, GraphDataset):
        if not len(X):
            raise DataError("the data set holds no graphs")
        own = tuple(X.info.get("features", ("attributes",)))
        asked = features.split("+") if isinstance(features, str) else features
        fits = asked is None or tuple(name.strip() for name in asked) == own
        if fits and X.feature_names:  # columns without names get some below
            return replace(X, info={**X.info, "features": own})
    return blocks.assemble(read_objects(X), features)


def align(data: GraphDataset, wanted: tuple[str, ...]) -> GraphDataset:
    """The columns of ``data.x`` in the order of the names in ``fit``."""
    names = data.feature_names
    if data.in_channels == len(wanted) and (_anonymous(names) or _anonymous(wanted)):
        return replace(data, feature_names=wanted)
    unseen = [name for name in names if name not in wanted]
    aligned = data if unseen else blocks.align(data, wanted)
    if aligned.feature_names != wanted:
        missing = [name for name in wanted if name not in names]
        raise DataError(
            f"node features differ from those in fit, which were {listed(wanted)}: "
            f"there are {data.in_channels} instead of {len(wanted)}; "
            f"missing: {listed(missing) or 'none'}; new: {listed(unseen) or 'none'}"
        )
    return aligned


def _anonymous(names: Sequence[str]) -> bool:
    """Whether columns have default names only, x0, x1, …"""
    return all(re.fullmatch(r"x\d+", name) for name in names)


def encode_classes(y: Any) -> tuple[Array, Tensor]:
    """The sorted classes, and the code of every graph's class."""
    y = _from_torch(y)
    numeric = not hasattr(y, "iloc") and np.asarray(y).dtype.kind in "biuf"
    table = np.asarray(y, dtype=None if numeric else object).reshape(len(y), -1)
    if table.shape[1] != 1:
        raise DataError(f"y must hold one class per graph; it has {table.shape[1]} columns")
    labels = table[:, 0]
    # NaN of any kind is not equal to itself.
    missing = [k for k, label in enumerate(labels) if label is None or label != label]
    if missing:
        raise DataError(f"graph {missing[0]} has no class in y")
    if labels.dtype == object and len({type(label) for label in labels.tolist()}) == 1:
        labels = np.array(labels.tolist())  # a mixture of types is for scikit-learn to refuse
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y holds one class only ({classes[0]}); two are needed to classify")
    return classes, torch.from_numpy(codes.astype(np.int64))


def encode_numbers(y: Any, task: Task = "regression") -> tuple[Tensor, tuple[str, ...]]:
    """Targets ``[graphs, targets]`` and their names; a row may hold some NaN, but not only NaN."""
    columns = _columns(_from_torch(y))
    columns = {"y": columns["y0"]} if list(columns) == ["y0"] else columns
    bad, where = BadRows("skip"), [f"graph {i}" for i in range(len(y))]
    encoded = encode_targets(columns, list(columns), task, bad=bad, where=where)
    for graph, reason in bad:
        raise DataError(f"{graph}: {reason}")
    return encoded.y, encoded.target_names


def _from_torch(y: Any) -> Any:
    if y is None:
        raise ValueError("fit needs y, one class or number (or a row of numbers) per graph")
    return y.detach().cpu().numpy() if isinstance(y, Tensor) else y
