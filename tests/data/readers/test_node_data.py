"""Node features from node dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from legs.data.errors import DataError
from legs.data.readers.node_data import attribute_names, number_block, one_hot_block, vector_block

WHERE = "graph {}".format


def test_numeric_attributes_by_first_appearance() -> None:
    nodes = [[{"b": 1, "label": 3, "x": 1.0}], [{"a": np.float32(2), "b": 1, "note": "n"}]]
    assert attribute_names(nodes) == ["b", "a"]
    assert attribute_names([[{"note": "n"}]]) == []


def test_numbers_become_columns() -> None:
    block = number_block([[{"a": True, "b": 2}], [{"b": np.int64(4), "a": 0.5}]], ["b", "a"], WHERE)
    assert block.x.tolist() == [[2, 1], [4, 0.5]]
    assert block.names == ("b", "a")


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({}, "'a' of node 1 is missing"),
        ({"a": "C"}, "'a' of node 1 is 'C', not"),
        ({"a": float("nan")}, "nan, not"),
        ({"a": [1]}, "not a finite number"),
    ],
)
def test_an_attribute_that_one_node_lacks(node: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=f"graph 1: .*{said}"):
        number_block([[{"a": 1}], [{"a": 1}, node]], ["a"], WHERE)


def test_vectors_become_rows() -> None:
    block = vector_block([[{"x": np.array([1, 2])}], [{"x": (3, 4.5)}]], "x", WHERE)
    assert block.x.tolist() == [[1, 2], [3, 4.5]]
    assert vector_block([[{"x": 7}]], "x", WHERE).x.tolist() == [[7]]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({}, "node 0 has no attribute 'x'"),
        ({"x": [1]}, "of node 0 has 1 numbers, that of the first node 2"),
        ({"x": "ab"}, "of node 0 is no vector of numbers"),
        ({"x": [1, float("inf")]}, "is NaN or infinite"),
    ],
)
def test_vectors_that_do_not_fit(node: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=f"graph 1: .*{said}"):
        vector_block([[{"x": [1, 2]}], [node]], "x", WHERE)


def test_labels_become_one_hot_numbers_first() -> None:
    nodes = [[{"label": "N"}, {"label": 10}], [{"label": 9}, {"label": "C"}, {"label": "N"}]]
    block = one_hot_block(nodes, "label", WHERE)
    assert block.names == ("label=9", "label=10", "label=C", "label=N")
    assert block.x.argmax(dim=1).tolist() == [3, 1, 0, 2, 3]
    assert block.x.sum(dim=1).tolist() == [1] * 5


@pytest.mark.parametrize("value", [None, float("nan"), ["C"]])
def test_nodes_without_a_label_are_named(value: object) -> None:
    with pytest.raises(DataError, match=r"graph 0: node 1 has label .*; every node needs"):
        one_hot_block([[{"label": "C"}, {"label": value}]], "label", WHERE)
