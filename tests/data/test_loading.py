"""Data sets by name or path: prepared once, told apart by content, rebuilt when damaged."""

from __future__ import annotations

import csv
from dataclasses import fields, replace

import pytest
import torch

from legs.data.catalog import molecules, tu
from legs.data.catalog import specs as catalogue
from legs.data.errors import DataError
from legs.data.features.blocks import describe_features
from legs.data.loading import load
from legs.data.readers.base import Features, RawGraphs, Reader
from tests.data.tu_sets import TWO_GRAPHS, write_folder, write_zip
from tests.data.web import serve


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """A data folder and a cache, both empty; no address is the real one."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    set_address(monkeypatch, "http://127.0.0.1:9")
    return tmp_path / "data", tmp_path / "cache" / "torch-legs"


def set_address(monkeypatch, address: str) -> None:
    monkeypatch.setattr(catalogue, "TU_ADDRESS", address + "/{}.zip")
    for name in ("MUTAG", "NCI1"):
        other = catalogue.tu(name)._replace(sha256=None)  # not the published file
        monkeypatch.setitem(catalogue.NAMED, name, other)


@pytest.fixture
def reads(monkeypatch):
    """Counts how often a set is read from its source."""
    paths = []
    inner = tu.read_tu

    def read_tu(path, *, task=None, directed="error", bad=None):
        paths.append(path)
        return inner(path, task=task, directed=directed, bad=bad)

    monkeypatch.setattr(tu, "READER", replace(tu.READER, read=read_tu))
    return paths


def same(a, b) -> bool:
    def equal(x, y):
        return torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y

    return all(equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def entries(cache):
    return sorted(p.name for p in (cache / "prepared").iterdir())


def test_a_named_set_is_prepared_once(places, reads):
    data, _ = places
    write_zip(data / "tu" / "MUTAG.zip", TWO_GRAPHS, name="MUTAG")
    first = load("mutag")
    assert first.name == "MUTAG"
    assert first.info["bad_rows"] == 0
    assert "licence" in first.info
    assert same(load("MUTAG"), first)
    assert len(reads) == 1
    assert same(load("MUTAG", cache=False), first)
    assert len(reads) == 2


def test_all_node_data_of_a_tu_set_are_used_by_default(tmp_path, places):
    data, _ = places
    parts = {**TWO_GRAPHS, "edge_labels": "1\n" * 8}
    write_zip(data / "tu" / "MUTAG.zip", parts, name="MUTAG")
    for source in ("MUTAG", write_folder(tmp_path / "SET", parts)):
        found = load(source)
        assert found.info["features"] == ["structure", "labels", "attributes"]
        assert found.feature_names[:2] == ("eccentricity", "clustering")
        assert found.in_channels == 7
        assert describe_features(found) == (
            "structure+labels+attributes: 7 per node; not used: edge labels"
        )
        paper = load(source, features="structure")
        assert paper.x.tolist() == [[1, 1], [1, 1], [1, 1], [1, 0], [1, 0]]
        assert describe_features(paper) == (
            "structure: 2 per node; not used: labels, attributes, edge labels"
        )
    bare = {name: TWO_GRAPHS[name] for name in ("A", "graph_indicator", "graph_labels")}
    assert describe_features(load(write_folder(tmp_path / "BARE", bare))) == (
        "structure: 2 per node"
    )


def test_content_and_choices_have_entries_of_their_own(tmp_path, places, reads):
    folder = write_folder(tmp_path / "SET", TWO_GRAPHS)
    load(folder)
    both = load(folder, features=["labels", "attributes"])
    assert both.in_channels == 5
    assert load(folder, features="labels+attributes").in_channels == 5
    assert load(folder, task="regression").task == "regression"
    assert len(reads) == 3
    write_folder(folder, {"node_labels": "0\n1\n2\n3\n4\n"})
    assert load(folder, features="labels").in_channels == 5
    assert load(folder, features="labels").in_channels == 5
    assert len(reads) == 4
    assert len(entries(places[1])) == 4


def test_a_damaged_entry_is_rebuilt(tmp_path, places, reads):
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    first = load(path)
    (entry,) = (places[1] / "prepared").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[: len(content) // 2])
    assert same(load(path), first)
    assert len(reads) == 2
    assert entry.read_bytes() == content
    assert same(load(path), first)
    assert len(reads) == 2


def test_entries_of_other_code_are_dropped(tmp_path, places, monkeypatch):
    from legs.data.catalog import cache

    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    load(path)
    load(path, features="labels")
    before = entries(places[1])
    monkeypatch.setattr(cache, "_code", lambda: "f" * 64)
    load(path)
    after = entries(places[1])
    assert len(before) == len(after) == 2
    assert len(set(before) & set(after)) == 1


def test_a_cache_that_cannot_be_written_costs_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    with pytest.warns(UserWarning, match="SET was not kept in the cache"):
        assert len(load(path)) == 2


def test_a_broken_source_leaves_no_entry(tmp_path, places):
    path = write_zip(tmp_path / "SET.zip", {**TWO_GRAPHS, "A": "1, 2\n"})
    with pytest.raises(DataError, match="one direction only"):
        load(path)
    assert not (places[1] / "prepared").exists()
    assert len(load(path, directed="symmetrize")) == 2


def test_download_by_name(places, monkeypatch, tmp_path, reads):
    body = write_zip(tmp_path / "x.zip", TWO_GRAPHS, name="NCI1").read_bytes()
    with serve() as web:
        set_address(monkeypatch, web.address)
        web.files = {"/NCI1.zip": body, "/Fresh.zip": body}
        first = load("nci1")
        assert (places[1] / "tu" / "NCI1.zip").read_bytes() == body
        assert len(load("Fresh")) == 2
        with pytest.raises(DataError, match=r"no data set 'NCI11' here. Did you mean NCI1\?"):
            load("NCI11")
    assert same(load("NCI1"), first)
    assert len(reads) == 2
    assert len(entries(places[1])) == 2


def test_offline_says_what_to_do(places):
    with pytest.raises(DataError, match=r"download http://127.0.0.1:9/MUTAG.zip elsewhere and put"):
        load("MUTAG")
    with pytest.raises(DataError, match=r"Did you mean MUTAG\?"):
        load("MUTGA")


def test_bad_graphs_are_skipped_counted_and_written(tmp_path):
    parts = {**TWO_GRAPHS, "graph_labels": "1\n-1\n1\n"}
    path = write_zip(tmp_path / "SET.zip", parts)
    with pytest.raises(DataError, match="graph 3 has no nodes"):
        load(path)
    for _ in range(2):  # read, then from the cache
        data = load(path, on_error="skip", bad_file=tmp_path / "bad.csv")
        assert len(data) == 2
        assert data.info["bad_rows"] == 1
        with (tmp_path / "bad.csv").open(newline="") as file:
            header, row = csv.reader(file)
        assert header == ["where", "reason"]
        assert "SET_graph_indicator.txt" in row[0]
        assert row[1] == "graph 3 has no nodes"
        (tmp_path / "bad.csv").unlink()


def test_targets_can_be_chosen(tmp_path):
    parts = {**TWO_GRAPHS, "graph_attributes": "1, 2, 3\n4, 5, 6\n"}
    del parts["graph_labels"]
    path = write_zip(tmp_path / "SET.zip", parts)
    assert load(path).y.tolist() == [[1, 2, 3], [4, 5, 6]]
    data = load(path, target=["target_3", "target_1"])
    assert data.y.tolist() == [[3, 1], [6, 4]]
    assert data.target_names == ("target_3", "target_1")
    assert load(path, target="target_2").y.tolist() == [[2], [5]]
    with pytest.raises(DataError, match="no target 'gap'; There are: target_1, target_2, target_3"):
        load(path, target="gap")
    with pytest.raises(DataError, match="classification needs"):
        load(path, task="classification")


def test_rows_may_miss_some_of_several_targets(tmp_path):
    triangle, *_ = TWO_GRAPHS["A"].split("4, 5")
    parts = {
        "A": triangle,
        "graph_indicator": "1\n1\n1\n2\n3\n",
        "graph_attributes": "1, nan\n2.5,\nNA, 3\n",
    }
    path = write_zip(tmp_path / "SET.zip", parts)
    data = load(path)
    assert data.y.isnan().tolist() == [[False, True], [False, True], [True, False]]
    with pytest.raises(DataError, match="SET graph 3: no value of target_1"):
        load(path, target="target_1")
    some = load(path, target="target_1", on_error="skip")
    assert (some.ids, some.y.tolist()) == (("1", "2"), [[1], [2.5]])
    assert some.info["bad"] == [("SET graph 3", "no value of target_1")]
    assert some.info["bad_rows"] == 1


def test_limit(tmp_path, reads):
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    assert [len(load(path, limit=n)) for n in (1, 2, 3)] == [1, 2, 2]
    assert len(reads) == 1
    with pytest.raises(DataError, match="at least 1"):
        load(path, limit=0)


def test_options_that_do_not_apply(tmp_path):
    path = write_zip(tmp_path / "SET.zip", TWO_GRAPHS)
    for option in ("smiles_column", "id_column", "table", "k"):
        with pytest.raises(DataError, match=f"{option}= does not apply"):
            load(path, **{option: "x"})
    with pytest.raises(DataError, match="no targets to choose from"):
        load(path, target="x")
    with pytest.raises(DataError, match="no feature block 'colour'"):
        load(path, features="colour")


def test_readers_of_named_sets_are_called_as_agreed(places, monkeypatch):
    calls = []

    def read_zinc(tranche, *, limit=3):
        calls.append((tranche, limit))
        nodes = torch.arange(limit + 1)
        return RawGraphs(
            nodes,
            torch.empty(2, 0, dtype=torch.long),
            y=torch.arange(2.0 * limit).reshape(-1, 2),
            task="regression",
            target_names=("qed", "TPSA"),
            blocks={"atoms": lambda: Features(torch.ones(limit, 1), ("C",))},
            default_features=("atoms",),
            info={"note": "the reader's"},
        )

    monkeypatch.setitem(molecules.READERS, "zinc", Reader(read_zinc, frozenset({"limit"})))
    packed = places[0] / "zinc" / "zinc_tranches.parquet"
    packed.parent.mkdir()
    packed.write_bytes(b"1")

    data = load("zinc-bbab")
    assert (data.name, len(data), data.feature_names) == ("zinc-bbab", 3, ("C",))
    assert data.info["note"] == "the reader's"
    assert "ZINC" in data.info["licence"]
    assert len(load("ZINC-BBAB", target="TPSA", limit=2)) == 2
    assert calls == [("BBAB", 3)]
    assert len(load("zinc-bbab", limit=5)) == 5  # more than the reader gives by default
    assert len(load("zinc-jbab", limit=2)) == 2
    assert calls == [("BBAB", 3), ("BBAB", 5), ("JBAB", 2)]
    assert len(entries(places[1])) == 1
    with pytest.raises(DataError, match="zinc-bbab is a regression, not classification"):
        load("zinc-bbab", task="classification")


def test_a_table_of_molecules(tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "own.csv"
    path.write_text("smiles,kind\nCCO,a\nC1CC,b\nc1ccccc1,b\nCC,a\n")
    data = load(path, target="kind", on_error="skip", features="atoms+structure")
    assert len(data) == 3
    assert data.class_names == ("a", "b")
    assert data.info["bad_rows"] == 1
    assert "line 3" in data.info["bad"][0][0]
    assert same(load(path, target="kind", on_error="skip", features="atoms+structure"), data)


@pytest.mark.parametrize("name", ["MUTAG", "PTC", "IMDB-BINARY"])
def test_real_sets(legs_data, monkeypatch, name):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    first = load(name)
    again = load(name)
    assert same(first, again)
    assert load(name, features="structure").in_channels == 2
    assert first.y.min() == 0 and first.y.max() + 1 == first.out_channels
