"""QM9: the table, the table by target, scales, paths; and the same again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from legs.data.qm9 import TARGETS
from legs.experiments import qm9
from legs.experiments.catalogue import run
from legs.experiments.paper_tables import paper_table
from legs.experiments.runner import GPU_CHUNK
from legs.training.cv_grid import stacks
from tests.experiments.made import quick
from tests.experiments.studies import tiny

__all__ = ["tiny"]
pytestmark = pytest.mark.usefixtures("tiny")


def test_everything(tmp_path):
    request = quick(tmp_path, models=("legs-fcn", "gcn", "mean"))
    report = run("qm9", request)
    assert report.table["method"].tolist() == ["legs-fcn", "gcn", "mean"]
    known = json.loads((tmp_path / "results.json").read_text())
    rows = {row["method"]: row for row in known["rows"]}
    assert known["learning_rates"] == [0.01]
    for row in rows.values():
        assert np.shape(row["by_target"]) == (2, 19)
        assert np.mean(row["by_target"], axis=1) == pytest.approx(row["scores"], rel=1e-4)
        assert row["guess"] == rows["mean"]["scores"]
        assert len(row["train"]) == len(row["r2"]) == 2
        assert row["splits"] == rows["mean"]["splits"]
    assert np.shape(rows["legs-fcn"]["scales"]["weights"]) == (2, 5, 16)
    assert np.shape(rows["legs-fcn"]["importance"]["by_target"]) == (16, 19)
    assert rows["mean"]["train"] == pytest.approx([1, 1])
    page = (tmp_path / "results.md").read_text()
    assert "nan" not in page.lower()
    for words in (
        "(quick)",
        "**Quick: not the paper's protocol.**",
        "| legs-fcn | lr=0.01 | qm9+structure |",
        "| mean | nothing to choose | none |",
        "## By target",
        "## By seed",
        "mean of 16 targets",
        "## Learned scales",
        "## Which paths matter",
        "## LEGS against every other method",
        "not run (0.247)",
    ):
        assert words in page
    targets = pd.read_csv(tmp_path / "targets.csv")
    assert targets["target"].tolist() == [*TARGETS, "mean"]
    assert targets["gcn"][6].endswith("(0.099)")  # the paper's for ZPVE
    names = {path.name for path in tmp_path.iterdir() if path.is_file()} - {".lock"}
    assert {path.name for path in report.files} == names
    assert {"comparisons.csv", "importance.csv", "importance.svg", "responses.png"} <= names
    before = (tmp_path / "results.json").read_text()
    run("qm9", request)
    assert (tmp_path / "results.json").read_text() == before


def test_without_the_rotational_constants():
    rng = np.random.default_rng(0)
    errors = rng.random((4, 19))
    errors[1, 17] = 40.0  # water
    row = {"targets": list(TARGETS), "by_target": errors.tolist(), "method": "gin"}
    found = qm9.without_rotations(row)
    np.testing.assert_allclose(found["scores"], errors[:, :16].mean(1))
    assert found["mean"] == pytest.approx(errors[:, :16].mean())
    printed = [v.mean for (t, m), v in paper_table("qm9_targets").items() if m == "gin"]
    assert qm9._paper_without("gin") == f"{np.mean(printed[:16]):.3f}"
    assert qm9._paper_without("mean") == ""


def test_every_number_of_the_paper_is_found():
    for (target, method), value in paper_table("qm9_targets").items():
        ours = list(TARGETS)[[t.casefold() for t in qm9.PAPER_TARGETS].index(target)]
        assert qm9.paper_target(ours, method) == value
    cells = {cell.method: qm9.paper(cell) for cell in qm9.plan(quick("x"))}
    assert [name for name, found in cells.items() if found is None] == ["mean"]


def test_full_size_is_one_stack():
    """Four seeds and all learning rates of a method are trained together."""
    for cell in qm9.plan(replace(quick("x"), quick=False)):
        if cell.method != "mean":
            assert cell.options.seeds == (0, 1, 2, 3)
            assert len(stacks(cell.options.grid)) == 1
            assert cell.models == 8 <= GPU_CHUNK
            assert cell.limit is None


def test_shuffled_targets_have_no_paper(tmp_path):
    report = run("qm9", quick(tmp_path, models=("baseline",), shuffled=True))
    assert report.title.endswith("targets shuffled")
    assert report.table["paper"].tolist() == [""]
    assert "comparisons.csv" not in {path.name for path in report.files}
