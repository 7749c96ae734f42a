import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legs.functional import (
    check_scales,
    cumulative_of_scales,
    default_scales,
    expected_scales,
    harden_scales,
    initial_logits,
    scale_weights,
    select_scales,
)


@given(st.integers(1, 40), st.integers(0, 40))
def test_default_scales_are_distinct_and_fit(num_scales, extra):
    scales = default_scales(num_scales, num_scales + extra)
    assert check_scales(scales, num_scales + extra) == scales
    assert scales[0] == 1


def test_default_scales_are_the_papers():
    assert default_scales(5, 16) == (1, 2, 4, 8, 16)


@pytest.mark.parametrize("ordering", ["ordered", "softmax"])
@pytest.mark.parametrize(("num_scales", "steps"), [(1, 1), (1, 4), (3, 3), (5, 16), (7, 16)])
def test_start_is_ordered_and_away_from_ties(num_scales, steps, ordering):
    scales = default_scales(num_scales, steps)
    theta = initial_logits(scales, steps)
    weights = scale_weights(select_scales(theta, ordering))
    torch.testing.assert_close(weights, torch.softmax(theta, -1))
    assert harden_scales(weights) == scales


def test_selection_rows_are_distributions():
    for ordering in ("ordered", "softmax"):
        weights = scale_weights(select_scales(3 * torch.randn(6, 12).double(), ordering))
        assert (weights >= -1e-15).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(6).double())


def test_softmax_rows_are_sorted_by_their_largest_entry():
    theta = torch.randn(5, 9)
    weights = scale_weights(select_scales(theta, "softmax"))
    rows = torch.softmax(theta, -1)
    order = sorted(range(5), key=lambda j: int(rows[j].argmax()))
    torch.testing.assert_close(weights, rows[order], rtol=1e-4, atol=1e-6)


def test_ordered_is_stochastically_ordered():
    cumulative = select_scales(3 * torch.randn(6, 12).double())
    assert (cumulative.diff(dim=0) <= 0).all()


def test_expected_scales():
    weights = scale_weights(select_scales(torch.randn(3, 5).double()))
    expected = (weights * torch.arange(1, 6)).sum(-1)
    torch.testing.assert_close(expected_scales(select_scales_of(weights)), expected)


def select_scales_of(weights):
    sums = torch.cumsum(weights, -1)
    return torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1)


@pytest.mark.parametrize("seed", range(20))
def test_hardening_against_brute_force(seed):
    torch.manual_seed(seed)
    weights = torch.softmax(3 * torch.randn(3, 6), -1).double()
    best = max(
        itertools.combinations(range(6), 3),
        key=lambda ts: sum(float(weights[j, t].log()) for j, t in enumerate(ts)),
    )
    assert harden_scales(weights) == tuple(t + 1 for t in best)


def test_hardening_fixed_scales_returns_them():
    assert harden_scales(scale_weights(cumulative_of_scales([2, 3, 7], 9))) == (2, 3, 7)
