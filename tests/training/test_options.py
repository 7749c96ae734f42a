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
