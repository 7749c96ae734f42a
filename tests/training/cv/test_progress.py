"""What a cross-validation reports while it runs."""

import math
from dataclasses import replace

import pytest

from legs.training.cv.cross_validation import CVProgress, cross_validate
from legs.training.stacked import trainer as stack
from tests.training.cv.test_cross_validation import OPTIONS, TRAINING, data


@pytest.mark.parametrize("strategy", ["stacked", "sequential"])
def test_a_real_run(strategy):
    told: list[CVProgress] = []
    grid = ({"lr": 1e-3}, {"lr": 1e-2}, {"hidden_channels": 8})
    options = replace(OPTIONS, rotations=1, grid=grid)
    names = ["legs-fixed", "gs-svm", "gcn-legs-fixed"]
    cross_validate(data(), names, options, strategy=strategy, workers=1, progress=told.append)
    assert {facts.models for facts in told} == {12 + 4 + 12}
    assert [facts.done for facts in told] == sorted(facts.done for facts in told)
    assert all(
        facts.done + facts.standing.running + facts.standing.stopped <= facts.models
        for facts in told
    )
    assert list(dict.fromkeys(facts.unit.method for facts in told)) == names
    settings = {tuple(facts.settings) for facts in told if facts.unit.method == "legs-fixed"}
    assert settings == ({(0, 1), (2,)} if strategy == "stacked" else {(0,), (1,), (2,)})
    found = [facts.standing for facts in told if facts.unit.method == "legs-fixed"]
    assert math.isfinite(found[-2].best)
    epochs = {facts.standing.epoch for facts in told if facts.unit.method == "legs-fixed"}
    assert epochs == {0, 2, 4, 6}
    assert told[-1].models == told[-1].done


def test_workers_report_finished_units():
    told: list[CVProgress] = []
    options = replace(OPTIONS, rotations=1)
    given = {"strategy": "sequential", "workers": 2, "progress": told.append}
    cross_validate(data(), ["baseline"], options, **given)
    assert [(facts.standing.running, facts.done) for facts in told] == [
        (2, 0), (2, 1), (2, 2), (1, 3), (0, 4)
    ]  # fmt: skip


def test_a_resumed_run_counts_what_is_done(tmp_path, monkeypatch):
    """Finished parts of all methods, also of those that come later, and epochs of a stack."""
    monkeypatch.setattr(stack, "CHECKPOINT_SECONDS", -1.0)
    options = replace(OPTIONS, training=replace(TRAINING, patience=6))
    given = {"strategy": "stacked", "workers": 1, "directory": tmp_path}
    cross_validate(data(), ["baseline"], options, **given)

    def stop(facts):
        if facts.done == 8 and facts.standing.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validate(data(), ["legs-fixed"], options, chunk=8, progress=stop, **given)
    told: list[CVProgress] = []
    names = ["legs-fixed", "baseline", "gs-svm"]
    cross_validate(data(), names, options, chunk=8, progress=told.append, **given)
    assert (told[0].models, told[0].done) == (12 + 12 + 4, 8 + 12)
    # Stopped while it told of epoch 4: the last state that was saved is that of epoch 3.
    assert (told[1].standing.epoch, told[1].standing.running) == (3, 4)
    assert {facts.unit.method for facts in told if facts.unit.step == "machine"} == {"gs-svm"}
    assert "baseline" not in {facts.unit.method for facts in told}
