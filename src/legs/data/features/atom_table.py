"""Molecules as integers: a row per atom and per bond, read once for all features.

Kept free of PyTorch, so that worker processes that only parse molecules start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legs.data.errors import DataError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

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

# Longer than any molecule in ChEMBL. The parser takes quadratic time and deep stacks beyond.
LONGEST_SMILES = 20_000
# RDKit looks for the smallest rings of every molecule: in memory quadratic in the bonds of a ring
# system, in time worse than quadratic in its rings. The largest fullerenes stay below.
MOST_ATOMS, MOST_RING_BONDS, MOST_RINGS = 20_000, 3_000, 500
# Hubs multiply equal rings. In a system of this many rings, an atom may have as many neighbours as
# in a close-packed metal.
MANY_RINGS, MOST_NEIGHBORS = 100, 12

# The ten that the paper predicts for molecules of ZINC. The information content Ipc grows
# exponentially with the molecule, so its logarithm log(1 + Ipc) stands for it.
ZINC_PROPERTIES = (
    *("qed", "HeavyAtomMolWt", "MolWt", "BalabanJ", "BertzCT", "LogIpc", "TPSA"),
    *("NumHAcceptors", "NumHDonors", "RingCount"),
)
# Ipc takes the fourth power of the atoms in time; above this it takes seconds and overflows.
LARGEST_FOR_IPC = 300
_PARALLEL_FROM, _CHUNK = 2_000, 250  # molecules


class MoleculeArrays(NamedTuple):
    """Molecules side by side; those that could not be read are left out."""

    atoms: NDArray[np.int16]  # [atoms, len(COLUMNS)]
    sizes: NDArray[np.int64]  # [molecules], atoms of each
    bonds: NDArray[np.int32]  # [bonds, 2], atoms numbered within their molecule, each bond once
    orders: NDArray[np.float32]  # [bonds], 1.5 for aromatic ones
    bonds_of: NDArray[np.int64]  # [molecules], bonds of each
    kept: NDArray[np.int64]  # [molecules], positions in the input
    smiles: list[str]  # [molecules], as given, or written by RDKit for molecules
    bad: list[tuple[int, str]]  # position in the input and reason, for the others


def read_molecules(items: Iterable[Any], hydrogens: bool = False) -> MoleculeArrays:
    """Reads SMILES and RDKit molecules (or their binary form); nothing raises, reasons are kept."""
    from rdkit import rdBase

    atoms, bonds = list[tuple[Any, ...]](), list[tuple[int, int, float]]()
    sizes, bonds_of, kept, smiles, bad = [], [], [], [], []
    # Thousands of parser messages would hide the one list of bad rows that people read.
    with rdBase.BlockLogs():
        for position, item in enumerate(items):
            try:
                mol, text = _read(item, hydrogens)
            except DataError as error:
                bad.append((position, str(error)))
                continue
            except Exception as error:  # RDKit raises its own, Boost's and Python's exceptions
                reason = _short(str(error).strip() or repr(error))
                bad.append((position, f"RDKit cannot use this molecule: {reason}"))
                continue
            atoms += _atoms(mol)
            bonds += [
                (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondTypeAsDouble())
                for bond in mol.GetBonds()
            ]
            sizes.append(mol.GetNumAtoms())
            bonds_of.append(mol.GetNumBonds())
            kept.append(position)
            smiles.append(text)
    table = np.array(bonds, dtype=np.float32).reshape(-1, 3)
    return MoleculeArrays(
        np.array(atoms, dtype=np.int16).reshape(-1, len(COLUMNS)),
        np.array(sizes, dtype=np.int64),
        table[:, :2].astype(np.int32),
        table[:, 2].copy(),
        np.array(bonds_of, dtype=np.int64),
        np.array(kept, dtype=np.int64),
        smiles,
        bad,
    )


def require_rdkit() -> None:
    """Raises :class:`DataError` with the remedy where RDKit is not installed."""
    try:
        import rdkit  # noqa: F401
    except ImportError as error:
        raise DataError("molecules need RDKit: pip install 'torch-legs[chem]'") from error


def concatenate(parts: Sequence[MoleculeArrays], lengths: Sequence[int]) -> MoleculeArrays:
    """Puts the results of several inputs of these lengths one after another."""
    starts = np.cumsum([0, *lengths[:-1]])
    bad = [(int(s) + row, why) for p, s in zip(parts, starts, strict=True) for row, why in p.bad]
    shifted = [p._replace(kept=p.kept + s) for p, s in zip(parts, starts, strict=True)]
    arrays: list[Any] = [np.concatenate(c) for c in zip(*(p[:6] for p in shifted), strict=True)]
    return MoleculeArrays._make([*arrays, [text for p in parts for text in p.smiles], bad])


def select(read: MoleculeArrays, mask: NDArray[np.bool_]) -> MoleculeArrays:
    """The molecules that ``mask`` (``[molecules]``) marks; ``bad`` stays as it is."""
    atoms, bonds = np.repeat(mask, read.sizes), np.repeat(mask, read.bonds_of)
    masks = (atoms, mask, bonds, bonds, mask, mask)
    pairs: Any = zip(read[:6], masks, strict=True)
    arrays = [array[chosen] for array, chosen in pairs]
    return MoleculeArrays._make([*arrays, list(compress(read.smiles, mask)), read.bad])


def _read(item: Any, hydrogens: bool) -> tuple[Mol, str]:
    """A molecule ready to be listed, and its SMILES."""
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
    return (Chem.AddHs(mol) if hydrogens else mol), text


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


def _atoms(mol: Mol) -> list[tuple[Any, ...]]:
    ring_size: Callable[[int], int] = mol.GetRingInfo().MinAtomRingSize
    return [
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


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def properties(smiles: Sequence[str], *, workers: int | None = None) -> NDArray[np.float64]:
    """:data:`ZINC_PROPERTIES` of molecules, ``[molecules, 10]``; NaN where none is finite."""
    require_rdkit()
    from joblib import Parallel, cpu_count, delayed

    if workers is None:
        workers = cpu_count() if len(smiles) >= _PARALLEL_FROM else 1
    starts = range(0, max(len(smiles), 1), _CHUNK)
    parts = Parallel(workers)(delayed(_properties)(smiles[s : s + _CHUNK], s) for s in starts)
    return np.concatenate(parts)


def _properties(smiles: Sequence[str], start: int) -> NDArray[np.float64]:
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors

    functions = {**dict(Descriptors.descList), "LogIpc": lambda mol: np.log1p(Descriptors.Ipc(mol))}
    values = np.full((len(smiles), len(ZINC_PROPERTIES)), np.nan)
    with rdBase.BlockLogs(), np.errstate(all="ignore"):
        for i, text in enumerate(smiles):
            if (mol := Chem.MolFromSmiles(text)) is None:
                raise DataError(f"molecule {start + i + 1} is not a SMILES string: {text!r:.80}")
            for j, name in enumerate(ZINC_PROPERTIES):
                if name != "LogIpc" or mol.GetNumAtoms() <= LARGEST_FOR_IPC:
                    values[i, j] = functions[name](mol)
    values[~np.isfinite(values)] = np.nan
    return values
