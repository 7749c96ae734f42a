"""What is kept of a trained model besides its answers."""

from functools import partial

import pytest
import torch

from legs.models import ModelError, create
from legs.training.checkpoint import write_checksummed
from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.models import Job, Shared, graph_features, learned_scales, train_networks
from legs.training.cv.protocol import plan_splits
from legs.training.cv.store import Store, Trained
from tests.training.cv.test_cross_validation import OPTIONS, TRAINING, data

ROW = (0.5, 3, 5, 7, 1.5, "stacked")


def test_scales_and_features_come_back(tmp_path):
    scales, features = torch.rand(5, 16), torch.rand(40, 7)
    models = [
        Trained(torch.ones(2, 3), *ROW),
        Trained(torch.zeros(2, 3), *ROW, {"scales": scales, "features": features}),
        Trained(torch.zeros(2, 3), *ROW, {"features": features + 1}),
    ]
    store = Store(tmp_path, {})
    for k, model in enumerate(models):
        store.save(f"some-{k}", model)
    plain, both, one = Store(tmp_path, {}).load_all(["some-0", "some-1", "some-2"])
    assert (set(plain.measured), set(one.measured)) == (set(), {"features"})
    assert torch.equal(both.measured["scales"], scales)
    assert torch.equal(both.measured["features"], features)
    assert torch.equal(one.measured["features"], features + 1)
    assert [m.seconds for m in (plain, both, one)] == [1.5] * 3


def test_files_of_version_0_1_0(tmp_path):
    """The strategy was called a way, one after another ``"single"``; a file had many models."""
    (tmp_path / "models").mkdir()
    row = {"validation_loss": 0.5, "best_epoch": 3, "epochs": 5, "parameters": 7, "seconds": 1.5}
    rows = [{**row, "way": "single"}, {**row, "way": "stacked"}]
    tensors = {"0": torch.ones(2, 3), "1": torch.zeros(2, 3), "1.scales": torch.ones(5, 16)}
    write_checksummed(tmp_path / "models" / "some.bin", "models", rows, tensors)
    store = Store(tmp_path, {})
    first, second = store.load("some")
    assert (first.strategy, second.strategy) == ("sequential", "stacked")
    assert first.measured == {}
    assert (second.measured["scales"].shape, second.epochs) == ((5, 16), 5)
    found = store.load_all(["some", "other", "third"])
    assert [model is None for model in found] == [False, False, True]


@pytest.mark.parametrize("strategy", ["stacked", "sequential"])
def test_networks_keep_what_they_have_learned(strategy):
    splits = [group[0] for group in plan_splits(data(), OPTIONS)][:2]
    jobs = [Job(k, split, {"lr": 0.03}) for k, split in enumerate(splits)]
    shared = Shared(data(), TRAINING, measures={"features": partial(graph_features, data())})
    start = learned_scales(create("legs-fcn", 2, 3))
    for model in train_networks("legs-fcn", jobs, shared, strategy=strategy):
        scales = model.measured["scales"]
        assert scales.shape == (5, 16)
        torch.testing.assert_close(scales.sum(1), torch.ones(5))
        assert (scales - start).abs().max() > 0.01
        assert model.measured["features"].shape == (40, 128)
    for model in train_networks("gcn", jobs, shared, strategy=strategy):
        assert "scales" not in model.measured
        assert model.measured["features"].shape == (40, 64)
    (model, _) = train_networks("gcn", jobs, Shared(data(), TRAINING), strategy=strategy)
    assert model.measured == {}


def test_scales_of_the_chosen_models():
    """By test set, of the setting that its validation losses chose."""
    from dataclasses import replace

    grid = ({"lr": 1e-9}, {"lr": 0.03})
    training = replace(TRAINING, max_epochs=30, patience=30)
    options = replace(OPTIONS, rotations=2, grid=grid, training=training)
    result = cross_validate(data(), ["legs-fcn", "legs-fixed"], options, strategy="stacked")
    learned, fixed = result.methods
    start = learned_scales(create("legs-fcn", 2, 3))
    assert [tuple(group.shape) for group in learned.scales] == [(2, 5, 16)] * 4
    for chosen, group in zip(learned.chosen, learned.scales, strict=True):
        moved = (group - start).abs().amax((1, 2))
        assert ((moved > 1e-3) == bool(chosen)).all()
    assert 1 in learned.chosen
    assert fixed.scales == []
    assert set(learned.measured) == {"scales"}


@pytest.mark.parametrize("rows", [["a"], [[""]], [{}], [None], [[["epochs", 1]]]])
def test_rows_that_are_none_are_refused(tmp_path, rows):
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "some.bin"
    write_checksummed(file, "models", rows, {"0": torch.ones(1, 2)})
    with pytest.raises(ModelError, match=r"some\.bin holds no trained models: .*train it again"):
        Store(tmp_path, {}).load("some")
