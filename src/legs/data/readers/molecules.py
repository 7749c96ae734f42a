"""Molecules as graphs: atoms are nodes, bonds are edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from legs.data.errors import BadRows, DataError
from legs.data.features.atom_table import (
    MoleculeArrays,
    atom_blocks,
    concatenate,
    read_molecules,
    require_rdkit,
)
from legs.data.readers.base import RawGraphs

if TYPE_CHECKING:
    from rdkit.Chem import Mol

# Below this, starting worker processes takes longer than reading the molecules.
PARALLEL_FROM = 20_000
CHUNK = 2_000


def from_smiles(
    molecules: Iterable[str | Mol | None],
    *,
    hydrogens: bool = False,
    bond_weights: bool = False,
    ids: Sequence[str] = (),
    y: Tensor | None = None,
    bad: BadRows | None = None,
    where: Callable[[int], str] | None = None,
    workers: int | None = None,
    **fields: Any,
) -> RawGraphs:
    """Graphs of SMILES strings, with the feature blocks ``"atoms"``, ``"qm9"`` and ``"chem"``.

    Edge features are :data:`~legs.data.features.atom_table.BONDS`.

    Strings that are no molecule are dropped, with their rows of ``ids`` and ``y``, or raise
    :class:`DataError`, as ``bad`` says; ``where`` names the molecule at a position. Salts and
    mixtures stay whole, as graphs of several components. Explicit hydrogens of RDKit molecules are
    left out unless ``hydrogens`` makes all of them nodes: a molecule gives the same graph whether
    it comes from a SMILES string or an SDF. ``bond_weights`` weighs edges by bond order, 1.5 for
    aromatic bonds; ``workers`` is one per core from 20,000 molecules on, one below; ``fields`` are
    those of :class:`RawGraphs`.
    """
    items = list(molecules)
    for what, rows in (("ids", ids), ("targets", () if y is None else y)):
        if len(rows) not in (0, len(items)):
            raise DataError(f"{len(items):,} molecules, but {len(rows):,} {what}")
    read = read_parallel(items, hydrogens=hydrogens, workers=workers)
    bad = BadRows() if bad is None else bad
    name = where or (lambda position: f"molecule {position + 1}")
    for position, reason in read.bad:
        bad.add(name(position), reason)
    ids = tuple(str(ids[i]) for i in read.position.tolist()) if len(ids) else ()
    y = None if y is None else y[torch.from_numpy(read.position)]
    return raw_graphs(read, hydrogens=hydrogens, bond_weights=bond_weights, ids=ids, y=y, **fields)


def raw_graphs(
    read: MoleculeArrays, *, hydrogens: bool, bond_weights: bool = False, **fields: Any
) -> RawGraphs:
    """Molecules that were read, as graphs; options as in :func:`from_smiles`."""
    ptr = np.concatenate([[0], np.cumsum(read.sizes)]).astype(np.int64)
    ends = read.bonds + np.repeat(ptr[:-1], read.bonds_of)[:, None]
    edges = np.ascontiguousarray(np.concatenate([ends, ends[:, ::-1]]).T, dtype=np.int64)
    info = {"hydrogens": hydrogens, "bond_weights": bond_weights, **fields.pop("info", {})}
    return RawGraphs(
        torch.from_numpy(ptr),
        torch.from_numpy(edges),
        torch.from_numpy(np.tile(read.orders, 2)) if bond_weights else None,
        smiles=tuple(read.smiles),
        blocks=atom_blocks(read.atoms, hydrogens=hydrogens),
        info=info,
        edge_attr=torch.from_numpy(np.tile(read.bond_attr, (2, 1))),
        **{"default_features": ("chem",), **fields},
    )


def read_parallel(
    items: Sequence[str | bytes | Mol | None],
    hydrogens: bool = False,
    workers: int | None = None,
    keep_salts: bool = True,
) -> MoleculeArrays:
    """``read_molecules``, spread over processes where that pays; see :func:`from_smiles`."""
    require_rdkit()
    # joblib starts fresh processes: forking one in which PyTorch runs threads can hang, and
    # multiprocessing's own "spawn" would run the user's script once more in every worker.
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = min(cpu_count(), len(items) // CHUNK) if len(items) >= PARALLEL_FROM else 1
    if workers <= 1 or not items:
        return read_molecules(items, hydrogens, keep_salts)
    parts = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    portable = (
        [m if m is None or isinstance(m, str | bytes) else bytes(m.ToBinary()) for m in part]
        for part in parts
    )
    results = Parallel(n_jobs=workers)(
        delayed(read_molecules)(part, hydrogens, keep_salts) for part in portable
    )
    return concatenate(results, [len(part) for part in parts])
