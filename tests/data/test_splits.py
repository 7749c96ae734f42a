"""Splits by fractions, at random and by groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data import splits
from legs.data.errors import DataError
from legs.data.splits import leave_groups_out, random_split

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 500), SEEDS)
def test_a_random_split_is_a_partition(n: int, seed: int) -> None:
    split = random_split(n, seed=seed)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(n))
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in split)
    assert abs(len(split.train) - 0.8 * n) < 2
    assert all(map(np.array_equal, split, random_split(n, seed=seed)))


def test_seeds_give_different_splits() -> None:
    tests = {tuple(random_split(100, seed=seed).test) for seed in range(20)}
    assert len(tests) == 20


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=100), SEEDS)
def test_no_group_is_in_two_parts(groups: list[int], seed: int) -> None:
    if len(set(groups)) < 3:
        with pytest.raises(DataError, match="a split needs three"):
            leave_groups_out(groups, seed=seed)
        return
    split = leave_groups_out(groups, seed=seed)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(groups)))
    held = [{groups[i] for i in part} for part in split]
    assert all(held)
    assert sum(map(len, held)) == len(set(groups))


def test_groups_meet_the_fractions_as_well_as_they_can() -> None:
    groups = np.repeat(np.arange(50), 20)
    for seed in range(5):
        assert [len(part) for part in leave_groups_out(groups, seed=seed)] == [800, 100, 100]
    # One group with half of all graphs can only train.
    uneven = [0] * 100 + list(range(1, 101))
    for seed in range(5):
        assert set(range(100)) <= set(leave_groups_out(uneven, seed=seed).train.tolist())
    tests = {tuple(leave_groups_out(groups, seed=seed).test) for seed in range(5)}
    assert len(tests) == 5


def test_all_that_splits_can_be_imported_from_one_place() -> None:
    assert all(callable(getattr(splits, name)) for name in splits.__all__)
