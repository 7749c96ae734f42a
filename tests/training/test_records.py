"""What a run writes epoch by epoch: complete at its end, readable at any moment."""

import json
from dataclasses import replace

import numpy as np
import pytest

from legs.models import ModelError, create
from legs.training import fit
from legs.training.checkpoint import State
from legs.training.runs import Records
from tests.training.made import QUICK, made_data, made_split

ROWS = [{"epoch": 1, "train_loss": 0.5}, {"epoch": 2, "train_loss": 0.25, "validation_loss": 1.0}]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_appear_at_once_and_are_tidied_at_the_end(tmp_path):
    log = tmp_path / "run" / "metrics.jsonl"
    for _ in range(2):  # the second time after a kill: the same epochs are noted again
        records = Records(tmp_path / "run", {"model": "gcn"})
        for number, row in enumerate(ROWS):
            records.add(row)
            assert read(log)[-1] == ROWS[number]
    records.finish(tmp_path / "run", State(epoch=2, history=ROWS))
    assert read(log) == ROWS
    expected = "epoch,train_loss,validation_loss\n1,0.5,\n2,0.25,1.0\n"
    assert (tmp_path / "run" / "metrics.csv").read_text() == expected


def test_half_a_line_is_removed(tmp_path):
    log = tmp_path / "metrics.jsonl"
    for torn in (b"", b'{"epoch": 1, "tr'):
        log.write_bytes(json.dumps(ROWS[0]).encode() + b"\n" + torn)
        Records(tmp_path, {}).add(ROWS[1])
        assert read(log) == ROWS
    log.write_bytes(b'{"ep')
    Records(tmp_path, {}).add(ROWS[0])
    assert read(log) == ROWS[:1]


def test_damaged_or_other_settings(tmp_path):
    Records(tmp_path, {"a": 1})
    Records(tmp_path, {"a": 1})
    with pytest.raises(ModelError, match=r"other settings \(a\)"):
        Records(tmp_path, {"a": 2})
    for content in ("{", "3", ""):
        (tmp_path / "settings.json").write_text(content)
        with pytest.raises(ModelError, match=r"settings\.json is damaged"):
            Records(tmp_path, {"a": 1})


def rows(folder):
    return read(folder / "scales.jsonl")


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
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path)
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path / "undisturbed")
    assert rows(tmp_path) == rows(tmp_path / "undisturbed")
    before = (tmp_path / "scales.jsonl").read_text()
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path)  # nothing left to train
    assert (tmp_path / "scales.jsonl").read_text() == before


def test_the_first_network_that_learns_scales_is_noted(tmp_path):
    log = Records(tmp_path, {})
    log.watch(create("gcn", 2, 2))
    assert log.scattering is None
    log.watch(create("legs-fixed", 2, 2))
    assert log.scattering is None
    first, second = create("legs-fcn", 2, 2), create("legs-fcn", 2, 2)
    log.watch(first)
    log.watch(second)
    assert log.scattering is first.scattering
    history = [{"epoch": 1}, {"epoch": 2}]
    log.add(history[0])
    first.requires_grad_(False)
    log.add(history[1])  # frozen under another head: noted before
    log.save_scales(State(history=history))
    assert [row["epoch"] for row in rows(tmp_path)] == [0, 1]


def test_nothing_is_kept_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(made_data(), "legs-fcn", made_split(), QUICK)
    assert list(tmp_path.iterdir()) == []
