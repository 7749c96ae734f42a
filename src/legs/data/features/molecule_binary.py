"""Atoms and bonds of RDKit molecules in bulk, out of their binary form.

A Python object per atom and per bond takes longer than all of RDKit's perception. ``Mol.ToBinary``
is one call: records whose length follows from their flags, decoded here by NumPy for all molecules
together. The format is RDKit's own and may change; :func:`decodes` tries it on a few molecules, and
without it :func:`listed` asks every atom and bond.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rdkit.Chem import Mol

NO_PROPERTIES = 0  # Chem.PropertyPickleOptions.NoProps
# Of a molecule: marks of the first atom, bond and ring, and the places of counts.
_START, _BONDS, _RINGS, _COUNTS = 0x01, 0x0B, 0x42, 20
# Of an atom: element, flags, and which of charge, chirality, hybridization, explicit hydrogens,
# explicit and implicit valence and radicals follow as a byte, and of the isotope as four.
_AROMATIC, _NO_IMPLICIT, _SP3 = 0x40, 0x20, 4
_ATOM_LENGTHS = {
    bytes([flags, fields, isotope, 0, 0]): 6 + fields.bit_count() + 4 * isotope
    for flags in (0, _AROMATIC, _NO_IMPLICIT, _AROMATIC | _NO_IMPLICIT)
    for fields in range(0, 256, 2)
    for isotope in (0, 1)
}
# Of a bond: both atoms, flags, and perhaps the type, the direction, and stereo: its kind and how
# many atoms it refers to.
_CONJUGATED, _TYPE, _DIRECTION, _STEREO = 0x20, 0x08, 0x04, 0x02
_BOND_LENGTHS = {
    flags: 3 + (flags & (_TYPE | _DIRECTION)).bit_count() + (flags & _STEREO)
    for flags in range(0, 128, 2)
    if not flags & 0x10  # a query
}
# By RDKit's numbers of bond types: single to hextuple, the halves, aromatic, dative.
_ORDERS = np.zeros(256, dtype=np.float32)
_ORDERS[[*range(1, 7), *range(7, 13), 16, 17]] = [*range(1, 7), 1.5, 2.5, 3.5, 4.5, 5.5, 1.5, 1, 1]
_PROBES = (
    *("[13CH3][C@H](F)[N+](=O)[O-]", r"F/C=C\c1cc2CCc2[nH]1", "[CH2]C#N->[Fe+2]", "[2H]OC.[Na+]"),
    *("C1CC1C1=CC=CC=C1S(=O)(=O)N", "[NH4+].F[P-](F)(F)(F)(F)F"),
)


class Tables:
    """Collects molecules; :meth:`arrays` lists their atoms and bonds."""

    def __init__(self, *, binary: bool) -> None:
        self.binary = binary
        self.atoms, self.bonds, self.rings = list[bytes](), list[bytes](), list[bytes]()
        self.rows: tuple[list[Any], list[Any]] = [], []  # of molecules that were not decoded
        self.counts: list[tuple[int, int, int, bool]] = []  # atoms, bonds, rings, whether decoded

    def add(self, mol: Mol) -> None:
        """Adds a molecule, sanitised."""
        if not (self.binary and self._add(mol.ToBinary(NO_PROPERTIES))):
            for rows, new in zip(self.rows, listed(mol), strict=True):
                rows += new
            self.counts.append((mol.GetNumAtoms(), mol.GetNumBonds(), 0, False))

    def _add(self, binary: bytes) -> bool:
        """Cuts records out of a binary form, unless it holds anything unusual."""
        counts = int.from_bytes(binary[_COUNTS : _COUNTS + 8], "little")
        num_atoms, num_bonds, at = counts & 0xFFFFFFFF, counts >> 32, _COUNTS + 10
        if num_atoms > 255 or binary[at - 1] != _START:  # atoms are then numbered by four bytes
            return False
        atoms, bonds, rings = list[bytes](), list[bytes](), list[bytes]()
        try:
            for _ in range(num_atoms):
                end = at + _ATOM_LENGTHS[binary[at + 1 : at + 6]]
                atoms.append(binary[at:end])
                at = end
            marks, at = [binary[at]], at + 1
            for _ in range(num_bonds):
                flags = binary[at + 2]
                end = at + _BOND_LENGTHS[flags]
                if flags & _STEREO:
                    end += binary[end - 1]
                bonds.append(binary[at:end])
                at = end
            marks.append(binary[at])
            num_rings, at = int.from_bytes(binary[at + 1 : at + 5], "little"), at + 5
            for _ in range(num_rings):
                end = at + 1 + binary[at]
                rings.append(binary[at + 1 : end])
                at = end
        except (KeyError, IndexError):
            return False
        if marks != [_BONDS, _RINGS]:
            return False
        self.atoms += atoms
        self.bonds += bonds
        self.rings += rings
        self.counts.append((num_atoms, num_bonds, num_rings, True))
        return True

    def arrays(self) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Atoms and bonds as :func:`listed` has them, of all molecules."""
        counts = np.array(self.counts, dtype=np.int64).reshape(-1, 4)
        decoded = counts[:, 3] == 1
        atoms = np.zeros((counts[:, 0].sum(), 8), dtype=np.int16)
        bonds = np.zeros((counts[:, 1].sum(), 5), dtype=np.float32)
        parts = self._decoded(*counts[decoded, :3].T)
        for k, (table, part) in enumerate(zip((atoms, bonds), parts, strict=True)):
            mask = np.repeat(decoded, counts[:, k])
            table[mask] = part
            table[~mask] = np.array(self.rows[k], dtype=table.dtype).reshape(-1, table.shape[1])
        return atoms, bonds

    def _decoded(self, sizes: Any, bonds_of: Any, rings_of: Any) -> tuple[Any, Any]:
        record, bond = _matrix(self.atoms, 17), _matrix(self.bonds, 9)
        present = record[:, 2:3] >> np.arange(1, 8, dtype=np.uint8) & 1
        place = np.minimum(5 + np.cumsum(present, axis=1), 16)
        values = np.take_along_axis(record, place, axis=1).astype(np.int16)
        values = np.where(present, values, [0, 0, _SP3, 0, 0, 0, 0])
        charge, chiral, hybridization, explicit, _, implicit, _ = values.T
        number, count, starts = record[:, 0], len(record), np.cumsum(sizes) - sizes
        ends = bond[:, :2] + np.repeat(starts, bonds_of)[:, None]
        hydrogens = explicit + np.where(record[:, 1] & _NO_IMPLICIT, 0, implicit)
        degree = hydrogens + np.bincount(ends.ravel(), minlength=count)
        for one, other in (ends.T, ends[:, ::-1].T):
            hydrogens = hydrogens + np.bincount(one[number[other] == 1], minlength=count)
        lengths = np.array([len(ring) for ring in self.rings], dtype=np.int64)
        member = np.frombuffer(b"".join(self.rings), dtype=np.uint8)
        member = member + np.repeat(np.repeat(starts, rings_of), lengths)
        ring_size = np.full(count, 256)
        np.minimum.at(ring_size, member, np.repeat(lengths, lengths))
        after = np.arange(1, len(member) + 1)
        after[np.cumsum(lengths) - 1] = np.cumsum(lengths) - lengths
        around = np.sort(np.stack([member, member[after]]), axis=0)
        low, high = np.sort(ends, axis=1).T
        in_ring = np.isin(low * count + high, around[0] * count + around[1])
        atoms = (
            *(number, (charge + 128) % 256 - 128, hydrogens, degree),
            *(record[:, 1] & _AROMATIC != 0, ring_size % 256, hybridization, chiral != 0),
        )
        flags, order = bond[:, 2], _ORDERS[np.where(bond[:, 2] & _TYPE, bond[:, 3], 1)]
        conjugated = flags & _CONJUGATED != 0
        bonds = (bond[:, 0], bond[:, 1], order, conjugated, in_ring)
        return np.stack(atoms, axis=1), np.stack(bonds, axis=1)


def _matrix(records: list[bytes], width: int) -> NDArray[np.uint8]:
    """Records below each other, filled with zeros."""
    return np.array(records, dtype=f"S{width}").view(np.uint8).reshape(-1, width)


def listed(mol: Mol) -> tuple[list[Any], list[Any]]:
    """Atoms as ``COLUMNS`` of ``atom_table``; bonds as atoms, order, conjugated, in a ring."""
    ring_size = mol.GetRingInfo().MinAtomRingSize
    atoms = [
        (
            atom.GetAtomicNum(),
            atom.GetFormalCharge(),
            atom.GetTotalNumHs(includeNeighbors=True),
            atom.GetTotalDegree(),
            atom.GetIsAromatic(),
            ring_size(atom.GetIdx()),
            atom.GetHybridization(),
            atom.GetChiralTag() != 0,
        )
        for atom in mol.GetAtoms()
    ]
    bonds = [
        (
            bond.GetBeginAtomIdx(),
            bond.GetEndAtomIdx(),
            bond.GetBondTypeAsDouble(),
            bond.GetIsConjugated(),
            bond.IsInRing(),
        )
        for bond in mol.GetBonds()
    ]
    return atoms, bonds


@cache
def decodes() -> bool:
    """Whether the binary form is the one that is decoded here."""
    from rdkit import Chem

    tables = Tables(binary=True), Tables(binary=False)
    for smiles in _PROBES:
        mol = Chem.MolFromSmiles(smiles)
        for table in tables:
            table.add(mol)
            table.add(Chem.AddHs(mol))
    same = (np.array_equal(*pair) for pair in zip(*(t.arrays() for t in tables), strict=True))
    return all(count[3] for count in tables[0].counts) and all(same)
