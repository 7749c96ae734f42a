from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from legs.data.errors import DataError
from legs.data.features.molecule_features import ZINC_PROPERTIES, properties

Chem = pytest.importorskip("rdkit.Chem")

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def by_name(smiles: str, *names: str) -> list[float]:
    values = dict(zip(ZINC_PROPERTIES, properties([smiles])[0].tolist(), strict=True))
    return [values[name] for name in names]


def test_values_of_aspirin() -> None:
    names = ["MolWt", "TPSA", "NumHDonors", "NumHAcceptors", "RingCount"]
    assert by_name(ASPIRIN, *names) == pytest.approx([180.159, 63.6, 1, 3, 1], abs=1e-3)
    assert properties([ASPIRIN]).shape == (1, 10)


def test_information_content_as_a_logarithm() -> None:
    from rdkit.Chem.GraphDescriptors import Ipc

    mol = Chem.MolFromSmiles(ASPIRIN)
    assert by_name(ASPIRIN, "LogIpc") == pytest.approx([np.log(1 + Ipc(mol))])
    # Single atoms have none; the logarithm stays finite.
    assert by_name("[Na+]", "LogIpc") == [0]


def test_what_overflows_is_missing() -> None:
    assert np.isnan(by_name("C" * 301, "LogIpc", "MolWt")).tolist() == [True, False]


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legs.data.features.molecule_features._CHUNK", 1)
    smiles = [ASPIRIN, "CCO", "c1ccccc1"]
    np.testing.assert_array_equal(properties(smiles, workers=2), properties(smiles, workers=1))


def test_no_molecules() -> None:
    assert properties([]).shape == (0, len(ZINC_PROPERTIES))


def test_bad_smiles_are_named() -> None:
    with pytest.raises(DataError, match="molecule 2 is not a SMILES string: 'xx'"):
        properties([ASPIRIN, "xx"])


def test_real_molecules(legs_data: Path) -> None:
    frame = pd.read_parquet(legs_data / "zinc" / "zinc_tranches.parquet")
    frame = frame.groupby("tranche").head(10).assign(LogIpc=lambda f: np.log1p(f["Ipc"]))
    found = properties(frame["smiles"].tolist())
    # The stored values may come from another version of RDKit; of what it calls an acceptor of
    # hydrogen bonds, versions before 2026 have another idea.
    same = [name for name in ZINC_PROPERTIES if name != "NumHAcceptors"]
    places = [ZINC_PROPERTIES.index(name) for name in same]
    np.testing.assert_allclose(found[:, places], frame[same], rtol=1e-6)
