"""Targets as scikit-learn's users have them: labels of any type, one or many columns of numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from legs.data.errors import BadRows, DataError

Array: TypeAlias = np.ndarray[Any, Any]


def encode_classes(y: Any) -> tuple[Array, Tensor]:
    """The sorted classes, and the code of every graph's class.

    >>> encode_classes(["b", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), tensor([1, 0, 1]))
    """
    y, is_numeric = _from_torch(y)
    table = np.asarray(y, dtype=None if is_numeric else object).reshape(len(y), -1)
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


def encode_numbers(y: Any) -> tuple[Tensor, tuple[str, ...]]:
    """Targets ``[graphs, targets]`` and their names; a row may hold some NaN, but not only NaN.

    >>> encode_numbers([1.5, 2.0])
    (tensor([[1.5000],
            [2.0000]]), ('y',))
    """
    y, is_numeric = _from_torch(y)
    if is_numeric:
        values = np.asarray(y).reshape(len(y), -1)
        if np.isfinite(values).all() and np.isfinite(values.astype(np.float32)).all():
            single = values.shape[1] == 1
            columns = ("y",) if single else tuple(f"y{k}" for k in range(values.shape[1]))
            return torch.from_numpy(values.astype(np.float32)), columns
    # Named columns, missing values, text: as in a file, which takes pandas.
    import pandas as pd

    from legs.data.readers.targets import encode_targets

    frame = pd.DataFrame(y).reset_index(drop=True)
    single = len(frame.columns) == 1
    names = [c if isinstance(c, str) else "y" if single else f"y{c}" for c in frame.columns]
    frame.columns = pd.Index(names)
    bad = BadRows("skip")
    where = [f"graph {i}" for i in range(len(frame))]
    encoded = encode_targets(frame, names, "regression", bad=bad, where=where)
    for graph, reason in bad:
        raise DataError(f"{graph}: {reason}")
    return encoded.y, encoded.target_names


def _from_torch(y: Any) -> tuple[Any, bool]:
    """Targets as NumPy or pandas has them, and whether they are numbers without column names."""
    if y is None:
        raise ValueError("fit needs y, one class or number (or a row of numbers) per graph")
    y = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    return y, not hasattr(y, "iloc") and np.asarray(y).dtype.kind in "biuf"
