"""Molecules by name: QM9, tranches of ZINC15, binding affinities, the compounds inside RDKit.

Where a set is larger than what the paper used, the molecules are drawn in one fixed random order
(seed 0), and ``limit`` says where to stop: a smaller limit gives the first part of a larger one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from legs.data import sources
from legs.data.atom_table import require_rdkit
from legs.data.errors import BadRows, DataError
from legs.data.molecules import from_smiles
from legs.data.properties import ZINC_PROPERTIES, properties
from legs.data.qm9 import read_qm9
from legs.data.raw import RawGraphs
from legs.data.table_binary import parquet_errors

__all__ = ["read_ki", "read_nci5k", "read_qm9", "read_zinc"]

ZINC_MOLECULES = 2_500
KI_MOLECULES = 3_000
_ZINC_ADDRESS = "https://files.docking.org/2D/{}/{}.smi"
_ZINC_NOTES = {
    "BBAB": "the whole tranche has 13,450 molecules",
    "FBAB": "the list of the paper's authors",
    "JBCD": "only the first 124 molecules of about 4,500; zinc-jbab, of the same weight and logP, "
    "stands in for it. With the whole tranche as zinc/JBCD.smi in the data folder, that is read",
    "JBAB": "same weight and logP as JBCD, for which it stands in, but more varied: losses are "
    "not comparable; 22 molecules above 500 g/mol are left out",
}
_KI_TARGETS = {"P00918": "carbonic anhydrase 2", "P14416": "dopamine receptor D2"}


def read_zinc(tranche: str, *, limit: int | None = ZINC_MOLECULES) -> RawGraphs:
    """A tranche of ZINC15 with ten RDKit properties as targets.

    Read from ``zinc/TRANCHE.smi`` (as ZINC distributes it) or ``zinc/zinc_tranches.parquet`` in
    the data folder or the cache, or else downloaded.

    Args:
        tranche: ``"BBAB"``, ``"FBAB"``, ``"JBCD"`` or ``"JBAB"``, in any case.
        limit: molecules, drawn in a fixed random order (default 2,500; ``None``: all).
    """
    tranche = tranche.upper()
    if tranche not in _ZINC_NOTES:
        raise DataError(f"the tranches are {', '.join(_ZINC_NOTES)}, not {tranche!r}")
    frame, path = _tranche(tranche)
    frame = frame.iloc[_shuffled(len(frame))[:limit]]
    if "LogIpc" not in frame:
        frame = frame.assign(
            **dict(zip(ZINC_PROPERTIES, properties(frame["smiles"].tolist()).T, strict=True))
        )
    return from_smiles(
        frame["smiles"].tolist(),
        ids=frame["id"].tolist(),
        y=_numbers(frame, ZINC_PROPERTIES),
        task="regression",
        name=f"zinc-{tranche.lower()}",
        target_names=ZINC_PROPERTIES,
        default_features=("atoms",),
        info={"source": str(path), "note": _ZINC_NOTES[tranche]},
    )


def read_ki(protein: str, *, limit: int | None = KI_MOLECULES, strict: bool = False) -> RawGraphs:
    """Ligands of a protein and how strongly they bind: pKi = 9 − log₁₀(Ki in nM).

    Medians per compound of Ki values in ChEMBL; the paper used BindingDB. For P00918 the ligands
    of the paper's own list come first.

    Args:
        protein: ``"P00918"`` or ``"P14416"``, in any case.
        limit: ligands, drawn in a fixed random order (default 3,000; ``None``: all).
        strict: leave out the values of which it is not known whether they are bounds (>, <)
            rather than equalities (default: keep them; they are all of P00918).
    """
    protein = protein.upper()
    if protein not in _KI_TARGETS:
        raise DataError(f"the proteins are {', '.join(_KI_TARGETS)}, not {protein!r}")
    path = sources.require("ki/ki_P00918_P14416.parquet")
    frame = _table(path)
    frame = frame[frame["target"] == protein]
    unsure = frame["source"].str.startswith("prabhav54")
    if strict:
        frame = frame[~unsure]
    frame = frame.iloc[_shuffled(len(frame))]
    # Stable: within the authors' ligands, and within the others, the random order stays.
    frame = frame.sort_values("in_authors_subset", ascending=False, kind="stable").iloc[:limit]
    return from_smiles(
        frame["smiles_parent"].tolist(),
        ids=frame["chembl_id"].tolist(),
        y=_numbers(frame, ("pKi",)),
        task="regression",
        name=f"ki-{protein.lower()}",
        target_names=("pKi",),
        default_features=("atoms",),
        info={
            "source": str(path),
            "note": f"{_KI_TARGETS[protein]}; ChEMBL, median pKi per compound, not BindingDB; "
            f"{int(frame['in_authors_subset'].sum()):,} ligands are on the paper's list",
            "censoring": f"{int(frame['source'].str.startswith('prabhav54').sum()):,} values come "
            "without a relation: some may be bounds (strict=True leaves them out)",
        },
    )


def read_nci5k(*, limit: int | None = None) -> RawGraphs:
    """The 4,991 readable of 4,999 NCI compounds inside RDKit's package, with ten properties.

    Real molecules that need no download. The eight others are counted in ``info["bad_rows"]``.

    Args:
        limit: only the first lines of the file (default: all).
    """
    require_rdkit()
    path = sources.find_in_package("rdkit", "Data/NCI/first_5K.smi")
    if path is None:
        raise DataError(
            "this build of RDKit lacks Data/NCI/first_5K.smi; the one that pip installs has it"
        )
    frame = _read_smi(path).iloc[:limit]
    bad = BadRows("skip")
    raw = from_smiles(
        frame["smiles"].tolist(),
        ids=frame["id"].tolist(),
        bad=bad,
        where=lambda row: f"{path.name} line {row + 1}",
    )
    values = properties(raw.smiles).astype(np.float32)
    return RawGraphs(
        **{
            **vars(raw),
            "y": torch.from_numpy(values),
            "task": "regression",
            "name": "nci-5k",
            "target_names": ZINC_PROPERTIES,
            "default_features": ("chem",),
            "info": {**raw.info, "source": str(path), "bad_rows": len(bad), "bad": list(bad)},
        }
    )


def _tranche(tranche: str) -> tuple[pd.DataFrame, Path]:
    """SMILES and ids of a tranche, with properties where they are known."""
    own = f"zinc/{tranche}.smi"
    path = sources.find(own)
    if path is None and (packed := sources.find("zinc/zinc_tranches.parquet")) is not None:
        frame = _table(packed)
        frame = frame[frame["tranche"] == tranche].reset_index(drop=True)
        frame["LogIpc"] = np.log1p(frame["Ipc"])
        if tranche == "JBAB":
            frame = frame[frame["MolWt"] <= 500]
        path = packed
    else:
        path = path or sources.require(own, url=_ZINC_ADDRESS.format(tranche[:2], tranche))
        frame = _read_smi(path).rename(columns={"id": "zinc_id"})
        if frame.empty or frame["smiles"].iloc[0].lower() != "smiles":
            raise DataError(f"{path} does not begin with 'smiles zinc_id' as ZINC's files do")
        frame = frame.iloc[1:]
    known = frame["zinc_id"].str.isdigit()
    ids = [
        f"ZINC{int(name):012d}" if digits else f"{tranche}-{row + 1}"
        for row, (name, digits) in enumerate(zip(frame["zinc_id"], known, strict=True))
    ]
    return frame.assign(id=ids), path


def _table(path: Path) -> pd.DataFrame:
    with parquet_errors(path):
        return pd.read_parquet(path)


def _read_smi(path: Path) -> pd.DataFrame:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line.strip()]
    return pd.DataFrame(
        {"smiles": [w[0] for w in words], "id": [w[1].strip() if w[1:] else "" for w in words]}
    )


def _shuffled(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    # RandomState, because its streams are frozen: the same molecules under every NumPy.
    return np.random.RandomState(0).permutation(count)


def _numbers(frame: pd.DataFrame, names: tuple[str, ...]) -> Tensor:
    return torch.from_numpy(frame[list(names)].to_numpy(dtype=np.float32, copy=True))
