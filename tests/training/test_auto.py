"""``auto`` and its candidates: out of fold, blended, saved as arrays."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier

import legs
from legs.cli import main
from legs.data import from_objects
from legs.data.splits import Split, scaffolds
from legs.explain import attribute, explain_run
from legs.explain.runs import drawn_graphs
from legs.models.saving import ModelError, load_directory, save_directory
from legs.report.page import write_page
from legs.sklearn import LEGSClassifier, LEGSRegressor
from legs.training import TrainingOptions, fit
from legs.training.auto import blend_weights, inner_folds
from legs.training.gaussian_process import Gram
from legs.training.task import Task
from legs.training.trees import fit_boosting, fit_forest
from tests.cli.molecules import rows, write

OPTIONS = TrainingOptions(max_epochs=2, batch_size=32)


def molecules(task):
    """Alkanes and alcohols with classes, sizes, or labels of which some are missing."""
    table = rows(60)
    data = from_objects([row["smiles"] for row in table])
    alcohol = torch.tensor([row["kind"] == "alcohol" for row in table])
    sizes = torch.tensor([[row["atoms"], row["weight"]] for row in table])
    if task == "classification":
        return replace(data, y=alcohol.long(), task=task, class_names=("alkane", "alcohol"))
    y = sizes
    if task == "multilabel":
        y = torch.stack([alcohol, sizes[:, 0] > 8], dim=1).float()
    y[::7, 1] = torch.nan
    return replace(data, y=y, task=task, target_names=("a", "b"))


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 6)).astype(np.float32)
    return x, x[:, :1].astype(float) ** 2 + x[:, 1:2]


def test_trees_predict_as_scikit_learn_does():
    x, y = table()
    forest = fit_forest(x, y, 15, seed=3)
    theirs = ExtraTreesRegressor(15, max_features=1 / 3, min_samples_leaf=2, random_state=3)
    np.testing.assert_allclose(forest.predict(x)[:, 0], theirs.fit(x, y[:, 0]).predict(x))
    labels = (y > 0).astype(float)
    boosting = fit_boosting(x, labels, 50, seed=3, labels=True)
    options = {"learning_rate": 0.3, "max_features": 0.2, "min_samples_leaf": 10}
    theirs = HistGradientBoostingClassifier(
        **options, max_iter=50, l2_regularization=1, early_stopping=False, random_state=3
    ).fit(x, labels[:, 0])
    np.testing.assert_allclose(boosting.predict(x)[:, 0], theirs.predict_proba(x)[:, 1])
    gaps = np.where(np.arange(80)[:, None] < 40, y, np.nan)
    alone = fit_forest(x[:40], y[:40], 5, seed=0)
    np.testing.assert_array_equal(fit_forest(x, gaps, 5, seed=0).predict(x), alone.predict(x))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("targets", [1, 2])
def test_trees_choose_among_many_columns(targets):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 600)).astype(np.float32)
    y = np.repeat(np.where(x[:, 599:] > 0, 1.0, -1.0), targets, axis=1)
    y[:10, 0] = np.nan
    for trees in (fit_forest(x, y, 20, seed=0), fit_boosting(x, y, 20, seed=0, labels=False)):
        assert bool((trees.feature == 599).any())  # of all columns, not of those that were chosen
        assert np.corrcoef(trees.predict(x)[10:, 0], y[10:, 0])[0, 1] > 0.7


def test_a_gaussian_process_interpolates():
    x, y = table()
    counts = np.zeros((80, 0), dtype=np.float32)
    gram = Gram(x, counts, y).tune(0)
    index = np.arange(60)
    model = gram.fit(index)
    noise = np.exp(model.theta[0, 3].item())
    kernel = np.exp(gram.theta[0, 0] - np.exp(gram.theta[0, 1]) * gram.parts[0])
    centered = y[:60, 0] - y[:60, 0].mean()
    dual = np.linalg.solve(kernel[:60, :60] + noise * np.eye(60), centered)
    expected = kernel[60:, :60] @ dual + y[:60, 0].mean()
    np.testing.assert_allclose(model.predict(x[60:], counts[60:])[:, 0], expected, rtol=1e-6)
    assert np.abs(expected - y[60:, 0]).mean() < 0.5 * y[60:, 0].std()


def test_weights_minimize_the_loss():
    task = Task("regression", ("y",), None, torch.zeros(1), torch.ones(1))
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(500, 1, generator=generator, dtype=torch.float64)
    parts = [y + s * torch.randn(500, 1, generator=generator) for s in (0.5, 1.0, 8.0)]
    weights = blend_weights(task, parts, y)
    # Independent errors are weighed by the inverse of their variance.
    np.testing.assert_allclose(weights, [0.8, 0.2, 0], atol=0.05)
    assert sum(weights) == pytest.approx(1)


def test_folds_follow_the_split():
    rings = ["c1ccccc1", "C1CCCCC1", "C1CCCC1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "C1CCNCC1"]
    smiles = [ring + "C" * k for ring in rings for k in range(4)]
    data = replace(from_objects(smiles), y=torch.rand(28, 1), task="regression")
    index = np.arange(28)
    named = np.array(scaffolds(smiles))
    by_scaffold = Split(index[:20], index[20:24], index[24:])
    own, folds = inner_folds(data, by_scaffold, None, 0)
    assert own.tolist() == list(range(24))
    assert sorted(np.concatenate(folds)) == list(range(24))
    for fold in folds:
        rest = np.setdiff1d(np.arange(24), fold)
        assert not set(named[own[fold]]) & set(named[own[rest]])
    shuffled = np.random.default_rng(0).permutation(28)
    own, folds = inner_folds(data, Split(shuffled[:20], shuffled[20:24], shuffled[24:]), None, 0)
    assert {len(fold) for fold in folds} == {4, 5}
    assert not set(own) & set(shuffled[24:])


@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_a_blend_is_as_good_as_its_candidates(task):
    fitted = fit(molecules(task), "auto", options=OPTIONS, group_by=None)
    blend = fitted.predictor.answerer
    names = [each["name"] for each in blend.candidates]
    assert names == ["forest", "kernel", "boosting", "legs-deep", "auto"]
    assert sum(each["weight"] for each in blend.candidates[:-1]) == pytest.approx(1, abs=1e-3)
    score = "whitened_mse" if task == "regression" else "log_loss"
    losses = [each["scores"][score] for each in blend.candidates]
    assert losses[-1] <= min(losses[:-1]) + 1e-3
    assert fitted.scores["test"][score] < fitted.scores["guess"][score]


@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_a_loaded_blend_predicts_the_same(task, tmp_path, monkeypatch):
    monkeypatch.setattr("legs.training.auto.blend_weights", lambda *_: [0.25] * 4)
    data = molecules(task)
    fitted = fit(data, "auto", options=OPTIONS, group_by=None)
    fitted.predictor.save(tmp_path)
    bare = replace(data, graph_features=None, graph_feature_names=())
    assert torch.equal(legs.load(tmp_path).predict(bare), fitted.predictor.predict(bare))


def test_little_time_leaves_candidates_out():
    fitted = fit(molecules("regression"), "auto", options=OPTIONS, model_options={"minutes": 1e-4})
    sizes = {each["name"]: each["size"] for each in fitted.predictor.answerer.candidates}
    assert sizes["forest"] == 20 and sizes["boosting"] == sizes["legs-deep"] == 0
    assert set(fitted.predictor.answerer.weights) <= {"forest", "kernel"}
    with pytest.raises(ValueError, match="minutes must be a positive number; got -1"):
        fit(molecules("regression"), "auto", model_options={"minutes": -1})


@pytest.mark.parametrize("when", [2, 3.4])
def test_a_run_resumes_from_its_candidates(when, tmp_path, monkeypatch):
    for name in ("TREES", "ROUNDS"):
        monkeypatch.setattr(f"legs.training.auto.{name}", 20)
    data = molecules("regression")
    undisturbed = fit(data, "auto", options=OPTIONS)

    def stop(row):
        if row["epoch"] == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, "auto", options=OPTIONS, directory=tmp_path / "run", report=stop)
    fits = []
    monkeypatch.setattr(
        "legs.training.auto.fit_forest", lambda *a: fits.append(len(a[0])) or fit_forest(*a)
    )
    resumed = fit(data, "auto", options=OPTIONS, directory=tmp_path / "run")
    assert torch.equal(resumed.predictor.predict(data), undisturbed.predictor.predict(data))
    assert len(fits) <= 1  # on all graphs, in the end
    weights = resumed.predictor.answerer.weights
    assert weights == undisturbed.predictor.answerer.weights
    with pytest.raises(ModelError, match="other settings"):
        fit(data, "auto", options=OPTIONS, directory=tmp_path / "run", model_options={"minutes": 9})


def test_a_blend_is_explained_by_its_networks(tmp_path, monkeypatch):
    monkeypatch.setattr("legs.training.auto.blend_weights", lambda *_: [0.4, 0.2, 0.1, 0.3])
    quality = {"draws": 1, "tolerance": 0.1, "most": 60}
    monkeypatch.setattr("legs.explain.runs.QUALITY", quality)
    fitted = fit(molecules("regression"), "auto", options=OPTIONS, directory=tmp_path)
    file = explain_run(tmp_path)
    (one,) = json.loads(file.read_text())["graphs"][0]["found"]
    width = fitted.predictor.answerer.networks[0].graph_dim
    graph = drawn_graphs(tmp_path / "shown.npz", width)[0]
    members = [
        attribute(replace(fitted.predictor, answerer=network), graph, one["target"], **quality)
        for network in fitted.predictor.answerer.networks
    ]
    assert one["value"] == pytest.approx(np.mean([each.value for each in members]), rel=1e-3)
    mean = np.mean([each.nodes for each in members], axis=0)
    np.testing.assert_allclose(one["nodes"], mean, rtol=1e-3, atol=1e-6)
    assert len(one["nodes"]) == graph.num_nodes
    page = write_page(tmp_path).read_text()
    assert "by the networks of the blend (legs-deep, weight 0.30)" in page
    assert "Candidates" in page


def test_class_weights_shift_probabilities():
    data = molecules("classification")
    data = data.subset(np.flatnonzero((data.y == 0) | (torch.arange(60) % 6 == 1)))
    split = Split(*np.split(np.random.default_rng(0).permutation(len(data)), [24, 30]))
    usual, balanced = (
        fit(data, "forest", split, replace(OPTIONS, balanced=b), group_by=None).predictor
        for b in (False, True)
    )
    weights, p = balanced.task.class_weights, usual.predict(data)
    torch.testing.assert_close(
        balanced.predict(data), p * weights / (p @ weights).unsqueeze(1), atol=1e-5, rtol=0
    )
    assert weights[1] > 2 * weights[0]


def test_test_graphs_take_no_part():
    data = molecules("regression")
    fitted = fit(data, "kernel", options=OPTIONS)
    y = data.y.clone()
    y[fitted.split.test] += 100
    again = fit(replace(data, y=y), "kernel", fitted.split, OPTIONS)
    assert torch.equal(again.predictor.predict(data), fitted.predictor.predict(data))


def test_damaged_trees_are_refused(tmp_path):
    fit(molecules("regression"), "forest", options=OPTIONS).predictor.save(tmp_path)
    description, tensors = load_directory(tmp_path)
    del description["sha256"], description["versions"]
    for name, value in (("forest.left", 10**6), ("forest.feature", -1), ("forest.right", 0)):
        wrong = {**tensors, name: torch.full_like(tensors[name], value)}
        save_directory(tmp_path, description, wrong)
        with pytest.raises(ModelError, match="no trees"):
            legs.load(tmp_path)


def test_command(tmp_path, capsys):
    path = write(tmp_path / "table.csv", ("smiles", "weight"), rows(60))
    run, out = tmp_path / "run", tmp_path / "out.csv"
    command = ["train", str(path), "--target", "weight", "-o", str(run), "--epochs", "2"]
    main([*command, "--model", "auto", "--set", "minutes=1"])
    assert "out of fold" in capsys.readouterr().out
    results = json.loads((run / "results.json").read_text())
    assert [each["name"] for each in results["candidates"]][-1] == "auto"
    main(["predict", str(run), str(path), "-o", str(out)])
    assert len(out.read_text().splitlines()) == 61
    main(["report", str(run)])


def test_estimators_take_auto(monkeypatch):
    for name in ("TREES", "ROUNDS"):
        monkeypatch.setattr(f"legs.training.auto.{name}", 20)
    table = rows(60)
    smiles = [row["smiles"] for row in table]
    y = np.array([[row["atoms"], row["weight"]] for row in table])
    y[::7, 1] = np.nan
    model = LEGSRegressor("auto", minutes=1, max_epochs=2).fit(smiles, y)
    assert model.predict(smiles).shape == (60, 2)
    assert model.score(smiles[1:7], y[1:7]) > 0.5
    kinds = [row["kind"] for row in table]
    model = LEGSClassifier("auto", minutes=1, max_epochs=2, class_weight="balanced")
    assert model.fit(smiles, kinds).score(smiles, kinds) > 0.9
