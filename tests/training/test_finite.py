"""Numbers that overflow name the graph they come from; they never become an answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

import legs
from legs.cli import main
from legs.data.errors import DataError
from legs.models import create
from legs.models.saving import ModelError
from legs.nn import GraphBatchNorm
from legs.training import CVOptions, Predictor, cross_validate, fit
from legs.training.cv.models import Trained
from legs.training.cv.results import score_method
from legs.training.task import Task
from tests.training.made import QUICK, made_data, made_split


@pytest.fixture(scope="module")
def trained():
    """Models by name, with the data they were fitted on."""
    data = made_data(weighted=True)
    return data, {
        name: fit(data, name, made_split(), QUICK).predictor
        for name in ("legs-fcn", "gcn", "gs-svm")
    }


def spoilt(data, what, graph=3):
    """The same graphs, one of them with numbers that float32 cannot square or add up."""
    x, weight = data.x.clone(), data.edge_weight.clone()
    start, end = int(data.ptr[graph]), int(data.ptr[graph + 1])
    if what == "attributes":
        x[start:end, 1] = 1e30
    elif what == "nan":
        x[start, 1] = torch.nan
    else:
        weight[int(data.rowptr[start]) : int(data.rowptr[end])] = 3e38
    return replace(data, x=x, edge_weight=weight)


@pytest.mark.parametrize("what", ["attributes", "weights", "nan"])
@pytest.mark.parametrize("method", ["legs-fcn", "gcn", "gs-svm"])
def test_predictions_and_features_name_the_graph(method, what, trained):
    data, predictors = trained
    bad = spoilt(data, what)
    for ask in (predictors[method].predict, predictors[method].embed):
        with pytest.raises(DataError, match=r"graph 1 \(g3\)") as told:
            ask(bad[2:5])
        assert ("weights" if what == "weights" else "'noise'") in str(told.value)
        assert ask(bad[:3]).isfinite().all()


@pytest.mark.parametrize("method", ["legs-fcn", "gs-svm"])
def test_outcomes_that_are_not_finite_name_the_graph(method, trained, monkeypatch):
    """Each number is fine by itself, and still the model makes something else of them."""
    data, predictors = trained
    predictor = predictors[method]
    kind = Predictor if method == "legs-fcn" else type(predictor.answerer)
    features = predictor.embed(data[:4])
    features[2, 0] = torch.inf
    monkeypatch.setattr(kind, "embedding", lambda self, data: features)
    if method == "legs-fcn":
        out = torch.tensor([[0.5, 0.5], [0.5, 0.5], [torch.nan, 0.5], [0.5, 0.5]])
        monkeypatch.setattr(kind, "answers", lambda self, *rest: out)
    for ask in (predictor.predict, predictor.embed):
        with pytest.raises(DataError, match=r"graph 2 \(g2\).*not finite.*largest"):
            ask(data[:4])


def test_training_names_graph_and_column(trained):
    data, _ = trained
    bad = spoilt(data, "attributes")
    with pytest.raises(DataError, match=r"graph 3 \(g3\).*'noise'.*1e\+30"):
        fit(bad, "legs-fcn", made_split(), QUICK)
    with pytest.raises(DataError, match=r"graph 3 \(g3\).*weights"):
        cross_validate(spoilt(data, "weights"), ["gcn"], CVOptions(training=QUICK, folds=3))


def test_cross_validation_names_the_graph(trained, monkeypatch):
    data, _ = trained
    split = made_split()
    answers = torch.full((len(split.test), 2), 0.5)
    answers[1] = torch.nan
    model = Trained(answers, 0.0, 0, 0, 1, 0.0, "sequential")
    with pytest.raises(DataError, match=rf"graph {split.test[1]} \(g{split.test[1]}\).*not finite"):
        score_method(data, [[split]], "gcn", [[[model]]])


def test_a_task_with_numbers_that_are_none():
    known = {"kind": "regression", "names": ["a"], "class_weights": None, "mean": [0.0]}
    with pytest.raises(ValueError, match="finite"):
        Task.from_json({**known, "deviation": [float("nan")]})


def test_batch_norm_does_not_hide_infinity():
    norm = GraphBatchNorm(1)
    norm.bound_by(101)
    assert not norm.eval()(torch.tensor([[torch.inf]])).isfinite().any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_models_with_weights_that_are_no_numbers(value, trained, tmp_path):
    _, predictors = trained
    predictors["legs-fcn"].save(tmp_path / "good")
    description = json.loads((tmp_path / "good" / "model.json").read_text())
    tensors = load_tensors((tmp_path / "good" / "weights.safetensors").read_bytes())
    name = next(name for name in tensors if name.endswith("weight"))
    tensors[name].view(-1)[0] = value
    content = save_tensors(tensors)
    (tmp_path / "good" / "weights.safetensors").write_bytes(content)
    description["sha256"]["weights.safetensors"] = hashlib.sha256(content).hexdigest()
    (tmp_path / "good" / "model.json").write_text(json.dumps(description))
    with pytest.raises(ModelError, match=f"{name}.*not finite"):
        legs.load(tmp_path / "good")
    network = create("legs-fcn", 2, 2)
    next(network.parameters()).data.view(-1)[0] = value
    with pytest.raises(ModelError, match="not finite"):
        network.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_bounds_of_batch_norm_may_be_infinite(tmp_path):
    network = create("legs-fcn", 2, 2)
    assert any(value.isinf().any() for value in network.state_dict().values())
    network.save(tmp_path)
    legs.load(tmp_path)


def write_folder(folder, weights):
    """Triangles and paths in files of their own; ``weights`` of some, by number."""
    folder.mkdir()
    rows = ["file,kind"]
    for i in range(30):
        edges = [(0, 1), (1, 2), (2, 3)] + ([(3, 0)] if i % 2 else [])
        links = [
            {"source": a, "target": b, "weight": weights.get(i, {}).get("weight", 1 + i % 3)}
            for a, b in edges
        ]
        size = weights.get(i, {}).get("size", 1.0)
        nodes = [{"id": k, "size": size * (k + i % 5)} for k in range(4)]
        (folder / f"g{i:02}.json").write_text(json.dumps({"nodes": nodes, "links": links}))
        rows.append(f"g{i:02},{'ring' if i % 2 else 'path'}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder


BAD = {4: {"weight": 3e38}, 7: {"size": 1e30}}


def test_the_commands_name_the_file_or_skip_it(tmp_path, capsys):
    good, bad = write_folder(tmp_path / "good", {}), write_folder(tmp_path / "bad", BAD)
    run = tmp_path / "run"
    train = ["train", str(good), "-o", str(run), "--epochs", "2", "--features", "attributes"]
    assert main(train) == 0
    capsys.readouterr()
    for command in (
        ["train", str(bad), "-o", str(tmp_path / "no"), "--epochs", "2"],
        ["predict", str(run), str(bad), "-o", str(tmp_path / "no.csv")],
        ["embed", str(run), str(bad), "-o", str(tmp_path / "no.csv")],
        ["embed", str(run), str(bad), "-o", str(tmp_path / "no-parts")],
        ["cv", str(bad), "--model", "gcn", "-o", str(tmp_path / "no-cv"), "--epochs", "2"],
    ):
        assert main(command) == 1, command
        assert "g04.json" in capsys.readouterr().err, command
    out = tmp_path / "out.csv"
    assert main(["predict", str(run), str(bad), "-o", str(out), "--on-error", "skip"]) == 0
    found = pd.read_csv(out)
    assert len(found) == 30
    assert found.index[found["error"].notna()].tolist() == [4, 7]
    assert found.index[found["predicted:kind"].isna()].tolist() == [4, 7]
    assert found["error"][4].count("weight") and found["error"][7].count("'size'")
    assert main(["embed", str(run), str(bad), "-o", str(out), "--on-error", "skip"]) == 0
    assert len(pd.read_csv(out)) == 28
