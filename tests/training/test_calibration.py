from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from legs.training import TrainingOptions, fit, load_predictor
from legs.training.calibration import LEAST, MOST, calibrate, half_widths
from tests.training.made import made_data


def reference(scores, target, weight):
    """By scipy, over the logarithm of the scale."""

    def loss(log_scale):
        z = np.exp(log_scale) * scores
        terms = logsumexp(z, axis=-1) - z[np.arange(len(z)), target]
        return (weight * terms).sum() / weight.sum()

    found = minimize_scalar(
        loss, bounds=np.log([LEAST, MOST]), method="bounded", options={"xatol": 1e-10}
    )
    return np.exp(found.x), found.fun


def test_agrees_with_scipy():
    rng = np.random.default_rng(0)
    for spread in (0.3, 1.0, 5.0):
        scores = rng.normal(size=(3, 50, 4)) * spread
        target = rng.integers(4, size=(3, 50))
        scores[np.arange(3)[:, None], np.arange(50), target] += 0.5 * spread
        weight = rng.random((3, 50)) * (rng.random((3, 50)) > 0.2)
        scale, loss = calibrate(*map(torch.tensor, (scores, target, weight)))
        for k in range(3):
            by_scipy = reference(scores[k], target[k], weight[k])
            assert float(scale[k]) == pytest.approx(by_scipy[0], rel=1e-4)
            assert float(loss[k]) == pytest.approx(by_scipy[1], rel=1e-9)


def test_never_above_the_loss_as_it_is():
    out, target = torch.randn(40, 3), torch.randint(3, (40,))
    _, loss = calibrate(out, target, torch.ones(40))
    assert float(loss) <= float(torch.nn.functional.cross_entropy(out.double(), target)) + 1e-12


def test_ends_somewhere_without_errors_and_without_truth():
    out = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    scale, loss = calibrate(out, torch.tensor([0, 1]), torch.ones(2))
    assert float(scale) == pytest.approx(MOST)
    assert 0 < float(loss) < 0.05
    scale, loss = calibrate(out, torch.tensor([1, 0]), torch.ones(2))
    assert float(scale) == pytest.approx(LEAST)
    assert torch.isfinite(loss)


def test_graphs_of_no_weight_count_nowhere():
    out, target = torch.randn(10, 3), torch.randint(3, (10,))
    weight = torch.ones(10)
    weight[6:] = 0
    some = calibrate(out[:6], target[:6], torch.ones(6))
    for a, b in zip(calibrate(out, target, weight), some, strict=True):
        torch.testing.assert_close(a, b)


def test_intervals_cover_new_values(tmp_path):
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(20_000, 2, generator=generator) * torch.tensor([1.0, 5.0])
    old, new = errors[:2_000], errors[2_000:]
    old[::3, 1] = torch.nan
    widths = half_widths(torch.zeros_like(old), old)
    inside = (new.abs() <= torch.tensor(widths)).double().mean(0)
    torch.testing.assert_close(inside, torch.full((2,), 0.9).double(), atol=0.02, rtol=0)
    assert half_widths(torch.zeros(8, 1), torch.ones(8, 1)) == (None,)


def test_predictions_have_intervals(tmp_path):
    data, options = made_data("regression", 150), TrainingOptions(max_epochs=2)
    fitted = fit(data, "baseline", options=options, directory=tmp_path)
    error = (fitted.predictor.predict(data) - data.y)[fitted.split.validation].abs()
    widths = load_predictor(tmp_path / "model").half_widths
    place = math.ceil(0.9 * (len(error) + 1)) - 1
    assert widths == pytest.approx(error.sort(dim=0).values[place].tolist())
    table = pd.read_csv(tmp_path / "test_predictions.csv")
    inside = [
        table[f"measured:{name}"].between(table[f"lower:{name}"], table[f"upper:{name}"])
        for name in data.target_names
    ]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["intervals"]["coverage"] == pytest.approx(np.mean(inside))
