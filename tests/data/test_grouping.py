"""Duplicates are found whatever they are called, and splits that leak are reported."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch

from legs.data import from_objects, load
from legs.data.errors import DataError
from legs.data.splits import Split, describe_groups, find_groups, warn_about_leaks
from tests.training.made import made_data, renumbered


def doubled(data):
    """Every graph, and after all of them every graph again."""
    return data.subset([*range(len(data)), *range(len(data))])


def test_molecules_by_the_canonical_smiles_of_the_largest_fragment():
    pytest.importorskip("rdkit")
    smiles = ["OCC", "CCO", "CCO.Cl", "CC.CO", "OC.CC", "C[C@H](N)O", "C[C@@H](N)O", "CCO"]
    data = from_objects(smiles, y=[0.0] * 8)
    assert find_groups(data).tolist() == [0, 0, 0, 1, 1, 2, 3, 0]
    assert find_groups(data[2:7][[0, 1, 3, 4]]) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_whatever_the_order_of_their_nodes(weighted):
    data = made_data(graphs=20, weighted=weighted)
    both = from_objects([*data, *renumbered(data, seed=1)])
    assert find_groups(both).tolist() == [*range(20), *range(20)]
    assert find_groups(data) is None


def test_graphs_differ_by_structure_features_and_weights():
    ring, path = nx.cycle_graph(6), nx.path_graph(6)
    tailed = nx.Graph([*nx.cycle_graph(5).edges, (0, 5)])
    assert find_groups(from_objects([ring, path, tailed], features="constant")) is None
    data = from_objects([ring] * 3, features="constant")
    assert find_groups(data).tolist() == [0, 0, 0]
    x = data.x.clone()
    x[0] = 2
    assert find_groups(replace(data, x=x)).tolist() == [0, 1, 1]
    weight = torch.ones(len(data.col))
    weight[:12] = 2
    assert find_groups(replace(data, edge_weight=weight)).tolist() == [0, 1, 1]


def test_data_sets_by_name_keep_their_published_partitions():
    pytest.importorskip("rdkit")
    named = doubled(load("nci-5k", limit=10))
    assert find_groups(named) is None
    assert find_groups(named, "structure").tolist() == [*range(10)] * 2


def test_groups_of_the_user():
    data = made_data(graphs=4)
    assert find_groups(data, ["a", "b", "a", "c"]).tolist() == [0, 1, 0, 2]
    assert find_groups(data, ["a", "b", "c", "d"]) is None
    assert find_groups(doubled(data), None) is None
    with pytest.raises(DataError, match="3 labels for 4 graphs"):
        find_groups(data, [0, 1, 2])
    with pytest.raises(DataError, match="'scaffold'"):
        find_groups(data, "scaffold")


def test_groups_in_words():
    line = describe_groups(np.repeat(np.arange(600), 2))
    assert line == ("1,200 rows, 600 structures; rows of one structure stay in one part of a split")


def test_leaks_are_counted(recwarn):
    groups = np.array([0, 1, 2, 3, 0, 4, 1, 3])
    clean = Split(np.array([0, 4]), np.array([1, 6]), np.array([2, 3, 5, 7]))
    warn_about_leaks([clean], groups)
    leaking = Split(np.array([0, 1, 2]), np.array([3, 4]), np.array([5, 6, 7]))
    warn_about_leaks([leaking], None)
    assert not recwarn
    with pytest.warns(UserWarning, match="^3 of 5 validation and test rows have the same"):
        warn_about_leaks([leaking], groups)
    with pytest.warns(UserWarning, match="^3 of 11 validation and test rows in 2 splits"):
        warn_about_leaks([leaking, clean], groups)
