import numpy as np
import pytest
import torch
from scipy import stats

from legs.training.cv.results import corrected_t_test, vote


def test_majority_wins_over_confidence():
    sure, unsure = [0.99, 0.01], [0.45, 0.55]
    assert vote(torch.tensor([[sure], [unsure], [unsure]])).tolist() == [1]


def test_ties_go_to_the_summed_log_probability():
    answers = torch.tensor([[[0.6, 0.4, 0.0]], [[0.1, 0.9, 0.0]]])
    assert vote(answers).tolist() == [1]
    # The untied third class cannot win, however likely both models find it second.
    answers = torch.tensor([[[0.5, 0.01, 0.49]], [[0.01, 0.5, 0.49]]])
    assert vote(answers).tolist()[0] in (0, 1)


def test_t_test_by_hand():
    """Without the correction it is scipy's paired test; with it the statistic shrinks."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=10).tolist(), rng.normal(size=10).tolist()
    plain = stats.ttest_rel(a, b)
    found = corrected_t_test(a, b, 0.0)
    assert found.t == pytest.approx(plain.statistic)
    assert found.p == pytest.approx(plain.pvalue)
    corrected = corrected_t_test(a, b, 1 / 9)
    assert corrected.t == pytest.approx(plain.statistic * np.sqrt((1 / 10) / (1 / 10 + 1 / 9)))
    assert corrected.p > found.p


def test_equal_scores_say_nothing():
    assert corrected_t_test([0.5, 0.6], [0.5, 0.6], 0.1).p == 1
    assert np.isnan(corrected_t_test([0.5], [0.4], 0.1).p)
