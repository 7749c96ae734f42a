"""Features of graphs as a table: names, parts, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from legs.data import DataError, load
from legs.inference.embed import (
    embed_file,
    fixed_embedder,
    open_embedder,
    trained_embedder,
)
from legs.inference.inputs import Reading
from legs.models import create
from legs.nn.columns import columns_of_features
from legs.training import TrainingOptions, fit
from legs.training.inputs import embed

ONE_EPOCH = TrainingOptions(max_epochs=1, validate_every=1)


@pytest.fixture
def smi(tmp_path):
    pytest.importorskip("rdkit", reason="the files hold SMILES")
    file = tmp_path / "many.smi"
    file.write_text("".join(f"{'C' * (1 + i % 9)}O m{i}\n" for i in range(25)))
    return file


def test_columns_are_what_they_are_called(smi, tmp_path):
    embedder = fixed_embedder(Reading(("atoms", "degree")))
    done = embed_file(embedder, smi, tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert (done.rows, done.columns, done.skipped) == (25, len(table.columns) - 1, 0)
    assert table.columns[0] == "id"
    assert table["id"].tolist() == [f"m{i}" for i in range(25)]
    data = load(smi, features="atoms+degree")
    start = data.ptr[:-1]
    degree = torch.stack([data.x[s:e, -1].mean() for s, e in zip(start, data.ptr[1:], strict=True)])
    assert table["degree.mean"].tolist() == pytest.approx(degree.tolist())
    network = create("legs-fixed", data.in_channels, 2)
    assert torch.allclose(torch.tensor(table.iloc[:, 1:].to_numpy()), embed(network, data))


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_parts_give_the_same_table(ending, smi, tmp_path):
    tables = []
    for chunk in (1000, 4):
        out = tmp_path / f"{chunk}{ending}"
        done: list[int] = []
        embedder = fixed_embedder(Reading(), order=1)
        embed_file(embedder, smi, out, chunk=chunk, report=done.append)
        assert done[-1] == 25
        assert len(done) == -(-25 // chunk)
        tables.append(pd.read_parquet(out) if ending == ".parquet" else pd.read_csv(out))
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-5)


def test_never_the_whole_file(smi, tmp_path):
    sizes = []
    fixed = fixed_embedder(Reading(), order=0)

    def watched(data):
        sizes.append(len(data))
        return fixed.features_of(data)

    embedder = type(fixed)(fixed.reading, watched, fixed.network_of)
    embed_file(embedder, smi, tmp_path / "out.csv", chunk=7)
    assert sizes == [7, 7, 7, 4]


def test_graphs_that_are_no_table_come_in_parts_too(mutag, tmp_path):
    done = embed_file(fixed_embedder(Reading()), "MUTAG", tmp_path / "out.parquet", chunk=50)
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert done.rows == len(table) == 188
    assert table["id"].tolist() == list(mutag.ids)


def test_nothing_to_embed(tmp_path):
    pytest.importorskip("rdkit")
    file = tmp_path / "bad.smi"
    file.write_text("C1CC\nxx\n")
    with pytest.raises(DataError, match="no row that can be used"):
        embed_file(fixed_embedder(Reading()), file, tmp_path / "out.csv", on_error="skip")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.smi"]


@pytest.mark.parametrize(
    "method",
    [
        "legs-fcn",
        "gs-svm",
        "gcn",
        "gcn-legs-fixed",
        pytest.param("mp-legs-fcn", marks=pytest.mark.long),
    ],
)
def test_names_of_every_kind_of_model(method, mutag):
    predictor = fit(mutag[:60], method, options=ONE_EPOCH).predictor
    embedder = trained_embedder(predictor)
    found = embedder.features_of(mutag[:3])
    names = embedder.names_of(mutag.feature_names, found.shape[1])
    assert len(names) == len(set(names)) == found.shape[1]
    assert torch.equal(found, predictor.embed(mutag[:3]))
    scattering = method in ("legs-fcn", "gs-svm", "gcn-legs-fixed")
    assert ("clustering.psi0.psi3.skewness" in names) == scattering
    assert ("embed0" in names) == (method not in ("legs-fcn", "gs-svm"))


def test_names_of_aggregations():
    mean = create("legs-fcn", 2, 2, aggr="mean", order=1)
    names = fixed_embedder(Reading(), aggr="mean", order=1).names_of(["a", "b"], 12)
    assert names[:3] == ["a.mean", "b.mean", "a.psi0.mean"]
    assert columns_of_features(mean.scattering.columns(), ["x1", "x0"])[0] == "x1.mean"


def test_features_of_the_same_name(smi, tmp_path):
    embed_file(fixed_embedder(Reading(("chem", "degree")), order=0), smi, tmp_path / "out.csv")
    columns = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert len(set(columns)) == len(columns)
    assert {"degree.mean", "degree.mean#2"} <= set(columns)


def test_models_by_name(tmp_path):
    with pytest.raises(DataError, match="trained first"):
        open_embedder("gin")
    with pytest.raises(ValueError, match="no such run"):
        open_embedder("elsewhere")
    with pytest.raises(ValueError, match="odrer"):
        open_embedder("legs-fixed", options={"odrer": 1})
    embedder = open_embedder("legs-fixed", features="atoms + degree", hydrogens=True)
    assert embedder.reading.features == ("atoms", "degree")
    assert embedder.reading.options == {"hydrogens": True}


def test_descriptors_and_fingerprints_follow(smi, tmp_path):
    from legs.data.features.molecule_features import feature_names, molecule_features
    from legs.engine import LocalEngine
    from legs.inference.embed import embed_folder

    smi.write_text(smi.read_text() + "*C dummy\n")  # has no partial charges
    embedder = open_embedder("legs-fixed", descriptors="rdkit", fingerprint="morgan-count")
    done = embed_file(embedder, smi, tmp_path / "out.parquet", chunk=10)
    table = pd.read_parquet(tmp_path / "out.parquet")
    data, names = load(smi), list(feature_names("rdkit", "morgan-count"))
    assert list(table.columns[-len(names) :]) == names
    assert (done.rows, done.columns) == (26, len(table.columns) - 1)
    values = molecule_features(data.smiles, "rdkit", "morgan-count")
    np.testing.assert_array_equal(table[names].to_numpy(), values)
    assert table["MaxPartialCharge"].isna().tolist() == [False] * 25 + [True]
    embed_folder(embedder, smi, tmp_path / "parts", engine=LocalEngine(1), part=8)
    parts = pd.read_parquet(tmp_path / "parts")
    np.testing.assert_array_equal(parts[table.columns[1:]].to_numpy(), table.iloc[:, 1:].to_numpy())
    with pytest.raises(DataError, match="descriptors must be rdkit"):
        open_embedder("legs-fixed", descriptors="mordred")
