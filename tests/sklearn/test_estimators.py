"""Classifier and regressor as scikit-learn uses them."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)
from torch_geometric.utils import from_networkx

from legs.data.errors import DataError
from legs.data.readers.objects import from_objects
from legs.sklearn import LEGSClassifier, LEGSRegressor
from legs.training import load_predictor, methods
from legs.training.methods import BLENDS

Array = np.ndarray[Any, Any]
QUICK: dict[str, Any] = {"max_epochs": 20, "validate_every": 5, "lr": 0.01, "num_scales": 3}
# Options that every network has.
SHORT: dict[str, Any] = {"max_epochs": 3, "validate_every": 1}


@pytest.fixture
def sizes(graphs: list[nx.Graph]) -> Array:
    return np.array([[len(g), g.number_of_edges()] for g in graphs], dtype=float)


@pytest.mark.parametrize("estimator", [LEGSClassifier, LEGSRegressor])
class TestConventions:
    def test_parameters(self, estimator: Any) -> None:
        name = estimator.__name__
        check_parameters_default_constructible(name, estimator())
        check_no_attributes_set_in_init(name, estimator())
        check_get_params_invariance(name, estimator())
        check_set_params(name, estimator())
        model = estimator("gcn", features=["degree"], order=1)
        assert clone(model).get_params() == model.get_params()
        assert "order=1" in repr(model)

    def test_tags(self, estimator: Any) -> None:
        tags = get_tags(estimator())
        assert not tags.input_tags.two_d_array
        assert tags.no_validation
        assert tags.target_tags.required
        assert is_classifier(estimator()) == (estimator is LEGSClassifier)
        assert is_regressor(estimator()) == (estimator is LEGSRegressor)
        assert tags.target_tags.multi_output == (estimator is LEGSRegressor)

    def test_not_fitted(self, estimator: Any, graphs: list[nx.Graph], tmp_path: Path) -> None:
        model = estimator()
        for call in (model.predict, model.embed):
            with pytest.raises(NotFittedError):
                call(graphs)
        with pytest.raises(NotFittedError):
            model.save(tmp_path)
        assert not hasattr(model, "network_")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"model": "legs-fnc"}, "did you mean 'legs-fcn'"),
            ({"model": "gcn", "order": 1}, "gcn has no option 'order'"),
            ({"model": "gcn-legs-fcn", "order": 1}, "gcn-legs-fcn has no option 'order'"),
            ({"model": "gs-svm", "dropout": 0.1}, "gs-svm has no option 'dropout'"),
            ({"features": "structur"}, "did you mean 'structure'"),
            ({"lr": 0}, "lr must be positive"),
            ({"order": -1}, "order must not be negative"),
            ({"precision": "float16"}, "precision must be"),
            ({"validation_fraction": 0.9}, "validation_fraction must be"),
            ({"random_state": "a"}, "cannot be used to seed"),
        ],
    )
    def test_wrong_options_are_told_by_fit(
        self, estimator: Any, graphs: list[nx.Graph], y: Array, options: dict[str, Any], said: str
    ) -> None:
        model = estimator(**options)
        with pytest.raises(ValueError, match=said):
            model.fit(graphs, y)

    def test_graphs_and_targets_must_match(
        self, estimator: Any, graphs: list[nx.Graph], y: Array
    ) -> None:
        with pytest.raises(DataError, match="30 graphs, but 29 targets"):
            estimator().fit(graphs, y[1:])
        with pytest.raises(ValueError, match="fit needs y"):
            estimator().fit(graphs, None)

    def test_reproducible_by_random_state(
        self, estimator: Any, graphs: list[nx.Graph], y: Array
    ) -> None:
        def answers(random_state: Any) -> Array:
            torch.rand(1)  # the state of others' generators does not matter
            model = estimator(**QUICK, dropout=0.2, random_state=random_state).fit(graphs, y)
            return model.embed(graphs[:4])

        np.testing.assert_array_equal(answers(3), answers(3))
        state = np.random.RandomState
        np.testing.assert_array_equal(answers(state(3)), answers(state(3)))
        assert not np.array_equal(answers(3), answers(4))

    def test_stored_and_loaded(
        self, estimator: Any, graphs: list[nx.Graph], y: Array, tmp_path: Path
    ) -> None:
        model = estimator(**SHORT).fit(graphs, y)
        joblib.dump(model, tmp_path / "model.joblib")
        for again in (joblib.load(tmp_path / "model.joblib"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(again.predict(graphs), model.predict(graphs))
        model.save(tmp_path / "model")
        loaded = load_predictor(tmp_path / "model")
        found = loaded.predict(from_objects(graphs, features=loaded.features))
        if estimator is LEGSClassifier:
            np.testing.assert_allclose(found, model.predict_proba(graphs), atol=1e-6)
        else:
            np.testing.assert_allclose(found[:, 0], model.predict(graphs), atol=1e-6)

    def test_embedding(self, estimator: Any, graphs: list[nx.Graph], y: Array) -> None:
        model = estimator(**SHORT, num_scales=3, order=1).fit(graphs, y)
        found = model.embed(graphs[:5])
        assert found.shape == (5, model.network_.scattering.out_channels) == (5, 2 * 4 * 4)
        np.testing.assert_allclose(model.embed(graphs)[:5], found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", methods())
def test_every_method(method: str, graphs: list[nx.Graph], y: Array, sizes: Array) -> None:
    classifier = LEGSClassifier(method, **SHORT).fit(graphs, y)
    assert classifier.predict_proba(graphs).shape == (30, 2)
    regressor = LEGSRegressor(method, **SHORT).fit(graphs, sizes)
    assert regressor.predict(graphs).shape == (30, 2)
    for model in (classifier, regressor):
        assert model.embed(graphs[:2]).shape[0] == 2
        is_network = method not in ("gs-svm", *BLENDS)
        assert hasattr(model, "network_") == is_network
        assert len(model.history_) == (3 if is_network else 0)


@pytest.mark.parametrize(
    "labels",
    [(0, 1), ("tree", "gnp"), (True, False), (10, -3)],
    ids=["ints", "text", "truth", "unsorted"],
)
def test_classes_come_back_as_they_were(
    graphs: list[nx.Graph], y: Array, labels: tuple[Any, Any]
) -> None:
    named = np.array(labels)[y]
    model = LEGSClassifier(**QUICK).fit(graphs[::2], named[::2])
    assert model.classes_.tolist() == sorted(labels)
    found = model.predict(graphs)
    assert found.dtype == named.dtype
    assert model.score(graphs[1::2], named[1::2]) == np.mean(found[1::2] == named[1::2]) > 0.9
    frame = pd.DataFrame({"kind": named})
    again = LEGSClassifier(**QUICK).fit(graphs[::2], frame[::2])
    np.testing.assert_array_equal(again.predict(graphs), found)
    assert again.score(graphs, pd.Series(named)) == model.score(graphs, named)


def test_probabilities(graphs: list[nx.Graph]) -> None:
    kinds = np.array(["small", "large", "medium"])[np.arange(30) % 3]
    model = LEGSClassifier(**QUICK).fit(graphs, kinds)
    found = model.predict_proba(graphs)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(graphs))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = -np.log(found[np.arange(30), np.searchsorted(model.classes_, kinds)]).mean()
        assert log_loss(kinds, found) == pytest.approx(expected)


def test_every_kind_of_graph_gives_the_same(graphs: list[nx.Graph], y: Array) -> None:
    model = LEGSClassifier(**QUICK).fit(graphs, y)
    assert model.features_ == ("structure",)
    assert model.node_features_ == ("eccentricity", "clustering")
    assert model.in_channels_ == 2
    expected = model.predict_proba(graphs)
    converted = [from_networkx(graph) for graph in graphs]
    matrices = [sparse.csr_array(nx.to_scipy_sparse_array(graph)) for graph in graphs]
    for given in (converted, matrices, pd.Series(graphs), from_objects(graphs), iter(graphs)):
        np.testing.assert_allclose(model.predict_proba(given), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        LEGSClassifier(**QUICK).fit(from_objects(graphs), torch.from_numpy(y)).predict(matrices),
        model.predict(graphs),
    )


def test_options_reach_network_and_training(graphs: list[nx.Graph], y: Array) -> None:
    options: dict[str, Any] = {
        **{"num_scales": 4, "steps": 9, "order": 1, "path_policy": "all", "lowpass": True},
        **{"ordering": "softmax", "laziness": 0.7, "learn_laziness": "channel"},
        **{"hidden_channels": 7, "dropout": 0.25, "features": "degree"},
    }
    model = LEGSClassifier(**options, **SHORT, refit=False).fit(graphs, y)
    described = model.network_.describe()
    both = {**described["scattering"], **described["head"]}
    assert {k: both[k] for k in options if k != "features"} == {
        k: v for k, v in options.items() if k != "features"
    }
    assert model.features_ == ("degree",)
    layers = LEGSClassifier("gin", num_layers=2, **SHORT).fit(graphs, y).network_.describe()
    assert layers["num_layers"] == 2
    pooled = LEGSClassifier(aggr="max", order=0, **SHORT).fit(graphs, y)
    assert pooled.embed(graphs).shape == (30, 2)

    def answers(**changed: Any) -> Array:
        fitted = LEGSClassifier(**{**QUICK, "max_epochs": 5, **changed}).fit(graphs, y)
        return fitted.predict_proba(graphs)

    plain = answers()
    for changed in ({"clip": 0.01}, {"weight_decay": 1.0}, {"batch_size": 4}, {"lr": 0.1}):
        assert not np.allclose(answers(**changed), plain, atol=1e-3)
    np.testing.assert_allclose(answers(precision="float64"), plain, atol=1e-3)


def test_numbers_of_numpy_are_numbers(graphs: list[nx.Graph], y: Array, tmp_path: Path) -> None:
    model = LEGSClassifier(order=np.int64(1), max_epochs=np.int64(2), lr=np.float32(0.01))
    model.set_params(batch_size=np.int64(8)).fit(graphs, y).save(tmp_path / "model")
    assert load_predictor(tmp_path / "model").task.names == ("0", "1")


def test_rare_classes_can_weigh_more(graphs: list[nx.Graph], y: Array) -> None:
    some = [*range(15), *range(15, 20)]
    chosen, kinds = [graphs[i] for i in some], y[some]
    model = LEGSClassifier(**SHORT, class_weight="balanced").fit(chosen, kinds)
    assert model.predictor_.task.class_weights.tolist() == pytest.approx([20 / 30, 20 / 10])
    assert LEGSClassifier(**SHORT).fit(chosen, kinds).predictor_.task.class_weights is None
    with pytest.raises(ValueError, match="class_weight must be"):
        LEGSClassifier(class_weight={0: 1}).fit(graphs, y)
    with pytest.raises(ValueError, match="gs-svm has no class_weight"):
        LEGSClassifier("gs-svm", class_weight="balanced").fit(graphs, y)


@pytest.mark.parametrize("method", ["legs-fcn", "gs-svm"])
def test_all_graphs_train_in_the_end(method: str, graphs: list[nx.Graph], sizes: Array) -> None:
    part = LEGSRegressor(method, refit=False, **SHORT).fit(graphs, sizes).predictor_
    model = LEGSRegressor(method, **SHORT).fit(graphs, sizes)
    whole = model.predictor_
    # The scale of the targets shows which graphs were trained on.
    np.testing.assert_allclose(whole.task.mean, sizes.mean(axis=0), rtol=1e-6)
    assert not np.allclose(part.task.mean, sizes.mean(axis=0), rtol=1e-6)
    if method == "gs-svm":
        assert (len(part.answerer.target), len(whole.answerer.target)) == (27, 30)


def test_training_stops_where_validation_says(graphs: list[nx.Graph], sizes: Array) -> None:
    noise = np.random.default_rng(0).normal(size=30)
    options = {**QUICK, "max_epochs": 300, "patience": 10}
    model = LEGSRegressor(**options).fit(graphs, noise)
    losses = [row.get("validation_loss", np.inf) for row in model.history_]
    assert model.best_epoch_ == 1 + int(np.argmin(losses))
    assert len(model.history_) == model.best_epoch_ + 10 < 300


@pytest.mark.parametrize("shape", ["flat", "column", "table"])
def test_predictions_have_the_shape_of_targets(
    graphs: list[nx.Graph], sizes: Array, shape: str
) -> None:
    targets = {
        "flat": sizes[:, 0],
        "column": sizes[:, :1],
        "table": pd.DataFrame(sizes, columns=["nodes", "edges"], index=range(50, 80)),
    }[shape]
    model = LEGSRegressor(**{**QUICK, "max_epochs": 100}).fit(graphs, targets)
    assert model.predict(graphs).shape == np.shape(targets)
    assert model.score(graphs, targets) > 0.8
    names = ("nodes", "edges") if shape == "table" else ("y",)
    assert model.target_names_ == model.predictor_.task.names == names


def test_some_targets_may_be_missing(graphs: list[nx.Graph], sizes: Array) -> None:
    gaps = sizes.copy()
    gaps[::3, 0] = np.nan
    model = LEGSRegressor(**{**QUICK, "max_epochs": 100}).fit(graphs, gaps)
    assert model.score(graphs, sizes) > 0.7


def test_verbose_prints_losses(
    graphs: list[nx.Graph], y: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    LEGSClassifier(**SHORT).fit(graphs, y)
    assert capsys.readouterr().out == ""
    LEGSClassifier(**SHORT, verbose=True).fit(graphs, y)
    out = capsys.readouterr().out
    assert "epoch 3: training loss" in out
    assert "again with all 30 graphs" in out


def test_cross_validation_alone_and_in_parallel(graphs: list[nx.Graph], y: Array) -> None:
    model = LEGSClassifier(**QUICK)
    alone = cross_val_score(model, graphs, y, cv=3, error_score="raise")
    assert alone.mean() > 0.8
    both = cross_val_score(model, graphs, y, cv=3, n_jobs=2, error_score="raise")
    np.testing.assert_allclose(both, alone, atol=0.11)  # rounding may turn one graph of ten
    data = from_objects(graphs)
    np.testing.assert_allclose(
        cross_val_score(model, data, y, cv=3, error_score="raise"), alone, atol=0.11
    )


def test_grid_search(graphs: list[nx.Graph], y: Array) -> None:
    grid = {"order": [1, 2], "model": ["legs-fcn", "legs-fixed"]}
    search = GridSearchCV(LEGSClassifier(**QUICK), grid, cv=2, error_score="raise").fit(graphs, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > 0.8
    assert search.best_estimator_.predictor_.method == search.best_params_["model"]
    assert search.predict_proba(graphs[:3]).shape == (3, 2)


def test_the_end_of_a_pipeline(graphs: list[nx.Graph], sizes: Array) -> None:
    def largest(given: list[nx.Graph]) -> list[nx.Graph]:
        return [g.subgraph(max(nx.connected_components(g), key=len)) for g in given]

    steps = [("largest", FunctionTransformer(largest)), ("model", LEGSRegressor(**QUICK))]
    pipeline = Pipeline(steps).set_params(model__max_epochs=100).fit(graphs, sizes[:, 0])
    assert pipeline.score(graphs, sizes[:, 0]) > 0.8
    np.testing.assert_array_equal(
        pipeline.predict(graphs), pipeline["model"].predict(largest(graphs))
    )


def test_node_features_must_be_those_of_fit(graphs: list[nx.Graph], y: Array) -> None:
    data = [from_networkx(graph) for graph in graphs]
    for graph in data:
        graph.x = torch.rand(graph.num_nodes, 3)
    model = LEGSClassifier(**SHORT).fit(data, y)
    assert model.features_ == ("attributes",)
    with pytest.raises(DataError, match="no feature block 'attributes'"):
        model.predict(graphs)
    data[0].x = torch.rand(data[0].num_nodes, 2)
    with pytest.raises(DataError, match="there are 2 instead of 3"):
        model.predict(data[:1])


class TestMolecules:
    smiles = ("CCO", "c1ccccc1", "CC(=O)O", "c1ccncc1", "CCCCN", "Cc1ccccc1", "CCC", "c1ccsc1")
    aromatic = (False, True) * 4

    @pytest.fixture(autouse=True)
    def _needs_rdkit(self) -> None:
        pytest.importorskip("rdkit", reason="molecules need RDKit")

    def test_smiles_molecules_and_data_sets(self, tmp_path: Path) -> None:
        from rdkit import Chem

        smiles, y = self.smiles * 3, self.aromatic * 3
        model = LEGSClassifier(**QUICK).fit(np.array(smiles), y)
        assert model.features_ == ("chem",)
        assert model.predict(["c1ccccc1CC", "CCCCCC"]).tolist() == [True, False]
        mols = [Chem.MolFromSmiles(text) for text in smiles]
        expected = model.predict_proba(smiles)
        np.testing.assert_allclose(model.predict_proba(mols), expected, rtol=1e-5, atol=1e-7)
        # A data set that knows where its features come from trains the same model.
        data = from_objects(smiles)
        again = LEGSClassifier(**QUICK).fit(data, y)
        np.testing.assert_array_equal(again.predict_proba(data), expected)
        np.testing.assert_array_equal(again.predict_proba(smiles), expected)
        again.save(tmp_path / "model")
        assert load_predictor(tmp_path / "model").features == ("chem",)

    def test_a_bad_smiles_is_named(self) -> None:
        with pytest.raises(DataError, match=r"^graph 1: not a SMILES string: 'C1CC'"):
            LEGSClassifier().fit(["C", "C1CC"], [0, 1])


def test_old_names_of_options(graphs: list[nx.Graph], y: Array) -> None:
    with pytest.warns(DeprecationWarning, match="paths= of LEGSClassifier is deprecated"):
        model = LEGSClassifier(**SHORT, refit=False, num_scales=2, paths="all").fit(graphs, y)
    assert model.network_.describe()["scattering"]["path_policy"] == "all"
