"""Every method trains, is kept, and predicts the same ever after."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from legs.training import Task, fit, methods
from legs.training.methods import ENSEMBLES
from legs.training.svm import _folds, fit_svm
from tests.training.made import (
    QUICK,
    assert_same,
    made_data,
    made_split,
    renumbered,
    weights_of,
)

TASKS = ("classification", "regression")
CASES = [(name, task) for name in methods() for task in TASKS]
OPTIONS = replace(QUICK, max_epochs=20, validate_every=5, lr=5e-3)

SCRIPT = """
import sys
from pathlib import Path
from safetensors.torch import save_file
from legs.training import load_predictor
from tests.training.made import made_data, renumbered

for folder in sorted(Path(sys.argv[1]).iterdir()):
    data = made_data(folder.name.split(":")[1], graphs=30, seed=9)
    model = load_predictor(folder / "model")
    found = {
        "whole": model.predict(data),
        "parts": model.predict(data, batch_size=7),
        "renumbered": model.predict(renumbered(data)),
    }
    save_file(found, folder / "found")
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Every method trained, saved, and asked again in a new process."""
    folder, fitted = tmp_path_factory.mktemp("models"), {}
    for name, task in CASES:
        data = made_data(task)
        fitted[name, task] = fit(data, name, made_split(), OPTIONS)
        fitted[name, task].predictor.save(folder / f"{name}:{task}" / "model")
    arguments = [sys.executable, "-c", SCRIPT, str(folder)]
    subprocess.run(arguments, check=True, cwd=Path(__file__).parents[2])
    return folder, fitted


def unseen(task):
    return made_data(task, graphs=30, seed=9)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_beats_a_guess(name, task, kept):
    scores = kept[1][name, task].scores
    if task == "classification":
        assert scores["test"]["accuracy"] > scores["guess"]["accuracy"]
        assert scores["test"]["log_loss"] < scores["guess"]["log_loss"]
    else:
        assert scores["test"]["whitened_mse"] < scores["guess"]["whitened_mse"]


@pytest.mark.parametrize(("name", "task"), CASES)
def test_predicts_the_same_in_another_process(name, task, kept):
    folder, fitted = kept
    model, found = fitted[name, task].predictor, load_file(folder / f"{name}:{task}" / "found")
    # Numbers in units of their deviation, classes as probabilities.
    unit = 1.0 if task == "classification" else model.task.deviation
    expected = model.predict(unseen(task)) / unit
    assert expected.isfinite().all()
    assert expected.std(0).min() > 1e-3
    answers = [("whole", 1e-6), ("parts", 1e-5), ("renumbered", 1e-3)]
    if model.method in ("auto", "forest", "boosting"):
        answers.pop()  # trees are not continuous: rounding may cross a threshold
    for name, tolerance in answers:
        torch.testing.assert_close(found[name] / unit, expected, rtol=1e-6, atol=tolerance)
    if task == "classification":
        torch.testing.assert_close(expected.sum(1), torch.ones(30))


@pytest.mark.parametrize("name", methods())
def test_parameters_are_counted(name, kept):
    predictor = kept[1][name, "classification"].predictor
    assert predictor.num_parameters() > 0
    if name in ENSEMBLES:
        network = predictor.network
        assert predictor.num_parameters() == sum(p.numel() for p in network.head.parameters())


def test_embeddings_are_what_heads_read(kept):
    for name in ("legs-fixed", "legs-fcn", "gin", "gcn-legs-fcn"):
        predictor = kept[1][name, "classification"].predictor
        data = unseen("classification")
        with torch.no_grad():
            out = predictor.network.predict_from(predictor.embed(data))
        torch.testing.assert_close(out.softmax(-1), predictor.predict(data), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("legs-fnc", {}, "no model is called 'legs-fnc'; did you mean 'legs-fcn'"),
        ("gs_svm", {}, "did you mean 'gs-svm'"),
        ("gcn-legs", {}, "did you mean 'gcn-legs-f"),
        ("zzz", {}, "choose from legs-fixed, .*gcn-legs-fcn"),
        ("legs-fcn", {"ordre": 1}, "legs-fcn has no option 'ordre'; did you mean 'order'"),
        ("gs-svm", {"C": 1}, "gs-svm has no option 'C'"),
        ("gcn-legs-fcn", {"order": 1}, "gcn-legs-fcn has no option 'order'; choose from hidden_"),
        ("legs-fcn", {"level": "node"}, "use legs.training.fit_nodes"),
        ("legs-fcn", {"aggr": None}, "use legs.training.fit_nodes"),
    ],
)
def test_unknown_names(name, options, message):
    def report(row):
        raise AssertionError("names are checked before anything is trained")

    with pytest.raises(ValueError, match=message):
        fit(made_data(), name, made_split(), OPTIONS, model_options=options, report=report)


def svm(data, seed=0):
    train, validation, _ = map(torch.as_tensor, made_split())
    return fit_svm(data, Task.of(data, train), train, validation, seed=seed)


@pytest.mark.parametrize("task", TASKS)
def test_svm_chooses_within_training_graphs(task):
    """Test labels change nothing; validation labels calibrate and change no choice."""
    data = made_data(task)
    # Noisy enough for the grid to matter.
    noise = torch.Generator().manual_seed(0)
    y = data.y.clone()
    if task == "classification":
        flipped = torch.rand(60, generator=noise) < 0.25
        y = torch.where(flipped, 1 - y, y)
    else:
        y = y + 0.5 * y.std(0) * torch.randn(60, 3, generator=noise)
    data = replace(data, y=y)
    machine = svm(data)
    for part in ("validation", "test"):
        other = y.clone()
        places = torch.as_tensor(getattr(made_split(), part))
        other[places] = y[places].flip(0)
        again = svm(replace(data, y=other))
        assert (again.penalty, again.width) == (machine.penalty, machine.width)
        assert torch.equal(again.features, machine.features)
        if part == "test" or task == "regression":
            assert_same(again.state_dict(), machine.state_dict())
        else:
            assert not torch.equal(again.calibration, machine.calibration)


@pytest.mark.parametrize("task", TASKS)
def test_svm_of_many_graphs_chooses_on_some_and_is_fitted_on_all(task, monkeypatch):
    data = made_data(task)
    seen = []

    def search(machine, grid, **more):
        return SimpleNamespace(fit=lambda x, y: record(x, y, grid))

    def record(x, y, grid):
        seen.append((len(x), np.bincount(y).tolist() if task == "classification" else None))
        return SimpleNamespace(best_params_={name: values[0] for name, values in grid.items()})

    monkeypatch.setattr("legs.training.svm.MOST_TUNED", 20)
    monkeypatch.setattr("legs.training.svm.GridSearchCV", search)
    machine = svm(data)
    assert len(machine.features) == len(made_split().train) > 20
    assert {count for count, _ in seen} == {20}
    if task == "classification":
        assert min(seen[0][1]) >= 8  # both classes in their share


def test_svm_with_missing_numbers():
    """Each target is learned from the graphs that have it, as if it were alone."""
    data = made_data("regression")
    y = data.y.clone()
    y[::3, 0] = torch.nan
    whole = fit(replace(data, y=y), "gs-svm", made_split(), OPTIONS)
    assert whole.predictor.predict(data).isfinite().all()
    alone = replace(data, y=y[:, 2:], target_names=data.target_names[2:])
    single = fit(alone, "gs-svm", made_split(), OPTIONS)
    torch.testing.assert_close(
        whole.predictor.predict(data)[:, 2:], single.predictor.predict(data), rtol=1e-6, atol=1e-5
    )
    y[:, 1] = torch.nan
    with pytest.raises(ValueError, match="two training graphs with a value of edges"):
        fit(replace(data, y=y), "gs-svm", made_split(), OPTIONS)


def test_svm_weighs_rare_classes(tmp_path):
    data = made_data()
    generator = torch.Generator().manual_seed(1)
    y = torch.where(torch.rand(60, generator=generator) < 0.7, 0, data.y)
    data = replace(data, y=y, class_names=("a", "b", "never"))
    plain, fair = (
        fit(data, "gs-svm", made_split(), replace(OPTIONS, balanced=b)) for b in (False, True)
    )
    assert plain.predictor.answerer.class_weights.numel() == 0
    assert (
        fair.predictor.answerer.class_weights.tolist() == fair.predictor.task.class_weights.tolist()
    )
    for fitted, weight in ((plain, {}), (fair, None)):
        chosen = fitted.predictor.answerer.machines[0][-1].class_weight_
        assert (len(set(chosen)) == 1) == (weight == {})
    answers = fair.predictor.predict(data)
    assert (answers[:, 2] < 1e-6).all()  # a class without training graphs is never predicted
    fair.predictor.save(tmp_path)
    from legs.training import load_predictor

    assert torch.equal(load_predictor(tmp_path).predict(data), answers)


def test_svm_folds_are_shuffled():
    """Data sets come sorted by class, source or size."""
    y = np.arange(60) // 40
    for kind in TASKS:
        tests = [test for _, test in _folds(kind, y, 5, seed=0).split(y[:, None], y)]
        assert sorted(np.concatenate(tests)) == list(range(60))
        assert all(np.diff(test).max() > 1 for test in tests)
        again = [test for _, test in _folds(kind, y, 5, seed=1).split(y[:, None], y)]
        assert any(list(a) != list(b) for a, b in zip(tests, again, strict=True))
    assert _folds("classification", np.array([0, 0, 0, 1, 1]), 5, seed=0).get_n_splits() == 2


@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_changes_no_decision(classes):
    data = made_data()
    generator = torch.Generator().manual_seed(2)
    noise = torch.randint(classes, (60,), generator=generator)
    y = torch.where(torch.rand(60, generator=generator) < 0.4, noise, data.y)
    data = replace(data, y=y, class_names=("a", "b", "c")[:classes])
    machine, part = svm(data), data.subset(made_split().validation)
    task = Task.of(data, torch.as_tensor(made_split().train))
    plain = machine.machines[0].predict(machine.embedding(part).double().numpy())
    answers = machine.answers(part, task)
    assert answers.argmax(-1).tolist() == plain.tolist()

    def loss(factor):
        weights = machine.calibration.clone()
        weights[:, :-1] *= factor
        return task.scores(replace(machine, calibration=weights).answers(part, task), part.y)

    best = loss(1)["log_loss"]
    assert best < min(loss(5)["log_loss"], loss(0.2)["log_loss"])


def test_ensemble_parts_are_trained_alike():
    """The parts are the networks that training alone would give, frozen."""
    data = made_data()
    ensemble = fit(data, "gcn-legs-fixed", made_split(), QUICK).predictor.network
    for part, name in ((ensemble.first, "gcn"), (ensemble.second, "legs-fixed")):
        alone = fit(data, name, made_split(), QUICK)
        assert_same(dict(part.state_dict()), weights_of(alone))


def test_real_molecules(mutag):
    """LEGS and a GCN see more in MUTAG than the share of its classes."""
    options = replace(OPTIONS, max_epochs=40, batch_size=64, lr=3e-3)
    for name in ("legs-fcn", "legs-fixed", "gs-svm", "gcn"):
        fitted = fit(mutag, name, options=options)
        held_out = np.concatenate([fitted.split.validation, fitted.split.test])
        answers = fitted.predictor.predict(mutag.subset(held_out))
        right = fitted.predictor.task.scores(answers, mutag.y[held_out])
        share = float(torch.bincount(mutag.y[held_out]).max()) / len(held_out)
        assert right["accuracy"] > share + 0.05
        moved = fitted.predictor.predict(renumbered(mutag))
        torch.testing.assert_close(moved, fitted.predictor.predict(mutag), rtol=0, atol=1e-3)
