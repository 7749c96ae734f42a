"""Which graphs are held out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from legs.data.errors import DataError
from legs.sklearn.estimators import hold_out


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("counts", [(50, 50), (90, 7, 3), (20, 2, 2, 2), (10, 1)])
def test_every_class_has_its_share(fraction: float, counts: tuple[int, ...]) -> None:
    classes = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    classes = classes[torch.randperm(len(classes))]
    split = hold_out(len(classes), fraction, 3, classes)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([split.train, split.validation])), np.arange(len(classes))
    )
    held = np.bincount(classes[split.validation], minlength=len(counts))
    for count, found in zip(counts, held, strict=True):
        # Classes of one graph stay in training, so others may give a little more.
        assert abs(found - fraction * count) <= 1 + fraction
        assert found < count
    assert len(split.test) == 0


def test_without_classes_and_by_seed() -> None:
    split = hold_out(40, 0.1, 0)
    assert len(split.validation) == 4
    assert hold_out(40, 0.1, 0).validation.tolist() == split.validation.tolist()
    assert hold_out(40, 0.1, 1).validation.tolist() != split.validation.tolist()
    assert len(hold_out(2, 0.1, 0).validation) == 1


def test_what_cannot_be_held_out() -> None:
    for fraction in (0, 0.6, -1, float("nan")):
        with pytest.raises(ValueError, match="validation_fraction must be above 0"):
            hold_out(10, fraction, 0)
    with pytest.raises(DataError, match="too few graphs"):
        hold_out(3, 0.1, 0, torch.tensor([0, 1, 2]))
    with pytest.raises(DataError, match="too few graphs"):
        hold_out(1, 0.1, 0)


def test_duplicates_stay_together():
    groups = np.tile(np.arange(20), 2)
    split = hold_out(40, 0.1, 0, torch.tensor([0, 1] * 20), groups)
    assert len(split.validation) == 4
    assert not {*groups[split.train]} & {*groups[split.validation]}
    assert sorted(split.validation % 2) == [0, 0, 1, 1]
    assert all(map(len, hold_out(40, 0.1, 0, None, np.zeros(40, dtype=np.int64))[:2]))
