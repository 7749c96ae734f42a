from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble
from legs.data.readers.structures import (
    Structure,
    gdt_ts,
    knn_graph,
    match_residues,
    read_folder,
    read_structure,
    score,
    superpose,
)
from tests.data.pdb_text import chain, pdb_lines


def cif_text(coords: Any) -> str:
    fields = [
        "group_PDB",
        "id",
        "type_symbol",
        "label_atom_id",
        "label_alt_id",
        "label_comp_id",
        "label_asym_id",
        "label_entity_id",
        "label_seq_id",
        "pdbx_PDB_ins_code",
        "Cartn_x",
        "Cartn_y",
        "Cartn_z",
        "auth_seq_id",
        "auth_asym_id",
        "pdbx_PDB_model_num",
    ]
    rows = [
        f"ATOM {i} C CA . ALA A 1 {i} ? {x:.3f} {y:.3f} {z:.3f} {i} A 1"
        for i, (x, y, z) in enumerate(coords, start=1)
    ]
    return "\n".join(["data_test", "loop_", *(f"_atom_site.{f}" for f in fields), *rows, "#"])


@pytest.mark.parametrize("k", [1, 3, 10])
def test_knn_graph_against_all_distances(k: int) -> None:
    # A chain has ties, neighbours being 3.8 Å away on either side.
    coords = np.random.default_rng(k).normal(size=(60, 3))
    distance = cdist(coords, coords)
    np.fill_diagonal(distance, np.inf)
    chosen = np.zeros((60, 60), dtype=bool)
    np.put_along_axis(chosen, np.argsort(distance, axis=1)[:, :k], True, axis=1)
    expected = np.argwhere(chosen | chosen.T).T
    assert np.array_equal(knn_graph(coords, k), expected)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_knn_graph_of_few_points_is_complete(size: int) -> None:
    edges = knn_graph(chain(size))
    assert edges.shape == (2, size * (size - 1))
    assert (edges[0] != edges[1]).all()


def test_knn_graph_of_equal_points_has_no_loops() -> None:
    edges = knn_graph(np.zeros((30, 3)), k=4)
    assert (edges[0] != edges[1]).all()
    assert np.array_equal(np.unique(edges[::-1], axis=1), edges)
    assert np.bincount(edges[0]).min() >= 4


def test_knn_graph_refuses() -> None:
    with pytest.raises(DataError, match="NaN"):
        knn_graph(np.array([[0.0, np.nan, 0.0], [1, 1, 1]]))
    with pytest.raises(DataError, match="at least one neighbour"):
        knn_graph(chain(5), k=0)


def turn(seed: int) -> Rotation:
    """A rotation drawn at random; versions of SciPy differ in how to ask for one."""
    return Rotation.from_quat(np.random.default_rng(seed).normal(size=4))


def test_gdt_of_the_same_and_of_moved_structures_is_100() -> None:
    native = chain(80)
    assert gdt_ts(native, native) == 100
    for seed in range(5):
        turned = turn(seed).apply(native) + 50 * seed
        assert gdt_ts(turned, native) == 100


def test_gdt_of_half_a_structure_is_50() -> None:
    native = chain(100)
    model = turn(1).apply(native)
    model[50:] += np.random.default_rng(0).normal(size=(50, 3)) * 1000
    assert gdt_ts(model, native) == pytest.approx(50, abs=3)
    assert gdt_ts(model[:50], native[:50], length=100) == 50
    assert gdt_ts(model[:0], native[:0], length=100) == 0


def test_gdt_counts_each_cutoff() -> None:
    native = chain(200, seed=3)
    rng = np.random.default_rng(3)
    away = rng.normal(size=(40, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    model = native.copy()
    # 160 residues in place hold the superposition; ten each between, and beyond, the cut-offs.
    model[::5] += away * np.repeat([1.5, 3.0, 6.0, 20.0], 10)[:, None]
    expected = 100 * np.mean([160, 170, 180, 190]) / 200
    assert gdt_ts(model, native) == pytest.approx(expected, abs=0.8)
    assert gdt_ts(model, native) >= expected - 0.2


def test_gdt_does_not_reflect() -> None:
    native = 10 * np.random.default_rng(0).normal(size=(60, 3))
    assert gdt_ts(native * [1, 1, -1], native) < 60


def test_gdt_refuses() -> None:
    native = chain(10)
    with pytest.raises(DataError, match="same residues"):
        gdt_ts(native[:5], native)
    with pytest.raises(DataError, match="NaN"):
        gdt_ts(native * np.nan, native)
    with pytest.raises(DataError, match="10 residues shared with a native structure of 5"):
        gdt_ts(native, native, length=5)


def test_superposition_is_the_best_one() -> None:
    native, model = chain(30), chain(30, seed=1)
    chosen = np.ones((1, 30), dtype=bool)
    rotation, shift = superpose(model, native, chosen)
    assert np.linalg.det(rotation[0]) == pytest.approx(1)
    error = np.square(model @ rotation[0] + shift[0] - native).sum()
    _, expected = Rotation.align_vectors(native - native.mean(0), model - model.mean(0))
    assert error == pytest.approx(expected**2)


def test_gdt_of_decoys_agrees_with_their_table(legs_data: Path) -> None:
    """The table was made by another search: neither misses more than a point or two."""
    import pandas as pd

    folder = legs_data / "structures"
    if not (folder / "protein_decoys_synthetic.parquet").exists():
        pytest.skip("the decoys are not in LEGS_DATA")
    table = pd.read_parquet(folder / "protein_decoys_synthetic.parquet")
    with np.load(folder / "protein_decoys_synthetic_ca_centiangstrom.npz") as arrays:
        start = np.cumsum([0, *arrays["n_res"].astype(int)])
        xyz = arrays["xyz_cA"] / 100
        natives = {p: arrays[f"native_{p}"] / 100 for p in table.protein.unique()}
    rows = range(0, len(table), 133)
    mine = [gdt_ts(xyz[start[i] : start[i + 1]], natives[table.protein[i]]) for i in rows]
    difference = np.array(mine) - table.gdt_ts.to_numpy()[list(rows)]
    assert np.abs(difference).max() < 3
    assert -0.2 < difference.mean() < 0.8


def test_residues_are_matched_by_number() -> None:
    native = chain(40)
    number = np.array([str(i) for i in range(1, 41)])
    whole = Structure(native, np.array(["A"] * 40), number)
    part = Structure(native[9:29] + 3, np.array([""] * 20), number[9:29])
    here, there = match_residues(part, whole)
    assert (here == np.arange(20)).all()
    assert (there == np.arange(9, 29)).all()
    assert score(part, whole) == 50
    assert score(whole, part) == 100
    twice = Structure(native, np.array(["A", "B"] * 20), np.repeat(number[:20], 2))
    assert score(twice, twice) == 100
    with pytest.raises(DataError, match="residue 1 comes twice in the model"):
        match_residues(twice, whole)
    other = Structure(native, whole.chain, np.array([str(i) for i in range(101, 141)]))
    with pytest.raises(DataError, match="share no residue"):
        match_residues(other, whole)


def test_pdb_and_mmcif_give_the_same(tmp_path: Path) -> None:
    coords = chain(25)
    (tmp_path / "a.pdb").write_text("\n".join([*pdb_lines(coords), "TER", "END"]))
    (tmp_path / "b.cif").write_text(cif_text(coords))
    (tmp_path / "c").write_text("\n".join(["PFRMAT TS", "MODEL  1", *pdb_lines(coords), "END"]))
    for name in ("a.pdb", "b.cif", "c"):
        found = read_structure(tmp_path / name)
        assert np.allclose(found.coords, coords, atol=6e-4)
        assert found.number.tolist() == [str(i) for i in range(1, 26)]
        assert set(found.chain.tolist()) == {"A"}


def test_one_atom_a_residue_of_the_first_model(tmp_path: Path) -> None:
    coords = chain(6)
    calcium = "HETATM   90 CA    CA A 301       9.000   9.000   9.000  1.00  0.00          CA"
    both = [*pdb_lines(coords[:3]), *pdb_lines(coords[3:], chain="B", atom="C4'"), calcium]
    text = ["MODEL        1", *both, "ENDMDL", "MODEL        2", *both[:4], "ENDMDL", "END"]
    (tmp_path / "a.pdb").write_text("\n".join(text))
    found = read_structure(tmp_path / "a.pdb")
    assert np.allclose(found.coords, coords, atol=6e-4)
    assert found.chain.tolist() == ["A"] * 3 + ["B"] * 3


def test_read_folder(tmp_path: Path) -> None:
    for i, size in enumerate((30, 20, 40)):
        (tmp_path / f"p{i}.pdb").write_text("\n".join(pdb_lines(chain(size, i))))
    (tmp_path / "p3.cif").write_text(cif_text(chain(15)))
    (tmp_path / "broken.pdb").write_text("HEADER nothing\n")
    (tmp_path / "labels.csv").write_text("pdb,stability\np2,0.5\np0,1.5\np1,2.5\np3,\nbroken,1\n")
    with pytest.raises(DataError, match=r"broken\.pdb: "):
        read_folder(tmp_path)
    bad = BadRows("skip")
    raw = read_folder(tmp_path, bad=bad)
    assert [row for row, _ in bad] == ["broken.pdb", "p3.cif"]
    assert raw.ids == ("p0", "p1", "p2")
    assert raw.y is not None
    assert raw.y.flatten().tolist() == [1.5, 2.5, 0.5]
    assert raw.ptr.tolist() == [0, 30, 50, 90]
    first = raw.edge_index[:, raw.edge_index[0] < 30]
    assert torch.equal(first, torch.from_numpy(knn_graph(read_structure(tmp_path / "p0.pdb")[0])))
    assert assemble(raw).feature_names == ("eccentricity", "clustering")
    (tmp_path / "labels.csv").unlink()
    assert read_folder(tmp_path, bad=BadRows("skip"), k=3).y is None


def test_without_biotite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdb").write_text("\n".join(pdb_lines(chain(5))))
    monkeypatch.setitem(sys.modules, "biotite.structure.io.pdb", None)
    with pytest.raises(DataError, match=r"pip install 'torch-legs\[protein\]'"):
        read_folder(tmp_path, bad=BadRows("skip"))


VALID = {".pdb": "\n".join(["MODEL 1", *pdb_lines(chain(6)), "END"]), ".cif": cif_text(chain(6))}
TOKENS = [b"nan", b"ATOM  ", b"?", b".", b"'", b"loop_", b"#", b"\n", b"MODEL", b"-", b"*****"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), suffix=st.sampled_from([*VALID]))
def test_broken_files_raise_nothing_but_data_errors(
    tmp_path_factory: pytest.TempPathFactory, data: Any, suffix: str
) -> None:
    content = bytearray(VALID[suffix].encode())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 3, 8, 60, 400]))
        content[place : place + length] = data.draw(st.binary(max_size=3) | st.sampled_from(TOKENS))
    folder = tmp_path_factory.mktemp("broken")
    (folder / f"a{suffix}").write_bytes(content)
    try:
        raw = read_folder(folder)
    except DataError as error:
        assert f"a{suffix}" in str(error)
    else:
        assert int(raw.ptr[-1]) >= 1
        assert raw.edge_index.numel() == 0 or int(raw.edge_index.max()) < int(raw.ptr[-1])
