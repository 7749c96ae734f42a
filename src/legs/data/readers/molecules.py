"""Molecules as graphs: atoms are nodes, bonds are edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from legs.data.errors import BadRows, DataError
from legs.data.features.atom_table import (
    BOND_ORDERS,
    MoleculeArrays,
    atom_blocks,
    read_molecules,
)
from legs.data.readers.base import RawGraphs

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def from_smiles(
    molecules: Iterable[str | Mol | None],
    *,
    hydrogens: bool = False,
    bond_weights: bool = False,
    ids: Sequence[str] = (),
    y: Tensor | None = None,
    bad: BadRows | None = None,
    where: Callable[[int], str] | None = None,
    **fields: Any,
) -> RawGraphs:
    """Graphs of SMILES strings, with the feature blocks ``"atoms"``, ``"qm9"`` and ``"chem"``.

    Edge features are :data:`~legs.data.features.atom_table.BONDS`.

    Strings that are no molecule are dropped, with their rows of ``ids`` and ``y``, or raise
    :class:`DataError`, as ``bad`` says; ``where`` names the molecule at a position. Salts and
    mixtures stay whole, as graphs of several components. Explicit hydrogens of RDKit molecules are
    left out unless ``hydrogens`` makes all of them nodes: a molecule gives the same graph whether
    it comes from a SMILES string or an SDF. ``bond_weights`` weighs edges by bond order, 1.5 for
    aromatic bonds; ``fields`` are those of :class:`RawGraphs`.
    """
    items = list(molecules)
    for what, rows in (("ids", ids), ("targets", () if y is None else y)):
        if len(rows) not in (0, len(items)):
            raise DataError(f"{len(items):,} molecules, but {len(rows):,} {what}")
    read = read_molecules(items, hydrogens)
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
    pairs, order, more = np.split(read.bonds, [2, 3], axis=1)
    ends = pairs.astype(np.int64) + np.repeat(ptr[:-1], read.bonds_of)[:, None]
    edges = np.ascontiguousarray(np.concatenate([ends, ends[:, ::-1]]).T)
    one_hot = order == np.array(list(BOND_ORDERS.values()), dtype=np.float32)
    bond_attr = np.concatenate([one_hot, more], axis=1).astype(np.uint8)
    info = {"hydrogens": hydrogens, "bond_weights": bond_weights, **fields.pop("info", {})}
    return RawGraphs(
        torch.from_numpy(ptr),
        torch.from_numpy(edges),
        torch.from_numpy(np.tile(order[:, 0], 2)) if bond_weights else None,
        smiles=tuple(read.smiles),
        blocks=atom_blocks(read.atoms, hydrogens=hydrogens),
        info=info,
        edge_attr=torch.from_numpy(np.tile(bond_attr, (2, 1))),
        **{"default_features": ("chem",), **fields},
    )
