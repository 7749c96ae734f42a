"""Targets as scikit-learn's users have them: labels of any type, numbers in one or many columns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from legs.data.errors import BadRows, DataError

Array: TypeAlias = np.ndarray[Any, Any]


def encode_classes(y: Any) -> tuple[Array, Tensor]:
    """The sorted classes, and the number of every graph's class.

    >>> encode_classes(["b", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), tensor([1, 0, 1]))
    """
    values = np.asarray(_plain(y), dtype=None if _is_numeric(y) else object)
    values = values.reshape(len(values), -1)
    if values.shape[1] != 1:
        raise DataError(f"y must hold one class per graph; it has {values.shape[1]} columns")
    # Also of objects: None, and what is not equal to itself.
    missing = [k for k, value in enumerate(values[:, 0]) if value is None or value != value]
    if missing:
        raise DataError(f"graph {missing[0]} has no class in y")
    labels = _labels(values[:, 0])
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y holds one class only ({classes[0]}); two are needed to classify")
    return classes, torch.from_numpy(codes.astype(np.int64))


def encode_numbers(y: Any) -> tuple[Tensor, tuple[str, ...]]:
    """Numbers ``[graphs, targets]`` and the targets' names; NaN only beside a known number.

    >>> encode_numbers([1.5, 2.0])
    (tensor([[1.5000],
            [2.0000]]), ('y',))
    """
    if _is_numeric(y):
        values = np.asarray(_plain(y))
        values = values.reshape(len(values), -1)
        if np.isfinite(values).all() and np.isfinite(values.astype(np.float32)).all():
            single = values.shape[1] == 1
            columns = ("y",) if single else tuple(f"y{k}" for k in range(values.shape[1]))
            return torch.from_numpy(values.astype(np.float32)), columns
    # Named columns, missing values, text: as in a file, which takes pandas.
    import pandas as pd

    from legs.data.readers.targets import encode_targets

    frame = pd.DataFrame(_plain(y)).reset_index(drop=True)
    single = len(frame.columns) == 1
    names = [c if isinstance(c, str) else "y" if single else f"y{c}" for c in frame.columns]
    frame.columns = pd.Index(names)
    bad = BadRows("skip")
    where = [f"graph {i}" for i in range(len(frame))]
    encoded = encode_targets(frame, list(frame.columns), "regression", bad=bad, where=where)
    for graph, reason in bad:
        raise DataError(f"{graph}: {reason}")
    return encoded.y, encoded.target_names


def _is_numeric(y: Any) -> bool:
    """Whether targets are numbers without names of columns."""
    return not hasattr(y, "iloc") and np.asarray(_plain(y)).dtype.kind in "biuf"


def _plain(y: Any) -> Any:
    if y is None:
        raise ValueError("fit needs y, one class or number (or a row of numbers) a graph")
    return y.detach().cpu().numpy() if isinstance(y, Tensor) else y


def _labels(values: Array) -> Array:
    """Objects of one type as an array of that type; a mixture is for scikit-learn to refuse."""
    if values.dtype != object or len({type(value) for value in values.tolist()}) > 1:
        return values
    return np.array(values.tolist())
