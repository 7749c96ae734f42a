"""Geometric scattering as a scikit-learn transformer."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from torch_geometric.utils import from_networkx

from legs.data.errors import DataError
from legs.data.readers.objects import from_objects
from legs.nn import Moments, Scattering
from legs.sklearn import GeometricScattering

OPTIONS: list[dict[str, Any]] = [
    {},
    {"scales": [1, 3, 7]},
    {"num_scales": 3, "order": 3},
    {"steps": 20, "path_policy": "all"},
    {"lowpass": True, "laziness": 0.7},
    {"operator": "heat", "nonlinearity": "relu-pair", "scales": [1, 2.3]},
    {"moments": "sum", "num_moments": 6},
    {"moments": "mean", "num_moments": 1, "order": 0},
    {"features": "degree+constant", "dtype": "float64"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_columns_are_those_of_the_module(
    graphs: list[nx.Graph], options: dict[str, Any]
) -> None:
    model = GeometricScattering(**options)
    found = model.fit_transform(graphs)
    dtype = options.get("dtype", "float32")
    kept = {
        k: v for k, v in options.items() if k not in ("moments", "num_moments", "features", "dtype")
    }
    module = Scattering(
        2,
        **{"scales": "dyadic", **kept},
        aggr=Moments(options.get("moments", "normalized"), options.get("num_moments", 4)),
    ).to(getattr(torch, dtype))
    data = from_objects(graphs, features=options.get("features"))
    for i, row in enumerate(found):
        x, edge_index = data[i].x.to(getattr(torch, dtype)), data[i].edge_index
        np.testing.assert_allclose(row, module(x, edge_index)[0].numpy(), rtol=1e-4, atol=1e-4)
    assert found.dtype == dtype
    assert len(model.get_feature_names_out()) == found.shape[1]
    np.testing.assert_array_equal(found, model.transform(graphs))


def test_batches_change_nothing_but_rounding(graphs: list[nx.Graph]) -> None:
    whole = GeometricScattering(dtype="float64").fit_transform(graphs)
    for size in (1, 7, 30):
        part = GeometricScattering(dtype="float64", batch_size=size).fit_transform(graphs)
        np.testing.assert_allclose(part, whole, rtol=1e-10, atol=1e-12)


def test_every_kind_of_graph_gives_the_same(graphs: list[nx.Graph]) -> None:
    model = GeometricScattering().fit(graphs)
    expected = model.transform(graphs)
    converted = [from_networkx(graph) for graph in graphs]
    matrices = [sparse.csr_array(nx.to_scipy_sparse_array(graph)) for graph in graphs]
    for given in (converted, matrices):
        np.testing.assert_allclose(model.transform(given), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.transform(pd.Series(graphs)), expected)
    array = np.empty(len(graphs), dtype=object)
    array[:] = graphs
    np.testing.assert_allclose(model.transform(array), expected)
    data = from_objects(graphs)
    np.testing.assert_allclose(GeometricScattering().fit(data).transform(data), expected)


def test_names_carry_the_node_feature(graphs: list[nx.Graph]) -> None:
    model = GeometricScattering(num_scales=2, num_moments=1, lowpass=True, features="degree").fit(
        graphs
    )
    assert model.get_feature_names_out().tolist() == [
        f"degree.{rest}"
        for rest in (
            *("mean", "psi0.mean", "psi1.mean", "psi0.psi1.mean"),
            *("phi.mean", "psi0.phi.mean", "psi1.phi.mean", "psi0.psi1.phi.mean"),
        )
    ]
    labelled = nx.path_graph(3)
    nx.set_node_attributes(labelled, 2.0, "mass.number")
    names = GeometricScattering(order=0).fit([labelled]).get_feature_names_out()
    assert names[0] == "mass.number.mean"


def test_pandas_output(graphs: list[nx.Graph]) -> None:
    model = GeometricScattering().set_output(transform="pandas")
    frame = model.fit_transform(graphs)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(frame, GeometricScattering().fit_transform(graphs))


def test_clone_and_parameters() -> None:
    model = GeometricScattering(scales=[1, 4], order=1, features=["degree", "structure"])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy is not model
    assert copy.set_params(order=3).order == 3
    assert "scales=[1, 4]" in repr(model)


def test_tags_say_that_input_is_no_table() -> None:
    tags = get_tags(GeometricScattering())
    assert not tags.input_tags.two_d_array
    assert tags.no_validation
    assert tags.transformer_tags is not None


def test_a_column_of_a_table() -> None:
    pytest.importorskip("rdkit", reason="molecules need RDKit")
    table = pd.DataFrame({"smiles": ["CCO", "CC", "c1ccccc1"], "size": [1.0, 2, 3]})
    columns = [
        ("s", GeometricScattering(order=0, features="atoms"), "smiles"),
        ("n", "passthrough", ["size"]),
    ]
    found = ColumnTransformer(columns).set_output(transform="pandas").fit_transform(table)
    assert found.shape == (3, 41)
    assert found["n__size"].tolist() == [1, 2, 3]


def test_a_table_with_one_column() -> None:
    pytest.importorskip("rdkit", reason="molecules need RDKit")
    table = pd.DataFrame({"smiles": ["CCO", "CC", "c1ccccc1"]}, index=[5, 6, 7])
    model = GeometricScattering(order=0).fit(table)
    np.testing.assert_array_equal(model.transform(table), model.transform([*table["smiles"]]))
    assert model.set_output(transform="pandas").transform(table).index.tolist() == [5, 6, 7]


def test_processes_change_nothing(graphs: list[nx.Graph], capsys) -> None:
    model = GeometricScattering(n_jobs=2, verbose=True).fit(graphs)
    with joblib.parallel_config(backend="threading"):
        found = model.transform(iter(graphs))
        assert len(model.transform(graphs[:1])) == 1
        with pytest.raises(DataError, match="graph 20 is a directed"):
            model.transform([*graphs[:20], nx.DiGraph([(0, 1)])])
    assert "scattering: 100%" in capsys.readouterr().err
    np.testing.assert_allclose(found, GeometricScattering().fit_transform(graphs), rtol=1e-6)


def test_pipeline_and_grid_search(graphs: list[nx.Graph], y: np.ndarray[Any, Any]) -> None:
    pipeline = make_pipeline(
        GeometricScattering(), StandardScaler(), LogisticRegression(max_iter=500)
    )
    assert cross_val_score(pipeline, graphs, y, cv=3).mean() > 0.8
    grid = {"geometricscattering__order": [0, 1], "geometricscattering__num_scales": [2, 4]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(graphs, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(graphs[:3]).shape == (3,)


@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_a_fitted_estimator_can_be_stored(
    graphs: list[nx.Graph], tmp_path: Path, through: str
) -> None:
    model = GeometricScattering(scales=[1, 2, 5]).fit(graphs)
    if through == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model.joblib")
        again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.transform(graphs), model.transform(graphs))


def test_not_fitted(graphs: list[nx.Graph]) -> None:
    for call in (lambda m: m.transform(graphs), lambda m: m.get_feature_names_out()):
        with pytest.raises(NotFittedError):
            call(GeometricScattering())


def test_graphs_that_cannot_be_scattered(graphs: list[nx.Graph]) -> None:
    model = GeometricScattering().fit(graphs)
    for call in (model.fit, model.transform, model.fit_transform):
        with pytest.raises(DataError, match="the list of graphs is empty"):
            call([])
        with pytest.raises(DataError, match="graph 1 is a directed networkx graph"):
            call([graphs[0], nx.DiGraph([(0, 1)])])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scales": "learned"}, "LEGSClassifier"),
        ({"scales": [3, 1]}, "increasing"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"order": -1}, "order must not be negative"),
        ({"moments": "median"}, "kind must be"),
        ({"num_moments": 5}, "between 1 and 4"),
        ({"laziness": 0.2}, "laziness"),
        ({"features": "structur"}, "did you mean 'structure'"),
    ],
)
def test_wrong_options_are_told_by_fit(
    graphs: list[nx.Graph], options: dict[str, Any], said: str
) -> None:
    model = GeometricScattering(**options)
    with pytest.raises(ValueError, match=said):
        model.fit(graphs)


def with_attributes(**attributes: float) -> nx.Graph:
    graph = nx.path_graph(3)
    for name, value in attributes.items():
        nx.set_node_attributes(graph, {0: value, 1: 2 * value, 2: 0}, name)
    return graph


def test_node_features_must_be_those_of_fit() -> None:
    model = GeometricScattering().fit([with_attributes(mass=1, charge=2)])
    expected = model.transform([with_attributes(mass=3, charge=4)])
    swapped = model.transform([with_attributes(charge=4, mass=3)])
    np.testing.assert_array_equal(swapped, expected)
    with pytest.raises(
        DataError,
        match=r"fit, which were mass, charge: there are 1 instead of 2; missing: charge; new: none",
    ):
        model.transform([with_attributes(mass=1)])
    with pytest.raises(DataError, match="new: size"):
        model.transform([with_attributes(mass=1, charge=2, size=3)])
    with pytest.raises(DataError, match="no feature block 'attributes'"):
        model.transform([nx.path_graph(3)])
    data = from_networkx(nx.path_graph(3))
    data.x = torch.tensor([[3.0, 4], [6, 8], [0, 0]])
    np.testing.assert_allclose(model.transform([data]), expected, rtol=1e-6)
    data.x = torch.ones(3, 3)
    with pytest.raises(DataError, match="there are 3 instead of 2"):
        model.transform([data])


def test_labels_absent_from_the_test_set_are_zero_and_new_ones_raise() -> None:
    def labelled(*labels: str) -> nx.Graph:
        graph = nx.path_graph(len(labels))
        nx.set_node_attributes(graph, dict(enumerate(labels)), "label")
        return graph

    train = [labelled("C", "N", "O"), labelled("C", "C", "N")]
    model = GeometricScattering(features="labels", num_moments=1)
    everything = model.fit_transform(train)
    np.testing.assert_allclose(model.transform(train[1:]), everything[1:])
    with pytest.raises(DataError, match="new: label=S"):
        model.transform([labelled("C", "S")])


class TestMolecules:
    smiles = ("CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "CC(C)O")

    @pytest.fixture(autouse=True)
    def _needs_rdkit(self) -> None:
        pytest.importorskip("rdkit", reason="molecules need RDKit")
        pytest.importorskip(
            "legs.data.readers.molecules", reason="legs.data.readers.molecules is missing"
        )

    def test_smiles_and_molecules_are_alike(self) -> None:
        from rdkit import Chem

        model = GeometricScattering().fit(self.smiles)
        assert model.features_ == ("chem",)
        found = model.transform(self.smiles)
        mols = [Chem.MolFromSmiles(text) for text in self.smiles]
        np.testing.assert_allclose(model.transform(mols), found, rtol=1e-5, atol=1e-6)
        series = pd.Series(self.smiles, index=range(10, 16))
        np.testing.assert_array_equal(model.transform(series), found)

    def test_smiles_through_a_grid_search(self) -> None:
        pipeline = make_pipeline(GeometricScattering(), StandardScaler(), LogisticRegression())
        grid = {"geometricscattering__features": ["atoms", "chem", "structure+atoms"]}
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise")
        search.fit(np.array(self.smiles * 2), [0, 1, 0, 0, 1, 0] * 2)
        assert search.best_score_ > 0.9

    def test_a_bad_smiles_is_named(self) -> None:
        with pytest.raises(DataError, match=r"^graph 1: not a SMILES string: 'C1CC'"):
            GeometricScattering().fit(["C", "C1CC"])


def test_old_names_of_options(graphs: list[nx.Graph]) -> None:
    new = GeometricScattering(path_policy="all", append_graph_size=True).fit_transform(graphs)
    with pytest.warns(DeprecationWarning, match="size= of GeometricScattering is deprecated"):
        old = GeometricScattering(paths="all", size=True).fit_transform(graphs)
    np.testing.assert_array_equal(old, new)


def test_descriptors_and_fingerprints_are_appended() -> None:
    pytest.importorskip("rdkit")
    from legs.data.features.molecule_features import feature_names, molecule_features

    smiles = ["CCO", "c1ccccc1", "CC(=O)O", "CCN"]
    plain = GeometricScattering().fit_transform(smiles)
    model = GeometricScattering(descriptors="rdkit", fingerprint="morgan")
    found = model.fit_transform(smiles)
    names = feature_names("rdkit", "morgan")
    assert list(model.get_feature_names_out()[plain.shape[1] :]) == list(names)
    np.testing.assert_array_equal(found[:, : plain.shape[1]], plain)
    values = molecule_features(smiles, "rdkit", "morgan")
    np.testing.assert_array_equal(found[:, plain.shape[1] :], values)
    # A dummy atom has no charges: they are the medians of fit.
    column = plain.shape[1] + names.index("MaxPartialCharge")
    assert model.transform(["*C"])[0, column] in found[:, column]
    assert np.isfinite(model.transform(["*C"])).all()
    assert clone(model).get_params()["descriptors"] == "rdkit"
    with pytest.raises(DataError, match="of molecules"):
        model.fit([nx.path_graph(3)])
