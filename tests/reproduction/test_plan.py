"""Parts of the reproduction's own that keep groups whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.plan import group_folds

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60), st.integers(2, 8), SEEDS)
def test_groups_stay_whole(groups: list[str], k: int, seed: int) -> None:
    k = min(k, len(set(groups)))
    if k < 2:
        return
    folds = group_folds(groups, k, seed)
    assert np.sort(np.concatenate(folds)).tolist() == list(range(len(groups)))
    held = [{groups[i] for i in fold} for fold in folds]
    assert all(held)
    assert sum(map(len, held)) == len(set(groups))
    # No fold could give its smallest group to another and be nearer to it.
    largest = max(groups.count(group) for group in groups)
    assert max(map(len, folds)) - min(map(len, folds)) <= largest


def test_one_group_a_fold() -> None:
    groups = ["a", "b", "a", "c", "c"]
    folds = group_folds(groups, 3)
    assert sorted(fold.tolist() for fold in folds) == [[0, 2], [1], [3, 4]]
