"""Random splits by fractions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.splits import random_split

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
