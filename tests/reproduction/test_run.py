"""Quick runs of small experiments: files, resuming, reuse, cells side by side."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from legs.data.errors import DataError
from legs.io import FileError
from legs.models import ModelError
from reproduction import plan
from reproduction import run as module
from reproduction.cell import read_cell, read_cells
from reproduction.plan import Cell, experiment
from reproduction.run import NO_TIME, Shared, make_row, run
from tests.data.tu_sets import write_zip
from tests.reproduction.made import cells, made_set, quick, small
from tests.robustness.made import tu_parts

__all__ = ["small"]
pytestmark = pytest.mark.usefixtures("small")


def test_a_table_of_accuracies(tmp_path):
    request = quick(tmp_path, datasets=("MUTAG", "ENZYMES"), models=("legs-fcn", "baseline"))
    report = run("classification", request)
    rows = read_cells(tmp_path)
    keys = [f"{data}-{m}" for data in ("ENZYMES", "MUTAG") for m in ("baseline", "legs-fcn")]
    assert list(rows) == keys
    row = rows["MUTAG-legs-fcn"]
    assert len(row["scores"]) == 5
    assert row["mean"] == pytest.approx(np.mean(row["scores"]), abs=1e-3)
    assert {"seconds", "device", "machine", "versions", "date", "commit"} <= set(row)
    assert np.shape(row["scales"]["weights"]) == (5, 5, 16)
    assert report.table["data"].tolist() == ["ENZYMES", "ENZYMES", "MUTAG", "MUTAG"]
    page = (tmp_path / "results.md").read_text()
    for words in ("(quick)", "**Quick run", "82.98", "`legs reproduce`", "majority class"):
        assert words in page
    assert len(pd.read_csv(tmp_path / "comparisons.csv")) == 2
    assert (tmp_path / "parameters.svg").exists()


def test_finished_cells_are_skipped(tmp_path, monkeypatch):
    request = quick(tmp_path, datasets=("MUTAG",), models=("baseline",))
    run("classification", request)
    (file,) = (tmp_path / "cells").glob("*.json")
    before = file.read_bytes()
    monkeypatch.setattr(plan, "find_set", lambda *given: pytest.fail("it is finished"))
    run("classification", request)
    assert file.read_bytes() == before


def test_results_that_do_not_mix(tmp_path):
    request = quick(tmp_path / "a", datasets=("MUTAG",), models=("baseline",))
    run("classification", request)
    with pytest.raises(
        ModelError, match="quick results of classification with seed 0; choose another folder"
    ):
        run("classification", replace(request, seed=1))
    with pytest.raises(ModelError, match="results of classification"):
        run("ensemble", replace(request, models=("gcn",)))
    with pytest.raises(ModelError, match="holds quick results"):
        run("classification", replace(request, quick=False))
    with pytest.raises(ModelError, match=r"other settings \(options.rotations\)"):
        run("classification", replace(request, rotations=2))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    with pytest.raises(FileError, match="files of others"):
        run("classification", replace(request, folder=tmp_path / "b"))


def test_damage_is_reported(tmp_path):
    run("classification", quick(tmp_path, datasets=("MUTAG",), models=("baseline",)))
    (file,) = (tmp_path / "cells").glob("*.json")
    known = json.loads(file.read_text())
    file.write_text(json.dumps({**known, "mean": 99.0}))
    with pytest.raises(ModelError, match=r"MUTAG-baseline\.json"):
        read_cell(file)
    file.write_text(file.read_text()[:100])
    with pytest.raises(ModelError, match="is damaged"):
        read_cell(file)


def test_no_time_and_reuse(tmp_path, monkeypatch):
    request = quick(tmp_path / "a", datasets=("MUTAG",), models=("baseline",))
    late = run("classification", replace(request, folder=tmp_path / "late", minutes=0))
    assert late.rows == []
    assert f"Not run: {NO_TIME}." in late.notes
    run("classification", request)
    monkeypatch.setattr(plan, "find_set", lambda *given: pytest.fail("it is finished elsewhere"))
    other = replace(request, folder=tmp_path / "b", reuse=(tmp_path / "a",))
    run("classification", other)
    assert read_cells(tmp_path / "b") == read_cells(tmp_path / "a")
    with pytest.raises(ValueError, match="--reuse: there are no finished cells"):
        run("classification", replace(other, reuse=(tmp_path / "none",)))


def test_a_data_set_that_is_missing_does_not_stop_the_others(tmp_path, monkeypatch):
    def find(name, *given):
        if name == "MUTAG":
            raise DataError("MUTAG is not here")
        return made_set(name, *given)

    monkeypatch.setattr(plan, "find_set", find)
    request = quick(tmp_path, datasets=("MUTAG", "ENZYMES"), models=("baseline",))
    report = run("classification", request)
    assert "Not run: MUTAG, baseline: MUTAG is not here." in report.notes
    assert list(read_cells(tmp_path)) == ["ENZYMES-baseline"]
    with pytest.raises(DataError, match="MUTAG is not here"):
        run("classification", replace(request, folder=tmp_path / "b", datasets=("MUTAG",)))


def test_side_by_side(tmp_path, monkeypatch):
    monkeypatch.undo()  # workers load for themselves
    write_zip(tmp_path / "data" / "tu" / "MUTAG.zip", tu_parts(40), name="MUTAG")
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(
        "legs.training.cv.cross_validation.default_strategy", lambda *given, **more: "stacked"
    )
    request = quick(tmp_path / "one", datasets=("MUTAG",), models=("baseline", "gs-svm"))
    run("classification", request)
    run("classification", replace(request, folder=tmp_path / "two", at_once=2))
    one, two = read_cells(tmp_path / "one"), read_cells(tmp_path / "two")
    for name in ("scores", "fingerprint", "settings", "chosen"):
        assert [row[name] for row in one.values()] == [row[name] for row in two.values()]
    assert {row["device"].rpartition(", ")[2] for row in two.values()} == {"shared by 2"}


def test_the_longest_first(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        module, "make_row", lambda shared, cell: (started.append(cell.key), (None, NO_TIME))[1]
    )
    monkeypatch.setattr(module, "LocalEngine", lambda workers: _InProcess())
    request = quick(tmp_path, datasets=("MUTAG", "ENZYMES"), models=("baseline",), at_once=2)
    run("classification", request)
    assert started == ["ENZYMES-baseline", "MUTAG-baseline"]
    big, little = Cell("DD", "gcn"), Cell("MUTAG", "gcn")
    assert big.work > little.work == 90 * 188 * (17.93 + 19.79)


class _InProcess:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, work, shared, tasks, *, gpus=0):
        return [(number, work(shared, task)) for number, task in enumerate(tasks)]


@pytest.mark.parametrize(
    ("device", "at_once", "share"),
    [("cuda:1", 4, (0.15, 1)), ("cuda", 10, (0.1, None)), ("cuda", 1, None)],
)
def test_the_memory_of_a_gpu_is_shared(tmp_path, monkeypatch, device, at_once, share):
    given = []
    cuda = module.torch.cuda
    monkeypatch.setattr(cuda, "set_per_process_memory_fraction", lambda *args: given.append(args))
    known = SimpleNamespace(total_memory=10 * module.PROCESS_BYTES)
    monkeypatch.setattr(cuda, "get_device_properties", lambda device: known)
    monkeypatch.setattr(module, "run_cell", lambda *args: {})
    monkeypatch.setattr(module, "write_cell", lambda *args: None)
    request = replace(quick(tmp_path), device=device, at_once=at_once)
    make_row(Shared("classification", request, None), cells("classification")[0])
    assert given == ([] if share is None else [(pytest.approx(share[0]), share[1])])


def test_a_worker_starts_nothing_late(tmp_path):
    late = Shared("classification", quick(tmp_path), deadline=time.time() - 1)
    assert make_row(late, cells("classification")[0]) == (None, NO_TIME)


def test_less_training_data(tmp_path):
    run("reduced-training", quick(tmp_path, datasets=("MUTAG",), models=("baseline",)))
    rows = read_cells(tmp_path)
    fractions = {row["variant"]: row["test_fraction"] for row in rows.values()}
    assert fractions == pytest.approx(
        {"80/10/10": 6 / 54, "70/10/20": 12 / 48, "40/10/50": 1, "20/10/70": 42 / 18}
    )


def test_learning_rates(tmp_path):
    report = run("tuning", quick(tmp_path, models=("baseline",), datasets=("ENZYMES",)))
    (row,) = read_cells(tmp_path).values()
    assert np.shape(row["losses"]) == (2, 5)
    assert "mean" not in row  # nothing of the test sets
    assert report.table["method"].tolist() == ["baseline"]


def test_learned_scales(tmp_path):
    request = quick(tmp_path, datasets=("MUTAG",))
    run("scales", request)
    run("scales", replace(request, seed=1))
    assert set(read_cells(tmp_path)) == {"MUTAG-legs-fcn-seed-0", "MUTAG-legs-fcn-seed-1"}
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["data"].tolist() == ["before training", "MUTAG"]
    assert table["seeds"].tolist()[1] == 2
    assert (tmp_path / "responses.svg").exists()


def test_exchange_preferences(tmp_path, monkeypatch):
    matrix = pd.DataFrame(np.arange(36.0).reshape(6, 6))
    (tmp_path / "data" / "enzymes").mkdir(parents=True)
    matrix.to_csv(tmp_path / "data" / "enzymes" / "observed.csv")
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    report = run("enzymes", quick(tmp_path / "out", models=("gcn",)))
    (row,) = read_cells(tmp_path / "out").values()
    assert np.shape([one["distances"] for one in row["exchange"]["raw"]]) == (5, 6, 6)
    assert report.csv["results.csv"]["method"].tolist() == ["gcn", "gcn", "uniform"]
    assert {"observed"} <= set(report.table.columns)
    assert (tmp_path / "out" / "chords-observed.svg").exists()


@pytest.mark.parametrize("name", ["qm9", "zinc", "affinity", "structures"])
def test_regression(name, tmp_path):
    if name == "affinity":
        pytest.importorskip("rdkit", reason="fingerprints need torch-legs[chem]")
    data = experiment(name)["datasets"][0]
    extra = {"affinity": "morgan-ridge", "structures": "target-mean"}
    methods = tuple(filter(None, ("legs-fcn", "gcn", "mean", extra.get(name))))
    run(name, quick(tmp_path, datasets=(data,), models=methods))
    rows = read_cells(tmp_path)
    assert len(rows) == len(methods) * len(experiment(name)["variants"])
    for row in rows.values():
        assert np.isfinite([row["scores"], row["train"], row["r2"]]).all()
        assert ("importance" in row) == (row["method"] == "legs-fcn")
        if row["method"] == "mean":
            assert row["scores"] == pytest.approx(row["guess"], rel=1e-5)
    page = (tmp_path / "results.md").read_text()
    for words in ("Ranking", "Which paths matter", "Learned scales", "mean predictor", "Grid"):
        assert words in page
    files = {path.name for path in tmp_path.iterdir()}
    assert {"results.csv", "comparisons.csv", "parameters.svg"} <= files
    if name == "structures":
        both = {key: row for key, row in rows.items() if row["variant"] == "random"}
        means = {row["method"]: row["mean"] for row in both.values()}
        assert means["target-mean"] < means["mean"]  # targets differ by their mean
        assert "improvement.svg" in files
        targets = pd.read_csv(tmp_path / "targets.csv")
        assert set(targets["target"]) == {f"T{k}" for k in range(6)}


def test_no_target_is_in_two_parts():
    cell = next(c for c in cells("structures") if c.splitting == "targets")
    data = made_set("rna-puzzles")
    groups = np.asarray(data.groups)
    splits = cell.splits(data)
    tested = np.concatenate([split.test for split in splits])
    assert sorted(tested) == list(range(len(data)))
    for split in splits:
        parts = [set(groups[part]) for part in split]
        assert sum(map(len, parts)) == len(set.union(*parts)) == 6
    with pytest.raises(DataError, match="2 targets; at least three are needed"):
        cell.splits(data.subset(np.flatnonzero(np.isin(groups, ["T0", "T1"]))))
