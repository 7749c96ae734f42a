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

from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble
from legs.data.readers.structures import knn_graph, read_folder, read_structure
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


def test_pdb_and_mmcif_give_the_same(tmp_path: Path) -> None:
    coords = chain(25)
    (tmp_path / "a.pdb").write_text("\n".join([*pdb_lines(coords), "TER", "END"]))
    (tmp_path / "b.cif").write_text(cif_text(coords))
    (tmp_path / "c").write_text("\n".join(["PFRMAT TS", "MODEL  1", *pdb_lines(coords), "END"]))
    for name in ("a.pdb", "b.cif", "c"):
        found = read_structure(tmp_path / name)
        assert np.allclose(found, coords, atol=6e-4)


def test_one_atom_a_residue_of_the_first_model(tmp_path: Path) -> None:
    coords = chain(6)
    calcium = "HETATM   90 CA    CA A 301       9.000   9.000   9.000  1.00  0.00          CA"
    both = [*pdb_lines(coords[:3]), *pdb_lines(coords[3:], chain="B", atom="C4'"), calcium]
    text = ["MODEL        1", *both, "ENDMDL", "MODEL        2", *both[:4], "ENDMDL", "END"]
    (tmp_path / "a.pdb").write_text("\n".join(text))
    found = read_structure(tmp_path / "a.pdb")
    assert np.allclose(found, coords, atol=6e-4)


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
    assert torch.equal(first, torch.from_numpy(knn_graph(read_structure(tmp_path / "p0.pdb"))))
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
