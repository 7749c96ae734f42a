"""Reading graphs, and data sets already made."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
import torch

from legs.data.errors import DataError
from legs.data.readers.objects import from_objects
from legs.sklearn.inputs import align, read_graphs


def test_a_data_set_is_taken_as_it_is(graphs: list[nx.Graph]) -> None:
    data = from_objects(graphs, features="degree+structure")
    for features in (None, "degree + structure", ["degree", "structure"]):
        found = read_graphs(data, features)
        assert found.x is data.x
        assert found.info["features"] == ("degree", "structure")
    other = read_graphs(data, "structure")
    assert other.feature_names == ("eccentricity", "clustering")
    with pytest.raises(DataError, match="holds no graphs"):
        read_graphs(data[:0])


def test_a_data_set_without_names_gets_some(graphs: list[nx.Graph]) -> None:
    data = replace(from_objects(graphs), feature_names=(), info={})
    found = read_graphs(data)
    assert found.feature_names == ("x0", "x1")
    assert found.info["features"] == ("attributes",)
    assert align(found, ("eccentricity", "clustering")).feature_names == (
        "eccentricity",
        "clustering",
    )


def test_columns_are_found_by_name(graphs: list[nx.Graph]) -> None:
    data = from_objects(graphs, features="degree+structure")
    wanted = ("clustering", "label=C", "degree", "eccentricity")
    found = align(data, wanted)
    assert found.feature_names == wanted
    assert found.x[:, [2, 3, 0]].equal(data.x)
    assert found.x[:, 1].equal(torch.zeros(data.num_nodes))
    with pytest.raises(DataError, match="missing: mass; new: eccentricity, clustering"):
        align(data, ("degree", "mass"))
