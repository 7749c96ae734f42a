"""Options of training are the same wherever they can be given."""

from typing import get_args

import pytest

from legs.cli import options as command
from legs.sklearn import estimators
from legs.training.options import Precision, TrainingOptions


def test_all_precisions_everywhere():
    known = get_args(Precision)
    assert set(get_args(command.Precision)) == set(known)
    assert set(get_args(estimators.Precision)) == set(known)
    for precision in known:
        assert TrainingOptions(precision=precision).to_json()["precision"] == precision
    with pytest.raises(ValueError, match="float32, tf32, bfloat16, float64; got 'float16'"):
        TrainingOptions(precision="float16")


def test_optimizer_and_schedule():
    assert "schedule" not in TrainingOptions().to_json()  # so that runs of 0.1.0 resume
    assert TrainingOptions(schedule="cosine").to_json()["schedule"] == "cosine"
    for options, message in (
        ({"optimizer": "sgd"}, "optimizer must be one of adam, adamw"),
        ({"schedule": "step"}, "schedule must be one of constant, cosine"),
        ({"warmup": 1000}, "warmup must be 0 or more and below max_epochs"),
        ({"scale_lr": 0.0}, "scale_lr must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainingOptions(**options)
