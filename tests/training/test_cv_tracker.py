"""How far a cross-validation is: recorded sequences, and what a real one tells."""

import math
from dataclasses import replace

import pytest
import torch

from legs.training import stack
from legs.training.cross_validation import cross_validate
from legs.training.cv_progress import CVProgress
from legs.training.cv_store import Trained
from legs.training.cv_tracker import Pace, Tracker
from legs.training.stack import Standing
from tests.training.test_cross_validation import OPTIONS, TRAINING, data

INF = math.inf


def trained(epochs, seconds=0.0):
    return Trained(torch.zeros(1), 0.5, epochs, epochs, 1, seconds, "stacked")


class Recorded:
    """A tracker with a clock that is set by hand, and what it told."""

    def __init__(self, *paces, grid=1):
        self.now, self.told = 0.0, []
        self.tracker = Tracker(list(paces), 100, 10, grid, self.told.append, lambda: self.now)

    def at(self, now, *standing):
        """The facts at a time."""
        self.now = now
        if standing:
            self.tracker(Standing(*standing))
        return self.told[-1]

    def models(self, facts):
        return facts.done, facts.running, facts.stopped


def left(facts):
    return None if facts.seconds_left is None else round(facts.seconds_left, 6), facts.at_most


def test_one_method():
    seen = Recorded(Pace("gcn", 6, 100), grid=2)
    seen.now = 5.0
    seen.tracker.begin(0, [0, 1], "networks", 0, 4)
    assert seen.told == []
    facts = seen.at(10, 0, 4, 0, INF, 0)
    assert (facts.method, facts.method_number, facts.methods) == ("gcn", 1, 1)
    assert (facts.settings, facts.grid) == ((0, 1), 2)
    assert (facts.models, facts.method_models, facts.first, facts.last) == (6, 6, 1, 4)
    assert left(facts) == (None, False)
    assert facts.time_left == ""
    assert str(facts) == "gcn: models 1 to 4 of 6, epoch 0, 4 running"
    # 4 seconds for 10 epochs of 4 models: a tenth of a second each; 4 x 90 and 2 x 100 to go.
    facts = seen.at(14, 10, 4, 0, 0.75, 40)
    assert left(facts) == (pytest.approx(56), True)
    assert facts.time_left == "≤ 0:56 left"
    assert (facts.epoch, facts.max_epochs, facts.best_loss, facts.seconds) == (10, 100, 0.75, 14)
    assert str(facts) == "gcn: models 1 to 4 of 6, epoch 10, 4 running, best loss 0.7500"
    # One has stopped after 30 epochs: the others are expected to, and go on for 10 at least.
    facts = seen.at(22, 30, 3, 1, 0.5, 120)
    assert seen.models(facts) == (0, 3, 1)
    assert left(facts) == (pytest.approx(0.1 * (3 * 10 + 2 * 30)), False)
    assert facts.time_left == "about 0:09 left"
    # Two more after 50, the last at 90: it can go on for 10 at most, whatever the mean.
    seen.at(28, 50, 1, 3, 0.5, 180)
    facts = seen.at(32, 95, 1, 3, 0.5, 225)
    rate = 22 / 225
    assert left(facts) == (pytest.approx(rate * (5 + 2 * 130 / 3)), False)
    seen.now = 33
    seen.tracker.end([trained(30), trained(50), trained(50), trained(100)])
    seen.tracker.begin(0, [1], "networks", 4, 2)
    facts = seen.at(40, 0, 2, 0, INF, 0)
    assert seen.models(facts) == (4, 2, 0)
    assert (facts.first, facts.last, facts.settings) == (5, 6, (1,))
    assert left(facts) == (pytest.approx(23 / 230 * 2 * 57.5), False)
    facts = seen.at(45, 100, 2, 0, 0.4, 200)
    assert left(facts) == (0, False)


def test_methods_not_begun_count_like_the_mean_of_those_seen():
    seen = Recorded(Pace("gcn", 2, 100), Pace("gin", 2, 100), Pace("gat", 4, 100))
    seen.tracker.begin(0, [0], "networks", 0, 2)
    seen.at(0, 0, 2, 0, INF, 0)
    facts = seen.at(2, 10, 2, 0, 0.5, 20)  # 0.1 s; 10 s a model
    assert left(facts) == (pytest.approx(18 + 6 * 10), False)
    seen.now = 4
    seen.tracker.end([trained(20), trained(20)])  # 2 s a model
    seen.tracker.begin(1, [0], "trial", 0)
    facts = seen.told[-1]
    assert str(facts) == "gin: trying which way is faster"
    assert seen.models(facts) == (2, 0, 0)
    assert left(facts) == (pytest.approx(6 * 2), False)
    seen.tracker.begin(1, [0], "networks", 0, 2)
    seen.at(10, 0, 2, 0, INF, 0)
    facts = seen.at(14, 10, 2, 0, 0.5, 20)  # 0.2 s; 20 s a model
    assert (facts.method_number, facts.methods) == (2, 3)
    assert left(facts) == (pytest.approx(36 + 4 * (2 + 20) / 2), False)


def test_models_that_are_one_piece_of_work():
    seen = Recorded(Pace("gs-svm", 3, None), Pace("gcn-legs-fcn", 2, None))
    seen.tracker.begin(0, (), "machine", 0)
    facts = seen.told[-1]
    assert str(facts) == "gs-svm: test set 1 of 3"
    assert left(facts) == (None, False)
    seen.now = 6
    seen.tracker.end([trained(0)])
    seen.tracker.begin(0, (), "machine", 1)
    assert seen.models(seen.told[-1]) == (1, 1, 0)
    assert left(seen.told[-1]) == (pytest.approx(6 * 4), False)
    seen.now = 12
    seen.tracker.end([trained(0)])
    seen.tracker.begin(0, (), "machine", 2)
    seen.now = 18
    seen.tracker.end([trained(0)])
    seen.tracker.begin(1, (0,), "ensemble", 0)
    assert str(seen.told[-1]) == "gcn-legs-fcn: model 1 of 2"
    facts = seen.at(20, 30, 1, 0, 0.25, 0)
    assert (facts.epoch, facts.best_loss) == (30, 0.25)
    assert left(facts) == (pytest.approx(6 * 2), False)
    seen.now = 22
    seen.tracker.end([trained(40)])  # 4 s, not 6
    seen.tracker.begin(1, (0,), "ensemble", 1)
    facts = seen.at(23, 30, 1, 0, 0.25, 0)
    assert left(facts) == (pytest.approx(3), False)


def test_what_earlier_runs_have_done_counts():
    seen = Recorded(Pace("gcn", 4, 100), Pace("gin", 2, 100))
    seen.tracker.keep(0, [trained(50, 5.0), trained(50, 5.0)])
    seen.tracker.keep(1, [trained(20, 4.0), trained(20, 4.0)])
    seen.tracker.begin(0, [0], "networks", 2, 2)
    # The stack goes on from epoch 30; nothing is measured yet but by the run before.
    facts = seen.at(1, 30, 2, 0, 0.5, 60)
    assert seen.models(facts) == (4, 2, 0)
    assert left(facts) == (pytest.approx(0.1 * 2 * 20), False)
    # Now 20 epochs of two models took 8 s: a fifth of a second, and not 8 / 80.
    facts = seen.at(9, 40, 2, 0, 0.5, 80)
    assert left(facts) == (pytest.approx(0.4 * 2 * 10), False)


def test_nothing_is_left_of_a_finished_method():
    """A bound stays one if the methods that are done stopped early."""
    seen = Recorded(Pace("gin", 1, 100), Pace("gcn", 1, 100))
    seen.tracker.keep(0, [trained(20, 4.0)])
    seen.tracker.begin(1, [0], "networks", 0, 1)
    seen.at(0, 0, 1, 0, INF, 0)
    assert left(seen.at(1, 10, 1, 0, 0.5, 10)) == (pytest.approx(9), True)


@pytest.mark.parametrize("way", ["stacked", "single"])
def test_a_real_run(way):
    told: list[CVProgress] = []
    grid = ({"lr": 1e-3}, {"lr": 1e-2}, {"hidden_channels": 8})
    options = replace(OPTIONS, rotations=1, grid=grid)
    names = ["legs-fixed", "gs-svm", "gcn-legs-fixed"]
    cross_validate(data(), names, options, way=way, workers=1, progress=told.append)
    assert {facts.models for facts in told} == {12 + 4 + 12}
    assert [facts.done for facts in told] == sorted(facts.done for facts in told)
    assert all(facts.done + facts.running + facts.stopped <= facts.models for facts in told)
    assert list(dict.fromkeys(facts.method for facts in told)) == names
    settings = {facts.settings for facts in told if facts.method == "legs-fixed"}
    assert settings == ({(0, 1), (2,)} if way == "stacked" else {(0,), (1,), (2,)})
    last = [facts for facts in told if facts.method == "legs-fixed"][-1]
    assert last.last == last.method_models == 12
    assert math.isfinite(last.best_loss)
    epochs = {facts.epoch for facts in told if facts.method == "legs-fixed"}
    assert epochs == {0, 2, 4, 6}
    assert told[-1].seconds_left is not None
    # At once, the ensembles of the last width; else the last ensemble.
    assert told[-1].models - told[-1].done == (4 if way == "stacked" else 1)


def test_workers_tell_when_a_model_is_done():
    told: list[CVProgress] = []
    options = replace(OPTIONS, rotations=1)
    given = {"way": "single", "workers": 2, "progress": told.append}
    cross_validate(data(), ["baseline"], options, **given)
    assert [(facts.running, facts.stopped) for facts in told] == [
        (2, 0), (2, 1), (2, 2), (1, 3), (0, 4)
    ]  # fmt: skip
    assert math.isfinite(told[-1].best_loss)


def test_a_run_that_goes_on_counts_what_is_done(tmp_path, monkeypatch):
    """Finished parts of all methods, also of those that come later, and epochs of a stack."""
    monkeypatch.setattr(stack, "CHECKPOINT_SECONDS", -1.0)
    options = replace(OPTIONS, training=replace(TRAINING, patience=6))
    given = {"way": "stacked", "workers": 1, "directory": tmp_path}
    cross_validate(data(), ["baseline"], options, **given)

    def stop(facts):
        if facts.first > 1 and facts.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validate(data(), ["legs-fixed"], options, chunk=8, progress=stop, **given)
    told: list[CVProgress] = []
    names = ["legs-fixed", "baseline", "gs-svm"]
    cross_validate(data(), names, options, chunk=8, progress=told.append, **given)
    first = told[0]
    assert (first.models, first.done) == (12 + 12 + 4, 8 + 12)
    assert (first.first, first.last, first.running) == (9, 12, 4)
    # Stopped while it told of epoch 4: the last state that was saved is that of epoch 3.
    assert first.epoch == 3
    assert [facts.method for facts in told if facts.step == "machine"] == ["gs-svm"] * 4
    assert "baseline" not in {facts.method for facts in told}
