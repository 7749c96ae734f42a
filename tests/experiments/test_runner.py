"""Cells are run once, go on after interruptions, and fail one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from legs.data.errors import DataError
from legs.experiments import cells, runner
from legs.experiments.cells import make_cell
from legs.experiments.ledger import FILE, Ledger
from legs.experiments.runner import run_cells
from legs.training import TrainingError, cross_validate
from tests.experiments.made import made_set, quick, small

__all__ = ["small"]
pytestmark = pytest.mark.usefixtures("small")


def plan(request, methods=("baseline", "legs-fixed", "gs-svm"), sets=("MUTAG",)):
    return [make_cell(request, data, method) for data in sets for method in methods]


def run(folder, chosen=None, progress=lambda facts: None, **more):
    request = quick(folder, **more)
    ledger = Ledger(request.folder, "classification")
    run_cells(request, chosen or plan(request), ledger, {"quick": True}, progress)
    return ledger


def test_rows_are_those_of_a_cross_validation(tmp_path):
    ledger = run(tmp_path)
    known = json.loads((tmp_path / FILE).read_text())
    assert [row["cell"] for row in known["rows"]] == [cell.key for cell in plan(quick(tmp_path))]
    (cell, *_) = plan(quick(tmp_path))
    alone = cross_validate(made_set("MUTAG"), ["baseline"], cell.options, workers=1)
    row = ledger.rows[cell.key]
    assert row["scores"] == pytest.approx([100 * s for s in alone.methods[0].scores], abs=1e-3)
    assert row["mean"] == pytest.approx(np.mean(row["scores"]), abs=1e-3)
    assert row["std"] == pytest.approx(np.std(row["scores"]), abs=1e-3)
    assert row["guess"] == pytest.approx([100 * g for g in alone.guess], abs=1e-3)
    assert (row["models"], row["parameters"]) == (5, alone.methods[0].parameters)
    assert row["chosen"] == ["lr=0.01"] * 5
    assert row["test_fraction"] == pytest.approx(1 / 4)
    for name in ("device", "machine", "versions", "date", "seconds", "protocol"):
        assert row[name]


def test_interrupted_inside_a_cell(tmp_path):
    """The cells before are kept, the rest is done, nothing is done twice; the time adds up."""

    def stop(facts):
        if facts.facts and facts.title.endswith("gs-svm") and facts.facts.first == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop)
    first = json.loads((tmp_path / FILE).read_text())["rows"]
    assert [row["method"] for row in first] == ["baseline", "legs-fixed"]
    before = float((tmp_path / "cells" / "MUTAG-gs-svm" / "seconds.json").read_text())
    seen = []
    ledger = run(tmp_path, progress=seen.append)
    assert {facts.title for facts in seen} == {"MUTAG, gs-svm"}
    assert seen[0].done == 2
    assert min(facts.facts.done for facts in seen if facts.facts) == 3  # machines kept
    rows = list(ledger.rows.values())
    assert rows[:2] == first
    assert rows[2]["seconds"] > before > 0
    calm = run(tmp_path / "calm")
    assert [row["scores"] for row in rows] == [row["scores"] for row in calm.rows.values()]
    seen.clear()
    run(tmp_path, progress=seen.append)
    assert not seen


def test_results_alone_are_enough(tmp_path):
    """Without the folders of the cells, and without loading a data set."""
    run(tmp_path)
    first = (tmp_path / FILE).read_text()
    for file in sorted((tmp_path / "cells").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cells, "load", None)
        run(tmp_path)
    assert (tmp_path / FILE).read_text() == first


def test_what_cannot_be_done_is_left_out(tmp_path, monkeypatch):
    def load(name, features):
        if name == "DD":
            raise DataError("there is no DD here")
        return made_set(name)

    def train(data, methods, *given, **more):
        if methods == ["gcn"]:
            raise TrainingError("the loss is not a number")
        return cross_validate(data, methods, *given, **more)

    monkeypatch.setattr(cells, "load", load)
    monkeypatch.setattr(runner, "cross_validate", train)
    request = quick(tmp_path)
    chosen = plan(request, ("gcn", "baseline"), ("DD", "MUTAG"))
    ledger = run(tmp_path, chosen)
    assert list(ledger.rows) == ["MUTAG-baseline"]
    assert ledger.left_out == {
        "DD-gcn": "DD, gcn: there is no DD here",
        "DD-baseline": "DD, baseline: there is no DD here",
        "MUTAG-gcn": "MUTAG, gcn: the loss is not a number",
    }
    assert json.loads((tmp_path / FILE).read_text())["left_out"] == ledger.left_out
    with pytest.raises(DataError, match="no DD here"):
        run(tmp_path / "none", plan(request, ("baseline",), ("DD",)))
    with pytest.raises(DataError, match="no DD here"):  # whatever else is in the folder
        run(tmp_path, plan(request, ("baseline",), ("DD",)))


def test_no_cell_is_begun_late(tmp_path):
    ledger = run(tmp_path, minutes=0)
    assert not ledger.rows
    assert set(ledger.left_out.values()) == {"no time was left; the same command goes on"}


def test_fewer_models_where_memory_is_short(tmp_path, monkeypatch):
    """On a GPU; halved until it suffices, with what was kept before."""
    asked = []

    def train(data, methods, options, *, chunk, way, device, **more):
        asked.append((chunk, way, device))
        if chunk > 2:
            raise torch.OutOfMemoryError
        return cross_validate(data, methods, options, chunk=chunk, way=way, **more)

    monkeypatch.setattr(runner, "cross_validate", train)
    monkeypatch.setattr(runner, "check_device", lambda device: None)
    monkeypatch.setattr(runner, "provenance", lambda device, sharing=1: {"device": device})
    ledger = run(tmp_path, plan(quick(tmp_path), ("baseline",)), device="cuda")
    assert asked == [(180, "stacked", "cuda"), (2, "stacked", "cuda")]
    assert ledger.rows["MUTAG-baseline"]["models"] == 5
    monkeypatch.setattr(runner, "cross_validate", lambda *a, **k: (_ for _ in ()).throw(
        torch.OutOfMemoryError("no memory")))  # fmt: skip
    with pytest.raises(TrainingError, match=r"one model by itself; try --device cpu$") as told:
        run(tmp_path / "b", plan(quick(tmp_path), ("baseline",)), device="cuda")
    # Else what did not fit would stay in memory as long as the error does.
    assert told.value.__context__ is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_told(tmp_path):
    with pytest.raises(ValueError, match="no CUDA device was found"):
        run(tmp_path, device="cuda")


def test_learned_scales_are_kept(tmp_path):
    ledger = run(tmp_path, plan(quick(tmp_path), ("legs-rbf", "baseline")))
    found = ledger.rows["MUTAG-legs-rbf"]["scales"]
    assert np.shape(found["weights"]) == (5, 5, 16)
    assert np.shape(found["expected"]) == np.shape(found["hardened"]) == (5, 5)
    np.testing.assert_allclose(np.sum(found["weights"], -1), 1, atol=1e-3)
    np.testing.assert_allclose(
        np.array(found["weights"]) @ np.arange(1, 17), found["expected"], atol=1e-2
    )
    assert "scales" not in ledger.rows["MUTAG-baseline"]


def test_shuffled_labels_are_chance(tmp_path, monkeypatch):
    """With labels at random nothing is left to be learned; with the right ones there is."""
    monkeypatch.setattr(cells, "QUICK_EPOCHS", 60)
    monkeypatch.setattr(cells, "load", lambda name, features: made_set(name, graphs=120))
    found = {}
    for shuffled in (False, True):
        request = quick(tmp_path, shuffled=shuffled)
        ledger = run(tmp_path, plan(request, ("legs-fixed",)), shuffled=shuffled)
        found[shuffled] = ledger.rows[plan(request, ("legs-fixed",))[0].key]["mean"]
    assert found[False] > 60
    assert found[True] < 35
