from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.errors import BadRows, DataError
from legs.data.readers.targets import Targets, encode_targets, find_targets


def encode(values: Any, task: Any = None, **options: Any) -> Targets:
    return encode_targets(pd.DataFrame({"t": values}), ["t"], task, **options)


@pytest.mark.parametrize(
    ("values", "task", "names"),
    [
        (["no", "yes", "no"], "classification", ("no", "yes")),
        ([True, False, True], "classification", ("False", "True")),
        (pd.array([True, False, True], dtype="boolean"), "classification", ("False", "True")),
        (pd.Categorical([3, 1, 3]), "classification", ("1", "3")),
        ([10, 9, 10, 9], "classification", ("9", "10")),
        (["10", "9", "10", "9"], "classification", ("9", "10")),
        ([1, 2, 3, 4], "regression", ()),
        (list(range(21)) * 5, "regression", ()),
        (list(range(20)) * 2, "classification", tuple(map(str, range(20)))),
        ([0.0, 1.0, 0.0, 1.0], "regression", ()),
        (["0.5", "1.5", "0.5", "1.5"], "regression", ()),
        ([Decimal("0.5"), Decimal("2"), Decimal("2")], "regression", ()),
        (np.array([0, 1, 1, 0], dtype=np.uint8), "classification", ("0", "1")),
    ],
)
def test_kind_is_detected(values: Any, task: str, names: tuple[str, ...]) -> None:
    found = encode(values)
    assert (found.task, found.class_names) == (task, names)
    assert found.target_names == ("t",)
    assert found.used.all()
    assert found.y.dtype == (torch.int64 if task == "classification" else torch.float32)
    assert found.y.ndim == (1 if task == "classification" else 2)


def test_classes_point_to_their_names() -> None:
    values = [30, 4, 30, 4, 4]
    found = encode(values)
    assert [int(found.class_names[i]) for i in found.y.tolist()] == values


def test_task_overrides() -> None:
    assert encode([0.0, 1.0, 0.0, 1.0], "classification").class_names == ("0", "1")
    assert encode([0.5, 1.0, 0.5, 1.0], "classification").class_names == ("0.5", "1")
    assert encode([1, 0, 1, 0], "regression").y.flatten().tolist() == [1, 0, 1, 0]
    assert encode([True, False, True], "regression").y.flatten().tolist() == [1, 0, 1]
    assert encode([1, 2, 3], "classification").y.tolist() == [0, 1, 2]
    assert encode(["1", "other", "1"], "classification").class_names == ("1", "other")
    names = [f"m{i}" for i in range(30)]
    assert len(encode(names, "classification").class_names) == 30


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["a", "a"], None, "one class only"),
        ([3, 3, 3, 3], None, r"one class only \(3\)"),
        ([f"m{i}" for i in range(30)], None, "ids rather than classes"),
        ([1, 2, "x", 4], None, r"row 3: .*mixes numbers and names \(here 'x'\)"),
        (["a", "b", "2", "c"], None, r"row 3: .*mixes"),
        ([1, "a"], None, r"row 2: .*mixes"),
        (pd.Series([1, 2, 3, True], dtype=object), None, r"row 4: .*mixes"),
        ([[1], [2]], None, "row 1: .*holds a list"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), None, "holds a Timestamp"),
        (["a", "b"], "regression", "holds names; regression takes numbers"),
        ([0.1, 0.2, 0.3], "classification", r"row 1: .*measurements \(0.1\)"),
        ([None, None], None, "no row has a value"),
        ([1.0, 2.0], "ranking", "not 'ranking'"),
    ],
)
def test_refusals_say_why(values: Any, task: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(values, task, bad=BadRows("skip"))


def test_rows_without_a_target_are_bad() -> None:
    with pytest.raises(DataError, match="row 2: no value in the target column 't'"):
        encode(["a", None, "b"])
    bad = BadRows("skip")
    found = encode(["a", None, "b", " "], bad=bad, where=["w", "x", "y", "z"])
    assert [row for row, _ in bad] == ["x", "z"]
    assert found.used.tolist() == [True, False, True, False]
    assert found.y.tolist() == [0, 1]


def test_integers_with_gaps_stay_classes() -> None:
    found = encode([0, 1, None, 0, 1], bad=BadRows("skip"))
    assert (found.task, found.class_names) == ("classification", ("0", "1"))


def test_infinite_and_unreadable_numbers_are_bad() -> None:
    bad = BadRows("skip")
    found = encode([0.5, np.inf, 1e300, 2.0], bad=bad)
    assert [row for row, _ in bad] == ["row 2", "row 3"]
    assert found.y.tolist() == [[0.5], [2.0]]
    bad = BadRows("skip")
    found = encode(["0.5", "n.d.", "2", "3"], "regression", bad=bad)
    assert list(bad) == [("row 2", "the target column 't' holds 'n.d.', not a finite number")]
    assert found.y.flatten().tolist() == [0.5, 2, 3]
    bad = BadRows("skip")
    assert encode([0, np.inf, 0, 1, 1], "classification", bad=bad).y.tolist() == [0, 0, 1, 1]
    assert len(bad) == 1


def test_several_columns_are_regressed() -> None:
    table = pd.DataFrame({"a": [1, 2, 1, 2], "b": [0.5, None, 0.1, 3.0], "s": list("pqpq")})
    bad = BadRows("skip")
    found = encode_targets(table, ["b", "a"], bad=bad)
    assert (found.task, found.target_names) == ("regression", ("b", "a"))
    assert torch.equal(found.y[[0, 2, 3]], torch.tensor([[0.5, 1], [0.1, 1], [3, 2]]))
    assert not len(bad)
    assert found.y[1].isnan().tolist() == [True, False]
    assert found.used.all()
    with pytest.raises(DataError, match="no row has a value in the target column e"):
        encode_targets(table.assign(e=None), ["a", "e"])
    with pytest.raises(DataError, match="'s' holds names"):
        encode_targets(table, ["b", "s"], bad=bad)
    with pytest.raises(DataError, match="multilabel"):
        encode_targets(table, ["a", "s"])
    with pytest.raises(DataError, match="multilabel"):
        encode_targets(table, ["a", "b"], "classification", bad=bad)
    whole = pd.DataFrame({"a": [1, 2, 1, 2], "b": [0, 0, 1, 1]})
    with pytest.raises(DataError, match="multilabel"):
        encode_targets(whole, ["a", "b"])
    assert encode_targets(whole, ["a", "b"], "regression").y.shape == (4, 2)


def test_columns_are_found_or_listed() -> None:
    table = ["id", "Label", "mass"]
    assert find_targets(table, other=["id"]) == ["Label"]
    assert find_targets(table, ["mass", "id"]) == ["mass", "id"]
    assert find_targets(["id", "mass"], other=["id"]) == ["mass"]
    assert find_targets(["id"], other=["id"]) == []
    with pytest.raises(DataError, match="There are id, mass"):
        find_targets(["id", "mass"])
    with pytest.raises(DataError, match="no target column 'weight'; There are: id, Label, mass"):
        find_targets(table, "weight")
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="2 columns named 'a'"):
        encode_targets(twice, ["a"])
    with pytest.raises(DataError, match="distinct"):
        encode_targets(twice, [])


_value = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just(pd.NA)
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(_value, min_size=1, max_size=12),
    st.sampled_from([None, "classification", "regression"]),
)
def test_any_column_is_encoded_or_refused(values: list[Any], task: Any) -> None:
    try:
        found = encode(pd.Series(values, dtype=object), task, bad=BadRows("skip"))
    except DataError:
        return
    assert len(found.y) == found.used.sum()
    assert bool(torch.isfinite(found.y.double()).all())
    if found.task == "classification":
        assert set(found.y.tolist()) == set(range(len(found.class_names)))
