"""ZINC: stand-ins are told, all of the paper's rows are there, interruptions cost nothing."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from legs.experiments import zinc
from legs.experiments.catalogue import run
from legs.experiments.paper_tables import paper_table
from tests.experiments.made import quick
from tests.experiments.studies import tiny

__all__ = ["tiny"]
pytestmark = pytest.mark.usefixtures("tiny")


def test_everything(tmp_path):
    request = quick(tmp_path, datasets=("zinc-bbab", "zinc-jbab"), models=("legs-fixed", "mean"))
    run("zinc", request)
    table = pd.read_csv(tmp_path / "results.csv").set_index(["data", "method"])
    own = table.loc["zinc-bbab", "legs-fixed"]
    assert own["difference"] == pytest.approx(own["mean"] - 0.548)
    stand_in = table.loc["zinc-jbab", "legs-fixed"]
    assert (stand_in["paper_mean"], stand_in["paper_note"]) == (0.685, "JBCD")
    assert pd.isna(stand_in["difference"])
    assert table.loc["zinc-fbab", "gin"]["status"] == "not run"
    page = (tmp_path / "results.md").read_text()
    for words in ("**JBAB stands in for the paper's JBCD**", "(0.685*)", "0.685 ± 0.017 (JBCD)"):
        assert words in page
    targets = pd.read_csv(tmp_path / "targets.csv")
    assert set(targets["data"]) == {"zinc-bbab", "zinc-jbab"}


def test_every_row_of_the_paper_is_planned():
    planned = {(cell.method, cell.data) for cell in zinc.plan(quick("x"))}
    stand_in = {"jbcd": "jbab"}
    paper = {
        (method, f"zinc-{stand_in.get(tranche, tranche)}")
        for method, tranche in paper_table("zinc")
    }
    assert paper <= planned
    assert {method for method, _ in planned - paper} == {"mean"}


def test_interrupted(tmp_path, monkeypatch):
    # The trial of what is faster may end otherwise, and then numbers differ in rounding.
    monkeypatch.setattr("legs.training.cv_runner.choose_way", lambda *args, **more: "stacked")
    """Cells before are kept, the rest is done, and ends as without an interruption."""
    models = ("baseline", "legs-attn-fcn", "mp-legs-fcn")
    request = quick(tmp_path / "a", datasets=("zinc-fbab",), models=models)

    def stop(facts):
        if facts.title.startswith("zinc-fbab, mp-legs-fcn") and facts.facts:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("zinc", request, stop)
    kept = json.loads((tmp_path / "a" / "results.json").read_text())["rows"]
    assert {row["method"] for row in kept} == {"legs-attn-fcn"}
    seen = []
    run("zinc", request, seen.append)
    assert {facts.title for facts in seen} == {"zinc-fbab, mp-legs-fcn", "zinc-fbab, baseline"}
    run("zinc", quick(tmp_path / "b", datasets=("zinc-fbab",), models=models))
    both = [
        json.loads((tmp_path / name / "results.json").read_text())["rows"] for name in ("a", "b")
    ]
    for one, other in zip(*both, strict=True):
        assert (one["scores"], one["train"]) == (other["scores"], other["train"])
        assert one.get("importance") == other.get("importance")


def test_cells_of_another_folder_serve(tmp_path):
    """As when networks ran on one machine and the rest on another."""
    run("zinc", quick(tmp_path / "a", datasets=("zinc-bbab",), models=("baseline",)))
    seen = []
    request = quick(
        tmp_path / "b",
        datasets=("zinc-bbab",),
        models=("baseline", "mean"),
        reuse=(tmp_path / "a",),
    )
    report = run("zinc", request, seen.append)
    assert {facts.title for facts in seen} == {"zinc-bbab, mean"}
    assert report.table["method"].tolist() == ["baseline", "mean"]


def test_rotations_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--rotations is for tables of accuracies"):
        run("zinc", quick(tmp_path, rotations=1))
