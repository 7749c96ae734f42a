"""Statistics against networkx, and against the paper's Table I."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from legs.data import describe
from legs.data.catalog.tu import read_tu
from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.statistics import Statistics, check, compare, paper_statistics


def dataset(graphs, **known) -> GraphDataset:
    """Graphs with nodes 0, 1, …; self-loops once, other edges both ways."""
    sizes = [len(g) for g in graphs]
    ptr = np.cumsum([0, *sizes])
    pairs = [
        (a + o, b + o)
        for g, o in zip(graphs, ptr, strict=False)
        for u, v in g.edges
        for a, b in {(u, v), (v, u)}
    ]
    edges = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    x = torch.zeros(int(ptr[-1]), 1)
    return GraphDataset.from_edges(x, torch.from_numpy(ptr), edges, **known)


def expected(graphs):
    connected = [g for g in graphs if nx.is_connected(g)]
    return (
        np.mean([len(g) for g in graphs]),
        np.mean([g.number_of_edges() - nx.number_of_selfloops(g) for g in graphs]),
        np.mean([nx.diameter(g) for g in connected]),
        np.mean([nx.average_clustering(g) for g in graphs]),
        len(connected) / len(graphs),
    )


def test_equals_networkx():
    graphs = [nx.gnp_random_graph(2 + i % 17, 0.25, seed=i) for i in range(60)]
    graphs += [nx.complete_graph(5), nx.empty_graph(1), nx.star_graph(6)]
    graphs[0].add_edge(0, 0)
    graphs[61].add_edge(0, 0)
    ours = describe(dataset(graphs, class_names=("a", "b", "c"), name="some"))
    assert ours[:3] == ("some", 63, 3)
    assert ours[3:] == pytest.approx(expected(graphs))


def test_no_connected_graph_has_no_mean_diameter():
    assert np.isnan(describe(dataset([nx.empty_graph(2)])).diameter)


def test_nothing_to_describe():
    with pytest.raises(DataError, match="no graphs"):
        describe(dataset([nx.path_graph(2)])[:0])


def test_the_papers_table_is_whole():
    paper = paper_statistics()
    assert len(paper) == 13
    assert paper["COLLAB"] == {
        "graphs": "5000",
        "classes": "3",
        "nodes": "74.49",
        "edges": "2457.22",
        "diameter": "1.86",
        "clustering": "0.89",
    }


MUTAG = Statistics("MUTAG", 188, 2, 17.930851, 19.792553, 8.218085, 0.0, 1.0)


def test_printed_digits_decide():
    assert all(row.agrees for row in compare(MUTAG))
    assert all(row.agrees for row in compare(MUTAG._replace(nodes=17.925, clustering=0.00499)))
    wrong = MUTAG._replace(nodes=17.9249, clustering=0.0051, graphs=187)
    differing = [row.quantity for row in compare(wrong) if not row.agrees]
    assert differing == ["graphs", "nodes", "clustering"]
    assert compare(MUTAG._replace(name="my own")) == []
    assert len(compare(MUTAG._replace(name="PTC_MR"))) == 6


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES", "PTC_MR", "PROTEINS", "IMDB-BINARY"])
def test_real_sets_have_the_papers_numbers(legs_data, name):
    ours = describe(assemble(read_tu(legs_data / "tu" / f"{name}.zip")))
    rows = compare(ours)
    assert len(rows) == 6
    assert [row for row in rows if not row.agrees] == []


def test_real_sets_equal_networkx(legs_data):
    data = assemble(read_tu(legs_data / "tu" / "ENZYMES.zip"), "degree")[::10]
    graphs = []
    for each in data:
        graph = nx.Graph()
        graph.add_nodes_from(range(each.num_nodes))
        graph.add_edges_from(each.edge_index.T.tolist())
        graphs.append(graph)
    assert describe(data)[3:] == pytest.approx(expected(graphs))


@pytest.mark.long
def test_all_13_sets_have_the_papers_numbers(legs_data, tmp_path, monkeypatch):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    checked = list(check())
    assert len(checked) == 13
    differing = [(ours.name, row) for ours, rows in checked for row in rows if not row.agrees]
    assert differing == []
