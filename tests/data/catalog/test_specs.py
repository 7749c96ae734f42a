"""Sets by name: found in any spelling, guessed at when misspelt, listed with their places."""

from __future__ import annotations

import pytest

from legs.data import available
from legs.data.catalog import fetch, specs
from legs.data.catalog.specs import ALIASES, COLLECTION, NAMED, tu
from legs.data.errors import DataError
from legs.data.statistics import paper_statistics
from tests.data.tu_sets import TWO_GRAPHS, write_zip


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """A data folder and a cache, both empty."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache" / "torch-legs"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NCI1", "NCI1"),
        ("nci1", "NCI1"),
        ("PTC", "PTC_MR"),
        ("ptc-mr", "PTC_MR"),
        ("IMDB-B", "IMDB-BINARY"),
        ("imdb_binary", "IMDB-BINARY"),
        ("Reddit-B", "REDDIT-BINARY"),
        ("REDDIT-12K", "REDDIT-MULTI-12K"),
        ("QM9", "qm9"),
        ("ZINC-BBAB", "zinc-bbab"),
        ("ki-P00918", "ki-p00918"),
    ],
)
def test_names_in_any_spelling(written, name):
    assert specs.lookup(written) is NAMED[name]


def test_every_alias_leads_somewhere():
    assert all(specs.lookup(alias) is NAMED[name] for alias, name in ALIASES.items())
    assert specs.lookup("") is None
    assert specs.lookup("no such set") is None


def test_the_papers_sets_are_all_there():
    paper = paper_statistics()
    assert len(paper) == 13
    for name, row in paper.items():
        assert specs.lookup(name).graphs == int(row["graphs"])


def test_other_names_of_the_collection():
    assert specs.lookup_tu("mutagenicity").name == "Mutagenicity"
    assert specs.lookup_tu("Brand-New_1").url.endswith("/Brand-New_1.zip")
    assert len(set(COLLECTION)) == len(COLLECTION)
    assert not {specs.lookup(name) for name in COLLECTION} - {None}


@pytest.mark.parametrize("name", ["", "a b", "../MUTAG", "MUTAG/x", "a" * 101, "é", "-x", "a\n"])
def test_names_no_set_can_have(name):
    with pytest.raises(DataError, match="there is no data set"):
        specs.lookup_tu(name)


@pytest.mark.parametrize(
    ("written", "meant"), [("MUTGA", "MUTAG"), ("redit-binary", "REDDIT-BINARY"), ("q9m", "qm9")]
)
def test_suggestions(written, meant):
    assert specs.suggestion(written) == f" Did you mean {meant}?"


def test_no_suggestion_for_nonsense():
    assert specs.suggestion("xyzzyxyzzyxyzzy") == ""


def test_available_says_where_sets_are(places):
    data, cache = places
    in_data = write_zip(data / "tu" / "NCI1.zip", TWO_GRAPHS)
    in_cache = write_zip(cache / "tu" / "PTC_MR.zip", TWO_GRAPHS)
    own = write_zip(data / "tu" / "Own-set.zip", TWO_GRAPHS)
    listed = {each.name: each for each in available()}
    assert list(listed) == [*NAMED, "Own-set"]
    assert (listed["NCI1"].origin, listed["NCI1"].where) == ("LEGS_DATA", str(in_data))
    assert listed["NCI1"].size == in_data.stat().st_size
    assert (listed["PTC_MR"].origin, listed["PTC_MR"].where) == ("cache", str(in_cache))
    assert listed["Own-set"].where == str(own)
    assert (listed["MUTAG"].origin, listed["MUTAG"].size) == ("download", None)
    assert listed["MUTAG"].where.endswith("/MUTAG.zip")
    assert listed["rna-puzzles"].origin == "by hand"
    assert "structures/rna_puzzles" in listed["rna-puzzles"].where
    assert "SYNTHETIC" in listed["protein-decoys"].note
    assert all(each.licence for each in listed.values())


def test_a_set_of_several_files_needs_them_all(places):
    data, _ = places
    known = NAMED["rna-puzzles"]
    first, second = (data / file for file in known.places[0])
    first.parent.mkdir(parents=True)
    first.write_text("x")
    assert specs.locate(known) is None
    second.write_text("y")
    assert specs.locate(known) == ("LEGS_DATA", [first, second])


def test_sets_inside_packages():
    inside = tu("x")._replace(places=(("numpy:no-such-file",), ("numpy:__init__.py",)))
    origin, paths = specs.locate(inside)
    assert origin == "package"
    assert paths == [fetch.find_in_package("numpy", "__init__.py")]


def test_all_real_sets_are_found(legs_data, monkeypatch):
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    missing = [each.name for each in available() if each.size is None and each.kind != "molecules"]
    assert missing == []
