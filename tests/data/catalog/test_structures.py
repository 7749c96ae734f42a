from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from legs.data.catalog.specs import NAMED
from legs.data.catalog.structures import (
    read_casp12,
    read_protein_decoys,
    read_rna_puzzles,
    read_scores,
)
from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble
from legs.data.readers.base import RawGraphs
from legs.data.readers.structures import gdt_ts, knn_graph
from tests.data.pdb_text import chain, pdb_lines


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
    with pytest.raises(DataError) as caught:
        read_casp12()
    for word in ("redistributed", "predictioncenter.org", "T0860TS001_1", "rna-puzzles", "decoys"):
        assert word in str(caught.value)
    folder = tmp_path / "structures"
    folder.mkdir()
    for name in (
        "protein_decoys_synthetic.parquet",
        "protein_decoys_synthetic_ca_centiangstrom.npz",
    ):
        (folder / name).write_bytes(b"PK\x03\x04 truncated")
    with pytest.raises(DataError, match=r"protein_decoys_synthetic\.parquet is not a Parquet file"):
        read_protein_decoys()


# Test data below: made-up chains in CASP's layout.


def model_text(target: str, coords: Any, **options: Any) -> str:
    head = ["PFRMAT TS", f"TARGET {target}", "AUTHOR 0000-0000-0000", "MODEL  1", "PARENT N/A"]
    return "\n".join([*head, *pdb_lines(coords, chain=" ", **options), "TER", "END", ""])


def table_text(scores: dict[str, Any]) -> str:
    lines = ["#    Model             GR#   GR_Name   RMS_CA   GDT_TS   NP_P", "-" * 60]
    lines += [
        f"{i}    {name}   001   A-group   3.10   {score}   100.0"
        for i, (name, score) in enumerate(scores.items(), start=1)
    ]
    return "\n".join(lines)


def test_casp12_with_tables(tmp_path: Path) -> None:
    scores = {"T0860TS001_1": 61.5, "T0860TS002_1": 30.25, "T0861TS001_1-D1": 88.0}
    for seed, name in enumerate(scores):
        target = name[:5]
        (tmp_path / target).mkdir(exist_ok=True)
        text = model_text(target, chain(40 + seed, seed))
        (tmp_path / target / name.removesuffix("-D1")).write_text(text)
    (tmp_path / "T0860").joinpath("README").write_text("left alone")
    (tmp_path / "T0860.txt").write_text(table_text(dict(list(scores.items())[:2])))
    # The only domain of a target stands for the whole.
    (tmp_path / "T0861-D1.txt").write_text(table_text(dict(list(scores.items())[2:])))
    raw = read_casp12(tmp_path)
    check_set(raw, 3, 2)
    assert raw.ids == ("T0860TS001_1", "T0860TS002_1", "T0861TS001_1")
    assert raw.info["groups"] == ("T0860", "T0860", "T0861")
    assert raw.info["computed"] == 0
    assert raw.y is not None
    assert raw.y.flatten().tolist() == [61.5, 30.25, 88.0]
    assert raw.ptr.diff().tolist() == [40, 41, 42]
    assert assemble(raw).x.shape == (123, 2)


def test_casp12_with_native_structures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native = chain(60)
    bent = native.copy()
    bent[30:] = Rotation.from_rotvec([1.0, 0.5, 0]).apply(native[30:] - native[30]) + native[30]
    data = tmp_path / "data"
    folder = data / "structures" / "casp12"
    models = folder / "predictions" / "T0868"
    models.mkdir(parents=True)
    (folder / "targets").mkdir()
    lines = pdb_lines(native, first=11)
    (folder / "targets" / "T0868.pdb").write_text("\n".join(lines))
    (models / "T0868TS001_1").write_text(model_text("T0868", native + 9, first=11))
    (models / "T0868TS001_2").write_text(model_text("T0868", bent, first=11))
    (models / "T0868TS002_1.pdb").write_text(model_text("T0868", native[:30], first=11))
    # A server's name; ten residues that the native structure lacks.
    longer = np.concatenate([native[:1] + 100 * np.eye(3)[:1] * np.arange(1, 11)[:, None], native])
    (models / "some-server_TS1").write_text(model_text("T0868", longer))
    monkeypatch.setenv("LEGS_DATA", str(data))
    raw = read_casp12()
    assert raw.ids == (
        "T0868TS001_1", "T0868TS001_2", "T0868TS002_1", "T0868/some-server_TS1",
    )  # fmt: skip
    assert raw.info["computed"] == 4
    assert raw.y is not None
    found = raw.y.flatten().tolist()
    assert found[0] == found[3] == 100
    assert found[1] == pytest.approx(gdt_ts(bent, native), abs=1)
    assert 50 <= found[1] < 100
    assert found[2] == 50


def test_casp12_names_what_is_bad(tmp_path: Path) -> None:
    (tmp_path / "T0860").mkdir()
    (tmp_path / "T0870").mkdir()
    (tmp_path / "T0860" / "T0860TS001_1").write_text(model_text("T0860", chain(30)))
    (tmp_path / "T0860" / "T0860TS001_2").write_text("PFRMAT TS\nEND\n")
    (tmp_path / "T0860" / "T0860TS003_1").write_text(model_text("T0860", chain(30)))
    (tmp_path / "T0860" / "T0860TS004_1").write_text(model_text("T0860", chain(30)))
    (tmp_path / "T0870" / "T0870TS001_1").write_text(model_text("T0870", chain(30)))
    (tmp_path / "T0860.txt").write_text(table_text({"T0860TS001_1": 50, "T0860TS003_1": "N/A"}))
    with pytest.raises(DataError, match="T0860/T0860TS001_2: "):
        read_casp12(tmp_path)
    bad = BadRows("skip")
    assert read_casp12(tmp_path, bad=bad).ids == ("T0860TS001_1",)
    assert [row for row, _ in bad] == [
        "T0860/T0860TS001_2", "T0860/T0860TS003_1", "T0860/T0860TS004_1", "T0870",
    ]  # fmt: skip
    assert "no GDT_TS in T0860.txt" in bad.rows[1].reason
    (tmp_path / "T0860.txt").unlink()
    with pytest.raises(DataError, match=r"no model .* has coordinates and a GDT_TS"):
        read_casp12(tmp_path, bad=BadRows("skip"))
    (tmp_path / "T0860.pdb").write_text("nothing")
    with pytest.raises(DataError, match=r"T0860\.pdb: no residue"):
        read_casp12(tmp_path, bad=BadRows("skip"))


def test_casp12_folders_without_models(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model of a CASP target"):
        read_casp12(tmp_path)
    with pytest.raises(DataError, match=r"CASP12 was not found in .*nowhere"):
        read_casp12(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header line"),
        ("Model GDT_TS\nT0860TS001_1 50 1 2\n", "line 2: 4 columns, 2 in the header"),
    ],
)
def test_broken_score_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "T0860.txt").write_text(text)
    with pytest.raises(DataError, match=rf"T0860\.txt.*{message}"):
        read_scores(tmp_path / "T0860.txt")


def test_score_tables_may_number_their_rows(tmp_path: Path) -> None:
    (tmp_path / "T0860.txt").write_text("Model GDT_TS\n1 T0860TS001_1 50\n2 T0860TS002_2-D1 7.5\n")
    scores = read_scores(tmp_path / "T0860.txt")
    assert scores == {"T0860TS001_1": 50, "T0860TS002_2": 7.5}
