"""GraphDataset: one block-diagonal matrix, and every way in and out of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch as PygBatch
from torch_geometric.data import Data

from legs.data.dataset import GraphDataset
from tests.strategies import graphs


@st.composite
def pyg_lists(draw: st.DrawFn, min_size: int = 1) -> list[Data]:
    """PyG graphs of mixed sizes, all weighted or none, with three features and a class."""
    weighted = draw(st.booleans())
    drawn = draw(st.lists(graphs(max_nodes=6, weighted=weighted), min_size=min_size, max_size=6))
    listed = []
    for i, graph in enumerate(drawn):
        x = torch.from_numpy(np.random.default_rng(i).normal(size=(graph.num_nodes, 3))).float()
        data = Data(x=x, edge_index=graph.edge_index, y=torch.tensor([i % 2]))
        if graph.edge_weight is not None:
            data.edge_weight = graph.edge_weight.float()
        listed.append(data)
    return listed


def edges_of(edge_index: torch.Tensor, weight: torch.Tensor | None) -> list[Any]:
    """The edges in an order of their own: a data set sorts them."""
    values = torch.ones(edge_index.shape[1]) if weight is None else weight
    return sorted(zip(*edge_index.tolist(), values.tolist(), strict=True))


def same(a: Data, b: Data) -> bool:
    return (
        torch.equal(a.x, b.x)
        and torch.equal(a.y, b.y)
        and edges_of(a.edge_index, a.get("edge_weight"))
        == edges_of(b.edge_index, b.get("edge_weight"))
    )


def dataset(listed: list[Data]) -> GraphDataset:
    ids = tuple(f"g{i}" for i in range(len(listed)))
    names = ("a", "b")
    return GraphDataset.from_pyg(listed, task="classification", class_names=names, ids=ids)


@settings(max_examples=60, deadline=None)
@given(pyg_lists())
def test_round_trip_through_pyg(listed: list[Data]) -> None:
    data = dataset(listed)
    back = data.to_pyg()
    assert len(back) == len(data) == len(listed)
    assert all(map(same, listed, back))
    assert data.sizes.tolist() == [graph.num_nodes for graph in listed]
    assert data.num_nodes == sum(graph.num_nodes for graph in listed)
    assert (data.in_channels, data.out_channels) == (3, 2)


@settings(max_examples=60, deadline=None)
@given(pyg_lists(), st.data())
def test_a_subset_is_the_chosen_graphs_in_that_order(listed: list[Data], draw: Any) -> None:
    data = dataset(listed)
    size = len(listed)
    chosen = draw.draw(st.lists(st.integers(-size, size - 1), max_size=8))
    for index in (chosen, np.array(chosen, dtype=int), torch.tensor(chosen, dtype=torch.long)):
        part = data[index]
        assert isinstance(part, GraphDataset)
        assert all(map(same, [listed[i] for i in chosen], part))
        assert len(part) == len(chosen)
        assert part.ids == tuple(data.ids[i] for i in chosen)
        assert part.col.dtype == torch.int32
    mask = np.array(draw.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    assert all(map(same, [listed[i] for i in np.flatnonzero(mask)], data[mask]))
    assert len(data[mask]) == mask.sum()
    assert all(map(same, listed[1:], data[1:]))
    assert len(data[1:]) == size - 1


@settings(max_examples=60, deadline=None)
@given(pyg_lists(), st.data())
def test_a_batch_is_what_pyg_collates(listed: list[Data], draw: Any) -> None:
    chosen = draw.draw(st.lists(st.integers(0, len(listed) - 1), min_size=1, max_size=8))
    expected = PygBatch.from_data_list([listed[i] for i in chosen])
    found = dataset(listed).batch(chosen)
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.batch, expected.batch)
    assert torch.equal(found.y, expected.y)
    assert found.batch_size == len(chosen)
    assert edges_of(found.edge_index, found.edge_weight) == edges_of(
        expected.edge_index, expected.get("edge_weight")
    )
    assert (found.edge_index[1].diff() >= 0).all()  # sorted by target


@settings(max_examples=30, deadline=None)
@given(pyg_lists())
def test_the_matrix_is_block_diagonal(listed: list[Data]) -> None:
    data = dataset(listed)
    whole = data.whole()
    assert torch.equal(whole.batch[whole.edge_index[0]], whole.batch[whole.edge_index[1]])
    assert int(data.rowptr[-1]) == data.col.numel() == sum(g.num_edges for g in listed)


def test_a_batch_costs_no_look_at_the_whole_set(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dataset([Data(x=torch.rand(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=0)] * 50)
    seen = []
    diff = torch.Tensor.diff
    monkeypatch.setattr(
        torch.Tensor, "diff", lambda self, *a, **k: seen.append(len(self)) or diff(self, *a, **k)
    )
    data.batch([3, 4])
    assert max(seen) < 10


def test_numbers_out_of_range_raise() -> None:
    data = dataset([Data(x=torch.rand(1, 3), edge_index=torch.empty(2, 0).long(), y=0)] * 2)
    assert data[-1].num_nodes == 1
    for wrong in (2, -3):
        with pytest.raises(IndexError, match=f"graph {wrong} of 2"):
            data[wrong]
    with pytest.raises(IndexError):
        data[[0, 2]]


def test_some_graphs_without_weights_count_one() -> None:
    index = torch.tensor([[0, 1], [1, 0]])
    weighted = Data(x=torch.rand(2, 1), edge_index=index, edge_weight=torch.tensor([0.5, 0.5]))
    plain = Data(x=torch.rand(2, 1), edge_index=index)
    found = GraphDataset.from_pyg([weighted, plain]).edge_weight
    assert found is not None
    assert found.tolist() == [0.5, 0.5, 1, 1]


def test_without_targets_there_are_no_outputs() -> None:
    data = GraphDataset.from_pyg([Data(x=torch.rand(1, 1), edge_index=torch.empty(2, 0).long())])
    with pytest.raises(ValueError, match="has no targets"):
        _ = data.out_channels
