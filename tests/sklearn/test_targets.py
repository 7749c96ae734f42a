"""Targets in every shape that people have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from legs.data.errors import DataError
from legs.sklearn.inputs import encode_classes, encode_numbers


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([True, False, True], [False, True]),
        (np.array([10, 9, 10]), [9, 10]),
        (["9", "10", "9"], ["10", "9"]),
        ([2.0, 1.0, 2.0], [1.0, 2.0]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (torch.tensor([3, 1, 3]), [1, 3]),
        (pd.Series(["b", "a", "b"], index=[7, 8, 9]), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([True, False, True], dtype="boolean"), [False, True]),
        (pd.Series([2, 1, 2], dtype="Int64"), [1, 2]),
        (pd.DataFrame({"kind": ["b", "a", "b"]}), ["a", "b"]),
    ],
)
def test_classes_are_sorted_and_keep_their_type(y: Any, classes: list[Any]) -> None:
    found, codes = encode_classes(y)
    assert found.tolist() == classes
    assert [type(label) for label in found.tolist()] == [type(label) for label in classes]
    plain = y.tolist() if isinstance(y, torch.Tensor) else np.ravel(y).tolist()
    assert found[codes].tolist() == plain
    assert codes.dtype == torch.int64


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (None, "fit needs y"),
        ([1, None, 2], "graph 1 has no class"),
        (pd.Series(["a", "b", None]), "graph 2 has no class"),
        ([1, "1", 2], "Unknown label type"),
        ([0.5, 1.5, 0.25], "Unknown label type: continuous"),
        (["a", "a"], r"one class only \(a\)"),
        ([[0, 1], [1, 0]], "it has 2 columns"),
    ],
)
def test_what_are_no_classes(y: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode_classes(y)


@pytest.mark.parametrize(
    ("y", "names"),
    [
        ([1, 2.5], ("y",)),
        (np.array([[1.0], [2.5]]), ("y",)),
        (pd.Series([1, 2.5], index=[4, 2]), ("y",)),
        (pd.Series([1, 2.5], name="logp"), ("logp",)),
        (pd.Series([1, 2.5], dtype="Float64"), ("y",)),
        (torch.tensor([[1, 2.5], [3, 4]]).T.requires_grad_(), ("y0", "y1")),
        (pd.DataFrame({"a": [1, 2.5], "b": [3, 4]}, index=[9, 8]), ("a", "b")),
    ],
)
def test_numbers_and_names(y: Any, names: tuple[str, ...]) -> None:
    found, found_names = encode_numbers(y)
    assert found_names == names
    assert found.dtype == torch.float32
    assert found.tolist() == [[1.0, 3.0][: len(names)], [2.5, 4.0][: len(names)]]


def test_missing_numbers() -> None:
    found, _ = encode_numbers(pd.DataFrame({"a": [1.0, None], "b": [None, 2.0]}))
    assert found.isnan().tolist() == [[False, True], [True, False]]
    with pytest.raises(DataError, match=r"^graph 1: no value in the target column 'y'$"):
        encode_numbers([1.0, np.nan])
    with pytest.raises(DataError, match=r"^graph 1: no value"):
        encode_numbers([[1.0, 2.0], [np.nan, np.nan]])
    with pytest.raises(DataError, match=r"^graph 0: .* 'inf', not a finite number"):
        encode_numbers([np.inf, 1.0])
    with pytest.raises(DataError, match="holds names"):
        encode_numbers(["a", "b"])
