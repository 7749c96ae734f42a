"""Scales epoch by epoch: of the right network, once each, few enough."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from legs.models import create
from legs.training import fit
from legs.training.scale_log import ScaleLog, thinned
from tests.training.made import QUICK, made_data, made_split


def rows(folder):
    return [json.loads(line) for line in (folder / "scales.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["legs-fcn", "legs-rbf", "mp-legs-fcn", "gcn-legs-fcn"])
def test_every_epoch_of_learned_scales(tmp_path, name):
    options = replace(QUICK, lr=3e-2)
    fitted = fit(made_data(), name, made_split(), options, directory=tmp_path)
    found = rows(tmp_path)
    assert [row["epoch"] for row in found] == [0, 1, 2, 3, 4]
    weights = np.array([row["weights"] for row in found])
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)
    assert np.abs(np.diff(weights, axis=0)).max(axis=(1, 2)).min() > 0  # they move every epoch
    start = create("legs-fcn", 2, 2).scattering.scale_weights().detach().numpy()
    np.testing.assert_allclose(weights[0], start, atol=1e-4)
    assert {row["laziness"] for row in found} == {0.5}
    network = fitted.predictor.network
    scattering = (network.second if name == "gcn-legs-fcn" else network).scattering
    kept = scattering.scale_weights().detach().numpy()
    best = fitted.state.best_epoch
    if name == "gcn-legs-fcn":  # the epochs are the LEGS network's, the best one the head's
        best = int(np.abs(weights - kept).max((1, 2)).argmin())
    np.testing.assert_allclose(weights[best], kept, atol=1e-4)


@pytest.mark.parametrize("name", ["legs-fixed", "gcn", "gs-svm", "baseline"])
def test_nothing_where_nothing_is_learned(tmp_path, name):
    fit(made_data(), name, made_split(), QUICK, directory=tmp_path)
    assert not (tmp_path / "scales.jsonl").exists()


def test_laziness_of_every_channel(tmp_path):
    options = {"learn_laziness": "channel"}
    fit(made_data(), "legs-fcn", made_split(), QUICK, model_options=options, directory=tmp_path)
    assert all(len(row["laziness"]) == 2 for row in rows(tmp_path))


def test_a_killed_run_goes_on(tmp_path):
    class Killed(Exception):
        pass

    def stop(row):
        if row["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path, report=stop)
    with (tmp_path / "scales.jsonl").open("a") as file:
        file.write('{"epoch": 9, "wei')
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path)
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path / "undisturbed")
    assert rows(tmp_path) == rows(tmp_path / "undisturbed")
    before = (tmp_path / "scales.jsonl").read_text()
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path)  # nothing left to train
    assert (tmp_path / "scales.jsonl").read_text() == before


def test_the_first_network_that_learns_scales_is_noted(tmp_path):
    log = ScaleLog(tmp_path)
    log.watch(create("gcn", 2, 2))
    assert log.module is None
    log.watch(create("legs-fixed", 2, 2))
    assert log.module is None
    first, second = create("legs-fcn", 2, 2), create("legs-fcn", 2, 2)
    log.watch(first)
    log.watch(second)
    assert log.module is first.scattering
    assert [row["epoch"] for row in rows(tmp_path)] == [0]
    first.requires_grad_(False)
    log.add(1)  # frozen under another head: noted before
    assert [row["epoch"] for row in rows(tmp_path)] == [0]


def test_nothing_is_kept_without_a_folder():
    log = ScaleLog(None)
    log.watch(create("legs-fcn", 2, 2))
    log.add(1)
    log.finish(1)
    assert log.module is None


def test_long_runs_are_thinned():
    kept = thinned(range(1001), 200, best=501)
    assert kept[0] == 0
    assert kept[-1] == 1000
    assert 501 in kept
    assert len(kept) in (200, 201)
    assert max(np.diff(kept)) <= 6
    assert thinned([0, 1, 2], 200, best=2) == [0, 1, 2]
