"""Parts of a data set and their rotation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.errors import DataError
from legs.data.splits import (
    balanced_group_folds,
    part_sizes,
    rotations,
    stratified_folds,
)

SEEDS = st.integers(0, 2**32 - 1)


def is_partition(folds: list[np.ndarray], n: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(folds)), np.arange(n))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=80), st.integers(2, 10), SEEDS)
def test_every_class_has_its_share_in_every_fold(y: list[int], k: int, seed: int) -> None:
    k = min(k, len(y))
    folds = stratified_folds(y, k, seed)
    assert is_partition(folds, len(y))
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for label in set(y):
        counts = [np.count_nonzero(np.array(y)[fold] == label) for fold in folds]
        assert max(counts) - min(counts) <= 1
        assert abs(max(counts) - y.count(label) / k) < 1
    assert all(fold.dtype == np.int64 and (np.diff(fold) > 0).all() for fold in folds)


def test_labels_can_be_anything_and_the_seed_decides() -> None:
    y = ["b", "a", "a"] * 20
    numbers = [0 if label == "a" else 1 for label in y]
    first = stratified_folds(y, 5, seed=3)
    for same in (stratified_folds(y, 5, seed=3), stratified_folds(numbers, 5, seed=3)):
        assert all(map(np.array_equal, first, same))
    assert not all(map(np.array_equal, first, stratified_folds(y, 5, seed=4)))


def test_folds_are_the_same_on_every_machine() -> None:
    # Published splits rest on this: a change here changes every result.
    stratified = stratified_folds([0, 1, 0, 1, 1, 0], 3)
    assert [fold.tolist() for fold in stratified] == [[2, 3], [0, 1], [4, 5]]


def test_measurements_are_no_classes() -> None:
    with pytest.raises(DataError, match="continuous"):
        stratified_folds([0.5, 1.0, 2.0], 2)
    assert is_partition(stratified_folds([1.0, 2.0, 1.0, 2.0], 2), 4)
    with pytest.raises(DataError, match="one class per graph"):
        stratified_folds(np.ones((4, 2)), 2)


@pytest.mark.parametrize("k", [0, 1, 4])
def test_too_many_or_too_few_parts(k: int) -> None:
    with pytest.raises(DataError, match=f"3 graphs cannot be split into {k} parts"):
        stratified_folds([0, 1, 0], k)


class TestRotations:
    folds = stratified_folds([0, 1] * 50, 10)

    def test_the_paper_trains_ninety_models(self) -> None:
        tests = rotations(self.folds)
        assert len(tests) == 10
        for i, models in enumerate(tests):
            assert len(models) == 9
            assert all(np.array_equal(split.test, self.folds[i]) for split in models)
            held = {tuple(split.validation) for split in models}
            assert held == {tuple(fold) for j, fold in enumerate(self.folds) if j != i}
            for split in models:
                assert is_partition(list(split), 100)

    @pytest.mark.parametrize("test_folds", [1, 2, 5, 7])
    def test_reduced_training_data(self, test_folds: int) -> None:
        tests = rotations(self.folds, test_folds=test_folds)
        assert len(tests) == 10
        for start, models in enumerate(tests):
            expected = [self.folds[(start + i) % 10] for i in range(test_folds)]
            assert len(models) == 10 - test_folds
            assert len({tuple(split.validation) for split in models}) == len(models)
            for split in models:
                assert is_partition(list(split), 100)
                assert np.array_equal(split.test, np.sort(np.concatenate(expected)))
                assert len(split.validation) == 10
                assert len(split.train) == 10 * (9 - test_folds)

    def test_one_model_a_test_set(self) -> None:
        tests = rotations(self.folds, rotations=1)
        assert [len(models) for models in tests] == [1] * 10
        for i, (split,) in enumerate(tests):
            assert np.array_equal(split.validation, self.folds[(i + 1) % 10])
            assert np.array_equal(split.train, rotations(self.folds)[i][0].train)

    @pytest.mark.parametrize(
        "options", [{"test_folds": 9}, {"test_folds": 0}, {"rotations": 0}, {"rotations": 10}]
    )
    def test_nothing_left_to_train(self, options: dict[str, int]) -> None:
        with pytest.raises(DataError, match=r"to test: at least one|1 to 9 rotations"):
            rotations(self.folds, **options)


@pytest.mark.parametrize(
    ("n", "fractions", "sizes"),
    [
        (100, (0.8, 0.1, 0.1), [80, 10, 10]),
        (3, (0.8, 0.1, 0.1), [1, 1, 1]),
        (10, (0.5, 0.3, 0.2), [5, 3, 2]),
        (188, (0.8, 0.1, 0.1), [150, 19, 19]),
    ],
)
def test_part_sizes(n: int, fractions: tuple[float, float, float], sizes: list[int]) -> None:
    assert part_sizes(n, fractions).tolist() == sizes


def test_fractions_that_are_none() -> None:
    for wrong in ((0.8, 0.1), (0.8, 0.2, 0.0), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)):
        with pytest.raises(DataError, match="three positive numbers that add up to 1"):
            part_sizes(100, wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="2 graphs are too few"):
        part_sizes(2)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), min_size=5, max_size=120),
    st.integers(2, 5),
    SEEDS,
)
def test_balanced_parts_keep_groups_whole(rows, k: int, seed: int) -> None:
    groups, y = zip(*rows, strict=True)
    folds = balanced_group_folds(groups, np.full(k, 1 / k), y, seed)
    assert is_partition(folds, len(rows))
    assert all(fold.size for fold in folds)
    if len(set(groups)) >= k:
        assert sum(len({groups[i] for i in fold}) for fold in folds) == len(set(groups))


def test_balanced_parts_have_every_class_in_proportion() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 300, 1000)
    y = (rng.random(1000) < 0.1 + 0.4 * (groups % 2)).astype(int)
    tests = set()
    for seed in range(5):
        train, validation, test = balanced_group_folds(groups, [0.8, 0.1, 0.1], y, seed)
        assert [len(train), len(validation), len(test)] == pytest.approx([800, 100, 100], abs=3)
        for part in (train, validation, test):
            assert y[part].mean() == pytest.approx(y.mean(), abs=0.02)
        tests.add(tuple(test))
    assert len(tests) == 5
