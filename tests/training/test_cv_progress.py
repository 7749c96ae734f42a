"""The facts of a cross-validation in words."""

from dataclasses import FrozenInstanceError, replace

import pytest

from legs.training.cv_progress import CVProgress, clock_time

FACTS = CVProgress(
    method="gcn", method_number=2, methods=3, settings=(0,), grid=1, step="networks", first=91,
    last=180, method_models=360, epoch=120, max_epochs=1000, models=1080, done=450, running=80,
    stopped=10, best_loss=0.43215, seconds=65.0, seconds_left=125.2, at_most=True,
)  # fmt: skip


def test_a_line():
    line = "gcn: models 91 to 180 of 360, epoch 120, 80 running"
    assert str(FACTS) == f"{line}, best loss 0.4321"
    assert str(replace(FACTS, best_loss=float("inf"))) == line
    assert str(replace(FACTS, step="trial")) == "gcn: trying which way is faster"
    assert str(replace(FACTS, step="machine")) == "gcn: test set 91 of 360"
    assert str(replace(FACTS, step="ensemble")) == "gcn: model 91 of 360"


def test_time_left():
    assert FACTS.time_left == "≤ 2:05 left"
    assert replace(FACTS, at_most=False).time_left == "about 2:05 left"
    assert replace(FACTS, seconds_left=None).time_left == ""
    assert [clock_time(s) for s in (0, 59.6, 3599, 36000)] == ["0:00", "1:00", "59:59", "10:00:00"]


def test_facts_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        FACTS.done = 3
