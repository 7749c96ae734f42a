"""Molecules as integers, a row per atom and per bond, and the node features made of them.

Kept free of PyTorch, so that the command and processes that compute descriptors start quickly. The
vocabularies of features are fixed, so that the molecules a model is shown later get the same
columns as the ones it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legs.data.errors import DataError, require
from legs.data.features.molecule_binary import Tables, decodes

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from legs.data.readers.base import Features

COLUMNS = (
    "atomic_number",
    "charge",
    "hydrogens",  # all that are bound, whether or not they are nodes of the graph
    "degree",  # with hydrogens
    "aromatic",
    "ring_size",  # of the smallest ring, 0 for none
    "hybridization",  # RDKit's numbers: 2 sp, 3 sp2, 4 sp3
    "chiral",  # 1: a tetrahedral (or higher) stereo mark is set
)

# Edge features: the order of a bond, one-hot, whether it is conjugated, and in a ring.
BOND_ORDERS = {"single": 1.0, "double": 2.0, "triple": 3.0, "aromatic": 1.5}
BONDS = (*BOND_ORDERS, "conjugated", "ring")

# Longer than any molecule in ChEMBL. The parser takes quadratic time and deep stacks beyond.
LONGEST_SMILES = 20_000
# RDKit looks for the smallest rings of every molecule: in memory quadratic in the bonds of a ring
# system, in time worse than quadratic in its rings. The largest fullerenes stay below.
MOST_ATOMS, MOST_RING_BONDS, MOST_RINGS = 20_000, 3_000, 500
# Hubs multiply equal rings. In a system of this many rings, an atom may have as many neighbours as
# in a close-packed metal.
MANY_RINGS, MOST_NEIGHBORS = 100, 12

# One-hot columns; everything else (metals, B, Si, …) is "other".
ELEMENTS = {"C": 6, "N": 7, "O": 8, "S": 16, "F": 9, "Cl": 17, "Br": 35, "I": 53, "P": 15}
NUMBERS = {"H": 1, **ELEMENTS}
HYBRIDIZATIONS = {"sp": 2, "sp2": 3, "sp3": 4}
QM9 = (*("H", "C", "N", "O", "F"), "atomic_number", "aromatic", *HYBRIDIZATIONS, "hydrogens")
CHEM = (
    *("degree", "hydrogens", "charge", "aromatic", "ring", "ring_size", *HYBRIDIZATIONS, "stereo"),
    *("mass", "electronegativity", "covalent_radius", "outer_electrons"),
)

# Pauling's scale by atomic number; elements without a value (noble gases, dummy atoms) get 0.
_ELECTRONEGATIVITY = (
    "0 2.20 0 0.98 1.57 2.04 2.55 3.04 3.44 3.98 0 0.93 1.31 1.61 1.90 2.19 2.58 3.16 0 "
    "0.82 1.00 1.36 1.54 1.63 1.66 1.55 1.83 1.88 1.91 1.90 1.65 1.81 2.01 2.18 2.55 2.96 3.00 "
    "0.82 0.95 1.22 1.33 1.6 2.16 1.9 2.2 2.28 2.20 1.93 1.69 1.78 1.96 2.05 2.1 2.66 2.6 "
    "0.79 0.89 1.10 1.12 1.13 1.14 1.13 1.17 1.2 1.2 1.1 1.22 1.23 1.24 1.25 1.1 1.27 "
    "1.3 1.5 2.36 1.9 2.2 2.20 2.28 2.54 2.00 1.62 2.33 2.02 2.0 2.2 0 "
    "0.7 0.9 1.1 1.3 1.5 1.38 1.36 1.28 1.3 1.3 1.3 1.3 1.3 1.3 1.3 1.3 1.3"
)
_LAST_ELEMENT = 118


class MoleculeArrays(NamedTuple):
    """Molecules side by side; those that could not be read are left out."""

    atoms: NDArray[np.int16]  # [atoms, len(COLUMNS)]
    sizes: NDArray[np.int64]  # [molecules], atoms of each
    # [bonds, 5], each bond once: atoms, numbered within their molecule, order (1.5 for aromatic
    # ones), whether it is conjugated, and in a ring.
    bonds: NDArray[np.float32]
    bonds_of: NDArray[np.int64]  # [molecules], bonds of each
    position: NDArray[np.int64]  # [molecules], in the input
    parted: NDArray[np.bool_]  # [molecules], whether smaller fragments were left out
    smiles: list[str]  # [molecules], as read, or written by RDKit for molecules and fragments
    bad: list[tuple[int, str]]  # position in the input and reason, for the others


def read_molecules(
    items: Iterable[Any], hydrogens: bool = False, keep_salts: bool = True
) -> MoleculeArrays:
    """Reads SMILES and RDKit molecules (or their binary form); faults are listed, not raised.

    Without ``keep_salts``, only the largest fragment of salts and mixtures.
    """
    require_rdkit()
    from rdkit import rdBase

    tables = Tables(binary=decodes())
    positions, smiles, bad = list[int](), list[str](), list[tuple[int, str]]()
    parted = list[bool]()
    # Thousands of parser messages would hide the one list of bad rows that people read.
    with rdBase.BlockLogs():
        for position, item in enumerate(items):
            try:
                mol, text, whole = _read(item, hydrogens, keep_salts)
            except DataError as error:
                bad.append((position, str(error)))
                continue
            except Exception as error:  # RDKit raises its own, Boost's and Python's exceptions
                reason = _short(str(error).strip() or repr(error))
                bad.append((position, f"RDKit cannot use this molecule: {reason}"))
                continue
            tables.add(mol)
            positions.append(position)
            smiles.append(text)
            parted.append(not whole)
    counts = np.array(tables.counts, dtype=np.int64).reshape(-1, 4)
    atoms, bonds = tables.arrays()
    return MoleculeArrays(
        atoms,
        counts[:, 0],
        bonds,
        counts[:, 1],
        np.array(positions, dtype=np.int64),
        np.array(parted, dtype=np.bool_),
        smiles,
        bad,
    )


def require_rdkit() -> None:
    """Raises :class:`DataError` with the remedy where RDKit is not installed."""
    require("molecules need RDKit: pip install 'torch-legs[chem]'", "rdkit")


def select(read: MoleculeArrays, mask: NDArray[np.bool_]) -> MoleculeArrays:
    """The molecules that ``mask`` (``[molecules]``) marks; ``bad`` stays as it is."""
    atoms, bonds = np.repeat(mask, read.sizes), np.repeat(mask, read.bonds_of)
    masks = (atoms, mask, bonds, mask, mask, mask)
    arrays: list[Any] = list(read[:6])
    arrays = [array[chosen] for array, chosen in zip(arrays, masks, strict=True)]
    return MoleculeArrays._make([*arrays, list(compress(read.smiles, mask)), read.bad])


def _read(item: Any, hydrogens: bool, keep_salts: bool) -> tuple[Mol, str, bool]:
    """A molecule ready to be listed, its SMILES, and whether it is whole."""
    from rdkit import Chem

    if item is None:
        raise DataError("no molecule, or none that RDKit can read")
    if isinstance(item, str):
        text = item.strip()
        mol = _parse(text)
    else:
        # A copy: sanitising changes the molecule, and this one is the caller's.
        mol = Chem.Mol(item)
        if fault := too_large(mol):
            raise DataError(fault)
        Chem.SanitizeMol(mol)
        mol = Chem.RemoveHs(mol)
        text = Chem.MolToSmiles(mol)
    if mol.GetNumAtoms() == 0:
        raise DataError("a molecule without atoms")
    whole = keep_salts or "." not in text or len(Chem.GetMolFrags(mol)) == 1
    if not whole:
        text = largest_fragment(mol)
        mol = Chem.MolFromSmiles(text)  # in the order of the text
    return (Chem.AddHs(mol) if hydrogens else mol), text, whole


def largest_fragment(mol: Mol) -> str:
    """Canonical SMILES of the fragment with the most atoms."""
    from rdkit import Chem

    fragments = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False)
    return max((part.GetNumAtoms(), str(Chem.MolToSmiles(part))) for part in fragments)[1]


def _parse(text: str) -> Mol:
    from rdkit import Chem

    if not text:
        raise DataError("no SMILES")
    if len(text) > LONGEST_SMILES:
        most = f"at most {LONGEST_SMILES:,} are read"
        raise DataError(f"a SMILES of {len(text):,} characters ({most})")
    if "\0" in text:  # would end the string for RDKit: the rest would go unnoticed
        raise DataError(f"not a SMILES string: {_short(text)!r}")
    if len(text) > 2 * MANY_RINGS:  # a ring takes two characters at least
        loose = Chem.MolFromSmiles(text, sanitize=False)
        if loose is not None and (fault := too_large(loose)):
            raise DataError(fault)
    if (mol := Chem.MolFromSmiles(text)) is not None:
        return mol
    if (loose := Chem.MolFromSmiles(text, sanitize=False)) is None:
        raise DataError(f"not a SMILES string: {_short(text)!r}")
    problems = Chem.DetectChemistryProblems(loose)
    why = "; ".join(problem.Message() for problem in problems) or "cannot be sanitised"
    raise DataError(f"not a valid molecule: {_short(text)!r} ({_short(why, 200)})")


def too_large(mol: Mol) -> str:
    """Why a molecule, sanitised or not, is too large for RDKit's search for rings; else empty."""
    atoms, bonds = mol.GetNumAtoms(), mol.GetNumBonds()
    if atoms <= MOST_ATOMS and bonds <= MANY_RINGS:
        return ""
    return ring_fault(atoms, [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()])


def ring_fault(atoms: int, bonds: Sequence[tuple[int, int]]) -> str:
    """The same for so many atoms and pairs of them."""
    if atoms > MOST_ATOMS:
        return f"a molecule of {atoms:,} atoms (at most {MOST_ATOMS:,} are read)"
    neighbors = np.bincount(np.asarray(bonds, dtype=np.int64).reshape(-1))
    if len(bonds) <= MOST_RINGS and neighbors.max(initial=0) <= MOST_NEIGHBORS:
        return ""
    import networkx as nx

    graph: Any = nx.Graph(bonds)
    graph.remove_edges_from(list(nx.bridges(graph)))
    for system in nx.connected_components(graph):
        links = graph.subgraph(system).number_of_edges()
        rings = links - len(system) + 1
        if links > MOST_RING_BONDS or rings > MOST_RINGS:
            most = f"{MOST_RING_BONDS:,} and {MOST_RINGS:,}"
            return f"a ring system of {links:,} bonds and {rings:,} rings (at most {most} are read)"
        hub = max(degree for _, degree in graph.degree(system))
        if rings > MANY_RINGS and hub > MOST_NEIGHBORS:
            most = f"{MOST_NEIGHBORS} are read, beyond {MANY_RINGS} rings"
            return (
                f"an atom with {hub:,} neighbours in a system of {rings:,} rings (at most {most})"
            )
    return ""


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def atom_blocks(
    table: NDArray[np.int16], *, hydrogens: bool = False
) -> Mapping[str, Callable[[], Features]]:
    """The feature blocks ``"atoms"``, ``"qm9"`` and ``"chem"``, each computed when called.

    * ``"atoms"``: one-hot atom type: C, N, O, S, F, Cl, Br, I, P, other; before them H with
      ``hydrogens``.
    * ``"qm9"``: the eleven atom features of PyG's QM9, in its order. PyG reads QM9 without
      perceiving aromaticity and hybridisation, so that four of its columns are zero throughout;
      here they hold what they are named after.
    * ``"chem"``: the atom type and a compact, rich description, the default for a user's molecules;
      all finite.
    """
    types = (*(NUMBERS if hydrogens else ELEMENTS), "other")
    blocks = {"atoms": types, "qm9": QM9, "chem": (*types, *CHEM)}
    return {block: partial(_features, table, names) for block, names in blocks.items()}


def _features(table: NDArray[np.int16], names: Sequence[str]) -> Features:
    import torch

    from legs.data.readers.base import Features

    columns: dict[str, NDArray[Any]] = dict(zip(COLUMNS, table.T, strict=True))
    number, ring = columns["atomic_number"], columns["ring_size"]
    columns |= {name: number == z for name, z in NUMBERS.items()}
    columns |= {name: columns["hybridization"] == n for name, n in HYBRIDIZATIONS.items()}
    element = np.clip(number, 0, _LAST_ELEMENT)
    columns |= {name: values[element] for name, values in _of_elements().items()}
    columns |= {
        "ring": ring > 0,
        "ring_size": np.minimum(ring, 12) / 6,
        "stereo": columns["chiral"],
    }
    columns["other"] = ~np.isin(number, [NUMBERS[name] for name in names if name in NUMBERS])
    x = np.stack([columns[name].astype(np.float32) for name in names], axis=1)
    return Features(torch.from_numpy(x), tuple(names))


@cache
def _of_elements() -> dict[str, NDArray[np.float64]]:
    """Properties of the elements by atomic number, ``[_LAST_ELEMENT + 1]`` each."""
    from rdkit import Chem

    table = Chem.GetPeriodicTable()
    numbers = range(1, _LAST_ELEMENT + 1)
    pauling = np.array(_ELECTRONEGATIVITY.split(), dtype=np.float64)
    # The dummy atom * has no mass and no size.
    return {
        "mass": np.array([0.0, *(table.GetAtomicWeight(z) / 100 for z in numbers)]),
        "electronegativity": np.pad(pauling, (0, _LAST_ELEMENT + 1 - len(pauling))),
        "covalent_radius": np.array([0.0, *(table.GetRcovalent(z) for z in numbers)]),
        "outer_electrons": np.array([0.0, *(table.GetNOuterElecs(z) / 8 for z in numbers)]),
    }
