"""From a data set to a model, scores and a run directory that agrees with itself."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import metrics
from torch_geometric.nn.aggr import SumAggregation

from legs.data.errors import DataError
from legs.data.splits import Split, load_splits, stratified_folds
from legs.training import TrainingOptions, default_split, fit, load_predictor
from legs.training.fit import fingerprint
from tests.training.made import QUICK, TARGETS, assert_same, made_data, made_split, weights_of

FILES = {
    "checkpoint.bin",
    "metrics.csv",
    "metrics.jsonl",
    "model",
    "results.json",
    "scales.jsonl",
    "settings.json",
    "shown.csv",
    "shown.npz",
    "split.json",
    "test_predictions.csv",
}


def strict(path):
    """JSON as other programs read it: no NaN, no Infinity."""

    def refuse(name):
        raise AssertionError(f"{path} holds {name}")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.fixture(params=["classification", "regression"])
def run(request, tmp_path):
    data, rows = made_data(request.param), []
    split = made_split()
    if request.param == "regression":
        y = data.y.clone()
        y[split.test[:3], 0] = torch.nan
        data = replace(data, y=y)
    fitted = fit(data, "legs-fcn", split, QUICK, directory=tmp_path, report=rows.append)
    return data, fitted, tmp_path, rows


def test_a_run_directory_is_complete(run):
    _, fitted, folder, rows = run
    names = {path.name for path in folder.iterdir()}
    assert names - {".lock"} == FILES
    assert rows == fitted.state.history
    table = pd.read_csv(folder / "metrics.csv")
    assert list(table.columns) == ["epoch", "train_loss", "validation_loss"]
    assert table["epoch"].tolist() == list(range(1, fitted.state.epoch + 1))
    assert table["train_loss"].tolist() == [row["train_loss"] for row in rows]
    validated = table["validation_loss"].notna()
    assert table["epoch"][validated].tolist() == [2, 4]
    best = table.loc[table["validation_loss"].idxmin(), "epoch"]
    assert best == fitted.state.best_epoch
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_results_say_what_was_done(run):
    data, fitted, folder, _ = run
    results = strict(folder / "results.json")
    assert results["epochs"] == fitted.state.epoch == QUICK.max_epochs
    assert results["best_epoch"] == fitted.state.best_epoch
    assert results["parameters"] == fitted.predictor.num_parameters()
    assert results["settings"] == strict(folder / "settings.json")
    assert results["settings"]["training"] == QUICK.to_json()
    assert results["data"]["graphs"] == len(data)
    for part, scores in fitted.scores.items():
        known = {name: None if np.isnan(value) else value for name, value in scores.items()}
        assert results["scores"][part] == known
    assert set(results["scores"]) == {"train", "validation", "test", "guess"}
    assert {"torch", "torch-legs"} <= set(results["versions"])
    (split,) = load_splits(folder / "split.json", graphs=len(data))
    for part, expected in zip(split, made_split(), strict=True):
        assert part.tolist() == expected.tolist()


def test_scores_can_be_recomputed_from_the_predictions(run):
    data, fitted, folder, _ = run
    table, test = pd.read_csv(folder / "test_predictions.csv"), made_split().test
    scores = strict(folder / "results.json")["scores"]
    assert table["id"].tolist() == [data.ids[i] for i in test]
    if data.task == "classification":
        chances = table[["probability:class=tree", "probability:class=ring"]].to_numpy()
        assert table["measured:class"].tolist() == [data.class_names[k] for k in data.y[test]]
        assert table["predicted:class"].tolist() == [data.class_names[k] for k in chances.argmax(1)]
        truth = (table["measured:class"] == "ring").astype(int)
        assert scores["test"]["accuracy"] == pytest.approx(
            metrics.accuracy_score(table["measured:class"], table["predicted:class"])
        )
        assert scores["test"]["log_loss"] == pytest.approx(
            metrics.log_loss(truth, chances / chances.sum(1, keepdims=True)), rel=1e-4
        )
        assert scores["guess"]["accuracy"] == pytest.approx(0.5)
        return
    r2 = []
    for name in TARGETS:
        known = table[f"measured:{name}"].notna()
        truth, found = table.loc[known, f"measured:{name}"], table.loc[known, f"predicted:{name}"]
        mean = np.full(len(truth), fitted.predictor.task.mean[TARGETS.index(name)])
        for part, answer in (("test", found), ("guess", mean)):
            rmse = metrics.root_mean_squared_error(truth, answer)
            assert scores[part][f"rmse:{name}"] == pytest.approx(rmse, rel=1e-4)
        r2.append(metrics.r2_score(truth, found))
    assert table["measured:nodes"].isna().sum() == 3
    assert scores["test"]["r2"] == pytest.approx(np.mean(r2), rel=1e-4)


def test_the_saved_model_is_the_fitted_one(run):
    data, fitted, folder, _ = run
    again = load_predictor(folder / "model")
    assert (again.method, again.feature_names) == ("legs-fcn", data.feature_names)
    assert again.features == ("own",)
    assert_same(again.answerer.state_dict(), weights_of(fitted))
    assert torch.equal(again.predict(data), fitted.predictor.predict(data))


def test_scores_that_do_not_exist_are_null(tmp_path):
    data, split = made_data("regression"), made_split()
    y = data.y.clone()
    y[split.test] = torch.nan
    fit(replace(data, y=y), "baseline", split, QUICK, directory=tmp_path)
    assert strict(tmp_path / "results.json")["scores"]["test"] == dict.fromkeys(
        ("whitened_mse", "r2", "spearman")
    )


def test_test_graphs_are_optional(tmp_path):
    split = made_split()._replace(test=np.array([], dtype=np.int64))
    fitted = fit(made_data(), "legs-fixed", split, QUICK, directory=tmp_path)
    assert set(fitted.scores) == {"train", "validation"}
    assert not (tmp_path / "test_predictions.csv").exists()
    assert strict(tmp_path / "split.json")[0]["test"] == []
    whole = fit(made_data(), "legs-fixed", made_split(), QUICK)
    assert_same(weights_of(fitted), weights_of(whole))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [2], [1]), "graph 1 is in the test part of the split and in another"),
        (([0, 1], [2, 3], [3]), "graph 3 is in the test part"),
        (([0, 60], [2], [3]), "names graph 60, but there are 60 graphs"),
        (([-1, 1], [2], [3]), "names graph -1"),
        (([0, 1], [], [3]), "no validation graphs"),
        (([], [1], [3]), "no train graphs"),
    ],
)
def test_bad_splits(parts, message, tmp_path):
    split = Split(*(np.array(part, dtype=np.int64) for part in parts))
    with pytest.raises(DataError, match=message):
        fit(made_data(), "baseline", split, QUICK, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_default_split_keeps_shares():
    data = made_data(graphs=120)
    data = replace(data, y=(torch.arange(120) % 4 == 0).long())
    for seed in (0, 1):
        split = default_split(data, seed)
        assert [len(part) for part in split] == [96, 12, 12]
        assert sorted(np.concatenate(split)) == list(range(120))
        for part in split:
            assert data.y[part].double().mean() == pytest.approx(0.25, abs=0.02)
    assert default_split(data, 0).test.tolist() != default_split(data, 1).test.tolist()
    numbers = default_split(made_data("regression"), 0)
    assert [len(part) for part in numbers] == [48, 6, 6]


def test_a_fit_without_a_split_uses_the_default_one():
    data = made_data()
    fitted = fit(data, "baseline", options=replace(QUICK, seed=4))
    for part, expected in zip(fitted.split, default_split(data, 4), strict=True):
        assert part.tolist() == expected.tolist()


def test_other_node_features_are_refused():
    data = made_data()
    predictor = fit(data, "baseline", made_split(), QUICK).predictor
    other = replace(data, feature_names=("degree", "mass"))
    for call in (predictor.predict, predictor.embed):
        with pytest.raises(DataError, match=r"reads 2 node features \(degree, noise\)"):
            call(other)


def test_what_cannot_be_saved_is_told_before_it_is_trained(tmp_path):
    def report(row):
        raise AssertionError("trained")

    options = {"aggr": SumAggregation()}
    with pytest.raises(ValueError, match="cannot be saved; give the aggregation by name"):
        fit(
            made_data(),
            "legs-fcn",
            made_split(),
            QUICK,
            model_options=options,
            directory=tmp_path,
            report=report,
        )
    fit(made_data(), "legs-fcn", made_split(), QUICK, model_options=options)


def test_fingerprints():
    data = made_data(weighted=True)
    x, weight = data.x.clone(), data.edge_weight.clone()
    x[-1, -1] += 1
    weight[-1] += 1
    others = [
        made_data(),
        made_data("regression", weighted=True),
        replace(data, x=x),
        replace(data, edge_weight=weight),
        replace(data, y=1 - data.y),
        replace(data, class_names=("ring", "tree")),
        data.subset(range(59)),
    ]
    assert len({fingerprint(one) for one in [data, *others]}) == 8
    assert fingerprint(made_data(weighted=True)) == fingerprint(data)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr": float("nan")}, "lr must be positive"),
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"patience": -1}, "patience must be positive"),
        ({"validate_every": 0}, "validate_every must be positive"),
        ({"weight_decay": -1e-3}, "weight_decay must not be negative"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"precision": "float16"}, "precision must be"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(ValueError, match=message):
        TrainingOptions(**given)


def test_duplicates_stay_in_one_part(tmp_path):
    for task in ("classification", "regression"):
        data = made_data(task)
        rows = np.tile(np.arange(len(data)), 2)
        for seed in range(3):
            split = default_split(data.subset(rows), seed)
            assert sorted(np.concatenate(split)) == list(range(120))
            parts = [set(rows[part]) for part in split]
            assert sum(map(len, parts)) == 60
            assert [len(part) for part in split] == [96, 12, 12]
            if task == "classification":
                for part in split:
                    assert abs(float(data.y[rows[part]].float().mean()) - 0.5) < 0.1
    # Nothing changes without duplicates, nor where grouping is off.
    for seed in range(3):
        test, validation, *_ = stratified_folds(made_data().y, seed=seed)
        split = default_split(made_data(), seed)
        assert (split.test.tolist(), split.validation.tolist()) == (
            test.tolist(), validation.tolist()
        )  # fmt: skip
        found = default_split(made_data().subset(rows), seed, group_by=None).test
        assert found.tolist() == stratified_folds(rows % 2, seed=seed)[0].tolist()


def test_few_structures_are_still_split():
    data = made_data(graphs=20)
    with pytest.warns(UserWarning, match="too good"):
        fitted = fit(data[[0, 1] * 10], "baseline", options=QUICK)
    assert all(map(len, fitted.split))
    uneven = data[[0] * 15 + [1, 2, 3, 4, 5]]
    split = default_split(uneven)
    assert set(range(15)) <= set(split.train.tolist())
    assert len(split.validation) and len(split.test)


def test_a_split_that_leaks_is_reported(recwarn):
    data = made_data().subset([*range(60), 8, 9])
    split = made_split()._replace(train=np.append(made_split().train, [60, 61]))
    assert {8, 9} <= set(split.test)
    with pytest.warns(UserWarning, match="2 of 24 validation and test rows have the same structur"):
        fit(data, "baseline", split, QUICK)
    recwarn.clear()
    fit(data, "baseline", split, QUICK, group_by=None)
    fit(made_data(), "baseline", made_split(), QUICK)
    assert not [one for one in recwarn if "structure" in str(one.message)]
