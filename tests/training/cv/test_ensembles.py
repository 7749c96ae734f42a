"""Ensembles trained at once: the same as by themselves, kept one by one, gone on with."""

from dataclasses import replace

import pytest
import torch

from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.models import Job, Shared, train_ensembles, train_networks
from legs.training.cv.protocol import plan_splits
from legs.training.stacked import trainer as stack
from tests.training.cv.test_cross_validation import OPTIONS, TRAINING, data
from tests.training.made import made_data

METHOD = "gcn-legs-fcn"
EXACT = replace(TRAINING, precision="float64")


def jobs(rates=(1e-3, 1e-2)):
    splits = [group[0] for group in plan_splits(data(), OPTIONS)][:2]
    return [Job(k, split, {"lr": lr}) for lr in rates for k, split in enumerate(splits)]


def test_together_as_apart():
    """Two rates and two splits at once, and each ensemble by itself, in float64."""
    together = train_ensembles(METHOD, jobs(), Shared(data(), EXACT))
    for job, model in zip(jobs(), together, strict=True):
        (alone,) = train_ensembles(METHOD, [job], Shared(data(), EXACT))
        assert (model.best_epoch, model.epochs) == (alone.best_epoch, alone.epochs)
        assert model.validation_loss == pytest.approx(alone.validation_loss, abs=1e-8)
        torch.testing.assert_close(model.answers, alone.answers, rtol=0, atol=1e-6)
        torch.testing.assert_close(
            model.measured["scales"], alone.measured["scales"], rtol=0, atol=1e-6
        )


def test_its_networks_are_those_that_are_trained_alone():
    """The frozen LEGS network of an ensemble has the scales of the same job without a GCN."""
    (job, *_) = jobs()
    (ensemble,) = train_ensembles(METHOD, [job], Shared(data(), EXACT))
    (network,) = train_networks("legs-fcn", [job], Shared(data(), EXACT))
    torch.testing.assert_close(
        ensemble.measured["scales"], network.measured["scales"], rtol=0, atol=1e-12
    )
    # Learned in the head alone: its batch norm, two layers; 64 GCN and 128 scattering features.
    assert ensemble.parameters == 2 * 192 + (192 + 1) * 128 + (128 + 1) * 3


def test_it_learns():
    """On graphs that a network can tell apart, beyond a guess."""
    training = replace(TRAINING, max_epochs=30, patience=30, lr=1e-2)
    options = replace(OPTIONS, rotations=1, training=training)
    result = cross_validate(made_data(), ["gcn-legs-fixed"], options, strategy="stacked")
    (found,) = result.methods
    assert found.strategy == "stacked"
    assert found.mean > 0.9


def test_interrupted_and_cut_otherwise(tmp_path, monkeypatch):
    """Stopped in the second network; the rest with other chunks ends with the same scores."""
    grid = ({"lr": 1e-3}, {"lr": 1e-2})
    options = replace(OPTIONS, rotations=1, grid=grid)
    calm = cross_validate(data(), [METHOD], options, strategy="stacked")
    monkeypatch.setattr(stack, "CHECKPOINT_SECONDS", -1.0)
    seen = []

    def stop(facts):
        seen.append(facts)
        if len(seen) == 22:
            raise KeyboardInterrupt

    given = {"strategy": "stacked", "directory": tmp_path, "chunk": 4}
    with pytest.raises(KeyboardInterrupt):
        cross_validate(data(), [METHOD], options, progress=stop, **given)
    assert list(tmp_path.glob("models/*.partial"))
    kept = len(list(tmp_path.glob("models/*.bin")))
    seen.clear()
    found = cross_validate(data(), [METHOD], options, progress=seen.append, **given)
    assert seen[0].done == kept == 4
    first = seen[1]
    assert (first.unit.step, first.standing.running) == ("ensemble", 4)
    assert (first.done, first.models) == (4, 8)
    assert found.methods[0].scores == calm.methods[0].scores
    assert found.methods[0].chosen == calm.methods[0].chosen
    assert len(list(tmp_path.glob("models/*.bin"))) == 8
    assert not list(tmp_path.glob("models/*.partial"))


def test_settings_that_differ_in_more_than_the_rate():
    grid = ({"lr": 1e-3}, {"lr": 1e-3, "hidden_channels": 4}, {"lr": 1e-2})
    options = replace(OPTIONS, rotations=1, grid=grid)
    result = cross_validate(data(), ["gcn-legs-fixed"], options, strategy="stacked")
    assert result.methods[0].models == 12
