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


def test_runs_that_asked_for_something_else_do_not_mix(tmp_path):
    ledger = Ledger(tmp_path, "classification")
    ledger.add(row(GCN), {"quick": False, "seed": 0})
    again = Ledger(tmp_path, "classification")
    again.check({"quick": False, "seed": 0})
    with pytest.raises(ModelError, match="holds results with seed 0, not 1; choose another"):
        again.check({"quick": False, "seed": 1})
    with pytest.raises(ModelError, match="holds results of a run without --quick"):
        again.check({"quick": True, "seed": 0})
    Ledger(tmp_path, "classification", same=("quick",)).check({"quick": False, "seed": 1})
    Ledger(tmp_path / "new", "classification").check({"quick": True, "seed": 3})


def test_what_another_experiment_does_not_keep_is_not_taken(tmp_path):
    losses = {k: v for k, v in row(GCN).items() if k not in ("mean", "std", "scores")}
    Ledger(tmp_path / "a", "tuning", needed=()).add({**losses, "losses": [[1.0]]}, {})
    assert Ledger(tmp_path / "b", "ensemble", [tmp_path / "a"]).find(GCN) is None
    ours = Ledger(tmp_path / "b", "tuning", [tmp_path / "a"], needed=("losses",))
    assert ours.find(GCN)["losses"] == [[1.0]]


@pytest.mark.parametrize(
    "change",
    [
        {"mean": None},
        {"mean": float("nan")},
        {"mean": "70"},
        {"scores": []},
        {"versions": None},
        {"seconds": None},
        {"device": 3},
    ],
)
def test_rows_that_are_none_are_damage(change, tmp_path):
    content = {"experiment": "classification", "rows": [{**row(GCN), **change}]}
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(ModelError, match="is damaged: its rows are not those of classification"):
        Ledger(tmp_path, "classification")
    with pytest.raises(ValueError, match=r"--reuse: .* holds no finished cells"):
        Ledger(tmp_path / "b", "classification", [tmp_path])


def test_other_peoples_files_stay(tmp_path):
    (tmp_path / FILE).write_text('{"my": "file", "rows": []}')
    with pytest.raises(ModelError, match="holds other results; choose another folder"):
        Ledger(tmp_path, "classification")
    (tmp_path / FILE).write_text('{"experiment": "dataset-stats", "rows": [{"data": "MUTAG"}]}')
    with pytest.raises(ModelError, match="holds results of dataset-stats; choose another"):
        Ledger(tmp_path, "classification")
    (tmp_path / "a" / FILE).mkdir(parents=True)
    with pytest.raises(ModelError, match="is a folder"):
        Ledger(tmp_path / "a", "classification")
