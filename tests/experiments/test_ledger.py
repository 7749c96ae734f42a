"""Finished cells on disk: found again, refused where settings differ, taken from other runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from legs.experiments.cells import make_cell
from legs.experiments.ledger import FILE, Ledger
from legs.experiments.request import Request
from legs.models import ModelError
from tests.experiments.made import row

FULL = Request(Path("x"))
GCN, GIN = (make_cell(FULL, "MUTAG", name) for name in ("gcn", "gin"))


def filled(folder, name="classification"):
    ledger = Ledger(folder, name)
    ledger.add(row(GCN), {"seed": 0})
    return ledger


def test_what_is_done_is_found(tmp_path):
    filled(tmp_path).add(row(GIN), {"seed": 0})
    text = (tmp_path / FILE).read_text()
    known = json.loads(text)
    assert (known["experiment"], known["seed"]) == ("classification", 0)
    assert [r["method"] for r in known["rows"]] == ["gcn", "gin"]
    assert len([line for line in text.splitlines() if line.startswith('{"cell"')]) == 2
    again = Ledger(tmp_path, "classification")
    assert again.find(GCN) == row(GCN)
    assert again.find(make_cell(FULL, "MUTAG", "gat")) is None


def test_other_settings_are_told(tmp_path):
    filled(tmp_path)
    changed = make_cell(replace(FULL, seed=1), "MUTAG", "gcn")
    with pytest.raises(ModelError, match=r"MUTAG, gcn.*other settings \(options\.training\.seed\)"):
        Ledger(tmp_path, "classification").find(changed)
    with pytest.raises(ModelError, match="holds results of classification"):
        Ledger(tmp_path, "ensemble")


def test_cells_of_other_runs(tmp_path):
    filled(tmp_path / "a")
    ledger = Ledger(tmp_path / "b", "ensemble", [tmp_path / "a"])
    same = replace(GCN, variant="80/10/10")
    assert ledger.find(same) == {**row(GCN), "cell": same.key, "variant": "80/10/10"}
    assert ledger.find(GIN) is None
    assert ledger.find(make_cell(replace(FULL, seed=1), "MUTAG", "gcn")) is None
    ledger.write({})
    assert Ledger(tmp_path / "b", "ensemble").find(same)["mean"] == 70
    with pytest.raises(ValueError, match="--reuse: there is no"):
        Ledger(tmp_path / "c", "ensemble", [tmp_path / "nothing"])


def test_damage_is_told(tmp_path):
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ModelError, match=r"results\.json is damaged: .*; delete it"):
        Ledger(tmp_path, "classification")
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match="is a file; -o takes a folder"):
        Ledger(file, "classification")
