from __future__ import annotations

import time
from pathlib import Path

import pandas as pd
import pytest
from torch_geometric.datasets import qm9 as pyg

from legs.data.catalog import molecules as qm9
from legs.data.catalog.molecules import (
    TARGETS,
    read_moleculenet,
    read_qm9,
    target_values,
)
from legs.data.errors import DataError
from legs.data.features.blocks import assemble

pytest.importorskip("rdkit")

PYG_ORDER = """
mu alpha homo lumo gap r2 zpve u0 u298 h298 g298 cv u0_atom u298_atom h298_atom g298_atom A B C
""".split()  # noqa: SIM905


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and cache."""
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("legs.data.catalog.fetch.download", _unreachable)
    return tmp_path


def _unreachable(url: str, *_: object, **__: object) -> Path:
    raise DataError(f"the download from {url} failed")


def test_order_and_units_are_pygs() -> None:
    assert list(TARGETS) == PYG_ORDER
    assert [factor for _, factor in TARGETS.values()] == pytest.approx(pyg.conversion.tolist())


def test_statistics_of_the_targets(legs_data: Path) -> None:
    values = target_values(pd.read_parquet(legs_data / "qm9" / "qm9.parquet"))
    assert values.shape == (130_831, 19)
    mean, std = (dict(zip(PYG_ORDER, v, strict=True)) for v in (values.mean(0), values.std(0)))
    assert (mean["gap"], std["gap"]) == pytest.approx((6.8585, 1.2842), abs=1e-4)
    assert (mean["u0"], std["u0"]) == pytest.approx((-11178.97, 1085.58), abs=1e-2)
    assert (mean["u0_atom"], std["u0_atom"]) == pytest.approx((-76.116, 10.324), abs=1e-3)
    assert (mean["A"], std["A"]) == pytest.approx((9.966, 1830.46), abs=1e-2)


def test_the_first_molecules(legs_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    raw = read_qm9(limit=200)
    sizes = pd.read_parquet(legs_data / "qm9" / "qm9.parquet")["n_atoms"][:200]
    assert raw.ptr.diff().tolist() == sizes.tolist()
    assert raw.ids[:2] == ("gdb_1", "gdb_2")
    assert (raw.task, raw.name, raw.target_names) == ("regression", "qm9", tuple(PYG_ORDER))
    data = assemble(raw)
    assert data.in_channels == 13
    assert data.feature_names[-2:] == ("eccentricity", "clustering")
    assert raw.info["units"]["gap"] == "eV"


def _moleculenet(folder: Path, inconsistent: int) -> tuple[Path, Path]:
    ids = [1, 2, 21725]
    table = pd.DataFrame({"mol_id": [f"gdb_{i}" for i in ids], "smiles": ["C", "N", "O"]})
    table = table.assign(**{name: float(i) for i, name in enumerate(TARGETS)})
    table.to_csv(folder / "qm9.csv", index=False)
    lines = ["Index   GDB9 SMILES", *(f"  {21725 + i}  C" for i in range(inconsistent)), "", "end"]
    (folder / "uncharacterized.txt").write_text("\n".join(lines))
    return folder / "qm9.csv", folder / "uncharacterized.txt"


def test_inconsistent_molecules_are_left_out(elsewhere: Path) -> None:
    (elsewhere / "qm9").mkdir()
    _moleculenet(elsewhere / "qm9", 3054)
    raw = read_qm9()
    assert raw.ids == ("gdb_1", "gdb_2")
    assert raw.y is not None
    assert raw.y[0, :3].tolist() == pytest.approx([0, 1, 2 * qm9.HARTREE])


def test_another_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lists 10 molecules, not 3,054"):
        read_moleculenet(*_moleculenet(tmp_path, 10))
    table, dropped = _moleculenet(tmp_path, 3054)
    table.write_text("<html>moved</html>\n")
    with pytest.raises(DataError, match=r"not MoleculeNet's qm9.csv"):
        read_moleculenet(table, dropped)


def test_without_any_source_the_message_says_what_to_do(elsewhere: Path) -> None:
    with pytest.raises(DataError, match=r"qm9.csv: the download .* failed.*set LEGS_DATA"):
        read_qm9()


def test_a_damaged_table_is_told(elsewhere: Path) -> None:
    (elsewhere / "qm9").mkdir()
    (elsewhere / "qm9" / "qm9.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"qm9.parquet is not a Parquet file"):
        read_qm9()


@pytest.mark.long
def test_all_of_it_within_three_minutes(legs_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    start = time.perf_counter()
    raw = read_qm9()
    x = raw.blocks["qm9"]().x
    assert time.perf_counter() - start < 180
    sizes = pd.read_parquet(legs_data / "qm9" / "qm9.parquet")["n_atoms"]
    assert raw.ptr.diff().tolist() == sizes.tolist()
    assert x.shape == (2_359_210, 11)
    assert raw.edge_index.shape[1] / len(raw.ids) == pytest.approx(37.3, abs=0.05)  # PyG's
