"""Molecules by name: QM9, tranches of ZINC15, binding affinities, the compounds inside RDKit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from legs.data.catalog import fetch
from legs.data.catalog.specs import NAMED, locate
from legs.data.errors import STRICT, BadRows, DataError
from legs.data.features.atom_table import require_rdkit
from legs.data.features.molecule_features import ZINC_PROPERTIES, properties
from legs.data.readers.base import RawGraphs, Reader
from legs.data.readers.molecules import from_smiles
from legs.data.readers.table_files import ParquetTable, SmilesLines, read_parquet, read_whole
from legs.data.readers.tables import read_table

HARTREE = 27.211386246  # eV
KCAL_PER_MOL = 0.04336414  # eV
# Units, and the factors that lead to them from the files'; both, and the order, are PyG's.
TARGETS: dict[str, tuple[str, float]] = {
    "mu": ("D", 1.0),
    "alpha": ("bohr³", 1.0),
    **dict.fromkeys(("homo", "lumo", "gap"), ("eV", HARTREE)),
    "r2": ("bohr²", 1.0),
    **dict.fromkeys(("zpve", "u0", "u298", "h298", "g298"), ("eV", HARTREE)),
    "cv": ("cal/(mol K)", 1.0),
    **dict.fromkeys(("u0_atom", "u298_atom", "h298_atom", "g298_atom"), ("eV", KCAL_PER_MOL)),
    **dict.fromkeys(("A", "B", "C"), ("GHz", 1.0)),
}
UNCHARACTERIZED = 3_054
_UNCHARACTERIZED_URL = "https://ndownloader.figshare.com/files/3195404"


def read_zinc(tranche: str, *, limit: int | None = 2_500) -> RawGraphs:
    """A tranche of ZINC15, in a fixed random order, with ten RDKit properties as targets."""
    spec = NAMED[f"zinc-{tranche.lower()}"]
    located = locate(spec)
    path = located[1][0] if located else fetch.require(spec.places[0][0], url=spec.url)
    if path.suffix == ".parquet":
        frame = read_parquet(path)
        frame = frame[frame["tranche"] == spec.argument].reset_index(drop=True)
        frame["LogIpc"] = np.log1p(frame["Ipc"])
        if spec.argument == "JBAB":
            frame = frame[frame["MolWt"] <= 500]
    else:
        with path.open(encoding="utf-8", errors="replace") as file:
            if not file.readline().lower().startswith("smiles"):
                raise DataError(f"{path} does not begin with 'smiles zinc_id' as ZINC's files do")
        frame = read_whole(SmilesLines(path), ["smiles", "id"], BadRows())
        frame = frame.rename(columns={"id": "zinc_id"})
    frame["id"] = [
        f"ZINC{int(name):012d}" if name.isdigit() else f"{spec.argument}-{row}"
        for row, name in enumerate(frame["zinc_id"], 1)
    ]
    frame = frame.iloc[_shuffled(len(frame))[:limit]].copy()
    if "LogIpc" not in frame:
        frame[list(ZINC_PROPERTIES)] = properties(frame["smiles"].tolist())
    return _regression(
        frame, ZINC_PROPERTIES, name=spec.name, info={"source": str(path), "note": spec.note}
    )


def read_ki(protein: str, *, limit: int | None = 3_000) -> RawGraphs:
    """Ligands of a protein and how strongly they bind: pKi = 9 − log₁₀(Ki in nM).

    Medians per compound of Ki values in ChEMBL; the paper used BindingDB. Values without a
    relation, some of P00918, may be bounds (>, <) rather than equalities.
    """
    spec = NAMED[f"ki-{protein.lower()}"]
    path = fetch.require(spec.places[0][0])
    frame = read_parquet(path).rename(columns={"smiles_parent": "smiles", "chembl_id": "id"})
    frame = frame[frame["target"] == spec.argument]
    frame = frame.iloc[_shuffled(len(frame))]
    # Stable: within the authors' ligands, and within the others, the random order stays.
    frame = frame.sort_values("in_authors_subset", ascending=False, kind="stable").iloc[:limit]
    listed = int(frame["in_authors_subset"].sum())
    unsure = int(frame["source"].str.startswith("prabhav54").sum())
    note = f"{spec.note}; {listed:,} ligands are on the paper's list"
    note += f"; {unsure:,} values come without a relation: some may be bounds"
    info = {"source": str(path), "note": note}
    return _regression(frame, ("pKi",), name=spec.name, info=info)


def read_nci5k(*, limit: int | None = None) -> RawGraphs:
    """The 4,991 readable of 4,999 NCI compounds inside RDKit's package, with ten properties."""
    require_rdkit()
    path = fetch.find_in_package("rdkit", "Data/NCI/first_5K.smi")
    if path is None:
        raise DataError(
            "this build of RDKit lacks Data/NCI/first_5K.smi; the one that pip installs has it"
        )
    bad = BadRows("skip")
    raw = read_table(path, target=[], bad=bad, limit=limit)
    return replace(
        raw,
        name="nci-5k",
        task="regression",
        target_names=ZINC_PROPERTIES,
        y=torch.from_numpy(properties(raw.smiles)),
        info={**raw.info, "bad_rows": len(bad), "bad": list(bad)},
    )


def _regression(frame: pd.DataFrame, targets: tuple[str, ...], **fields: Any) -> RawGraphs:
    values = frame[list(targets)].to_numpy(dtype=np.float32, copy=True)
    return from_smiles(
        frame["smiles"].tolist(),
        ids=frame["id"].tolist(),
        y=torch.from_numpy(values),
        task="regression",
        target_names=targets,
        **{"default_features": ("atoms",), **fields},
    )


def _shuffled(count: int) -> NDArray[np.int64]:
    # RandomState, because its streams are frozen: the same molecules under every NumPy.
    return np.random.RandomState(0).permutation(count)


def read_qm9(*, limit: int | None = None, bad: BadRows = STRICT) -> RawGraphs:
    """QM9 with hydrogens as nodes and 19 targets in PyG's order and units.

    The 130,831 molecules that pass QM9's own consistency check, as in PyG, from
    ``qm9/qm9.parquet`` in the data folder or the cache, or else MoleculeNet's ``qm9.csv``.
    """
    path = fetch.find("qm9/qm9.parquet")
    if path is not None:
        columns = ["qm9_index", "smiles", *TARGETS]
        frame = read_whole(ParquetTable(path), columns, BadRows(), limit)
    else:
        path = fetch.require("qm9/qm9.csv", url=NAMED["qm9"].url)
        dropped = fetch.require("qm9/uncharacterized.txt", url=_UNCHARACTERIZED_URL)
        frame = read_moleculenet(path, dropped).iloc[:limit]
    index = frame["qm9_index"].tolist()
    converted = pd.DataFrame(target_values(frame), columns=list(TARGETS))
    return _regression(
        converted.assign(smiles=frame["smiles"].tolist(), id=[f"gdb_{i}" for i in index]),
        tuple(TARGETS),
        hydrogens=True,
        bad=bad,
        where=lambda row: f"QM9, molecule {index[row]}",
        name="qm9",
        default_features=("qm9", "structure"),
        info={"source": str(path), "units": {name: unit for name, (unit, _) in TARGETS.items()}},
    )


def target_values(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The 19 targets of a table in QM9's own units, in PyG's order and units."""
    factors = np.array([factor for _, factor in TARGETS.values()])
    return np.asarray(frame[list(TARGETS)].to_numpy(dtype=np.float64) * factors)


def read_moleculenet(table: Path, uncharacterized: Path) -> pd.DataFrame:
    """MoleculeNet's table, less the molecules that QM9's authors found inconsistent."""
    text = uncharacterized.read_text(encoding="utf-8", errors="replace")
    first = [line.split()[0] for line in text.splitlines() if line.strip()]
    dropped = {f"gdb_{word}" for word in first if word.isdigit()}
    if len(dropped) != UNCHARACTERIZED:
        raise DataError(
            f"{uncharacterized} lists {len(dropped):,} molecules, not {UNCHARACTERIZED:,}; "
            "remove it, and it is downloaded again"
        )
    try:
        frame = pd.read_csv(table, usecols=["mol_id", "smiles", *TARGETS])
    except ValueError as error:
        raise DataError(f"{table} is not MoleculeNet's qm9.csv: {error}") from error
    frame = frame[~frame["mol_id"].isin(dropped)].reset_index(drop=True)
    frame["qm9_index"] = frame["mol_id"].str.removeprefix("gdb_").astype(int)
    return frame


READERS = {
    "qm9": Reader(read_qm9, frozenset({"limit", "bad"})),
    "zinc": Reader(read_zinc, frozenset({"limit"})),
    "ki": Reader(read_ki, frozenset({"limit"})),
    "nci5k": Reader(read_nci5k, frozenset({"limit"})),
}
