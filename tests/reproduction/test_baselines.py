"""Means and fingerprints against what they are by definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from legs.data.errors import DataError
from legs.data.splits import Split, random_split
from legs.training import CVOptions
from reproduction import baselines
from reproduction.baselines import baseline_result, fit, inputs_of
from tests.reproduction.made import made_regression, smiles_of

SPLITS = [random_split(60, seed=seed) for seed in (0, 1)]


def test_means():
    data = made_regression("rna-puzzles")
    y = data.y[:, 0].double().numpy()
    groups = np.asarray(data.groups)
    result = baseline_result("target-mean", data, SPLITS, CVOptions())
    (method,) = result.methods
    for split, answers, trained in zip(
        SPLITS, method.predictions, method.measured["train_mse"], strict=True
    ):
        table = pd.Series(y[split.train]).groupby(groups[split.train]).mean()
        np.testing.assert_allclose(answers[:, 0], table[groups[split.test]], rtol=1e-5)
        own = ((table[groups[split.train]].to_numpy() - y[split.train]) ** 2).mean()
        assert float(trained) == pytest.approx(own / y[split.train].var(), rel=1e-4)
    mean = baseline_result("mean", data, SPLITS, CVOptions())
    assert mean.methods[0].scores == pytest.approx(mean.baseline)
    assert float(mean.methods[0].predictions[0][0]) == pytest.approx(y[SPLITS[0].train].mean())


def test_a_target_that_was_not_trained_on():
    data = made_regression("rna-puzzles")
    groups = np.asarray(data.groups)
    test = np.flatnonzero(groups == "T0")
    rest = np.flatnonzero(groups != "T0")
    split = Split(rest[::2], rest[1::2], test)
    found, mean = (
        baseline_result(name, data, [split], CVOptions()).methods[0].predictions[0]
        for name in ("target-mean", "mean")
    )
    torch.testing.assert_close(found, mean)
    with pytest.raises(DataError, match="which graphs belong to one target"):
        baseline_result("target-mean", replace(data, groups=()), [split], CVOptions())


def test_settings_are_chosen_on_validation_graphs(monkeypatch):
    """Not on training graphs, and not on those of the test."""
    data = made_regression("rna-puzzles")
    (split,) = SPLITS[:1]
    best = {"train": 0, "validation": 1, "test": 2}

    class Good:
        def __init__(self, part):
            self.part = getattr(split, part)

        def predict(self, numbers):
            return np.where(np.isin(numbers, self.part), 0.0, 9.0)

    monkeypatch.setattr(baselines, "inputs_of", lambda method, data: np.arange(len(data)))
    monkeypatch.setattr(baselines, "fit", lambda m, x, y, setting, seed: (Good(setting["on"]), 1))
    options = CVOptions(grid=tuple({"on": name} for name in best))
    assert baseline_result("mean", data, [split], options).methods[0].chosen == [1]


def test_ridge_against_its_normal_equations():
    rng = np.random.default_rng(0)
    bits, target = (rng.random((40, 12)) < 0.3).astype(np.float32), rng.normal(size=(30, 2))
    train, test = np.arange(30), np.arange(30, 40)
    model, parameters = fit("morgan-ridge", bits[train], target, {"alpha": 2.5}, 0)
    x = bits[train].astype(float)
    centre, mean = x.mean(0), target.mean(0)
    weights = np.linalg.solve(
        (x - centre).T @ (x - centre) + 2.5 * np.eye(12), (x - centre).T @ (target - mean)
    )
    expected = (bits[test] - centre) @ weights + mean
    np.testing.assert_allclose(model.predict(bits[test]), expected, rtol=1e-5)
    assert parameters == 2 * 12 + 2


def test_forests_learn_and_repeat():
    rng = np.random.default_rng(0)
    bits = (rng.random((80, 10)) < 0.5).astype(np.float32)
    target = (bits[:, :1] - 0.5) * 2
    train, test = np.arange(60), np.arange(60, 80)
    setting = {"trees": 20, "features": 0.5}
    model, nodes = fit("morgan-forest", bits[train], target[train], setting, 3)
    assert ((model.predict(bits[test]) - target[test, 0]) ** 2).mean() < 0.05
    again, _ = fit("morgan-forest", bits[train], target[train], setting, 3)
    np.testing.assert_array_equal(model.predict(bits[test]), again.predict(bits[test]))
    assert nodes >= 20 * 3


def test_fingerprints():
    pytest.importorskip("rdkit", reason="fingerprints need torch-legs[chem]")
    from rdkit import Chem
    from rdkit.Chem import AllChem

    smiles = smiles_of(20)
    data = made_regression("ki-p00918")
    found = inputs_of("morgan-ridge", replace(data, smiles=smiles))
    for row, text in zip(found, smiles, strict=True):
        mol = Chem.MolFromSmiles(text)
        expected = AllChem.GetMorganFingerprintAsBitVect(mol, 2, nBits=2048)
        assert set(np.flatnonzero(row)) == set(expected.GetOnBits())
    with pytest.raises(DataError, match="molecule 2 is not a SMILES string"):
        inputs_of("morgan-ridge", replace(data, smiles=("CC", "C((")))
    with pytest.raises(DataError, match="has no SMILES here"):
        inputs_of("morgan-ridge", made_regression("qm9"))
