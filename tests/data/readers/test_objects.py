"""Graphs of other libraries become a data set, or an error that names the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Batch, Data, HeteroData

from legs.data.dataset import GraphDataset
from legs.data.errors import DataError
from legs.data.readers.objects import from_objects, read_objects
from tests.strategies import Graph, graphs

LINE = torch.tensor([[0, 1], [1, 0]])


def as_data(graph: Graph) -> Data:
    data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    if graph.edge_weight is not None:
        data.edge_weight = graph.edge_weight
    return data


def as_matrix(graph: Graph) -> Any:
    weight = (
        torch.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
    )
    shape = (graph.num_nodes, graph.num_nodes)
    return sparse.coo_array((weight.numpy(), tuple(graph.edge_index.numpy())), shape=shape)


def as_networkx(graph: Graph) -> nx.MultiGraph:
    found = nx.MultiGraph()
    found.add_nodes_from(range(graph.num_nodes))
    weight = None if graph.edge_weight is None else graph.edge_weight.tolist()
    for k, (a, b) in enumerate(graph.edge_index.T.tolist()):
        if a <= b:
            found.add_edge(a, b, **({} if weight is None else {"weight": weight[k]}))
    return found


def beside(graph: Any) -> Any:
    """A good graph of the same kind."""
    if isinstance(graph, Data):
        return Data(edge_index=LINE, num_nodes=2)
    matrix = sparse.issparse(graph) or isinstance(graph, np.ndarray)
    return np.eye(2) if matrix else nx.path_graph(2)


def dense(data: GraphDataset, i: int) -> np.ndarray[Any, Any]:
    graph = data[i]
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = graph.get("edge_weight")
    values = np.ones(graph.num_edges) if weight is None else weight.numpy()
    np.add.at(out, tuple(graph.edge_index.flip(0).numpy()), values)
    return out


@settings(max_examples=80, deadline=None)
@given(st.lists(graphs(max_nodes=6), min_size=1, max_size=5), st.data())
def test_every_kind_gives_the_same_matrices(drawn: list[Graph], draw: Any) -> None:
    kinds = [as_data, as_matrix, as_networkx, lambda g: as_matrix(g).toarray()]
    kind = draw.draw(st.sampled_from(kinds))
    data = from_objects([kind(graph) for graph in drawn])
    assert len(data) == len(drawn)
    for i, graph in enumerate(drawn):
        np.testing.assert_allclose(dense(data, i), as_matrix(graph).toarray(), rtol=1e-6)


def test_weights_only_where_they_are_not_all_one() -> None:
    ones = sparse.csr_array(np.array([[0, 1], [1, 0]]))
    assert from_objects([ones, np.array([[0, 1], [1, 0]])]).edge_weight is None
    half = nx.Graph([(0, 1, {"weight": 0.5})])
    weighted = from_objects([nx.path_graph(2), half, nx.path_graph(2)])
    assert weighted.edge_weight is not None
    assert weighted.edge_weight.tolist() == [1, 1, 0.5, 0.5, 1, 1]
    half = nx.Graph([(0, 1, {"weight": 2}), (1, 2)])
    assert sorted(from_objects([half]).edge_weight.tolist()) == [1, 1, 2, 2]


def test_stored_zeros_of_a_matrix_are_no_edges() -> None:
    matrix = sparse.coo_array(([0.0, 0.0, 1.0, 1.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    assert from_objects([matrix]).col.numel() == 2


def test_default_features() -> None:
    assert from_objects([nx.path_graph(3)]).feature_names == ("eccentricity", "clustering")
    data = from_objects([Data(x=torch.tensor([[1.0, 2], [3, 4]]), edge_index=LINE)])
    assert data.feature_names == ("x0", "x1")
    assert data.x.tolist() == [[1, 2], [3, 4]]
    graph = nx.Graph()
    graph.add_node("a", mass=2, label="C", note="n")
    graph.add_node("b", mass=3.5, label="N")
    assert from_objects([graph]).feature_names == ("mass",)
    labels = from_objects([graph], features="labels+attributes")
    assert labels.feature_names == ("label=C", "label=N", "mass")
    assert labels.x.tolist() == [[1, 0, 2], [0, 1, 3.5]]
    nx.set_node_attributes(graph, [1, 2], "x")
    assert from_objects([graph]).x.tolist() == [[1, 2], [1, 2]]
    nx.set_node_attributes(graph, "here", "x")
    assert from_objects([graph], features="structure").x.shape == (2, 2)


def test_a_list_holds_graphs_of_one_kind() -> None:
    data, matrix = Data(edge_index=LINE, num_nodes=2), np.eye(2)
    said = "graph 1 is an adjacency matrix, graph 0 PyG Data; a list holds graphs of one kind"
    with pytest.raises(DataError, match=said):
        from_objects([data, matrix], features="structure")
    with pytest.raises(DataError, match="graph 1 is a networkx graph, graph 0 an RDKit molecule"):
        from_objects(["CCO", nx.path_graph(3)])
    assert len(from_objects([matrix, sparse.eye_array(2)])) == 2


def test_features_that_some_graphs_lack() -> None:
    full = Data(x=torch.ones(2, 1), edge_index=LINE)
    with pytest.raises(DataError, match="graph 1 has no x, others have"):
        from_objects([full, Data(edge_index=LINE, num_nodes=2)])
    with pytest.raises(DataError, match="graph 1 has 3 node features, graph 0 1"):
        from_objects([full, Data(x=torch.ones(2, 3), edge_index=LINE)])
    with pytest.raises(DataError, match="graph 0: the node feature 'x0' of node 1 is nan, not"):
        from_objects([Data(x=torch.tensor([[1.0], [float("nan")]]), edge_index=LINE)])


@pytest.mark.parametrize(
    ("graph", "advice"),
    [
        (nx.DiGraph([(0, 1)]), r"\.to_undirected\(\)"),
        (sparse.csr_array(np.array([[0, 1], [0, 0]])), r"\(A \+ A\.T\) / 2"),
        (np.array([[0, 1.0], [2, 0]]), r"\(A \+ A\.T\) / 2"),
        (
            Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2),
            r"torch_geometric\S*to_undirected",
        ),
    ],
)
def test_directed_graphs_are_refused_with_advice(graph: Any, advice: str) -> None:
    with pytest.raises(DataError, match=f"^graph 1 is (a )?directed.*symmetrise it with {advice}"):
        from_objects([beside(graph), graph], features="structure")


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (nx.Graph(), "has no nodes"),
        (sparse.csr_array((0, 0)), "has no nodes"),
        (Data(edge_index=torch.empty(2, 0).long(), num_nodes=0), "has no nodes"),
        (nx.Graph([(0, 1, {"weight": -1})]), "has weight -1"),
        (nx.Graph([(0, 1, {"weight": "a"})]), "edge 1 has weight a, not a number"),
        (nx.Graph([(0, 1, {"weight": [1, 2]})]), r"edge 1 has weight \[1, 2\], not a number"),
        (sparse.csr_array(np.array([[0, np.nan], [np.nan, 0]])), "has weight nan"),
        (sparse.csr_array((2, 3)), r"is square; got \(2, 3\)"),
        (np.array([["a"]]), "holds numbers"),
        (Data(edge_index=torch.tensor([[0, 5], [5, 0]]), num_nodes=2), "names node 5"),
        (Data(edge_index=torch.tensor([[0, -1], [-1, 0]]), num_nodes=2), "names node -1"),
        (Data(edge_index=LINE.float(), num_nodes=2), "must hold integers"),
        (Data(edge_index=LINE, edge_weight=torch.ones(3), num_nodes=2), "3 edge weights for 2"),
        (Batch.from_data_list([Data(edge_index=LINE, num_nodes=2)]), r"\.to_data_list\(\)"),
        (HeteroData(), "is of type HeteroData"),
        (3, "is of type int; a graph can be"),
        (np.ones(3), "is of type ndarray"),
    ],
)
def test_a_graph_that_cannot_be_used_is_named(graph: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"^graph 1.*{said}"):
        from_objects([beside(graph), graph], features="structure")


@pytest.mark.parametrize(
    ("graphs", "said"),
    [
        ([], "is empty"),
        ("CCO", "a SMILES string instead of a list"),
        (nx.path_graph(3), "a networkx graph instead of a list"),
        (np.eye(2), "an adjacency matrix instead of a list"),
        (
            Data(edge_index=LINE),
            r"PyG Data instead of a list of graphs; put it in a list: \[graph\]",
        ),
        (pd.DataFrame({"smiles": ["C"], "y": [1]}), "choose a column"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_list_of_graphs(graphs: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        from_objects(graphs)


def test_targets() -> None:
    four = [nx.path_graph(n) for n in (2, 3, 4, 5)]
    classes = from_objects(four, y=["b", "a", "b", "a"])
    assert (classes.task, classes.class_names) == ("classification", ("a", "b"))
    assert classes.y is not None
    assert classes.y.tolist() == [1, 0, 1, 0]
    numbers = from_objects(four, y=np.array([[0.5, 1], [1.5, 2], [np.nan, 3], [2, 4]]))
    assert (numbers.task, numbers.target_names) == ("regression", ("y0", "y1"))
    forced = from_objects(four, y=[0, 1, 0, 1], task="regression", name="mine")
    assert (forced.task, forced.name, forced.target_names) == ("regression", "mine", ("y",))
    series = pd.Series([1.5, 2, 3, 4], index=[7, 8, 9, 10], name="weight")
    assert from_objects(four, y=series).target_names == ("weight",)
    with pytest.raises(DataError, match="4 graphs, but 3 targets"):
        from_objects(four, y=[0, 1, 0])
    with pytest.raises(DataError, match=r"^graph 2: "):
        from_objects(four, y=["a", "b", None, "a"])


def test_targets_of_pyg_graphs() -> None:
    listed = [Data(edge_index=LINE, num_nodes=2, y=torch.tensor([i % 2])) for i in range(4)]
    data = from_objects(listed)
    assert (data.task, data.class_names) == ("classification", ("0", "1"))
    assert from_objects(Batch.from_data_list(listed)).y.equal(data.y)
    assert from_objects(listed, y=[0.1, 0.2, 0.3, 0.4]).task == "regression"
    assert from_objects([*listed, Data(edge_index=LINE, num_nodes=2)]).y is None
    assert read_objects(listed).y is None


def test_a_data_set_is_taken_as_it_is() -> None:
    data = from_objects([nx.path_graph(3), nx.star_graph(3)], y=[0.5, 1.5], features="degree")
    again = from_objects(data)
    assert again.x.equal(data.x)
    assert again.y is data.y
    assert again.feature_names == ("degree",)
    assert again.col.equal(data.col)
    assert from_objects(replace(data, groups=("a", "b"))).groups == ("a", "b")
    assert from_objects(data, features="attributes+structure").feature_names == (
        "degree",
        "eccentricity",
        "clustering",
    )


class TestMolecules:
    @pytest.fixture(autouse=True)
    def _needs_rdkit(self) -> None:
        pytest.importorskip("rdkit")
        pytest.importorskip("legs.data.readers.molecules")

    def test_smiles_and_molecules_are_alike(self) -> None:
        from rdkit import Chem

        smiles = ["CCO", "c1ccccc1", "CC(=O)O"]
        mixed: list[Any] = [smiles[0], Chem.MolFromSmiles(smiles[1]), smiles[2]]
        expected, found = from_objects(smiles), from_objects(mixed)
        assert expected.sizes.tolist() == [3, 6, 4]
        assert expected.info["features"] == ("chem",)
        assert found.x.equal(expected.x)
        assert found.col.equal(expected.col)

    @pytest.mark.parametrize("wrong", ["not a molecule", "", "C1CC"])
    def test_a_bad_smiles_is_named_by_its_place(self, wrong: str) -> None:
        with pytest.raises(DataError, match=r"^graph 2: "):
            from_objects(["CCO", "CC", wrong])
