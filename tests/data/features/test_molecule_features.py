from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from legs.data import DataError, from_objects, load
from legs.data.features import molecule_features as module
from legs.data.features.molecule_features import (
    BINS,
    feature_names,
    molecule_features,
    with_molecule_features,
)

Chem = pytest.importorskip("rdkit.Chem")

SMILES = ["CCO", "c1ccccc1C(=O)O", "[Na+].[Cl-]", "*C", "C" * 350]


def column(name: str, smiles: list[str] = SMILES) -> np.ndarray:
    names = feature_names("rdkit")
    return molecule_features(smiles, "rdkit")[:, names.index(name)]


def test_descriptors_are_rdkits_by_name() -> None:
    from rdkit.Chem import Descriptors

    mol = Chem.MolFromSmiles("c1ccccc1C(=O)O")
    values = Descriptors.CalcMolDescriptors(mol)
    names = feature_names("rdkit")
    assert names == tuple(values)
    row = dict(zip(names, molecule_features(SMILES, "rdkit")[1].tolist(), strict=True))
    values["Ipc"] = np.log1p(values["Ipc"])
    assert row == pytest.approx(values, rel=1e-6)


def test_what_is_not_finite_is_missing() -> None:
    assert np.isnan(column("MaxPartialCharge")).tolist() == [False, False, False, True, False]
    assert np.isnan(column("Ipc"))[-1]  # takes minutes, and overflows
    values = molecule_features(SMILES, "rdkit", "morgan")
    assert not np.isinf(values).any()
    assert values.dtype == np.float32


def test_the_information_content_stays_small() -> None:
    assert 50 < column("Ipc", ["CCCCCCCCCC" * 20])[0] < 1000


def test_fingerprints_are_rdkits() -> None:
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    counts, bits = (molecule_features(SMILES, fingerprint=f) for f in ("morgan-count", "morgan"))
    for text, row, ones in zip(SMILES[:4], counts, bits, strict=False):
        mol = Chem.MolFromSmiles(text)
        assert (row == generator.GetCountFingerprintAsNumPy(mol)).all()
        assert (ones == generator.GetFingerprintAsNumPy(mol)).all()
    assert counts[-1].max() == 255
    assert counts.shape == (5, BINS)


def test_columns_are_descriptors_then_bins() -> None:
    names = feature_names("rdkit", "morgan")
    assert names[-BINS:] == tuple(f"morgan{k}" for k in range(BINS))
    assert len(set(names)) == len(names) == molecule_features(["C"], "rdkit", "morgan").shape[1]


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    one = molecule_features(SMILES[:4], "rdkit", "morgan-count", workers=1)
    two = molecule_features(SMILES[:4], "rdkit", "morgan-count", workers=2)
    np.testing.assert_array_equal(one, two)
    assert molecule_features([], "rdkit").shape == (0, len(feature_names("rdkit")))


def test_wrong_options_and_molecules_are_named() -> None:
    with pytest.raises(DataError, match="descriptors must be rdkit; got 'mordred'"):
        feature_names("mordred")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="fingerprint must be morgan or morgan-count"):
        feature_names(None, "ecfp")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="molecule 2 is not a SMILES string: 'xx'"):
        molecule_features(["C", "xx"], "rdkit")


def test_rdkit_prints_nothing() -> None:
    code = (
        "from legs.data.features.molecule_features import molecule_features\n"
        "molecule_features(['[Na+].[Cl-]', '*C', 'C[Si](C)C[Pt]'], 'rdkit', 'morgan')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "molecules.csv"
    file.write_text("smiles,y\nCCO,1\nxx,2\nc1ccccc1,3\nCC(=O)O,4\n")
    return file


def test_loading_adds_them_and_keeps_them_in_the_cache(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"target": "y", "on_error": "skip", "descriptors": "rdkit"}
    assert load(table, target="y", on_error="skip").graph_features is None
    data = load(table, **options)
    assert data.graph_feature_names == feature_names("rdkit")
    expected = molecule_features(["CCO", "c1ccccc1", "CC(=O)O"], "rdkit")
    np.testing.assert_array_equal(data.graph_features, expected)
    with monkeypatch.context() as patch:
        patch.setattr(module, "molecule_features", lambda *_: pytest.fail("computed again"))
        again = load(table, **options)
        np.testing.assert_array_equal(again.graph_features, expected)
        with pytest.raises(BaseException, match="computed again"):
            load(table, **options, fingerprint="morgan")
    monkeypatch.setattr("legs.data.loading.version", lambda package: "another")
    monkeypatch.setattr(module, "molecule_features", lambda *_: np.zeros((3, 217), np.float32))
    assert not load(table, **options).graph_features.any()  # of another RDKit: computed again


def test_graphs_that_are_no_molecules_are_refused() -> None:
    import networkx as nx

    data = from_objects([nx.path_graph(3)], name="paths")
    with pytest.raises(DataError, match="of molecules; paths has no SMILES"):
        with_molecule_features(data, "rdkit", None)
    assert with_molecule_features(data, None, None) is data
