"""Sets of predicted structures: RNA-Puzzles, synthetic protein decoys, CASP12."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.data import sources
from legs.data.casp12 import read_casp12
from legs.data.errors import DataError
from legs.data.raw import RawGraphs
from legs.data.structures import NEIGHBOURS, structure_graphs
from legs.data.targets import encode_targets
from legs.files import FileError, read_arrays

__all__ = ["read_casp12", "read_protein_decoys", "read_rna_puzzles"]


def read_rna_puzzles(*, k: int = NEIGHBOURS) -> RawGraphs:
    """1,192 blind predictions of 23 RNA structures; regresses GDT_TS.

    Models submitted to RNA-Puzzles, and to CASP15 for one target (Magnus et al. 2020), as graphs
    of their C4′ atoms. GDT_TS was computed on C4′ atoms. ``info["groups"]`` names the target of
    every model.

    Args:
        k: number of nearest neighbours.
    """
    return _read(
        "structures/rna_puzzles_models.parquet",
        "structures/rna_puzzles_c4_xyz_centiangstrom.npz",
        size="n",
        group="target",
        member="model",
        k=k,
        name="rna-puzzles",
        info={
            "licence": "no licence given by the source; cite Magnus et al., NAR 2020, gkz1108",
            "source": "RNA-Puzzles standardized submissions",
        },
    )


def read_protein_decoys(*, k: int = NEIGHBOURS) -> RawGraphs:
    """4,008 **synthetic** decoys of 12 real proteins; regresses GDT_TS.

    Cα chains of known structures, bent and displaced at random; predictions by nobody.
    ``info["groups"]`` names the protein of every decoy.

    Args:
        k: number of nearest neighbours.
    """
    return _read(
        "structures/protein_decoys_synthetic.parquet",
        "structures/protein_decoys_synthetic_ca_centiangstrom.npz",
        size="n_res",
        group="protein",
        member="k",
        k=k,
        name="protein-decoys-synthetic",
        info={
            "synthetic": True,
            "note": "SYNTHETIC: real structures displaced at random, not predictions",
            "licence": "native structures from the Protein Data Bank (CC0)",
            "source": "made for this project",
        },
    )


def _read(
    table: str,
    arrays: str,
    *,
    size: str,
    group: str,
    member: str,
    k: int,
    name: str,
    info: dict[str, Any],
) -> RawGraphs:
    hint = "The set has no public address."
    frame = _table(sources.require(table, hint=hint), [group, member, "gdt_ts"])
    sizes, coords = _coordinates(sources.require(arrays, hint=hint), size)
    if len(frame) != len(sizes):
        raise DataError(
            f"{table} has {len(frame)} rows, {arrays} {len(sizes)} structures: not of one version"
        )
    groups = tuple(frame[group].astype(str))
    members = frame[member].astype(str)
    # Decoys are numbered within their protein, models have names of their own.
    numbered = members.duplicated().any()
    ids = tuple(f"{g}-{m}" if numbered else m for g, m in zip(groups, members, strict=True))
    return structure_graphs(
        np.split(coords, np.cumsum(sizes)[:-1]),
        encode_targets(frame, ["gdt_ts"], "regression"),
        k=k,
        name=name,
        ids=ids,
        info={**info, "groups": groups},
    )


def _table(path: Path, columns: list[str]) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {str(error)[:160]}") from error


def _coordinates(path: Path, size: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Number of residues of each structure, and all coordinates in Å."""
    try:
        arrays = read_arrays(path)
        sizes = arrays[size].astype(np.int64)
        coords = arrays["xyz_cA"].astype(np.float64) / 100
    except FileError as error:
        raise DataError(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {str(error)[:160]}") from error
    if sizes.ndim != 1:
        raise DataError(f"{path}: {size} is no list of sizes")
    if sizes.min(initial=1) < 1 or coords.shape != (sizes.sum(), 3):
        raise DataError(f"{path}: {coords.shape} coordinates for {sizes.sum()} residues")
    return sizes, coords
