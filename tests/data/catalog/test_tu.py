"""Sets in TUDataset's layout: what is read, and what broken files are answered with."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legs.data.catalog import tu as tu_files
from legs.data.catalog.tu import read_tu
from legs.data.errors import BadRows, DataError
from tests.data.tu_sets import TWO_GRAPHS, write_folder, write_zip


def edges(raw):
    return sorted(map(tuple, raw.edge_index.T.tolist()))


def test_reads_graphs_targets_and_features(tmp_path):
    raw = read_tu(write_folder(tmp_path, TWO_GRAPHS))
    assert raw.name == "SET"
    assert raw.ptr.tolist() == [0, 3, 5]
    assert edges(raw) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 4), (4, 3)]
    assert raw.edge_index.dtype == raw.ptr.dtype == torch.int64
    assert (raw.task, raw.class_names, raw.y.tolist()) == ("classification", ("-1", "1"), [1, 0])
    assert raw.ids == ("1", "2")
    assert raw.default_features == ("structure", "labels", "attributes")
    labels = raw.blocks["labels"]()
    assert labels.names == ("label=0", "label=2", "label=5")
    assert labels.x.argmax(1).tolist() == [0, 2, 0, 0, 1]
    assert torch.equal(labels.x.sum(1), torch.ones(5))
    attributes = raw.blocks["attributes"]()
    assert attributes.x.tolist() == [[0.5, 1], [1000, 2], [-1, 3], [0, 4], [7, 5]]
    assert attributes.x.dtype == torch.float32


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]
)
@pytest.mark.parametrize("inside", [None, "", "deep/raw/"])
def test_a_zip_reads_as_its_folder(tmp_path, compression, inside):
    folder = read_tu(write_folder(tmp_path / "folder", TWO_GRAPHS))
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS, inside=inside, compression=compression)
    raw = read_tu(path)
    assert edges(raw) == edges(folder)
    assert torch.equal(raw.y, folder.y)
    assert torch.equal(raw.blocks["attributes"]().x, folder.blocks["attributes"]().x)


def test_repeated_edges_count_once_and_loops_stay(tmp_path):
    parts = {**TWO_GRAPHS, "A": TWO_GRAPHS["A"] * 2 + "3, 3\n3,3\n", "edge_labels": "1\n" * 18}
    raw = read_tu(write_folder(tmp_path, parts))
    assert len(edges(raw)) == 9
    assert (2, 2) in edges(raw)
    assert raw.info["ignored"] == ["edge labels"]


def test_nodes_need_not_be_sorted_by_graph(tmp_path):
    # The two graphs again, nodes 3 and 4 exchanged.
    parts = {
        "A": "1,2\n2,1\n2,4\n4,2\n1,4\n4,1\n3,5\n5,3\n",
        "graph_indicator": "1\n1\n2\n1\n2\n",
        "graph_labels": "1\n-1\n",
        "node_labels": "0\n5\n0\n0\n2\n",
        "node_attributes": "0.5, 1\n1e3, 2\n0, 4\n-1, 3\n7, 5\n",
    }
    raw = read_tu(write_folder(tmp_path / "a", parts))
    plain = read_tu(write_folder(tmp_path / "b", TWO_GRAPHS))
    assert edges(raw) == edges(plain)
    assert raw.ptr.tolist() == [0, 3, 5]
    assert torch.equal(raw.blocks["attributes"]().x, plain.blocks["attributes"]().x)
    assert torch.equal(raw.blocks["labels"]().x, plain.blocks["labels"]().x)


def test_graphs_without_edges_crlf_blank_lines_and_a_missing_last_newline(tmp_path):
    parts = {"A": "\r\n", "graph_indicator": "1\r\n\r\n2\r\n2", "graph_labels": "a\r\nb\r\n\r\n"}
    raw = read_tu(write_folder(tmp_path, parts))
    assert raw.edge_index.shape == (2, 0)
    assert raw.ptr.tolist() == [0, 1, 3]
    assert raw.class_names == ("a", "b")


def test_classes_are_sorted_as_numbers(tmp_path):
    count = 12
    parts = {
        "A": "",
        "graph_indicator": "".join(f"{i + 1}\n" for i in range(count)),
        "graph_labels": "".join(f"{i}\n" for i in range(count)),
    }
    assert read_tu(write_folder(tmp_path, parts)).class_names == tuple(map(str, range(count)))


def test_several_columns_of_node_labels(tmp_path):
    parts = {**TWO_GRAPHS, "node_labels": "0, 7\n1, 7\n0, 7\n0, 8\n1, 8\n"}
    labels = read_tu(write_folder(tmp_path, parts)).blocks["labels"]()
    assert labels.names == ("label_1=0", "label_1=1", "label_2=7", "label_2=8")
    assert labels.x.tolist()[3] == [1, 0, 0, 1]


def test_regression_targets(tmp_path):
    parts = {**TWO_GRAPHS, "graph_attributes": "0.5, 2\n-1.25, 1e2\n"}
    labelled = read_tu(write_folder(tmp_path / "a", parts))
    assert labelled.task == "classification"
    raw = read_tu(tmp_path / "a", task="regression")
    assert raw.y.tolist() == [[0.5, 2.0], [-1.25, 100.0]]
    assert (raw.task, raw.target_names) == ("regression", ("target_1", "target_2"))
    del parts["graph_labels"]
    assert read_tu(write_folder(tmp_path / "b", parts)).task == "regression"
    with pytest.raises(DataError, match="needs SET_graph_labels"):
        read_tu(tmp_path / "b", task="classification")


def test_labels_can_be_regressed(tmp_path):
    raw = read_tu(write_folder(tmp_path, TWO_GRAPHS), task="regression")
    assert raw.y.tolist() == [[1.0], [-1.0]]


def test_without_targets(tmp_path):
    parts = {k: v for k, v in TWO_GRAPHS.items() if k != "graph_labels"}
    raw = read_tu(write_folder(tmp_path, parts))
    assert raw.y is None and raw.task is None
    assert raw.ptr.tolist() == [0, 3, 5]


def test_one_way_edges_are_an_error_or_symmetrized(tmp_path):
    parts = {**TWO_GRAPHS, "A": "1, 2\n2, 3\n3, 2\n4, 5\n"}
    folder = write_folder(tmp_path, parts)
    with pytest.raises(DataError, match=r"SET_A.txt line [14] .*one direction only"):
        read_tu(folder)
    raw = read_tu(folder, directed="symmetrize")
    assert edges(raw) == [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)]
    with pytest.raises(DataError, match="'error' or 'symmetrize'"):
        read_tu(folder, directed="ignore")


BROKEN = {
    "ragged": ("A", "1, 2\n2, 1, 3\n", r"SET_A.txt line 2 \('2, 1, 3'\): has 3 values, not 2"),
    "one end": ("A", "1, 2\n2\n", r"SET_A.txt line 2 .*has 1 values, not 2"),
    "word": ("A", "1, 2\n\n2, one\n", r"SET_A.txt line 3 .*'one' is not a whole number"),
    "decimal node": ("A", "1, 2.5\n", r"SET_A.txt line 1 .*'2.5' is not a whole number"),
    "empty field": ("A", "1, 2\n2,\n", r"SET_A.txt line 2 .*'' is not a whole number"),
    "node 0": ("A", "1, 2\n\n0, 1\n", r"SET_A.txt line 3 .*numbered from 1 to 5"),
    "node 6": ("A", "1, 6\n", r"SET_A.txt line 1 .*numbered from 1 to 5"),
    "huge node": ("A", "1, 99999999999\n", r"SET_A.txt line 1 .*too large"),
    "other graph": ("A", "1, 2\n2, 1\n3, 4\n4, 3\n", r"SET_A.txt line 3 .*two graphs, 1 and 2"),
    "nan node": ("A", "1, 2\n2, nan\n", r"SET_A.txt line 2 .*'nan'"),
    "binary": ("A", b"\x00\xff\xfe\n", r"SET_A.txt line 1"),
    "graph 0": ("graph_indicator", "1\n1\n0\n2\n2\n", r"indicator.txt line 3 .*from 1 to 2"),
    "graph 3": ("graph_indicator", "1\n1\n1\n2\n3\n", r"indicator.txt line 5 .*from 1 to 2"),
    "no graph": ("graph_indicator", "1\n1\n\n \n2\n2\n", r"indicator.txt line 4"),
    "no nodes": ("graph_indicator", "", r"graph_indicator.txt is empty"),
    "empty graph": ("graph_labels", "1\n-1\n1\n", r"graph 3 has no nodes"),
    "fewer labels": ("graph_labels", "1\n", r"indicator.txt line 4 .*from 1 to 1"),
    "missing label": ("graph_labels", "1\nnan\n", r"graph_labels.txt line 2"),
    "two labels": ("graph_labels", "1\n1, 2\n", r"graph_labels.txt line 2 .*2 values, not 1"),
    "one class": ("graph_labels", "1\n1\n", r"one class"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_files_are_named_with_their_line(tmp_path, fault):
    part, text, message = BROKEN[fault]
    with pytest.raises(DataError, match=message):
        read_tu(write_folder(tmp_path, {**TWO_GRAPHS, part: text}))


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("node_attributes", "1, 2\n1, nan\n1, 2\n1, 2\n1, 2\n", r"line 2 .*not a finite number"),
        ("node_attributes", "1, 2\n1, 2\n1, 2\n1, 1e99\n1, 2\n", r"line 4 .*not a finite number"),
        ("node_attributes", "1, 2\n1, x\n1, 2\n1, 2\n1, 2\n", r"line 2 .*'x' is not a number"),
        ("node_attributes", "1, 2\n1\n", r"line 2 .*1 values, not 2"),
        ("node_attributes", "1, 2\n1, 2\n", r"has 2 lines, but .* has 5"),
        ("node_labels", "1\n2\n3\n4\n5\n6\n", r"has 6 lines, but .* has 5"),
        ("node_labels", "1\n2\n3\nC\n5\n", r"node_labels.txt line 4 .*'C'"),
    ],
)
def test_broken_node_features_are_named_when_asked_for(tmp_path, part, text, message):
    raw = read_tu(write_folder(tmp_path, {**TWO_GRAPHS, part: text}))
    with pytest.raises(DataError, match=message):
        raw.blocks[part.removeprefix("node_")]()


@pytest.mark.parametrize("part", ["A", "graph_indicator"])
def test_missing_files_are_named(tmp_path, part):
    parts = {k: v for k, v in TWO_GRAPHS.items() if k != part}
    with pytest.raises(DataError, match=f"SET_graph_indicator|NAME_{part}"):
        read_tu(write_folder(tmp_path, parts))


@pytest.mark.parametrize("text", ["0.5\nx\n", "0.5\nnan\n", "0.5\ninf\n", "0.5\n\n"])
def test_broken_regression_targets(tmp_path, text):
    parts = {**TWO_GRAPHS, "graph_attributes": text}
    with pytest.raises(DataError, match=r"graph_attributes.txt line 2|graph_indicator.txt line 4"):
        read_tu(write_folder(tmp_path, parts), task="regression")


def test_a_very_long_line(tmp_path):
    parts = {**TWO_GRAPHS, "A": b"1, 2\n" + b"7" * 20_000_000}
    with pytest.raises(DataError, match=r"SET_A.txt line 2 .*has 1 values, not 2"):
        read_tu(write_folder(tmp_path, parts))


def test_bad_graphs_can_be_skipped(tmp_path):
    parts = {
        "A": TWO_GRAPHS["A"] + "6, 7\n7, 6\n",
        "graph_indicator": "1\n1\n1\n2\n2\n4\n4\n",
        "graph_labels": "cat\nnan\ndog\ndog\n",
        "node_labels": "0\n5\n0\n0\n2\n3\n9\n",
    }
    bad = BadRows("skip")
    raw = read_tu(write_folder(tmp_path, parts), bad=bad)
    assert raw.ids == ("1", "4")
    assert raw.class_names == ("cat", "dog")
    assert raw.ptr.tolist() == [0, 3, 5]
    assert edges(raw) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 4), (4, 3)]
    assert raw.blocks["labels"]().names == ("label=0", "label=3", "label=5", "label=9")
    reasons = [reason for _, reason in bad]
    assert len(bad) == 2
    assert "graph 3 has no nodes" in reasons[0]
    assert "line 2" in bad.rows[1].where


@pytest.mark.parametrize("name", ["../SET/SET_A.txt", "/etc/SET_A.txt", "SET/../../x", "a\\..\\b"])
def test_a_zip_with_paths_that_leave_it_is_refused(tmp_path, name):
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "1, 2\n")
    with pytest.raises(DataError, match="leaves the folder"):
        read_tu(path)


def test_sizes_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tu_files, "LARGEST", 20)
    with pytest.raises(DataError, match=r"more than 20 are not read"):
        read_tu(write_zip(tmp_path / "SET.zip", TWO_GRAPHS))
    with pytest.raises(DataError, match=r"more than 20 are not read"):
        read_tu(write_folder(tmp_path / "folder", TWO_GRAPHS))


def test_what_is_no_set(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="not a zip file"):
        read_tu(tmp_path / "no.zip")
    with pytest.raises(DataError, match="no such file"):
        read_tu(tmp_path / "none.zip")
    with pytest.raises(DataError, match=r"one file NAME_A\.txt; found: none"):
        read_tu(write_folder(tmp_path / "empty", {}))
    write_folder(tmp_path / "two", TWO_GRAPHS)
    with pytest.raises(DataError, match=r"OTHER_A\.txt, SET_A\.txt"):
        read_tu(write_folder(tmp_path / "two", TWO_GRAPHS, name="OTHER"))
    assert tu_files.is_tu(tmp_path / "two")
    assert not tu_files.is_tu(tmp_path / "empty")
    assert not tu_files.is_tu(tmp_path / "no.zip")


# Bytes that files are made of, so that changes often give nearly right ones.
_BYTES = st.binary(max_size=4) | st.sampled_from(
    [b"\n", b", ", b"1", b"0", b"-", b"nan", b"\r", b""]
)
_CHANGE = st.tuples(st.sampled_from(sorted(TWO_GRAPHS)), st.floats(0, 1), st.integers(0, 6), _BYTES)


def read_all(path) -> None:
    try:
        raw = read_tu(path)
        blocks = [block() for block in raw.blocks.values()]
    except DataError:
        return
    nodes = int(raw.ptr[-1])
    assert (raw.ptr.diff() > 0).all()
    assert raw.edge_index.numel() == 0 or int(raw.edge_index.min()) >= 0
    assert raw.edge_index.numel() == 0 or int(raw.edge_index.max()) < nodes
    assert all(block.x.shape == (nodes, len(block.names)) for block in blocks)
    assert all(bool(torch.isfinite(block.x).all()) for block in blocks)
    assert raw.y is None or len(raw.y) == len(raw.ptr) - 1


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=st.lists(_CHANGE, min_size=1, max_size=3))
def test_changed_files_are_read_or_refused(tmp_path_factory, changes):
    parts = {name: text.encode() for name, text in TWO_GRAPHS.items()}
    for part, place, removed, added in changes:
        start = int(place * len(parts[part]))
        parts[part] = parts[part][:start] + added + parts[part][start + removed :]
    read_all(write_folder(tmp_path_factory.mktemp("fuzz"), parts))


@settings(max_examples=200, deadline=None)
@given(place=st.floats(0, 1), removed=st.integers(0, 40), added=st.binary(max_size=8))
def test_changed_zips_are_read_or_refused(tmp_path_factory, place, removed, added):
    path = tmp_path_factory.mktemp("fuzz") / "SET.zip"
    method = zipfile.ZIP_LZMA if removed % 2 else zipfile.ZIP_DEFLATED
    data = write_zip(path, TWO_GRAPHS, compression=method).read_bytes()
    start = int(place * len(data))
    path.write_bytes(data[:start] + added + data[start + removed :])
    read_all(path)


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges_listed", "classes", "blocks"),
    [
        ("MUTAG", 188, 3371, 7442, ("-1", "1"), {"labels": 7}),
        ("ENZYMES", 600, 19580, 74564, tuple("123456"), {"labels": 3, "attributes": 18}),
        ("IMDB-BINARY", 1000, 19773, 193062, ("0", "1"), {}),
        ("PTC_MR", 344, 4915, 10108, ("-1", "1"), {"labels": 18}),
    ],
)
def test_real_sets(legs_data, name, graphs, nodes, edges_listed, classes, blocks):
    raw = read_tu(legs_data / "tu" / f"{name}.zip")
    assert len(raw.ptr) - 1 == len(raw.y) == graphs
    assert int(raw.ptr[-1]) == nodes
    assert raw.edge_index.shape[1] == edges_listed
    assert raw.class_names == classes
    assert {key: block().x.shape[1] for key, block in raw.blocks.items()} == blocks


def test_a_real_set_equals_its_lines(legs_data):
    """MUTAG read line by line, the slow way."""
    raw = read_tu(legs_data / "tu" / "MUTAG.zip")
    with zipfile.ZipFile(legs_data / "tu" / "MUTAG.zip") as archive:
        text = io.TextIOWrapper(archive.open("MUTAG/MUTAG_A.txt")).readlines()
        label = archive.read("MUTAG/MUTAG_node_labels.txt").split()
    expected = sorted((int(a) - 1, int(b) - 1) for a, b in (line.split(",") for line in text))
    assert edges(raw) == expected
    x = raw.blocks["labels"]().x
    assert np.array_equal(x.argmax(1).numpy(), np.array(label, dtype=int))
