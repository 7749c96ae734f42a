"""Losses, scales and scores against torch and scikit-learn."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn import metrics
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from legs.training import Task
from tests.training.made import TARGETS, made_data, made_split

TRAIN = torch.as_tensor(made_split().train)


def numbers(missing=()):
    """Three targets and predictions, some targets missing."""
    data = made_data("regression")
    y = data.y.clone()
    for row, column in missing:
        y[row, column] = torch.nan
    return replace(data, y=y)


def gradient(task, out, target):
    out = out.clone().requires_grad_()
    task.loss(out, target).backward()
    return out.grad


def test_classification_loss_is_torchs():
    task = Task.of(made_data(), TRAIN)
    out, y = torch.randn(20, 2, dtype=torch.float64), torch.randint(2, (20,))
    torch.testing.assert_close(task.loss(out, y), F.cross_entropy(out, y))
    expected = out.clone().requires_grad_()
    F.cross_entropy(expected, y).backward()
    torch.testing.assert_close(gradient(task, out, y), expected.grad)


def test_balanced_loss_is_torchs_weighted_cross_entropy():
    data = made_data()
    y = (torch.arange(60) % 10 == 0).long()
    task = Task.of(replace(data, y=y), TRAIN, balanced=True)
    expected = compute_class_weight("balanced", classes=np.arange(2), y=y[TRAIN].numpy())
    np.testing.assert_allclose(task.class_weights, expected, rtol=1e-6)
    out = torch.randn(60, 2)
    torch.testing.assert_close(task.loss(out, y), F.cross_entropy(out, y, task.class_weights))
    # A batch is weighted by what is in it.
    only = y == 0
    torch.testing.assert_close(task.loss(out[only], y[only]), F.cross_entropy(out[only], y[only]))


def test_regression_loss_is_torchs():
    task = Task.of(numbers(), TRAIN)
    out, target = torch.randn(2, 30, 3, dtype=torch.float64)
    torch.testing.assert_close(task.loss(out, target), F.mse_loss(out, target))
    expected = out.clone().requires_grad_()
    F.mse_loss(expected, target).backward()
    torch.testing.assert_close(gradient(task, out, target), expected.grad)


def test_missing_numbers_count_nowhere():
    out, target = torch.randn(2, 30, 3, dtype=torch.float64)
    target[torch.rand(30, 3) < 0.3] = torch.nan
    target[4] = torch.nan
    known = ~target.isnan()
    task = Task.of(numbers(), TRAIN)
    torch.testing.assert_close(task.loss(out, target), F.mse_loss(out[known], target[known]))
    grad = gradient(task, out, target)
    assert (grad[~known] == 0).all()
    expected = out.clone().requires_grad_()
    F.mse_loss(expected[known], target[known]).backward()
    torch.testing.assert_close(grad, expected.grad)
    # Nothing known at all: no loss, no gradient, no NaN.
    nothing = torch.full((30, 3), torch.nan, dtype=torch.float64)
    assert task.loss(out, nothing) == 0
    assert (gradient(task, out, nothing) == 0).all()


def test_scale_comes_from_known_training_numbers_only():
    data = numbers(missing=[(0, 0), (1, 2), (2, 2)])
    task = Task.of(data, TRAIN)
    trained = data.y[TRAIN].double().numpy()
    np.testing.assert_allclose(task.mean, np.nanmean(trained, axis=0), rtol=1e-6)
    np.testing.assert_allclose(task.deviation, np.nanstd(trained, axis=0), rtol=1e-5)
    other = data.y.clone()
    outside = torch.ones(60, dtype=torch.bool)
    outside[TRAIN] = False
    other[outside] = 1e6
    again = Task.of(replace(data, y=other), TRAIN)
    assert torch.equal(again.mean, task.mean)
    assert torch.equal(again.deviation, task.deviation)


def test_class_weights_come_from_training_graphs_only():
    data = made_data()
    task = Task.of(data, TRAIN, balanced=True)
    other = torch.zeros_like(data.y)
    other[TRAIN] = data.y[TRAIN]
    assert torch.equal(
        Task.of(replace(data, y=other), TRAIN, balanced=True).class_weights, task.class_weights
    )


def test_answers_undo_targets():
    data = numbers()
    task = Task.of(data, TRAIN)
    white = task.targets(data.y)
    torch.testing.assert_close(white[TRAIN].mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(white[TRAIN].std(0, correction=0), torch.ones(3))
    torch.testing.assert_close(task.answers(white), data.y)


def test_a_constant_target_beside_others_is_left_alone():
    data = numbers()
    y = data.y.clone()
    y[:, 1] = 0.1  # not exact in binary: the mean must still come out as 0.1
    task = Task.of(replace(data, y=y.repeat(50, 1)), torch.arange(3000))
    assert task.deviation[1] == 1
    assert task.targets(y)[:, 1].abs().max() < 1e-6


def test_class_scores_are_scikit_learns():
    task = Task("classification", ("a", "b", "c"))
    y = torch.tensor([0, 0, 0, 0, 1, 1, 0, 1])  # no graph of class c
    answers = torch.randn(8, 3).softmax(-1)
    chosen = answers.argmax(-1)
    found = task.scores(answers, y)
    known = chosen != 2  # scikit-learn warns of classes that are predicted but absent
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, chosen))
    recall = [(chosen[y == k] == k).double().mean().item() for k in (0, 1)]
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recall))
    expected = metrics.balanced_accuracy_score(y[known], chosen[known])
    assert task.scores(answers[known], y[known])["balanced_accuracy"] == pytest.approx(expected)
    expected = metrics.log_loss(y, answers.double(), labels=[0, 1, 2])
    assert found["log_loss"] == pytest.approx(expected, rel=1e-5)


def test_number_scores_are_scikit_learns():
    data = numbers()
    task = Task.of(data, TRAIN)
    y, answers = data.y, data.y + torch.randn(60, 3)
    found = task.scores(answers, y)
    assert found["r2"] == pytest.approx(metrics.r2_score(y.numpy(), answers.numpy()), rel=1e-5)
    scaled = metrics.mean_squared_error(y / task.deviation, answers / task.deviation)
    assert found["whitened_mse"] == pytest.approx(scaled, rel=1e-3)
    for k, name in enumerate(TARGETS):
        mae = metrics.mean_absolute_error(y[:, k], answers[:, k])
        rmse = metrics.root_mean_squared_error(y[:, k], answers[:, k])
        assert found[f"mae:{name}"] == pytest.approx(mae, rel=1e-5)
        assert found[f"rmse:{name}"] == pytest.approx(rmse, rel=1e-5)


def test_scores_of_missing_numbers():
    data = numbers()
    task = Task.of(data, TRAIN)
    answers, y = data.y + torch.randn(60, 3), data.y.clone()
    y[::2, 0] = torch.nan
    y[:, 2] = torch.nan  # never known: must not look like a perfect prediction
    found = task.scores(answers, y)
    known = slice(1, None, 2)
    r2 = [
        metrics.r2_score(y[known, 0].numpy(), answers[known, 0].numpy()),
        metrics.r2_score(y[:, 1].numpy(), answers[:, 1].numpy()),
    ]
    assert found["r2"] == pytest.approx(np.mean(r2), rel=1e-5)
    assert f"rmse:{TARGETS[1]}" in found
    assert f"rmse:{TARGETS[2]}" not in found
    assert np.isnan(task.scores(answers, torch.full_like(y, torch.nan))["r2"])


def test_scores_of_a_truth_that_does_not_vary():
    task = Task.of(numbers(), TRAIN)
    y = torch.full((4, 3), 0.1)
    answers = y + torch.tensor([0.0, 1.0, 2.0])
    assert task.scores(answers, y)["r2"] == pytest.approx(
        metrics.r2_score(y.numpy(), answers.numpy())
    )


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("balanced", [False, True])
def test_json_round_trip(kind, balanced):
    task = Task.of(made_data(kind), TRAIN, balanced)
    again = Task.from_json(json.loads(json.dumps(task.to_json())))
    assert (again.kind, again.names) == (task.kind, task.names)
    for name in ("class_weights", "mean", "deviation"):
        a, b = getattr(task, name), getattr(again, name)
        assert (a is None and b is None) or (torch.equal(a, b) and a.dtype == b.dtype)


def test_names_default_to_numbers():
    assert Task.of(replace(made_data(), class_names=()), TRAIN).names == ("0", "1")
    assert Task.of(replace(numbers(), target_names=()), TRAIN).names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (replace(made_data(), y=None, name="mine"), "mine has no targets"),
        (replace(made_data(), y=torch.ones(60, dtype=torch.long)), "all of one class"),
        (replace(numbers(), y=torch.full((60, 3), 0.1)), "do not vary"),
        (replace(numbers(), y=torch.full((60, 3), torch.nan)), "do not vary"),
        (replace(numbers(), y=numbers().y / torch.tensor([1.0, 0.0, 1.0])), "edges holds infinite"),
    ],
)
def test_nothing_to_learn(data, message):
    with pytest.raises(ValueError, match=message):
        Task.of(data, TRAIN)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_of_classes_are_those_of_scikit_learn(classes):
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (80,), generator=generator)
    answers = torch.softmax(torch.randn(80, classes, generator=generator).double(), -1)
    answers[y == 0, 0] += 0.2
    answers[::3] = 1 / classes  # ties
    answers /= answers.sum(-1, keepdim=True)
    names = tuple("abc"[:classes])
    scores = Task("classification", names).scores(answers, y)
    truth, predicted, chances = y.numpy(), answers.argmax(-1).numpy(), answers.numpy()
    ranked = chances[:, 1] if classes == 2 else chances
    recall = metrics.recall_score(truth, predicted, average=None)
    expected = {
        "accuracy": metrics.accuracy_score(truth, predicted),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, predicted),
        "log_loss": metrics.log_loss(truth, chances),
        "mcc": metrics.matthews_corrcoef(truth, predicted),
        "roc_auc": metrics.roc_auc_score(truth, ranked, multi_class="ovr"),
        "average_precision": metrics.average_precision_score(truth, ranked),
        **{f"recall:{name}": value for name, value in zip(names, recall, strict=True)},
    }
    assert scores == pytest.approx(expected)
    # Ranks need both classes.
    alone = Task("classification", names).scores(answers[y == 0], y[y == 0])
    assert math.isnan(alone["roc_auc"]) and "recall:b" not in alone


def test_scores_of_numbers_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(60, 2, generator=generator).double().round(decimals=1)
    answers = y + torch.randn(60, 2, generator=generator)
    y[:7, 1] = math.nan
    task = Task("regression", ("a", "b"), None, torch.zeros(2), torch.ones(2))
    scores = task.scores(answers, y)
    pairs = [(y[:, 0], answers[:, 0]), (y[7:, 1], answers[7:, 1])]
    for name, pair in zip("ab", pairs, strict=True):
        assert scores[f"rmse:{name}"] == pytest.approx(metrics.root_mean_squared_error(*pair))
        assert scores[f"mae:{name}"] == pytest.approx(metrics.mean_absolute_error(*pair))
    r2 = [metrics.r2_score(*pair) for pair in pairs]
    assert scores["r2"] == pytest.approx(sum(r2) / 2)
    ranks = [spearmanr(*pair).statistic for pair in pairs]
    assert scores["spearman"] == pytest.approx(sum(ranks) / 2)
    assert math.isnan(task.scores(torch.zeros(60, 2), y)["spearman"])
