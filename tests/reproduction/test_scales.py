"""Learned scales in numbers: zero for dyadic ones, and what the filters let through."""

from __future__ import annotations

import numpy as np
import pytest

from legs.models import create
from legs.report import filter_bank
from legs.training.cv.models import learned_scales
from reproduction.plan import Cell
from reproduction.scales import (
    dyadic_weights,
    facts,
    initial_weights,
    shown,
    untrained,
)
from tests.reproduction.made import row


def expected(weights):
    return weights @ np.arange(1, weights.shape[-1] + 1)


CELL = Cell("MUTAG", "legs-fcn", variant="seed 0")
TIMES = np.array([1, 2, 4, 8, 16])


def cell_row(weights, hardened=(1, 2, 4, 8, 16)):
    """A finished cell of two test sets whose models all have these rows."""
    known = {
        "weights": [weights.tolist()] * 2,
        "expected": [expected(weights).tolist()] * 4,
        "hardened": [list(hardened)] * 3 + [[1, 2, 3, 4, 5]],
    }
    return row(CELL, scales=known)


def test_dyadic_scales_are_at_no_distance():
    found = facts("MUTAG", [cell_row(dyadic_weights(5, 16))])
    assert found["from_dyadic"] == 0
    assert found["expected"] == TIMES.tolist()
    assert (found["models"], found["hardened_share"]) == (4, 0.75)
    assert found["hardened"] == TIMES.tolist()
    start = untrained(5, 16)
    assert found["from_start"] == pytest.approx(start["from_dyadic"])
    assert start["from_start"] == 0


def test_moved_by_hand():
    """The second scale goes from 2 to 3: one of five scales by one step."""
    weights = dyadic_weights(5, 16)
    weights[1] = np.eye(16)[2]
    found = facts("MUTAG", [cell_row(weights), cell_row(weights)])
    assert found["from_dyadic"] == pytest.approx(1 / 5)
    assert (found["seeds"], found["models"]) == (2, 8)
    assert 0 < found["lower_bound"] < 1


def test_the_start_is_that_of_a_fresh_network():
    np.testing.assert_allclose(
        initial_weights(5, 16), learned_scales(create("legs-fcn", 2, 2)).numpy(), atol=1e-6
    )


def test_responses_of_dyadic_filters():
    """λ - λ², with λ = 1 - frequency; the filters sum to one."""
    frequency, found, *_ = filter_bank(dyadic_weights(5, 16))
    walk = 1 - frequency
    np.testing.assert_allclose(found[1], walk - walk**2, atol=1e-12)
    np.testing.assert_allclose(found[-1], walk**16, atol=1e-12)
    np.testing.assert_allclose(found.sum(0), 1)


def test_tables():
    everything = [untrained(5, 16), facts("MUTAG", [cell_row(dyadic_weights(5, 16))])]
    page = shown(everything, "accuracy", 2)
    assert page["nearest whole scales"].tolist() == [
        "1, 2, 4, 8, 16 (100%)",
        "1, 2, 4, 8, 16 (75%)",
    ]
    assert "|" not in "".join(page.columns)
    assert page["steps from dyadic"][1] == "0.000"
