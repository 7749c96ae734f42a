"""Structures: whole targets left out, errors by target, and CASP12 where there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from legs.data.errors import DataError
from legs.experiments import regression_cells, structures
from legs.experiments.catalogue import run
from legs.experiments.packed import find_set
from tests.experiments.made import quick
from tests.experiments.studies import made_regression, tiny

__all__ = ["tiny"]
pytestmark = pytest.mark.usefixtures("tiny")


def test_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    folder = tmp_path / "out"
    models = ("legs-fcn", "gcn", "mean", "target-mean")
    report = run("structures", quick(folder, datasets=("rna-puzzles",), models=models))
    known = json.loads((folder / "results.json").read_text())
    rows = {(row["variant"], row["method"]): row for row in known["rows"]}
    data = made_regression("rna-puzzles")
    for row in rows.values():
        tested = {name: group["tested"] for name, group in row["groups"].items()}
        if row["variant"] == "targets":  # every graph once
            assert sum(tested.values()) == len(data)
        else:
            assert sum(tested.values()) == 2 * 6
        squares = sum(group["squares"] for group in row["groups"].values())
        sizes = [len(data) / 3] * 3 if row["variant"] == "targets" else [6, 6]
        assert squares == pytest.approx(np.dot(row["scores"], sizes), rel=1e-4)
    # Targets differ by their mean: it helps where they are known, and is not to be had for others.
    known_mean, mean = rows["random", "target-mean"], rows["random", "mean"]
    assert known_mean["mean"] < mean["mean"]
    assert rows["targets", "target-mean"]["scores"] == rows["targets", "mean"]["scores"]
    page = (folder / "results.md").read_text()
    for words in (
        "4,008 **synthetic** decoys",
        "Not run: casp12, which was not found.",
        "casp12, random",
        "not run (144.14)",
        "![improvement over gcn](improvement.svg)",
    ):
        assert words in page
    assert "casp12" not in set(report.table["data"])
    targets = pd.read_csv(folder / "targets.csv")
    assert set(targets["target"]) == {f"T{k}" for k in range(6)}
    assert (folder / "improvement.png").exists()


def test_improvements():
    def row(squares):
        return {"groups": {"a": squares[0], "b": squares[1], "c": squares[2]}}

    def group(mean, squares, tested=2):
        return {"mean": mean, "squares": squares, "tested": tested}

    ours = row([group(60.0, 5.0), group(30.0, 20.0), group(50.0, 0.0, 0)])
    other = row([group(60.0, 10.0), group(30.0, 10.0), group(50.0, 0.0, 0)])
    assert structures.improvements(ours, other) == [("b", 30.0, -100.0), ("a", 60.0, 50.0)]


def test_no_target_is_in_two_parts():
    request = replace(quick("x"), quick=False)
    cell = next(c for c in structures.plan(request) if c.splitting == "targets")
    data = made_regression("rna-puzzles")
    groups = np.asarray(data.groups)
    splits = cell.splits(data)
    assert len(splits) == 6
    tested = []
    for split in splits:
        parts = [set(groups[part]) for part in split]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
        tested += split.test.tolist()
    assert sorted(tested) == list(range(len(data)))
    with pytest.raises(DataError, match="2 targets; three are needed"):
        cell.splits(data.subset(np.flatnonzero(np.isin(groups, ["T0", "T1"]))))


def test_casp12(tmp_path, monkeypatch):
    """Where a user has it, it is planned, and broken files are skipped; asked for in vain, told."""
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    assert structures.CASP12 not in {cell.data for cell in structures.plan(quick("x"))}
    assert {cell.data for cell in structures.whole(quick("x"))} == set(structures.SETS)
    monkeypatch.undo()
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    monkeypatch.setattr(regression_cells, "find_set", find_set)
    with pytest.raises(DataError, match="CASP12 was not found"):
        run("structures", quick(tmp_path / "a", datasets=("casp12",), models=("mean",)))
    (tmp_path / "structures" / "casp12").mkdir(parents=True)
    plan = [cell for cell in structures.plan(quick("x")) if cell.data == structures.CASP12]
    assert len(plan) == 2 * len(structures.METHODS)
    assert {cell.on_error for cell in plan} == {"skip"}
    assert structures.paper(plan[0]).note == ""
