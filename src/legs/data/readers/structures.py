"""Folders of PDB and mmCIF files: a node per residue, joined to its nearest neighbours.

Node features are those of the graph alone (``structure``). :func:`read_folder` has the options of
:func:`legs.data.readers.folders.folder_reader`, and ``k``: number of nearest neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from legs.data.errors import BadRows, DataError, require
from legs.data.readers.base import Graph, RawGraphs, join_graphs
from legs.data.readers.folders import folder_reader
from legs.data.readers.table_files import reading_errors
from legs.data.validate import Array

NEIGHBOURS = 10
CIF_SUFFIXES = (".cif", ".mmcif")
SUFFIXES = (".pdb", ".ent", *CIF_SUFFIXES)
MOST_BYTES = 256 * 2**20
_ATOMS = ("CA", "C4'", "C4*")  # C4* is the older name of C4'
_EMPTY = "no residue with a Cα or C4′ atom"


def _parse(files: Sequence[Path], bad: BadRows, k: int) -> dict[int, Array]:
    need_biotite()
    coords = {}
    for i, file in enumerate(files):
        try:
            coords[i] = read_structure(file)
        except DataError as error:
            bad.add(file.name, str(error))
    return coords


def _build(coords: Sequence[Array], ids: tuple[str, ...], path: Path, k: int) -> RawGraphs:
    return structure_graphs(coords, k=k, name=path.name, ids=ids, info={"source": str(path)})


def knn_graph(coords: Array, k: int = NEIGHBOURS) -> Array:
    """Joins each of ``[points, dimensions]`` to its ``k`` nearest, in both directions, sorted."""
    size = len(coords)
    if k < 1:
        raise DataError(f"a neighbour graph needs at least one neighbour, not {k}")
    if not np.isfinite(coords).all():
        raise DataError("coordinates are NaN or infinite")
    k = min(k, size - 1)
    if k < 1:
        return np.zeros((2, 0), dtype=np.int64)
    near: Array = np.asarray(cKDTree(coords).query(coords, k=k + 1)[1])
    itself = near == np.arange(size)[:, None]
    # Where many points coincide, a point may not be among its own nearest: it has one too many.
    itself[~itself.any(axis=1), -1] = True
    one, other = np.repeat(np.arange(size), k), near[~itself]
    edges = np.unique(np.concatenate([one * size + other, other * size + one]))
    return np.stack([edges // size, edges % size])


def structure_graphs(coords: Sequence[Array], *, k: int = NEIGHBOURS, **fields: Any) -> RawGraphs:
    """Neighbour graphs of coordinates ``[residues, 3]``; ``fields`` are those of ``RawGraphs``."""
    return RawGraphs(*join_graphs([Graph(len(xyz), knn_graph(xyz, k)) for xyz in coords]), **fields)


def need_biotite() -> None:
    """Raises :class:`DataError` where biotite is not installed, before any file is looked at."""
    message = "PDB and mmCIF files need biotite: pip install 'torch-legs[protein]'"
    require(message, "biotite.structure.io.pdb")


def read_structure(path: str | Path) -> Array:
    """Cα of amino acids and C4′ of nucleotides in the first model of a PDB or mmCIF file, in Å.

    ``[residues, 3]``; errors do not name the file.
    """
    path = Path(path)
    need_biotite()
    from biotite.structure.io import pdb, pdbx

    with reading_errors("cannot be read", path, MOST_BYTES), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models often lack columns nobody needs here
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix.lower() in CIF_SUFFIXES:
            atoms = pdbx.get_structure(pdbx.CIFFile.read(StringIO(text)), model=1)
        elif text := _needed(text):
            atoms = pdb.PDBFile.read(StringIO(text)).get_structure(model=1)
        else:
            raise DataError(_EMPTY)
    # A residue named CA is a calcium ion.
    atoms = atoms[np.isin(atoms.atom_name, _ATOMS) & (atoms.res_name != "CA")]
    if not len(atoms):
        raise DataError(_EMPTY)
    if not np.isfinite(atoms.coord).all():
        raise DataError("coordinates are missing or infinite")
    return np.asarray(atoms.coord, dtype=np.float64)


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


READER = folder_reader(SUFFIXES, _parse, _build, {"k": NEIGHBOURS})
read_folder = READER.read
