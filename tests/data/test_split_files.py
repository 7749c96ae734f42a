"""Splits on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legs.data.errors import DataError
from legs.data.splits import (
    Split,
    check_splits,
    load_splits,
    rotations,
    save_splits,
    stratified_folds,
)

GOOD = {"train": [0, 1], "validation": [2], "test": [3]}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    splits = [split for models in rotations(stratified_folds([0, 1] * 10, 5)) for split in models]
    save_splits(path, splits)
    found = load_splits(path, graphs=20)
    assert len(found) == len(splits) == 20
    for a, b in zip(splits, found, strict=True):
        assert all(map(np.array_equal, a, b))
        assert all(part.dtype == np.int64 for part in b)
    assert [file.name for file in tmp_path.iterdir()] == ["splits.json"]


def test_a_bad_split_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text("old")
    with pytest.raises(DataError, match="split 0: test is empty"):
        save_splits(path, [Split(np.array([0]), np.array([1]), np.array([], dtype=int))])
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": []}, "test is empty"),
        ({"test": [1]}, "graph 1 is in train and in test"),
        ({"validation": [3]}, "graph 3 is in validation and in test"),
        ({"train": [0, 0]}, "train names graph 0 twice"),
        ({"test": [10]}, "test names graph 10; there are 10 graphs"),
        ({"test": [-1]}, "test names graph -1"),
        ({"test": "3"}, "test is not a list of graph numbers"),
        ({"test": [3.0]}, "test is not a list of graph numbers"),
        ({"test": [True]}, "test is not a list of graph numbers"),
        ({"test": [10**30]}, "test is not a list of graph numbers"),
        ({"extra": [4]}, "is not an object with train, validation, test"),
    ],
)
def test_what_is_wrong_is_named_with_its_split(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps([GOOD, {**GOOD, **change}]))
    with pytest.raises(DataError, match=f"splits.json: split 1:? {said}"):
        load_splits(path, graphs=10)


BROKEN = ("", "{", "{}", "[]", "[1]", '[{"train": [0]}]', "[" * 10**5, "\xff")


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_files_that_are_no_splits(tmp_path: Path, text: str) -> None:
    path = tmp_path / "splits.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"splits\.json"):
        load_splits(path)


def test_no_file_and_no_splits(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load_splits(tmp_path / "none.json")
    with pytest.raises(DataError, match="there are no splits"):
        check_splits([])
