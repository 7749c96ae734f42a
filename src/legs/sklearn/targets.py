"""Targets as scikit-learn's users have them: labels of any type, numbers in one or many columns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from legs.data.errors import BadRows, DataError
from legs.data.targets import encode_targets

Array: TypeAlias = np.ndarray[Any, Any]


def encode_classes(y: Any) -> tuple[Array, Tensor]:
    """The sorted classes, and the number of every graph's class.

    >>> encode_classes(["b", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), tensor([1, 0, 1]))
    """
    frame = pd.DataFrame(_plain(y))
    if frame.shape[1] != 1:
        raise DataError(f"y must hold one class a graph; it has {frame.shape[1]} columns")
    missing = np.flatnonzero(frame[frame.columns[0]].isna())
    if missing.size:
        raise DataError(f"graph {missing[0]} has no class in y")
    labels = _labels(frame[frame.columns[0]].to_numpy())
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
    frame = pd.DataFrame(_plain(y)).reset_index(drop=True)
    single = len(frame.columns) == 1
    names = [c if isinstance(c, str) else "y" if single else f"y{c}" for c in frame.columns]
    frame.columns = pd.Index(names)
    bad = BadRows("skip")
    where = [f"graph {i}" for i in range(len(frame))]
    found = encode_targets(
        frame, list(frame.columns), "regression", bad=bad, where=where, missing=True
    )
    for graph, reason in bad:
        raise DataError(f"{graph}: {reason}")
    return found.y, found.target_names


def _plain(y: Any) -> Any:
    if y is None:
        raise ValueError("fit needs y, one class or number (or a row of numbers) a graph")
    return y.detach().cpu().numpy() if isinstance(y, Tensor) else y


def _labels(values: Array) -> Array:
    """Objects of one type as an array of that type; a mixture is for scikit-learn to refuse."""
    if values.dtype != object or len({type(value) for value in values.tolist()}) > 1:
        return values
    return np.array(values.tolist())
