"""The protocol: the same scores both strategies, after interruptions, and without leaks."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from legs.data.splits import Split
from legs.models import ModelError
from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.protocol import CVOptions, plan_splits
from legs.training.cv.results import comparisons, summary, write_results
from legs.training.options import TrainingOptions
from legs.training.stacked import trainer as stack
from tests.training.stacked.test_trainer import made_data

TRAINING = TrainingOptions(batch_size=16, max_epochs=6, validate_every=2, patience=4)
OPTIONS = CVOptions(folds=4, training=TRAINING)


def data(task="classification"):
    made = made_data(task)
    return replace(made, x=made.x.float(), y=made.y if task == "classification" else made.y.float())


def test_plan_is_the_papers():
    planned = plan_splits(data(), CVOptions(folds=10))
    assert [len(group) for group in planned] == [9] * 10
    assert sorted(np.concatenate([g[0].test for g in planned]).tolist()) == list(range(40))
    for group in planned:
        assert len({tuple(split.validation) for split in group}) == 9
        for split in group:
            assert not set(split.train) & (set(split.validation) | set(split.test))
    assert [len(g) for g in plan_splits(data(), CVOptions(folds=10, rotations=1))] == [1] * 10
    reduced = plan_splits(data(), CVOptions(folds=10, test_folds=7))
    assert len(reduced) == 10
    assert {len(group) for group in reduced} == {3}
    seeds = plan_splits(data("regression"), CVOptions(seeds=(0, 1, 2)))
    assert [len(group) for group in seeds] == [1, 1, 1]


def test_results_name_the_device_that_was_used(tmp_path, monkeypatch):
    options = CVOptions(folds=3, rotations=1, training=replace(TRAINING, max_epochs=1))
    result = cross_validate(data(), ["baseline"], options, strategy="stacked")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"GPU of {device}")
    write_results(result, tmp_path)
    assert "GPU" not in json.loads((tmp_path / "results.json").read_text())["machine"]
    write_results(replace(result, device="cuda"), tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["machine"] == "GPU of cuda"


def test_rare_classes_are_named():
    with pytest.raises(ValueError, match="the rarest class has 13 graphs, fewer than the 20"):
        plan_splits(data(), CVOptions(folds=20))


@pytest.mark.parametrize("method", ["legs-fcn", "legs-fixed", "gin"])
def test_both_strategies_agree(method):
    a, b = (
        cross_validate(data(), [method], OPTIONS, strategy=strategy, workers=1).methods[0]
        for strategy in ("stacked", "sequential")
    )
    assert (a.strategy, b.strategy) == ("stacked", "sequential")
    assert a.models == b.models == 12
    assert a.scores == b.scores


def test_every_kind_of_method_in_one_table(tmp_path):
    names = ["legs-fixed", "baseline", "gs-svm", "gcn-legs-fixed"]
    options = replace(OPTIONS, rotations=1)
    result = cross_validate(data(), names, options, directory=tmp_path, workers=1)
    assert [method.method for method in result.methods] == names
    table = summary(result)
    assert table["method"].tolist() == ["most frequent class", *names]
    assert len(comparisons(result)) == 6
    write_results(result, tmp_path)
    known = json.loads((tmp_path / "results.json").read_text())
    for method in known["methods"]:
        assert method["mean"] == pytest.approx(np.mean(method["scores"]))
        assert method["std"] == pytest.approx(np.std(method["scores"]))
    import pandas as pd

    predictions = pd.read_csv(tmp_path / "predictions.csv")
    assert sorted(predictions["graph"]) == list(range(40))
    for method in result.methods:
        right = predictions[method.method] == predictions["truth"]
        by_fold = right.groupby(predictions["test_set"]).mean()
        assert by_fold.tolist() == pytest.approx(method.scores)
        sure = predictions[f"probability:{method.method}"]
        assert sure.between(1 / 3 - 1e-6, 1 + 1e-6).all()  # one model, three classes
        assert sure.tolist() == pytest.approx(torch.cat(method.probabilities).tolist())


def test_regression_by_seeds():
    options = replace(OPTIONS, seeds=(0, 1))
    result = cross_validate(data("regression"), ["legs-fixed", "gs-svm"], options, workers=1)
    assert [len(method.scores) for method in result.methods] == [2, 2]
    assert all(score > 0 for method in result.methods for score in method.scores)


def test_own_splits():
    own = [Split(np.arange(0, 25), np.arange(25, 30), np.arange(30, 40))]
    result = cross_validate(data(), ["baseline"], OPTIONS, splits=own, strategy="stacked")
    assert len(result.methods[0].scores) == 1


def test_grid_is_chosen_on_validation_loss():
    grid = ({"lr": 1e-9}, {"lr": 1e-2})
    training = replace(TRAINING, max_epochs=40, patience=40)
    options = replace(OPTIONS, rotations=1, grid=grid, training=training)
    result = cross_validate(data(), ["legs-fixed"], options, strategy="stacked")
    assert set(result.methods[0].chosen) == {1}
    assert result.methods[0].models == 8


@pytest.mark.parametrize("strategy", ["stacked", "sequential"])
def test_interrupted_runs_end_with_the_same_scores(strategy, tmp_path, monkeypatch):
    """Stopped in the middle again and again, by an error out of nowhere."""
    calm = cross_validate(data(), ["legs-fcn"], OPTIONS, strategy=strategy, workers=1)
    monkeypatch.setattr(stack, "CHECKPOINT_SECONDS", -1.0)
    original = stack.shared_batches
    allowed = [5]

    def failing(*given):
        allowed[0] -= 1
        if allowed[0] < 0:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(stack, "shared_batches", failing)
    interruptions = 0
    while True:
        try:
            found = cross_validate(
                data(), ["legs-fcn"], OPTIONS, strategy=strategy, workers=1, directory=tmp_path
            )
            break
        except KeyboardInterrupt:
            interruptions += 1
            allowed[0] = 5 if strategy == "stacked" else 30
    assert interruptions > 0
    assert found.methods[0].scores == calm.methods[0].scores
    for a, b in zip(found.methods[0].predictions, calm.methods[0].predictions, strict=True):
        assert torch.equal(a, b)


def test_changed_settings_and_damage_are_told(tmp_path):
    cross_validate(data(), ["baseline"], OPTIONS, directory=tmp_path, strategy="stacked")
    with pytest.raises(ModelError, match=r"other settings \(options\.training\.lr\)"):
        changed = replace(OPTIONS, training=replace(TRAINING, lr=0.5))
        cross_validate(data(), ["baseline"], changed, directory=tmp_path)
    file = next((tmp_path / "models").iterdir())
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match="checksum is wrong"):
        cross_validate(data(), ["baseline"], OPTIONS, directory=tmp_path, strategy="stacked")


def test_shuffled_labels_give_chance():
    """Nothing leaks from test graphs: with labels at random, accuracy is that of a guess."""
    made = data()
    generator = torch.Generator().manual_seed(5)
    shuffled = replace(made, y=made.y[torch.randperm(len(made), generator=generator)])
    training = replace(TRAINING, max_epochs=30, patience=30)
    options = replace(OPTIONS, training=training)
    result = cross_validate(shuffled, ["legs-fixed"], options, strategy="stacked")
    assert abs(result.methods[0].mean - 1 / 3) < 0.2


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_duplicates_stay_in_one_partition(task):
    rows = np.tile(np.arange(40), 2)
    twice = data(task).subset(rows)
    planned = plan_splits(twice, CVOptions(folds=5))
    for models in planned:
        for split in models:
            assert sum(len({*rows[part]}) for part in split) == 40
    if task == "classification":
        counts = [torch.bincount(twice.y[models[0].test]).tolist() for models in planned]
        assert {count for row in counts for count in row} == {4, 6}  # of 26 to 28


def test_splits_that_leak_are_reported(recwarn):
    twice = data().subset([*range(40), 0])
    own = [Split(np.arange(1, 30), np.arange(30, 35), np.arange(35, 40))]
    plan_splits(twice, OPTIONS, own)
    assert not recwarn
    own = [Split(np.arange(30), np.arange(30, 35), np.array([35, 40]))]
    with pytest.warns(UserWarning, match="1 of 7 validation and test rows"):
        cross_validate(twice, ["baseline"], OPTIONS, splits=own, strategy="stacked")
