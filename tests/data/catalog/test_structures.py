from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from legs.data.catalog.specs import NAMED
from legs.data.catalog.structures import read_protein_decoys, read_rna_puzzles
from legs.data.errors import DataError
from legs.data.readers.base import RawGraphs
from legs.data.readers.structures import knn_graph


def check_set(raw: RawGraphs, count: int, groups: int) -> None:
    assert raw.y is not None
    assert raw.y.shape == (count, 1)
    assert (raw.task, raw.target_names) == ("regression", ("gdt_ts",))
    assert bool(((raw.y >= 0) & (raw.y <= 100)).all())
    assert len(raw.ids) == len(set(raw.ids)) == len(raw.info["groups"]) == count
    assert len(set(raw.info["groups"])) == groups
    assert raw.default_features == ("structure",)
    degree = torch.bincount(raw.edge_index[0], minlength=int(raw.ptr[-1]))
    assert int(degree.min()) >= 10  # every set's smallest structure has more than 11 residues


@pytest.fixture
def structures(legs_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = legs_data / "structures"
    if not folder.is_dir():
        pytest.skip("no folder structures in LEGS_DATA")
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    return folder


def test_rna_puzzles(structures: Path) -> None:
    raw = read_rna_puzzles()
    check_set(raw, 1192, 23)
    assert raw.name == "rna-puzzles"
    assert "gkz1108" in NAMED["rna-puzzles"].licence
    with np.load(structures / "rna_puzzles_c4_xyz_centiangstrom.npz") as arrays:
        assert raw.ptr.diff().tolist() == arrays["n"].tolist()
        second = arrays["xyz_cA"][69:138] / 100
    low, high = raw.ptr[1:3].tolist()
    inside = (raw.edge_index[0] >= low) & (raw.edge_index[0] < high)
    assert np.array_equal(raw.edge_index[:, inside].numpy() - low, knn_graph(second))
    assert raw.y is not None
    assert raw.y[:2].flatten().tolist() == pytest.approx([35.869565, 34.420290])


def test_protein_decoys_are_called_synthetic(structures: Path) -> None:
    raw = read_protein_decoys()
    check_set(raw, 4008, 12)
    assert "synthetic" in raw.name
    assert raw.info["synthetic"] is True
    assert raw.ids[0] == "1ail-0"


def test_sets_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"rna_puzzles_models\.parquet was not found"):
        read_rna_puzzles()
    folder = tmp_path / "structures"
    folder.mkdir()
    for name in (
        "protein_decoys_synthetic.parquet",
        "protein_decoys_synthetic_ca_centiangstrom.npz",
    ):
        (folder / name).write_bytes(b"PK\x03\x04 truncated")
    with pytest.raises(DataError, match=r"protein_decoys_synthetic\.parquet is not a Parquet file"):
        read_protein_decoys()
