"""Explanations that are kept in the folder of a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from legs.explain import explain_folder, explain_run
from legs.explain.runs import drawn_graphs
from legs.report.folders import read_train
from legs.training import TrainingOptions, fit
from tests.training.made import made_data, made_split

QUICK = TrainingOptions(max_epochs=4, validate_every=2, batch_size=16, lr=1e-2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    fit(made_data("regression", weighted=True), "legs-fcn", made_split(), QUICK, directory=folder)
    return folder


def test_graphs_come_back_as_they_were(run):
    data = made_data("regression", weighted=True)
    with np.load(run / "shown.npz", allow_pickle=False) as kept:
        numbers = kept["numbers"]
    graphs = drawn_graphs(run / "shown.npz")
    assert len(graphs) == 8
    for number, graph in zip(numbers, graphs, strict=False):
        known = data[int(number)]
        assert torch.equal(graph.x, known.x)
        for one in (graph, known):
            size = known.num_nodes
            one.dense = torch.zeros(size, size).index_put_(tuple(one.edge_index), one.edge_weight)
        torch.testing.assert_close(graph.dense, known.dense)


def test_what_is_kept(run):
    file = explain_run(run)
    known = json.loads(file.read_text())
    assert known["kind"] == "regression"
    scores = json.loads((run / "results.json").read_text())["scores"]["test"]
    spread = json.loads((run / "model" / "model.json").read_text())["task"]
    relative = {
        name: scores[f"rmse:{name}"] / deviation
        for name, deviation in zip(spread["names"], spread["deviation"], strict=True)
    }
    for row, graph in zip(known["graphs"], drawn_graphs(run / "shown.npz"), strict=True):
        (found,) = row["found"]
        assert found["target"] == min(relative, key=relative.get)  # the best predicted
        assert len(found["nodes"]) == graph.num_nodes
        total = found["value"] - found["baseline"]
        rounding = 1e-4 * (abs(found["value"]) + abs(found["baseline"]))
        assert sum(found["nodes"]) + found["gap"] == pytest.approx(total, abs=rounding)
    before = file.stat().st_mtime_ns
    assert explain_folder(run) == file  # not again
    assert file.stat().st_mtime_ns == before
    explain_folder(run, ["heat", "edges"])
    rows = json.loads(file.read_text())["graphs"]
    assert [found["target"] for found in rows[0]["found"]] == ["heat", "edges"]
    with pytest.raises(ValueError, match="predicts no 'cold'"):
        explain_run(run, ["cold"])


def test_nothing_to_explain(run, tmp_path):
    assert explain_run(tmp_path) is None
    fit(made_data(), "gs-svm", made_split(), QUICK, directory=tmp_path / "svm")
    assert explain_run(tmp_path / "svm") is None
    (run / "shown.npz").rename(tmp_path / "kept.npz")
    assert explain_run(run) is None
    (tmp_path / "kept.npz").rename(run / "shown.npz")


def test_a_run_without_its_model_keeps_its_explanations(run, tmp_path):
    explain_run(run)
    (run / "model").rename(tmp_path / "model")
    try:
        assert explain_folder(run) == run / "explained.json"
        assert read_train(run).explained
    finally:
        (tmp_path / "model").rename(run / "model")
