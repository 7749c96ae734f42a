"""Sets of predicted structures: RNA-Puzzles, synthetic protein decoys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from legs.data.catalog import fetch
from legs.data.catalog.specs import NAMED
from legs.data.errors import DataError
from legs.data.readers.base import RawGraphs, Reader
from legs.data.readers.structures import NEIGHBOURS, structure_graphs
from legs.data.readers.table_files import read_parquet, reading_errors
from legs.data.readers.targets import encode_targets
from legs.data.validate import Array
from legs.io import read_arrays


def read_rna_puzzles(*, k: int = NEIGHBOURS) -> RawGraphs:
    """1,192 blind predictions of 23 RNA structures, as graphs of C4′ atoms; regresses GDT_TS."""
    info = {"source": "RNA-Puzzles standardized submissions"}
    return _read("rna-puzzles", "n", "target", "model", info, k=k, name="rna-puzzles")


def read_protein_decoys(*, k: int = NEIGHBOURS) -> RawGraphs:
    """4,008 **synthetic** decoys of 12 real proteins, bent at random; regresses GDT_TS."""
    info, name = {"synthetic": True, "source": "made for this project"}, "protein-decoys-synthetic"
    return _read("protein-decoys", "n_res", "protein", "k", info, k=k, name=name)


def _read(
    data_set: str, size: str, group: str, member: str, info: dict[str, Any], **fields: Any
) -> RawGraphs:
    """Models, grouped by what they model: columns of a table, beside an array of their sizes."""
    table, arrays = NAMED[data_set].places[0]
    frame = read_parquet(fetch.require(table), [group, member, "gdt_ts"])
    sizes, coords = _coordinates(fetch.require(arrays), size)
    if len(frame) != len(sizes):
        raise DataError(
            f"{table} has {len(frame)} rows, {arrays} {len(sizes)} structures: not of one version"
        )
    groups, members = tuple(frame[group].astype(str)), frame[member].astype(str)
    # Decoys are numbered within their protein, models have names of their own.
    numbered = members.duplicated().any()
    return structure_graphs(
        np.split(coords, np.cumsum(sizes)[:-1]),
        ids=tuple(f"{g}-{m}" if numbered else m for g, m in zip(groups, members, strict=True)),
        info={**info, "groups": groups},
        **encode_targets(frame, ["gdt_ts"], "regression").fields(),
        **fields,
    )


def _coordinates(path: Path, size: str) -> tuple[Array, Array]:
    """Number of residues of each structure, and all coordinates in Å."""
    with reading_errors(f"{path} cannot be read", path):
        arrays = read_arrays(path)
        sizes = arrays[size].astype(np.int64).reshape(-1)
        coords = arrays["xyz_cA"].astype(np.float64) / 100
    if sizes.min(initial=1) < 1 or coords.shape != (sizes.sum(), 3):
        raise DataError(f"{path}: {coords.shape} coordinates for {sizes.sum()} residues")
    return sizes, coords


READERS = {
    "rna-puzzles": Reader(read_rna_puzzles, frozenset({"k"})),
    "protein-decoys": Reader(read_protein_decoys, frozenset({"k"})),
}
