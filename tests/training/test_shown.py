"""Graphs that a run keeps to be looked at."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from legs.training import CVOptions, cross_validate, fit
from legs.training import shown as shown_module
from legs.training.shown import DRAWN, losses, principal_components, write_cv_shown
from tests.training.made import QUICK, TARGETS, made_data, made_split


def kept(folder):
    with np.load(folder / "shown.npz", allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return found, pd.read_csv(folder / "shown.csv")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_is_kept_agrees_with_the_run(tmp_path, task):
    data, split = made_data(task), made_split()
    fitted = fit(data, "legs-fcn", split, QUICK, directory=tmp_path)
    found, table = kept(tmp_path)
    answers = fitted.predictor.predict(data)
    numbers = found["numbers"]
    assert sorted(numbers) == list(range(60))
    assert table["id"].tolist() == [data.ids[k] for k in numbers]
    for place, part in enumerate((split.train, split.validation, split.test)):
        assert set(numbers[found["parts"] == place]) == set(part)
    loss = losses(fitted.predictor.task, answers, data.y)
    tested = sorted(split.test, key=lambda k: float(loss[k]))
    assert int(found["best"]) == int(found["worst"]) == DRAWN
    assert numbers[:DRAWN].tolist() == tested[:DRAWN]
    assert numbers[DRAWN : 2 * DRAWN].tolist() == tested[::-1][:DRAWN]
    if task == "classification":
        assert table["prediction"].tolist() == [
            data.class_names[k] for k in answers[numbers].argmax(1)
        ]
    else:
        np.testing.assert_allclose(table[list(TARGETS)], answers[numbers], rtol=1e-5)
    assert found["aligned"].tolist() == [False] * 8  # no molecules
    for place, number in enumerate(numbers):
        graph = data[int(number)]
        edges = found["edges"][found["edge_ptr"][place] : found["edge_ptr"][place + 1]]
        known = {(a, b) for a, b in graph.edge_index.T.tolist() if a <= b}
        assert {tuple(pair) for pair in edges.tolist()} == known
        assert found["ptr"][place + 1] - found["ptr"][place] == graph.num_nodes


def test_places_are_principal_components(tmp_path):
    data = made_data()
    fitted = fit(data, "legs-fcn", made_split(), QUICK, directory=tmp_path)
    found, _ = kept(tmp_path)
    features = fitted.predictor.embed(data)[found["numbers"]].double().numpy()
    spread = features.std(0)
    scaled = ((features - features.mean(0)) / np.where(spread > 0, spread, 1))[:, spread > 1e-9]
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=-1)
    places = found["places"].astype(np.float64)
    np.testing.assert_allclose(
        np.linalg.norm(places[:, None] - places[None], axis=-1), apart, rtol=0.02, atol=0.05
    )
    assert (np.diff(found["share"]) <= 1e-12).all()


def test_components_of_little():
    for features in (np.ones((3, 4)), np.zeros((2, 0)), np.arange(3.0)[:, None]):
        places, share = principal_components(features, 50)
        assert places.shape[0] == len(features)
        assert places.shape[1] >= 2
        assert len(share) == places.shape[1]
        assert np.isfinite(places).all()


def test_large_sets_and_graphs_are_kept_small(tmp_path, monkeypatch):
    monkeypatch.setattr(shown_module, "MOST", 20)
    monkeypatch.setattr(shown_module, "LARGEST", 8)
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path)
    found, table = kept(tmp_path)
    assert len(table) == len(set(found["numbers"])) == 20
    sizes, edges = np.diff(found["ptr"]), np.diff(found["edge_ptr"])
    assert (edges[: 2 * DRAWN] > 0).all()  # explaining needs them
    assert ((sizes[2 * DRAWN :] > 8) == (edges[2 * DRAWN :] == 0)).all()


def test_unknown_targets_and_strange_names(tmp_path):
    """A target may be called like anything else in the tables, and be missing."""
    data = made_data("regression")
    y = data.y.clone()
    y[made_split().test[:3]] = torch.nan
    data = replace(data, y=y, target_names=("nodes", "graph", "part"))
    fit(data, "legs-fcn", made_split(), QUICK, directory=tmp_path)
    found, table = kept(tmp_path)
    assert "truth:part" in table
    drawn = found["numbers"][: 2 * DRAWN]
    assert not set(drawn) & set(made_split().test[:3].tolist())


def test_atoms_come_in_the_order_of_the_smiles(tmp_path):
    """Molecules from other files than SMILES number their atoms as they like."""
    Chem = pytest.importorskip("rdkit.Chem")
    from legs.data.features.blocks import assemble
    from legs.data.readers.molecules import from_smiles

    smiles = [
        "CCO", "OCC=O", "CCN", "NCC(=O)O", "CCCl", "OC(C)CN", "CC(N)C", "OCCBr", "CCCO", "NCCN",
    ] * 3  # fmt: skip
    rng = np.random.default_rng(0)
    mols = []
    for text in smiles:
        mol = Chem.MolFromSmiles(text)
        mols.append(Chem.RenumberAtoms(mol, rng.permutation(mol.GetNumAtoms()).tolist()))
    y = torch.tensor([[mol.GetNumAtoms() + 0.1 * k] for k, mol in enumerate(mols)])
    raw = from_smiles(mols, y=y.float(), task="regression", target_names=("size",))
    data = assemble(raw, "atoms")
    fit(data, "legs-fcn", options=QUICK, directory=tmp_path)
    found, table = kept(tmp_path)
    assert found["aligned"].all()
    names = list(data.feature_names)
    for place in range(int(found["best"]) + int(found["worst"])):
        x = found["x"][found["ptr"][place] : found["ptr"][place + 1]]
        mol = Chem.MolFromSmiles(table["smiles"][place])
        assert [names[k] for k in x.argmax(1)] == [atom.GetSymbol() for atom in mol.GetAtoms()]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_cross_validation(tmp_path, task):
    data = made_data(task)
    options = CVOptions(folds=3, rotations=1, seeds=(0, 1), training=QUICK)
    result = cross_validate(data, ["baseline", "legs-fcn"], options, strategy="stacked")
    write_cv_shown(tmp_path, result)
    found, table = kept(tmp_path)
    about = json.loads((tmp_path / "scales.json").read_text())
    means = {method.method: method.mean for method in result.methods}
    better = max if task == "classification" else min
    assert about["lead"] == better(means, key=means.get)
    assert len(about["scales"]["legs-fcn"]) == len(result.splits)
    assert table["id"].tolist() == [data.ids[k] for k in found["numbers"]]
    if task == "classification":
        lead = next(method for method in result.methods if method.method == about["lead"])
        wrong = np.zeros(60, dtype=bool)
        for group, answers in zip(result.splits, lead.predictions, strict=True):
            wrong[group[0].test] = (answers != data.y[group[0].test]).numpy()
        best, worst = int(found["best"]), int(found["worst"])
        assert not wrong[found["numbers"][:best]].any()
        assert wrong[found["numbers"][best : best + worst]].sum() == min(worst, wrong.sum())


def test_a_finished_run_keeps_its_origin(tmp_path):
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path, command="legs train a")
    before = json.loads((tmp_path / "results.json").read_text())
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=tmp_path, command="legs train b")
    after = json.loads((tmp_path / "results.json").read_text())
    assert before["command"] == "legs train a"
    assert after == before
