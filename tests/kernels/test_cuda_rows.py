"""Edges sorted on a GPU, against a stable sort: on a GPU if there is one, else emulated."""

from __future__ import annotations

import pytest
import torch

from legs.kernels import cuda_rows

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = pytest.mark.usefixtures("gpu")


def expected(edge_index, weight, batch, nodes, graphs):
    row, order = torch.sort(edge_index[1], stable=True)
    rowptr = torch.bincount(row, minlength=nodes).cumsum(0)
    sizes = torch.bincount(batch, minlength=graphs) if batch is not None else torch.tensor([nodes])
    zero = torch.zeros(1, dtype=torch.long)
    return (
        torch.cat([zero, rowptr]),
        edge_index[0, order],
        None if weight is None else weight[order],
        torch.cat([zero, sizes.cumsum(0)]),
    )


def check(edge_index, weight, batch, nodes, graphs):
    given = [None if t is None else t.to(DEVICE) for t in (edge_index, weight, batch)]
    found = cuda_rows.sorted_rows(*given, nodes, graphs)
    for one, other in zip(found, expected(edge_index, weight, batch, nodes, graphs), strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one.cpu(), other)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("hub", [0, 31, 33, 700])
def test_edges_of_a_row_stay_in_the_order_given(in_order, weighted, hub):
    generator = torch.Generator().manual_seed(hub)
    edge_index = torch.randint(50, (2, 300), generator=generator)
    edge_index[1] += edge_index[1] >= 7  # a node without edges
    many = torch.stack([torch.randint(50, (hub,), generator=generator), torch.full((hub,), 20)])
    edge_index = torch.cat([edge_index, many], 1)
    if in_order:
        edge_index = edge_index[:, edge_index[1].sort(stable=True).indices]
    else:
        edge_index = edge_index[:, torch.randperm(300 + hub, generator=generator)]
    weight = torch.rand(300 + hub, generator=generator, dtype=torch.float64) if weighted else None
    batch = torch.arange(52) // 10  # and one graph without nodes at the end
    check(edge_index, weight, batch, 52, 7)
    check(edge_index, weight, None, 52, 1)


def test_more_nodes_than_threads():
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(3000, (2, 5000), generator=generator)
    check(edge_index, None, torch.arange(3000) // 700, 3000, 5)


@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_no_edges(nodes):
    check(torch.empty(2, 0, dtype=torch.long), None, torch.zeros(nodes, dtype=torch.long), nodes, 2)


def test_more_than_one_block_sorts(monkeypatch):
    monkeypatch.setattr(cuda_rows, "MOST", 4)
    edge_index = torch.tensor([[0, 1, 2, 1, 0], [2, 0, 1, 0, 1]])
    check(edge_index, torch.arange(5.0), torch.tensor([0, 0, 1]), 3, 2)


def test_columns_of_a_larger_tensor():
    every = torch.tensor([[1, 9, 0, 9, 2, 9], [0, 9, 1, 9, 1, 9]])
    check(every[:, ::2], torch.arange(6.0)[::2], torch.tensor([0, 0, 0]), 3, 1)
