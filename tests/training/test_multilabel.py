"""Several labels per graph, some of them missing."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch.nn import functional as F

import legs
from legs.data.errors import BadRows, DataError
from legs.data.readers.targets import encode_targets
from legs.training import Task, fit
from legs.training.cv.models import Job, Shared, train_networks
from legs.training.stacked.loss import StackedLoss
from tests.training.made import QUICK, made_data, made_split

NAMES = ("ring", "large", "rare", "same")


def made_labels(missing=True):
    data = made_data()
    large = data.sizes > 8
    rare = torch.arange(len(data)) % 7 == 0
    columns = [data.y.bool(), large, rare, torch.ones_like(large)]
    y = torch.stack(columns, dim=1).float()
    if missing:
        hidden = torch.rand(y.shape, generator=torch.Generator().manual_seed(1)) < 0.2
        hidden[:, 0] &= hidden[:, 1]
        y[hidden] = torch.nan
    return replace(data, y=y, task="multilabel", class_names=(), target_names=NAMES)


@pytest.mark.parametrize("balanced", [False, True])
def test_loss_against_a_loop(balanced):
    data = made_labels()
    task = Task.of(data, torch.arange(40), balanced)
    out = torch.randn(len(data), 4, dtype=torch.float64)
    target = task.targets(data.y.double())
    total = weight = 0.0
    for i in range(len(data)):
        for k in range(4):
            if not data.y[i, k].isnan():
                train = data.y[:40, k]
                times = 1.0
                if balanced and data.y[i, k] == 1:
                    zeros, ones = int((train == 0).sum()), int((train == 1).sum())
                    times = max(zeros, 1) / max(ones, 1)
                one = F.binary_cross_entropy_with_logits(out[i, k], target[i, k])
                total, weight = total + times * float(one), weight + times
    assert float(task.loss(out, target)) == pytest.approx(total / weight, rel=1e-6)
    stacked = StackedLoss([task, task], data.y.double(), torch.float64)
    index = torch.arange(len(data))
    both = stacked.terms(torch.stack([out, 2 * out]), index)
    for place, scores in enumerate((out, 2 * out)):
        for mine, alone in zip(both, task.terms(scores, target), strict=True):
            torch.testing.assert_close(mine[place], alone)
    # Only one of two models, its graphs in another order.
    some = stacked.terms(out[None, [5, 3]], torch.tensor([5, 3]), torch.tensor([1]))
    torch.testing.assert_close(some[0][0], task.terms(out, target)[0][[5, 3]])


def test_scores_against_scikit_learn():
    data = made_labels()
    task = Task.of(data, torch.arange(40))
    answers = torch.rand(len(data), 4, generator=torch.Generator().manual_seed(0))
    scores = task.scores(answers, data.y)
    precisions, areas = [], []
    for k in range(3):  # the fourth has one class
        there = ~data.y[:, k].isnan()
        y, p = data.y[there, k].numpy(), answers[there, k].numpy()
        precisions.append(average_precision_score(y, p))
        areas.append(roc_auc_score(y, p))
        # By all pairs of a one and a zero.
        pairs = p[y == 1][:, None] - p[y == 0][None]
        assert areas[-1] == pytest.approx(float((pairs > 0).mean() + (pairs == 0).mean() / 2))
    assert scores["average_precision"] == pytest.approx(np.mean(precisions))
    assert scores["roc_auc"] == pytest.approx(np.mean(areas))
    there = ~data.y.isnan()
    wanted = F.binary_cross_entropy(answers[there], data.y[there])
    assert scores["log_loss"] == pytest.approx(float(wanted), rel=1e-5)
    assert np.isnan(task.scores(answers[:, 3:], data.y[:, 3:])["roc_auc"])


def test_fit_save_and_load(tmp_path):
    pytest.importorskip("pandas")
    data, options = made_labels(), replace(QUICK, max_epochs=40, lr=0.01)
    fitted = fit(data, "legs-fcn", made_split(), options, directory=tmp_path / "run")
    assert fitted.scores["train"]["roc_auc"] > 0.7
    assert fitted.scores["guess"]["roc_auc"] == 0.5
    answers = fitted.predictor.predict(data)
    assert answers.shape == (60, 4) and bool(((answers >= 0) & (answers <= 1)).all())
    loaded = legs.load(tmp_path / "run" / "model")
    assert loaded.task.kind == "multilabel" and loaded.task.names == NAMES
    assert torch.equal(loaded.predict(data), answers)
    with open(tmp_path / "run" / "test_predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    test = fitted.split.test
    for row, graph in zip(rows, test.tolist(), strict=True):
        for k, name in enumerate(NAMES):
            probability = float(row[f"probability:{name}=1"])
            assert probability == pytest.approx(float(answers[graph, k]), abs=1e-5)


def test_missing_labels_do_not_count():
    data = made_labels()
    hidden = data.y.isnan()
    task = Task.of(data, torch.arange(60))
    out = torch.randn(60, 4, requires_grad=True)
    task.loss(out, data.y).backward()
    assert torch.equal(out.grad == 0, hidden)


def test_stacked_is_sequential():
    shared = Shared(made_labels(), replace(QUICK, precision="float64", balanced=True))
    jobs = [Job(k, made_split(), {}) for k in range(2)]
    stacked, alone = (
        train_networks("legs-fcn", jobs, shared, strategy) for strategy in ("stacked", "sequential")
    )
    for a, b in zip(stacked, alone, strict=True):
        torch.testing.assert_close(a.answers, b.answers, rtol=1e-5, atol=1e-6)
        assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-6)


def test_nothing_to_learn():
    data = made_labels(missing=False)
    with pytest.raises(ValueError, match="no label of the training graphs varies"):
        Task.of(replace(data, y=data.y[:, 3:], target_names=("same",)), torch.arange(60))
    with pytest.raises(ValueError, match="labels must be 0, 1 or NaN"):
        Task.of(replace(data, y=data.y * 2), torch.arange(60))
    with pytest.raises(ValueError, match="gs-svm predicts one class"):
        fit(data, "gs-svm", made_split(), QUICK)


def test_columns_of_a_table():
    table = {"a": np.array([0, 1, None, None, 2]), "b": np.array([True, None, False, None, True])}
    bad = BadRows("skip")
    targets = encode_targets(table, ["a", "b"], "multilabel", bad=bad)
    wanted = torch.tensor([[0, 1], [1, torch.nan], [torch.nan, 0]])
    torch.testing.assert_close(targets.y, wanted, equal_nan=True)
    assert [where for where, _ in bad] == ["row 4", "row 5"]
    assert "holds '2', not 0 or 1" in list(bad)[1][1]
    with pytest.raises(DataError, match="holds names; labels are 0 or 1"):
        encode_targets({"a": np.array(["yes", "no"])}, ["a"], "multilabel")


def test_command_line(tmp_path, capsys):
    pytest.importorskip("rdkit")
    pytest.importorskip("pandas")
    from legs.cli import main

    many = [f"{'C' * k}{tail}" for k in range(1, 16) for tail in ("O", "N", "c1ccccc1")]
    lines = [f"{s},{int('O' in s)},{'' if len(s) % 4 == 0 else int('c' in s)}" for s in many]
    (tmp_path / "data.csv").write_text("\n".join(["smiles,alcohol,ring", *lines]) + "\n")
    words = ["--target", "alcohol", "--target", "ring", "--task", "multilabel", "--epochs", "3"]
    run, out, table = (str(tmp_path / name) for name in ("run", "out.csv", "data.csv"))
    assert main(["train", table, *words, "-o", run]) == 0
    assert "average precision" in capsys.readouterr().out
    assert main(["predict", run, table, "-o", out]) == 0
    assert "ROC-AUC" in capsys.readouterr().out
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    data = legs.data.load(table, target=["alcohol", "ring"], task="multilabel")
    wanted = legs.load(tmp_path / "run" / "model").predict(data)
    for row, answers in zip(rows, wanted.tolist(), strict=True):
        predictions = [float(row[f"probability:{name}=1"]) for name in ("alcohol", "ring")]
        assert predictions == pytest.approx(answers, rel=1e-5)
    cv = [
        "cv",
        table,
        "--model",
        "legs-fixed",
        "--num-splits",
        "1",
        *words,
        "-o",
        str(tmp_path / "cv"),
    ]
    assert main(cv) == 0
    assert "mean AP, %" in capsys.readouterr().out
    for folder in (run, str(tmp_path / "cv")):
        assert main(["report", folder, "-o", str(tmp_path / "page.html")]) == 0


def test_classifier():
    from legs.sklearn import LEGSClassifier

    data = made_labels()
    y = data.y[:, :2].clone()
    y[:, 0].nan_to_num_()
    model = LEGSClassifier("legs-fcn", max_epochs=20, lr=0.01).fit(data, y)
    probabilities = model.predict_proba(data)
    assert probabilities.shape == (60, 2)
    assert np.array_equal(model.predict(data), probabilities > 0.5)
    assert model.classes_.tolist() == [0, 1]
