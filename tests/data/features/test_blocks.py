"""Node features chosen by name."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.errors import DataError
from legs.data.features.blocks import assemble, block_names
from legs.data.readers.base import Features, RawGraphs
from tests.strategies import Batch, batches


@pytest.fixture
def raw() -> RawGraphs:
    """A triangle with a tail, and a dot; with labels."""
    pairs = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    return RawGraphs(
        ptr=torch.tensor([0, 4, 5]),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        y=torch.tensor([1, 0]),
        task="classification",
        name="toy",
        class_names=("a", "b"),
        ids=("one", "two"),
        blocks={"labels": lambda: Features(torch.eye(5)[:, :2], ("label=0", "label=1"))},
        info={"source": "here"},
    )


def test_default_is_what_the_source_suggests(raw: RawGraphs) -> None:
    data = assemble(raw)
    assert data.feature_names == ("eccentricity", "clustering")
    expected = [[2, 1], [2, 1], [1, 1 / 3], [2, 0], [0, 0]]
    torch.testing.assert_close(data.x, torch.tensor(expected))
    assert assemble(replace(raw, default_features=("labels",))).feature_names == (
        "label=0",
        "label=1",
    )


@pytest.mark.parametrize("chosen", ["labels+degree+constant", ["labels", "degree", "constant"]])
def test_any_combination_in_the_given_order(raw: RawGraphs, chosen: str | list[str]) -> None:
    data = assemble(raw, chosen)
    assert data.feature_names == ("label=0", "label=1", "degree", "constant")
    assert data.x.dtype == torch.float32
    assert data.x[:, :2].equal(torch.eye(5)[:, :2])
    assert data.x[:, 2].tolist() == [2, 2, 3, 1, 0]
    assert data.x[:, 3].tolist() == [1] * 5


def test_all_else_is_passed_on(raw: RawGraphs) -> None:
    data = assemble(raw)
    assert (data.name, data.task, data.class_names, data.ids) == (
        "toy",
        "classification",
        ("a", "b"),
        ("one", "two"),
    )
    assert data.y is raw.y
    assert data.info == {"source": "here", "features": ("structure",), "unused": ["labels"]}


def test_groups_for_splitting_become_a_field(raw: RawGraphs) -> None:
    data = assemble(replace(raw, info={"groups": ["t1", "t2"]}))
    assert data.groups == ("t1", "t2")
    assert data[1:].groups == ("t2",)
    assert "groups" not in data.info


def test_unknown_names_list_the_known_and_the_nearest(raw: RawGraphs) -> None:
    with pytest.raises(
        DataError,
        match=r"no feature block 'label'; did you mean 'labels'\? There are: constant, "
        "degree, degree-onehot, labels, structure",
    ):
        assemble(raw, "structure+label")
    with pytest.raises(DataError, match=r"'qm9'; There are: [a-z, -]*$"):
        block_names(raw, "qm9")
    for nothing in ("", [], " + "):
        with pytest.raises(DataError, match=r"no (feature block|node features)"):
            assemble(raw, nothing)
    with pytest.raises(DataError, match=r"named twice: degree\+degree"):
        assemble(raw, "degree+degree")


def test_blocks_that_are_not_asked_for_are_not_computed(raw: RawGraphs) -> None:
    def fail() -> Features:
        raise AssertionError("computed")

    assemble(replace(raw, blocks={"labels": fail}), "structure")
    with pytest.raises(AssertionError, match="computed"):
        assemble(replace(raw, blocks={"labels": fail}), "labels")


def test_a_block_of_the_wrong_size_is_named(raw: RawGraphs) -> None:
    short = {"labels": lambda: Features(torch.ones(4, 1), ("one",))}
    with pytest.raises(DataError, match=r"'labels' have shape \[4, 1\], not \[5, 1\]"):
        assemble(replace(raw, blocks=short), "labels")


def test_degrees_as_categories():
    """A star of ten leaves, and a node without neighbors."""
    leaves = torch.arange(1, 11)
    edges = torch.cat([torch.stack([leaves, 0 * leaves]), torch.stack([0 * leaves, leaves])], dim=1)
    data = assemble(RawGraphs(torch.tensor([0, 12]), edges), "degree-onehot")
    assert data.feature_names == ("log_degree", *(f"degree={k}" for k in range(8)), "degree>=8")
    assert data.x[:, 0].tolist() == pytest.approx([math.log(11), *[math.log(2)] * 10, 0.0])
    assert data.x[:, 1:].argmax(1).tolist() == [8, *[1] * 10, 0]
    assert (data.x[:, 1:].sum(1) == 1).all()


@settings(max_examples=50, deadline=None)
@given(batches(), st.sampled_from(["structure", "degree", "degree-onehot", "constant"]))
def test_edges_and_weights_stay_as_they_were_read(batch: Batch, features: str) -> None:
    sizes = torch.bincount(batch.batch, minlength=batch.num_graphs)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    whole = assemble(RawGraphs(ptr, batch.edge_index, batch.edge_weight), features).whole()

    def listed(index: torch.Tensor, weight: torch.Tensor | None) -> list[object]:
        values = torch.ones(index.shape[1]) if weight is None else weight
        return sorted(zip(*index.tolist(), values.tolist(), strict=True))

    assert listed(whole.edge_index, whole.edge_weight) == listed(
        batch.edge_index, batch.edge_weight
    )


def test_structure_ignores_self_loops_and_parallel_edges() -> None:
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 1), (1, 2)])
    pairs = torch.tensor([(a, b) for a, b in graph.edges()]).T
    back = pairs[:, pairs[0] != pairs[1]].flip(0)
    raw = RawGraphs(torch.tensor([0, 3]), torch.cat([pairs, back], dim=1))
    data = assemble(raw, "structure+degree")
    assert data.x.tolist() == [[2, 0, 1], [1, 0, 2], [2, 0, 1]]
    assert data.col.numel() == 7
