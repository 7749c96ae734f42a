from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest
import torch

from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble, describe_features
from legs.data.readers.base import RawGraphs
from legs.data.readers.graph_files import read_folder
from tests.data.graph_text import sample, write

BOMB = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol1 "&lol;&lol;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="&lol1;"/></graph></graphml>"""


def as_networkx(raw: RawGraphs, number: int) -> Any:
    """One graph of those read, with each edge's weights of one direction added up."""
    low, high = raw.ptr[number].item(), raw.ptr[number + 1].item()
    graph = nx.DiGraph()
    graph.add_nodes_from(range(high - low))
    weights = torch.ones(raw.edge_index.shape[1]) if raw.edge_weight is None else raw.edge_weight
    for (a, b), weight in zip(raw.edge_index.T.tolist(), weights.tolist(), strict=True):
        if low <= a < high:
            before = graph.get_edge_data(a - low, b - low, {"weight": 0})["weight"]
            graph.add_edge(a - low, b - low, weight=before + weight)
    return graph


def check_same(raw: RawGraphs, number: int, expected: Any) -> None:
    matrix = nx.to_numpy_array(expected)
    assert (nx.to_numpy_array(as_networkx(raw, number)) == matrix).all()


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_formats_with_attributes(tmp_path: Path, suffix: str) -> None:
    graph = sample()
    write(tmp_path / f"one{suffix}", graph)
    write(tmp_path / f"two{suffix}", graph)
    raw = read_folder(tmp_path)
    assert raw.ids == ("one", "two")
    assert raw.ptr.tolist() == [0, 3, 6]
    assert raw.y is None
    check_same(raw, 1, graph)
    block = raw.blocks["attributes"]()
    column = dict(zip(block.names, block.x[:3].T.tolist(), strict=True))
    assert column == {"mass": [1.5, 2.5, 0.5], "charge": [0, -1, 0]}
    labels = raw.blocks["labels"]()
    assert labels.names == ("label=C", "label=O")
    assert labels.x[3:].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert assemble(raw, "attributes+labels").x.shape == (6, 4)


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_all_node_data_are_used_by_default(tmp_path: Path, suffix: str) -> None:
    graph = sample()
    nx.set_node_attributes(graph, "helix", "fold")
    nx.set_edge_attributes(graph, "single", "bond")
    write(tmp_path / f"one{suffix}", graph)
    data = assemble(read_folder(tmp_path))
    assert data.info["features"] == ("structure", "labels", "attributes")
    assert describe_features(data) == (
        "structure+labels+attributes: 6 per node; not used: node attribute fold, "
        "edge attribute bond"
    )


def test_labels_that_all_differ_are_used_where_asked_for(tmp_path: Path) -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: "C", 1: "O"}, "label")
    write(tmp_path / "one.graphml", graph)
    raw = read_folder(tmp_path)
    assert raw.default_features == ("structure",)
    assert assemble(raw, "labels").feature_names == ("label=C", "label=O")


@pytest.mark.parametrize("suffix", [".edgelist", ".edges", ".txt", ".csv"])
def test_edge_lists(tmp_path: Path, suffix: str) -> None:
    graph = nx.Graph([(0, 1), (1, 2), (2, 2)])
    nx.write_edgelist(graph, tmp_path / f"a{suffix}")  # "0 1 {}"
    (tmp_path / f"b{suffix}").write_text("# both ways\n\n0,1\n1,0\n1;2\n2\t1\n2 2\n")
    (tmp_path / f"c{suffix}").write_text("\ufeffSource,Target,Weight\n'x',y,2\ny,z,0.5\n")
    (tmp_path / f"d{suffix}").write_text("p q {'weight': 4.0, 'kind': 1}\n% note {\nq r {}\n")
    raw = read_folder(tmp_path)
    check_same(raw, 0, graph)
    check_same(raw, 1, graph)
    check_same(raw, 2, nx.Graph([(0, 1, {"weight": 2}), (1, 2, {"weight": 0.5})]))
    check_same(raw, 3, nx.Graph([(0, 1, {"weight": 4}), (1, 2)]))
    assert not raw.blocks


def test_parallel_edges_of_a_multigraph_stay(tmp_path: Path) -> None:
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    for suffix in (".graphml", ".gml", ".json"):
        write(tmp_path / f"a{suffix}", graph)
    raw = read_folder(tmp_path)
    assert raw.ids == ("a.gml", "a.graphml", "a.json")
    for i in range(3):
        check_same(raw, i, nx.Graph([(0, 1, {"weight": 2}), (1, 2)]))


def test_graphml_defaults_apply(tmp_path: Path) -> None:
    (tmp_path / "a.graphml").write_text(
        """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
        <key id="m" for="node" attr.name="mass" attr.type="double"><default>7</default></key>
        <key id="w" for="edge" attr.name="weight" attr.type="double"><default>3</default></key>
        <graph edgedefault="undirected"><node id="p"/><node id="q"><data key="m">1</data></node>
        <edge source="p" target="q"/></graph></graphml>"""
    )
    raw = read_folder(tmp_path)
    assert raw.blocks["attributes"]().x.tolist() == [[7], [1]]
    assert raw.edge_weight is not None
    assert raw.edge_weight.tolist() == [3, 3]


def test_unique_labels_are_names(tmp_path: Path) -> None:
    write(tmp_path / "a.gml", nx.path_graph(3))
    assert 'label "2"' in (tmp_path / "a.gml").read_text()
    assert read_folder(tmp_path).default_features == ("structure",)


def test_json_vectors_become_columns(tmp_path: Path) -> None:
    nodes = [{"id": [0, 1], "x": [1, 2]}, {"id": 1, "x": [3, 4]}]
    links = [{"source": [0, 1], "target": 1}]
    (tmp_path / "a.json").write_text(json.dumps({"nodes": nodes, "edges": links}))
    block = read_folder(tmp_path).blocks["attributes"]()
    assert block.names == ("x0", "x1")
    assert block.x.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_directed_graphs_need_a_choice(tmp_path: Path, suffix: str) -> None:
    arcs = nx.DiGraph([(0, 1, {"weight": 2.0}), (1, 0, {"weight": 5.0}), (1, 2, {"weight": 1.0})])
    write(tmp_path / f"arcs{suffix}", arcs)
    with pytest.raises(DataError, match=f"arcs{suffix}: a directed graph .*symmetrize"):
        read_folder(tmp_path, bad=BadRows("skip"))
    raw = read_folder(tmp_path, directed="symmetrize")
    check_same(raw, 0, nx.Graph([(0, 1, {"weight": 5}), (1, 2, {"weight": 1})]))


def test_directed_but_symmetric_is_undirected(tmp_path: Path) -> None:
    graph = nx.cycle_graph(5)
    write(tmp_path / "a.json", graph.to_directed())
    check_same(read_folder(tmp_path), 0, graph)


def test_edge_list_with_unequal_directions_is_directed(tmp_path: Path) -> None:
    (tmp_path / "a.edges").write_text("0 1 2\n1 0 3\n")
    with pytest.raises(DataError, match=r"a\.edges: a directed graph"):
        read_folder(tmp_path)
    raw = read_folder(tmp_path, directed="symmetrize")
    check_same(raw, 0, nx.Graph([(0, 1, {"weight": 3})]))
    with pytest.raises(DataError, match="'error' or 'symmetrize'"):
        read_folder(tmp_path, directed="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.edges", b"", "without nodes"),
        ("x.edges", b"0 1 nan\n", "has weight nan"),
        ("x.edges", b"0 1 -2\n", "has weight -2"),
        ("x.edges", b"0 1 1e39\n", "has weight 1e[+]39"),
        ("x.edges", b"0 1\n0 1 2 3\n", "line 2 has 4 columns"),
        ("x.edges", b"0 1 2\n0 1 3\n", "listed before with another weight"),
        ("x.edges", b"0 1 heavy\n", "edge 1 has weight heavy, not a number"),
        ("x.edges", b"\xff\xfe0 1\n", "UnicodeDecodeError"),
        ("x.json", b"{", "JSONDecodeError"),
        ("x.json", b"[1]", "not node-link JSON"),
        ("x.json", b"[" * 200_000, "RecursionError"),
        ("x.json", b'{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two nodes have the id 1"),
        ("x.json", b'{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "not there"),
        ("x.json", b'{"nodes": [], "links": []}', "without nodes"),
        ("x.gml", b"graph [ node [ id 0 ]", "cannot be read"),
        ("x.gml", b"graph [ node [ id 0 ] edge [ source 0 target 1 ] ]", "undefined target"),
        ("x.gml", b"graph [" + b"a [" * 5000, "RecursionError"),
        ("x.graphml", BOMB, "DOCTYPE"),
        ("x.graphml", BOMB.decode().encode("utf-16"), "DOCTYPE"),
        ("x.graphml", b"<graphml", "cannot be read"),
        (
            "x.graphml",
            b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph/><graph/></graphml>',
            "2 graphs in one file",
        ),
        (
            "x.graphml",
            b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node id="a"/>'
            b'<edge source="a" target="b"/></graph></graphml>',
            "not declared",
        ),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.edges").write_text("0 1\n")
    with pytest.raises(DataError, match=f"^{name}: .*{reason}"):
        read_folder(tmp_path)
    bad = BadRows("skip")
    assert read_folder(tmp_path, bad=bad).ids == ("good",)
    assert [row for row, _ in bad] == [name]


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legs.data.readers.graph_files.MOST_BYTES", 2**20)
    (tmp_path / "long.edges").write_bytes(b"0 1" + b" " * 2**20)
    with pytest.raises(DataError, match=r"long\.edges: .*files above 1 are not read"):
        read_folder(tmp_path)


def test_missing_attributes_and_labels_are_bad(tmp_path: Path) -> None:
    write(tmp_path / "a.json", sample())
    graph = sample()
    del graph.nodes["b"]["mass"]
    write(tmp_path / "b.json", graph)
    graph = sample()
    graph.nodes["b"]["charge"] = float("nan")
    write(tmp_path / "c.json", graph)
    graph = sample()
    del graph.nodes["c"]["label"]
    write(tmp_path / "d.json", graph)
    bad = BadRows("skip")
    raw = read_folder(tmp_path, bad=bad)
    assert raw.ids == ("a",)
    assert [row for row, _ in bad] == ["b.json", "c.json", "d.json"]
    assert "attribute 'mass' of node 1 is missing" in bad.rows[0].reason
    assert raw.blocks["attributes"]().x.shape == (3, 2)


def folder(path: Path, count: int = 4) -> Path:
    for i in range(count):
        write(path / f"00{i}.edges", nx.path_graph(i + 2))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("names", ["stem", "file", "path"])
def test_label_tables(tmp_path: Path, suffix: str, names: str) -> None:
    folder(tmp_path)
    form = {"stem": "00{}", "file": "00{}.edges", "path": "graphs/00{}.edges"}[names]
    rows = [3, 1, 0, 2]
    table = pd.DataFrame(
        {"kind": ["d", "b", "a", "b"], "mass": [3.5, 1.5, 0.5, 2.5]},
    )
    table.insert(1, "which", [form.format(i) for i in rows])
    path = tmp_path / f"labels{suffix}"
    if suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    raw = read_folder(tmp_path, target="mass")
    assert raw.ids == ("000", "001", "002", "003")
    assert raw.y is not None
    assert raw.y.flatten().tolist() == [0.5, 1.5, 2.5, 3.5]
    assert (raw.task, raw.target_names) == ("regression", ("mass",))
    raw = read_folder(tmp_path, target="kind")
    assert raw.y is not None
    assert [raw.class_names[i] for i in raw.y.tolist()] == ["a", "b", "b", "d"]
    with pytest.raises(DataError, match="which column is the target"):
        read_folder(tmp_path)


def test_table_rows_and_files_must_match(tmp_path: Path) -> None:
    folder(tmp_path)
    table = "file;y\n000;1.5\n001;2.5\n001;3.5\n009;1\n002;\n"
    (tmp_path / "my.table.csv").write_text(table)
    bad = BadRows("skip")
    raw = read_folder(tmp_path, bad=bad, table=tmp_path / "my.table.csv")
    assert raw.ids == ("000", "001")
    assert raw.y is not None
    assert raw.y.flatten().tolist() == [1.5, 2.5]
    assert list(bad) == [
        ("my.table.csv line 4", "a second row for '001'"),
        ("my.table.csv line 5", "no file '009', or more than one"),
        ("003.edges", "no row of the label table names it"),
        ("002.edges", "no value in the target column 'y'"),
    ]
    assert read_folder(tmp_path, bad=BadRows("skip")).ids == raw.ids  # the only table
    with pytest.raises(DataError, match="no column 'name'"):
        read_folder(tmp_path, id_column="name")


def test_id_column_is_told_from_class_numbers(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.gml", nx.path_graph(i + 1))
    (tmp_path / "targets.csv").write_text("y,graph\n1,3\n0,2\n1,1\n0,0\n")
    raw = read_folder(tmp_path)
    assert raw.y is not None
    assert raw.y.tolist() == [0, 1, 0, 1]
    assert (raw.class_names, raw.target_names) == (("0", "1"), ("y",))


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "holds no file with a known suffix"),
        ({"a.edges": "0 1"}, {"target": "y"}, "holds no label table"),
        ({"a.edges": "0 1", "labels.csv": ""}, {}, "labels.csv is empty"),
        ({"a.edges": "0 1", "labels.csv": "f,y\nb,1\n"}, {}, "the label table .*a.edges"),
        ({"a.edges": "0 1", "labels.csv": "f,y\na,1,2\n"}, {}, "labels.csv line 2: number"),
        ({"a.edges": "0 1", "labels.csv": "f,y\na,1\na,1,2\n"}, {}, "labels.csv line 3: number"),
        ({"a.edges": "0 1", "labels.parquet": "PAR1"}, {}, "labels.parquet is not a Parquet file"),
        ({"a.edges": "0 1", "labels.csv": "", "graphs.tsv": ""}, {}, "which is the label table"),
        ({"a.edges": "0 1"}, {"table": "labels.xlsx"}, "is no table"),
        ({"a.edges": "0 1"}, {"table": "labels.csv"}, "labels.csv is not there"),
    ],
)
def test_folders_that_cannot_be_used(
    tmp_path: Path, files: dict[str, str], options: dict[str, Any], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_folder(tmp_path, **options)


def test_not_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        read_folder(tmp_path / "nowhere")
