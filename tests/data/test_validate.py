"""Checks that name the graph at fault."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.validate import check_dataset, check_graphs, graph_of, overflows
from tests.strategies import Batch, batches

PTR = torch.tensor([0, 2, 5])
EDGES = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]])


def offsets(batch: Batch) -> torch.Tensor:
    sizes = torch.bincount(batch.batch, minlength=batch.num_graphs)
    return torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])


@settings(max_examples=80, deadline=None)
@given(batches())
def test_undirected_graphs_pass(batch: Batch) -> None:
    check_graphs(offsets(batch), batch.edge_index, batch.edge_weight)


@settings(max_examples=80, deadline=None)
@given(batches(weighted=True))
def test_one_direction_heavier_than_the_other_is_found(batch: Batch) -> None:
    one_way = (batch.edge_index[0] != batch.edge_index[1]).nonzero().flatten()
    assume(len(one_way) > 0)
    assert batch.edge_weight is not None
    edge = int(one_way[len(one_way) // 2])
    weight = batch.edge_weight.clone()
    weight[edge] += 1
    graph = int(batch.batch[batch.edge_index[0, edge]])
    with pytest.raises(DataError, match=f"^graph {graph} is directed"):
        check_graphs(offsets(batch), batch.edge_index, weight)


def test_a_missing_direction_is_named_with_the_nodes_of_its_graph() -> None:
    with pytest.raises(DataError) as error:
        check_graphs(PTR, EDGES[:, :-1], advice="mend it")
    assert str(error.value) == "graph 1 is directed: 1 to 2 has weight 1, 2 to 1 has 0; mend it"


def test_rounding_is_not_a_direction() -> None:
    weight = torch.tensor([1, 1 + 1e-6, 1, 1, 1, 1])
    check_graphs(PTR, EDGES, weight)
    with pytest.raises(DataError, match="graph 0 is directed"):
        check_graphs(PTR, EDGES, weight + torch.tensor([0, 1e-3, 0, 0, 0, 0]))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights(value: float) -> None:
    weight = torch.ones(6)
    weight[4] = value
    with pytest.raises(DataError, match=f"graph 1: .* nodes 1 and 2 has weight {value:g}; weights"):
        check_graphs(PTR, EDGES, weight)


def test_a_graph_without_nodes() -> None:
    with pytest.raises(DataError, match="graph 1 has no nodes"):
        check_graphs(torch.tensor([0, 2, 2, 5]), EDGES)


def test_nodes_know_their_graph() -> None:
    assert [graph_of(np.array([0, 1, 1, 3]), node) for node in range(3)] == [(0, 0), (2, 0), (2, 1)]


def test_values_that_float32_cannot_square_are_named() -> None:
    ptr, rowptr = torch.tensor([0, 1]), torch.tensor([0, 0])
    data = GraphDataset(torch.tensor([[1e30]]), ptr, rowptr, rowptr[:0].int())
    reason = "the node feature 0 of node 0 is 1e+30, too large to be squared in float32; rescale it"
    assert overflows(data) == {0: reason}


def test_edges_stay_in_their_graphs() -> None:
    ptr, rowptr, col = torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([5]).int()
    with pytest.raises(DataError, match="not a data set: edges lead out of their graphs"):
        check_dataset(GraphDataset(torch.ones(1, 1), ptr, rowptr, col))
