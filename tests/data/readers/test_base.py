"""Node features from node dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legs.data.errors import DataError
from legs.data.readers.base import (
    Graph,
    attribute_names,
    node_vectors,
    number_block,
    one_hot_block,
)


def graphs(*nodes: list[dict[str, Any]]) -> list[Graph]:
    edges = np.empty((2, 0), dtype=np.int64)
    return [Graph(len(own), edges, nodes=own, name=f"graph {i}") for i, own in enumerate(nodes)]


def test_numeric_attributes_by_first_appearance() -> None:
    nodes = [{"b": 1, "label": 3, "x": 1.0}], [{"a": np.float32(2), "b": 1, "note": "n"}]
    assert attribute_names(graphs(*nodes)) == ["b", "a"]
    assert attribute_names(graphs([{"note": "n"}])) == []


def test_numbers_become_columns() -> None:
    block = number_block(graphs([{"a": True, "b": 2}], [{"b": np.int64(4), "a": 0.5}]), ["b", "a"])
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
        number_block(graphs([{"a": 1}], [{"a": 1}, node]), ["a"])


def test_vectors_become_rows() -> None:
    (graph,) = graphs([{"x": np.array([1, 2])}, {"x": (3, 4.5)}])
    assert node_vectors(graph).tolist() == [[1, 2], [3, 4.5]]
    assert node_vectors(graphs([{"x": 7}])[0]).tolist() == [7]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({}, "attribute 'x' of node 1 is missing"),
        ({"x": [1]}, "are no numbers, and no vectors of one length"),
        ({"x": "ab"}, "are no numbers"),
    ],
)
def test_vectors_that_do_not_fit(node: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=f"graph 0: .*{said}"):
        node_vectors(graphs([{"x": [1, 2]}, node])[0])


def test_labels_become_one_hot_numbers_first() -> None:
    nodes = [{"label": "N"}, {"label": 10}], [{"label": 9}, {"label": "C"}, {"label": "N"}]
    block = one_hot_block(graphs(*nodes))
    assert block.names == ("label=9", "label=10", "label=C", "label=N")
    assert block.x.argmax(dim=1).tolist() == [3, 1, 0, 2, 3]
    assert block.x.sum(dim=1).tolist() == [1] * 5


@pytest.mark.parametrize("value", [None, float("nan"), ["C"]])
def test_nodes_without_a_label_are_named(value: object) -> None:
    with pytest.raises(DataError, match=r"graph 0: node 1 has label .*; every node needs"):
        one_hot_block(graphs([{"label": "C"}, {"label": value}]))
