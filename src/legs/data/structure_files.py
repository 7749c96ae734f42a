"""PDB and mmCIF files: one atom a residue, and models compared with native structures."""

from __future__ import annotations

import warnings
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from legs.data.errors import DataError
from legs.data.gdt import gdt_ts

PDB_SUFFIXES = (".pdb", ".ent")
CIF_SUFFIXES = (".cif", ".mmcif")
MOST_BYTES = 256 * 2**20
_ATOMS = ("CA", "C4'", "C4*")  # C4* is the older name of C4'
_EMPTY = "no residue with a Cα or C4′ atom"
_Array: TypeAlias = np.ndarray[Any, Any]


class Structure(NamedTuple):
    """One atom a residue: Cα of amino acids, C4′ of nucleotides."""

    coords: _Array  # [residues, 3] float64, ångström
    chain: _Array  # [residues], name of the chain
    number: _Array  # [residues], residue number with its insertion code, such as "52" or "52A"


def need_biotite() -> None:
    """Raises :class:`DataError` where biotite is not installed, before any file is looked at."""
    try:
        import biotite.structure.io.pdb  # noqa: F401
    except ImportError as error:
        raise DataError(
            "PDB and mmCIF files need biotite: pip install torch-legs[protein]"
        ) from error


def read_structure(path: str | Path) -> Structure:
    """Reads the first model of a PDB or mmCIF file; any other suffix, or none, counts as PDB.

    Raises:
        DataError: the reason alone, without the file's name.
    """
    path = Path(path)
    need_biotite()
    from biotite.structure.io import pdb, pdbx

    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{size / 2**20:.0f} MiB; files above {MOST_BYTES >> 20} are not read")
        text = path.read_text(encoding="utf-8", errors="replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # models often lack columns nobody needs here
            if path.suffix.lower() in CIF_SUFFIXES:
                atoms = pdbx.get_structure(pdbx.CIFFile.read(StringIO(text)), model=1)
            else:
                text = _needed(text)
                if not text:
                    raise DataError(_EMPTY)
                atoms = pdb.PDBFile.read(StringIO(text)).get_structure(model=1)
    except DataError:
        raise
    # Files of many makers and none of their errors alike: IndexError, KeyError, InvalidFileError, …
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise DataError(f"cannot be read: {type(error).__name__}: {told}") from error
    # A residue named CA is a calcium ion.
    atoms = atoms[np.isin(atoms.atom_name, _ATOMS) & (atoms.res_name != "CA")]
    if not len(atoms):
        raise DataError(_EMPTY)
    if not np.isfinite(atoms.coord).all():
        raise DataError("coordinates are missing or infinite")
    number = [f"{n}{code}" for n, code in zip(atoms.res_id, atoms.ins_code, strict=True)]
    return Structure(atoms.coord.astype(np.float64), np.array(atoms.chain_id), np.array(number))


def match_residues(model: Structure, native: Structure) -> tuple[_Array, _Array]:
    """Places of the residues that two structures share, by number, in each of the two.

    Chains are told apart if both structures have the same ones; else their names do not matter.

    Raises:
        DataError: a number stands for two residues, or no residue is shared.

    >>> chain, xyz = np.array(["A"] * 3), np.zeros((3, 3))
    >>> one = Structure(xyz, chain, np.array(["1", "2", "3"]))
    >>> two = Structure(xyz[:2], np.array(["", ""]), np.array(["3", "2"]))
    >>> match_residues(two, one)
    (array([1, 0]), array([1, 2]))
    """
    same = set(model.chain.tolist()) == set(native.chain.tolist())
    named: list[_Array] = []
    for one, what in ((model, "the model"), (native, "the native structure")):
        keys = [f"{c}/{n}" if same else n for c, n in zip(one.chain, one.number, strict=True)]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise DataError(f"residue {twice} comes twice in {what}")
        named.append(np.array(keys))
    shared, first, second = np.intersect1d(
        named[0], named[1], assume_unique=True, return_indices=True
    )
    if not len(shared):
        raise DataError("the model and the native structure share no residue number")
    order = np.argsort(second)
    return first[order], second[order]


def score(model: Structure, native: Structure) -> float:
    """GDT_TS of a model, residues matched by number; see :func:`legs.data.gdt.gdt_ts`."""
    here, there = match_residues(model, native)
    return gdt_ts(model.coords[here], native.coords[there], length=len(native.coords))


def _needed(text: str) -> str:
    """The lines of a PDB file that matter here: a tenth of it, and as much of the time."""
    names = {f" {atom:<3}" for atom in _ATOMS}
    lines = [
        line
        for line in text.splitlines()
        if (line[:6] in ("ATOM  ", "HETATM") and line[12:16] in names)
        or line.startswith(("MODEL ", "ENDMDL"))
    ]
    return "\n".join(lines) if any(line[0] in "AH" for line in lines) else ""
