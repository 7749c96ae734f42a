"""Merged nodes against refinement by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data import GraphDataset, merge, merge_equivalent
from tests.graphs import path_graph, random_graph, ring


def classes_by_hand(x, neighbours):
    """Classes of nodes by refinement as a book has it, numbered by first member."""
    colours = [tuple(row) for row in x.tolist()]
    while True:
        found = [(colours[i], tuple(sorted(colours[j] for j in near))) for i, near in neighbours]
        names = {colour: k for k, colour in enumerate(dict.fromkeys(found))}
        if len(names) == len(set(colours)):
            return [names[colour] for colour in found]
        colours = [names[colour] for colour in found]


def one(x, edge_index):
    return GraphDataset.from_edges(x, torch.tensor([0, len(x)]), edge_index)


def neighbours_of(data):
    rows = [data.col[a:b].tolist() for a, b in zip(data.rowptr, data.rowptr[1:], strict=False)]
    return list(enumerate(rows))


@st.composite
def graphs(draw):
    seed, size = draw(st.integers(0, 10_000)), draw(st.integers(1, 12))
    generator = torch.Generator().manual_seed(seed)
    edges = random_graph(size, generator).edge_index if size > 2 else torch.empty(2, 0).long()
    # Few colours: some nodes are alike, others are told apart by their neighbours only.
    x = torch.randint(draw(st.integers(1, 3)), (size, 2), generator=generator).float()
    return one(x, edges)


@settings(deadline=None)
@given(graphs())
def test_as_by_hand(data):
    kinds = classes_by_hand(data.x, neighbours_of(data))
    merged, multiplicity = merge_equivalent(data)
    assert sorted(multiplicity.int().tolist()) == sorted(kinds.count(k) for k in set(kinds))
    # Every class by what can be said of it without its number.
    expected = sorted(
        (data.x[i].tolist(), kinds.count(kinds[i]), sorted(kinds.count(kinds[j]) for j in near))
        for i, near in neighbours_of(data)
        if kinds.index(kinds[i]) == i
    )
    whole = merged.whole()
    found = []
    for c in range(merged.num_nodes):
        own = whole.edge_index[1] == c
        times = merged.edge_weight[own].int().tolist()
        sizes = multiplicity[whole.edge_index[0][own]].int().tolist()
        around = sorted(s for s, t in zip(sizes, times, strict=True) for _ in range(t))
        found.append((merged.x[c].tolist(), int(multiplicity[c]), around))
    assert sorted(found) == expected


def test_graphs_stay_apart():
    parts = [path_graph(4).edge_index, ring(5).edge_index + 4, path_graph(4).edge_index + 9]
    ptr = torch.tensor([0, 4, 9, 13])
    merged, multiplicity = merge_equivalent(
        GraphDataset.from_edges(torch.ones(13, 1), ptr, torch.cat(parts, 1))
    )
    assert merged.ptr.tolist() == [0, 2, 3, 5]
    assert multiplicity.tolist() == [2, 2, 5, 2, 2]
    of_ring = merged.edge_weight[merged.rowptr[2] : merged.rowptr[3]]
    assert of_ring.tolist() == [2]  # both neighbours are like the node itself


def test_long_rows_come_first():
    hub = torch.tensor([[0, 0, 0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 0, 0, 4, 3]])
    merged, multiplicity = merge_equivalent(one(torch.arange(5.0).unsqueeze(1), hub))
    assert merged.rowptr.diff().tolist() == [3, 2, 1, 1, 1]
    assert merged.x.flatten().tolist()[:2] == [0, 3]
    assert multiplicity.tolist() == [1] * 5


def test_nothing_to_merge_and_nothing_at_all():
    empty = GraphDataset.from_edges(
        torch.empty(0, 2), torch.tensor([0, 0]), torch.empty(2, 0, dtype=torch.long)
    )
    merged, multiplicity = merge_equivalent(empty)
    assert merged.num_nodes == len(multiplicity) == 0
    assert merged.ptr.tolist() == [0, 0]


def test_colours_that_meet_by_chance(monkeypatch):
    """All nodes with one colour: the check finds that they are not alike, and merges none."""
    monkeypatch.setattr(merge, "_mixed", torch.zeros_like)
    merged, multiplicity = merge_equivalent(one(torch.rand(4, 1), path_graph(4).edge_index))
    assert merged.num_nodes == 4
    assert multiplicity.tolist() == [1] * 4


def test_weights_are_refused():
    data = GraphDataset.from_edges(
        torch.ones(2, 1), torch.tensor([0, 2]), torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
    )
    with pytest.raises(ValueError, match="edge weights"):
        merge_equivalent(data)


@given(graphs(), st.booleans())
def test_longest_first_is_a_renumbering(data, weighted):
    if weighted:
        data = replace(data, edge_weight=(data.col + 1.0) * (1 + _rows(data)))  # symmetric
    found = merge.longest_first(data)
    lengths = found.rowptr.diff()
    assert (lengths[:-1] >= lengths[1:]).all()
    # Every node with its features and its neighbours' features: the same ones, in another order.
    assert sorted(_described(found)) == sorted(_described(data))


def _rows(data):
    return torch.repeat_interleave(torch.arange(data.num_nodes), data.rowptr.diff())


def _described(data):
    weight = torch.ones(len(data.col)) if data.edge_weight is None else data.edge_weight
    return [
        (x, sorted((data.x[j].tolist(), float(w)) for j, w in zip(near, own, strict=True)))
        for x, near, own in zip(
            data.x.tolist(),
            data.col.long().split(data.rowptr.diff().tolist()),
            weight.split(data.rowptr.diff().tolist()),
            strict=True,
        )
    ]


def test_the_old_name_warns():
    import legs.data

    with pytest.warns(DeprecationWarning, match="merge_equivalent"):
        assert legs.data.merge_alike is merge_equivalent
