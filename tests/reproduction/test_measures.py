"""What is measured of trained networks is theirs, both strategies, and is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from legs.models import ModelError
from legs.training.cv.cross_validation import cross_validate
from legs.training.cv.protocol import CVOptions
from legs.training.cv.store import Store, Trained
from legs.training.inputs import predict
from legs.training.options import TrainingOptions
from legs.training.task import Task
from reproduction.importance import squared_error, train_mse
from tests.training.made import made_data

TRAINING = TrainingOptions(batch_size=16, max_epochs=4, validate_every=2, lr=1e-2)
OPTIONS = CVOptions(seeds=(0, 1), training=TRAINING, grid=({"lr": 1e-2}, {"lr": 1e-3}))


def everything(member, inputs, y):
    """A measure: predictions for all graphs, in original units."""
    out = predict(inputs, member.network, torch.arange(len(y)))
    return member.task.answers(out)


def measured(strategy="stacked", **more):
    measures = {"train_mse": train_mse, "all": everything}
    data = made_data("regression")
    return cross_validate(
        data, ["legs-fcn"], OPTIONS, strategy=strategy, workers=1, measures=measures, **more
    )


@pytest.mark.parametrize("strategy", ["stacked", "sequential"])
def test_training_errors_are_those_of_the_kept_weights(strategy):
    result = measured(strategy)
    (method,) = result.methods
    y = result.data.y.double()
    for k, group in enumerate(result.splits):
        (answers,) = method.measured["all"][k]
        test, train = torch.as_tensor(group[0].test), torch.as_tensor(group[0].train)
        # The same network that answered for the test graphs.
        torch.testing.assert_close(answers[test], method.predictions[k], rtol=1e-4, atol=1e-3)
        scale = Task.of(result.data, train).deviation.double()
        by_hand = ((answers[train].double() - y[train]) / scale).square().mean(0)
        (found,) = method.measured["train_mse"][k]
        torch.testing.assert_close(found, by_hand, rtol=1e-3, atol=1e-6)


def test_kept_and_read_again(tmp_path):
    first, again = measured(directory=tmp_path), measured(directory=tmp_path)
    for name in ("train_mse", "all"):
        for a, b in zip(
            first.methods[0].measured[name], again.methods[0].measured[name], strict=True
        ):
            assert torch.equal(a, b)
    with pytest.raises(ModelError, match="other settings"):
        cross_validate(made_data("regression"), ["legs-fcn"], OPTIONS, directory=tmp_path)


def test_measuring_changes_nothing(tmp_path):
    """A run without measures keeps what it always kept, and ends with the same scores."""
    data = made_data("regression")
    plain = cross_validate(data, ["legs-fcn"], OPTIONS, strategy="stacked", directory=tmp_path)
    assert set(plain.methods[0].measured) == {"scales"}
    assert "measures" not in (tmp_path / "settings.json").read_text()
    assert plain.methods[0].scores == measured().methods[0].scores


def test_what_older_versions_kept_is_read(tmp_path):
    """Their files know of no measures."""
    store = Store(tmp_path, {})
    model = Trained(torch.ones(2, 1), 0.5, 1, 2, 3, 4.0, "sequential")
    store.save("old", model)
    (found,) = store.load("old")
    assert found.measured == {}
    other = replace(model, answers=torch.zeros(2, 1), measured={"a": torch.arange(3.0)})
    store.save("new", other)
    (with_some,) = store.load("new")
    assert torch.equal(with_some.measured["a"], torch.arange(3.0))


def test_measures_that_do_not_apply():
    """A network without what is measured keeps nothing of it."""
    result = cross_validate(
        made_data("regression"),
        ["gin", "gs-svm"],
        replace(OPTIONS, grid=({},)),
        workers=1,
        measures={"none": lambda member, inputs, y: None},
    )
    assert [method.measured for method in result.methods] == [{}, {}]


def test_missing_numbers_count_nowhere():
    rng = np.random.default_rng(0)
    out, target = rng.normal(size=(2, 20, 3))
    target[rng.random((20, 3)) < 0.3] = np.nan
    found = squared_error(torch.from_numpy(out), torch.from_numpy(target))
    np.testing.assert_allclose(found, np.nanmean((out - target) ** 2, axis=0))
