"""The paper's numbers in the package: all of them, and as it prints them."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from legs.experiments.classification import METHODS
from legs.experiments.paper_tables import paper_table, printed
from legs.experiments.settings import SETS

SHARED = Path(__file__).parents[3] / "shared" / "paper" / "tables"
TABLES = {"classification": 117, "ensemble": 39, "reduced_training": 52, "enzyme_exchange": 3}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole(name):
    assert len(paper_table(name)) == TABLES[name]


def test_every_set_and_method_but_snowball_is_found():
    missing = {m for m in METHODS for s in SETS if printed("classification", s, m) is None}
    assert missing == {"snowball"}
    assert all(printed("ensemble", s, "gcn-legs-fcn") for s in SETS)
    assert all(printed("reduced_training", s, "20%, 10%, 70%") for s in SETS)


def test_numbers():
    assert printed("classification", "MUTAG", "legs-rbf") == (33.51, 4.34)
    assert printed("ensemble", "PTC_MR", "gcn-legs-fixed") == (58.11, 6.06)
    assert printed("enzyme_exchange", "", "legs-fixed") == (0.132, None)
    # Both tables have the same experiment in them.
    for name in SETS:
        column = printed("reduced_training", name, "80%, 10%, 10%")
        assert column == printed("classification", name, "legs-rbf")


def test_statistics_are_those_that_the_data_have():
    ours = (files("legs.experiments") / "paper" / "dataset_stats.csv").read_bytes()
    assert ours == (files("legs.data") / "paper_dataset_stats.csv").read_bytes()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper is not beside the repository")
def test_files_are_the_papers():
    for file in SHARED.glob("*.csv"):
        copy = (files("legs.experiments") / "paper" / file.name).read_text(encoding="utf-8")
        assert list(csv.reader(copy.splitlines())) == list(
            csv.reader(file.read_text(encoding="utf-8").splitlines())
        )
