"""A byte that changed on the disk is noticed, or changes nothing; so is a file that was cut."""

from __future__ import annotations

from random import Random

import pytest

from tests.robustness.flips import flip, kinds, same

NAMES = (
    "models (networks)",
    "models (support vector machines)",
    "checkpoints",
    "cross-validations",
    "results of reproduce",
    "prepared data sets",
    "packed data sets",
    "splits",
    "settings of runs",
    "results of runs",
    "explanations",
    "models of reports",
    "parts of embed",
)
# A damaged part is computed again, which takes longer than a refusal.
AGAIN, TRIES_AGAIN = "parts of embed", 40
TRIES = 150


@pytest.fixture(scope="module")
def kept():
    found = kinds()
    assert tuple(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_accepted_silently(name, kept, tmp_path):
    tries = TRIES_AGAIN if name == AGAIN else TRIES
    every = max(sum(map(len, kept[name].files.values())) // tries, 1)
    found = flip(kept[name], tmp_path, every, Random(name))
    assert found["silent"] == 0
    assert found["tried"] >= min(tries, 50)
    assert found["same" if name == AGAIN else "refused"] > found["tried"] / 2


def test_values_are_compared():
    assert same({"a": [1, (2.0, None)]}, {"a": [1, (2.0, None)]})
    for a, b in (([1], [2]), ([1], [1, 1]), ({"a": 1}, {"b": 1}), (1, 1.0), ([], [[]])):
        assert not same(a, b)
