"""QM9: 130,831 small molecules with hydrogens and 19 computed properties."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from legs.data import sources
from legs.data.errors import BadRows, DataError
from legs.data.molecules import from_smiles
from legs.data.raw import RawGraphs
from legs.data.table_binary import parquet_errors

HARTREE = 27.211386246  # eV
KCAL_PER_MOL = 0.04336414  # eV
HARTREE_IN_KCAL = 627.509  # the factor QM9's own atomisation energies were made with
MOLECULES = 130_831
UNCHARACTERIZED = 3_054

# In PyG's order; the factors lead from the files' units to PyG's.
TARGETS: dict[str, tuple[str, float]] = {
    "mu": ("D", 1.0),
    "alpha": ("bohr³", 1.0),
    "homo": ("eV", HARTREE),
    "lumo": ("eV", HARTREE),
    "gap": ("eV", HARTREE),
    "r2": ("bohr²", 1.0),
    "zpve": ("eV", HARTREE),
    "u0": ("eV", HARTREE),
    "u298": ("eV", HARTREE),
    "h298": ("eV", HARTREE),
    "g298": ("eV", HARTREE),
    "cv": ("cal/(mol K)", 1.0),
    "u0_atom": ("eV", KCAL_PER_MOL),
    "u298_atom": ("eV", KCAL_PER_MOL),
    "h298_atom": ("eV", KCAL_PER_MOL),
    "g298_atom": ("eV", KCAL_PER_MOL),
    "A": ("GHz", 1.0),
    "B": ("GHz", 1.0),
    "C": ("GHz", 1.0),
}
# Energies of free atoms (H, C, N, O, F) in Hartree, as published with QM9.
_ATOMS = {
    "u0": (-0.500273, -37.846772, -54.583861, -75.064579, -99.718730),
    "u298": (-0.498857, -37.845355, -54.582445, -75.063163, -99.717314),
    "h298": (-0.497912, -37.844411, -54.581501, -75.062219, -99.716370),
    "g298": (-0.510927, -37.861317, -54.598897, -75.079532, -99.733544),
}
_PACKAGE_COLUMNS = {
    "Index": "qm9_index",
    "SMILES": "smiles",
    "Stoichiometry": "stoichiometry",
    "Dipole_debye": "mu",
    "Polarizability_bohr3": "alpha",
    "HOMO_au": "homo",
    "LUMO_au": "lumo",
    "HOMO_LUMO_gap_au": "gap",
    "R2_bohr2": "r2",
    "ZPVE_au": "zpve",
    "InternalEnergy_0K_au": "u0",
    "InternalEnergy_298K_au": "u298",
    "Enthalphy_298K_au": "h298",
    "GibbsFreeEnergy_298K_au": "g298",
    "Heatcapacity_Cv_cal_mol_K": "cv",
    "RotA_GHz": "A",
    "RotB_GHz": "B",
    "RotC_GHz": "C",
}
_CSV_URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/qm9.csv"
_UNCHARACTERIZED_URL = "https://ndownloader.figshare.com/files/3195404"


def read_qm9(*, limit: int | None = None, bad: BadRows | None = None) -> RawGraphs:
    """QM9 with hydrogens as nodes and 19 targets in PyG's order and units.

    The 130,831 molecules that pass QM9's own consistency check, as in PyG. Looked for in this
    order: ``qm9/qm9.parquet`` in the data folder or the cache, the installed package ``qm9pack``,
    MoleculeNet's ``qm9.csv`` (downloaded).

    Args:
        limit: only the first molecules (default: all).
        bad: is told of molecules that RDKit cannot read; with the first two sources there are
            none (default: the first one raises).
    """
    frame, source = _find()
    frame = frame.iloc[:limit]
    return from_smiles(
        frame["smiles"].tolist(),
        hydrogens=True,
        ids=[f"gdb_{index}" for index in frame["qm9_index"].tolist()],
        y=torch.from_numpy(target_values(frame).astype(np.float32)),
        bad=bad,
        where=lambda row: f"QM9, molecule {frame['qm9_index'].iloc[row]}",
        task="regression",
        name="qm9",
        target_names=tuple(TARGETS),
        default_features=("qm9", "structure"),
        info={"source": source, "units": {name: unit for name, (unit, _) in TARGETS.items()}},
    )


def target_values(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The 19 targets of a table in QM9's own units, in PyG's order and units."""
    values: NDArray[np.float64] = frame[list(TARGETS)].to_numpy(dtype=np.float64, copy=True)
    values *= np.array([factor for _, factor in TARGETS.values()])
    return values


def _find() -> tuple[pd.DataFrame, str]:
    path = sources.find("qm9/qm9.parquet")
    if path is not None:
        with parquet_errors(path):
            return pd.read_parquet(path), str(path)
    parts = [sources.find_in_package("qm9pack", f"data/qm9_part{i}.csv") for i in (1, 2, 3)]
    if all(parts):
        return read_package([part for part in parts if part is not None]), "the package qm9pack"
    hint = "QM9 also comes with a package: pip install --no-deps qm9pack."
    table = sources.require("qm9/qm9.csv", url=_CSV_URL, hint=hint)
    dropped = sources.require("qm9/uncharacterized.txt", url=_UNCHARACTERIZED_URL, hint=hint)
    return read_moleculenet(table, dropped), str(table)


def read_package(parts: Sequence[Path]) -> pd.DataFrame:
    """The tables of the package ``qm9pack`` with the columns and units of ``qm9.parquet``."""
    columns = list(_PACKAGE_COLUMNS)
    frame = pd.concat([pd.read_csv(part, usecols=columns) for part in parts], ignore_index=True)
    frame = frame.rename(columns=_PACKAGE_COLUMNS)
    counts = np.array([ast.literal_eval(text) for text in frame["stoichiometry"]])
    for name, energies in _ATOMS.items():
        bound = frame[name].to_numpy() - counts @ np.array(energies)
        frame[f"{name}_atom"] = bound * HARTREE_IN_KCAL
    return frame


def read_moleculenet(table: Path, uncharacterized: Path) -> pd.DataFrame:
    """MoleculeNet's table, less the molecules that QM9's authors found inconsistent."""
    text = uncharacterized.read_text(encoding="utf-8", errors="replace")
    first = [line.split()[0] for line in text.splitlines() if line.strip()]
    dropped = {f"gdb_{word}" for word in first if word.isdigit()}
    if len(dropped) != UNCHARACTERIZED:
        raise DataError(
            f"{uncharacterized} lists {len(dropped):,} molecules, not {UNCHARACTERIZED:,}; "
            "remove it, and it is downloaded anew"
        )
    try:
        frame = pd.read_csv(table, usecols=["mol_id", "smiles", *TARGETS])
    except ValueError as error:
        raise DataError(f"{table} is not MoleculeNet's qm9.csv: {error}") from error
    frame = frame[~frame["mol_id"].isin(dropped)].reset_index(drop=True)
    frame["qm9_index"] = frame["mol_id"].str.removeprefix("gdb_").astype(int)
    return frame
