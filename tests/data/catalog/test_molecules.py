from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch

from legs.data.catalog.molecules import read_ki, read_nci5k, read_zinc
from legs.data.errors import DataError
from legs.data.features.blocks import assemble
from legs.data.features.molecule_features import ZINC_PROPERTIES, properties

pytest.importorskip("rdkit")


@pytest.fixture
def real(legs_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    return legs_data


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and cache, and a download that is counted instead of made."""
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_tranche_of_zinc(real: Path) -> None:
    raw = read_zinc("fbab", limit=60)
    assert (raw.name, raw.task, raw.target_names) == ("zinc-fbab", "regression", ZINC_PROPERTIES)
    assert raw.y is not None
    assert raw.y.shape == (60, 10)
    expected = torch.from_numpy(properties(raw.smiles[:5]))
    # Versions of RDKit differ in what they call an acceptor of hydrogen bonds.
    same = [k for k, name in enumerate(ZINC_PROPERTIES) if name != "NumHAcceptors"]
    torch.testing.assert_close(raw.y[:5, same], expected[:, same])
    assert assemble(raw).in_channels == 10
    assert len(set(raw.ids)) == 60


def test_molecules_come_in_one_fixed_order(real: Path) -> None:
    few, more = read_zinc("BBAB", limit=20), read_zinc("BBAB", limit=30)
    assert few.ids == more.ids[:20]
    # Drawn from the whole tranche, not taken from its beginning.
    first = pd.read_parquet(real / "zinc" / "zinc_tranches.parquet")["smiles"][:30]
    assert len(set(more.smiles) & set(first)) < 5
    # Other readers and results refer to them: they must not change from release to release.
    assert few.ids[:2] == ("ZINC000736709772", "ZINC000045953117")


@pytest.mark.parametrize(("tranche", "molecules"), [("JBCD", 124), ("JBAB", 1859)])
def test_sizes_and_stand_ins(real: Path, tranche: str, molecules: int) -> None:
    raw = read_zinc(tranche)
    assert len(raw.smiles) == molecules
    assert raw.y is not None
    weight = raw.y[:, ZINC_PROPERTIES.index("MolWt")]
    assert weight.min() > 400 and weight.max() <= 500
    assert ("zinc-jbab" in raw.info["note"]) == (tranche == "JBCD")


def test_a_tranche_as_zinc_distributes_it(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(url: str, path: Path, **_: object) -> Path:
        asked.append(url)
        path.parent.mkdir(parents=True)
        path.write_text("smiles zinc_id\nCCO 12\nCCN 345\n")
        return path

    monkeypatch.setattr("legs.data.catalog.fetch.download", download)
    raw = read_zinc("BBAB")
    assert asked == ["https://files.docking.org/2D/BB/BBAB.smi"]
    assert sorted(raw.ids) == ["ZINC000000000012", "ZINC000000000345"]
    assert raw.y is not None
    assert raw.y.shape == (2, 10)


def test_a_page_instead_of_a_tranche(empty: Path) -> None:
    (empty / "zinc").mkdir()
    (empty / "zinc" / "JBCD.smi").write_text("<html>\n<body>moved</body>\n</html>\n")
    with pytest.raises(DataError, match=r"JBCD.smi does not begin with 'smiles zinc_id'"):
        read_zinc("JBCD")


def test_affinities(real: Path) -> None:
    raw = read_ki("p00918")
    assert (len(raw.smiles), raw.name, raw.target_names) == (3000, "ki-p00918", ("pKi",))
    table = pd.read_parquet(real / "ki" / "ki_P00918_P14416.parquet")
    table = table[table["target"] == "P00918"].set_index("chembl_id")
    listed = table["in_authors_subset"].loc[list(raw.ids)]
    assert listed[:2030].all() and not listed[2030:].any()
    assert raw.y is not None
    torch.testing.assert_close(
        raw.y[:, 0], torch.tensor(table["pKi"].loc[list(raw.ids)].to_numpy()).float()
    )
    assert "ChEMBL" in raw.info["note"] and "512 values" in raw.info["note"]


def test_without_files_the_message_says_what_to_do(empty: Path) -> None:
    with pytest.raises(DataError, match="set LEGS_DATA to a folder that holds"):
        read_ki("P14416")


def test_compounds_inside_rdkit() -> None:
    raw = read_nci5k(limit=400)
    assert (raw.name, raw.default_features) == ("nci-5k", ("chem",))
    assert raw.ids[0] == "1"
    assert raw.y is not None
    assert raw.y.shape == (len(raw.smiles), 10)
    assert raw.y.isfinite().all()
    assert raw.info["bad_rows"] == len(raw.info["bad"]) == 400 - len(raw.smiles)
    torch.testing.assert_close(raw.y[7], torch.from_numpy(properties([raw.smiles[7]])[0]).float())
