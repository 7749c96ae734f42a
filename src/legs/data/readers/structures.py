"""Folders of PDB and mmCIF files: a node per residue, joined to its nearest neighbours.

Node features are those of the graph alone (``structure``). :func:`read_folder` has the options of
:func:`legs.data.readers.folders.folder_reader`, and ``k``: number of nearest neighbours.

Also GDT_TS, the share of a native structure that a predicted model gets right.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from legs.data.errors import BadRows, DataError, require
from legs.data.readers.base import Graph, RawGraphs, join_graphs
from legs.data.readers.folders import folder_reader
from legs.data.readers.table_files import reading_errors
from legs.data.readers.targets import Targets
from legs.data.validate import Array

NEIGHBOURS = 10
CIF_SUFFIXES = (".cif", ".mmcif")
SUFFIXES = (".pdb", ".ent", *CIF_SUFFIXES)
MOST_BYTES = 256 * 2**20
_ATOMS = ("CA", "C4'", "C4*")  # C4* is the older name of C4'
_EMPTY = "no residue with a Cα or C4′ atom"
CUTOFFS = (1.0, 2.0, 4.0, 8.0)  # ångström
# They need not be the cut-offs: twelve give protein decoys half a point more than the four alone.
_RADII = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0)
_SIZES = (4, 8, 16, 32, 64)
_MOST_FRAGMENTS = 256
_ROUNDS = 20


def _parse(files: Sequence[Path], bad: BadRows, k: int) -> dict[int, Array]:
    need_biotite()
    coords = {}
    for i, file in enumerate(files):
        try:
            coords[i] = read_structure(file).coords
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


def structure_graphs(
    coords: Sequence[Array], targets: Targets | None = None, *, k: int = NEIGHBOURS, **fields: Any
) -> RawGraphs:
    """Neighbour graphs of coordinates ``[residues, 3]``; ``fields`` are those of ``RawGraphs``."""
    if targets is not None:
        fields |= targets.fields()
    return RawGraphs(*join_graphs([Graph(len(xyz), knn_graph(xyz, k)) for xyz in coords]), **fields)


class Structure(NamedTuple):
    """One atom per residue: Cα of amino acids, C4′ of nucleotides."""

    coords: Array  # [residues, 3] float64, ångström
    chain: Array  # [residues], name of the chain
    number: Array  # [residues], residue number with its insertion code, such as "52" or "52A"


def need_biotite() -> None:
    """Raises :class:`DataError` where biotite is not installed, before any file is looked at."""
    message = "PDB and mmCIF files need biotite: pip install 'torch-legs[protein]'"
    require(message, "biotite.structure.io.pdb")


def read_structure(path: str | Path) -> Structure:
    """The first model of a PDB (or any suffix) or mmCIF file; errors do not name the file."""
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
    number = [f"{n}{code}" for n, code in zip(atoms.res_id, atoms.ins_code, strict=True)]
    return Structure(atoms.coord.astype(np.float64), np.array(atoms.chain_id), np.array(number))


def match_residues(model: Structure, native: Structure) -> tuple[Array, Array]:
    """Places of the residues that two structures share, by number, in each of the two."""
    # Names of chains matter only if both structures have the same ones.
    same = set(model.chain.tolist()) == set(native.chain.tolist())
    places: list[dict[str, int]] = []
    for one, what in ((model, "the model"), (native, "the native structure")):
        keys = [f"{c}/{n}" if same else n for c, n in zip(one.chain, one.number, strict=True)]
        for twice in [key for key, count in Counter(keys).items() if count > 1]:
            raise DataError(f"residue {twice} comes twice in {what}")
        places.append({key: place for place, key in enumerate(keys)})
    shared = [key for key in places[1] if key in places[0]]
    if not shared:
        raise DataError("the model and the native structure share no residue number")
    return np.array([places[0][k] for k in shared]), np.array([places[1][k] for k in shared])


def score(model: Structure, native: Structure) -> float:
    """GDT_TS of a model, residues matched by number; see :func:`gdt_ts`."""
    own, other = match_residues(model, native)
    return gdt_ts(model.coords[own], native.coords[other], length=len(native.coords))


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


def gdt_ts(model: Array, native: Array, *, length: int | None = None) -> float:
    """Global distance test, total score: 0 to 100, a model equal to the native structure has 100.

    For each of the cut-offs 1, 2, 4 and 8 Å, the largest share of residues that one rigid motion
    of the model brings to within it of their place; the mean of the four, in percent.

    The largest share is searched for, as by LGA (Zemla 2003): superpositions of many fragments are
    refined by superposing what is within a radius of its place, until nothing changes. The score is
    a lower bound, as LGA's own is; LGA's differs by its search.

    Both coordinates are of the residues that the two share, in Å, ``[residues, 3]``; of the
    ``length`` of the native structure, those the model lacks count as misplaced.
    """
    model, native = np.asarray(model, dtype=np.float64), np.asarray(native, dtype=np.float64)
    if model.shape != native.shape or model.ndim != 2 or model.shape[1] != 3:
        raise DataError(
            f"GDT_TS compares coordinates of the same residues: {model.shape}, {native.shape}"
        )
    if not (np.isfinite(model).all() and np.isfinite(native).all()):
        raise DataError("coordinates are NaN or infinite")
    shared = len(model)
    length = shared if length is None else length
    if shared > length:
        raise DataError(f"{shared} residues shared with a native structure of {length}")
    if not shared:
        return 0.0
    model, native = model - model.mean(axis=0), native - native.mean(axis=0)
    fragments = _distances(model, native, _fragments(shared))
    best = _counts(fragments)
    for radius in _RADII:
        distance, superposed = fragments, set[bytes]()
        for _ in range(_ROUNDS):
            masks = distance <= radius
            masks = masks[masks.sum(axis=1) >= 3]  # which fix a motion
            rows = {row.tobytes(): k for k, row in enumerate(np.packbits(masks, axis=1))}
            masks = masks[[k for key, k in rows.items() if key not in superposed]]
            superposed.update(rows)
            if not len(masks):
                break
            distance = _distances(model, native, masks)
            best = np.maximum(best, _counts(distance))
    return 100 * float(best.mean()) / length


def superpose(model: Array, native: Array, chosen: Array) -> tuple[Array, Array]:
    """Rigid motions that bring ``chosen`` residues nearest to their places (Kabsch 1976)."""
    weight = chosen / chosen.sum(axis=1, keepdims=True)
    from_, to = weight @ model, weight @ native
    products = (model[:, :, None] * native[:, None, :]).reshape(len(model), 9)
    covariance = (weight @ products).reshape(-1, 3, 3) - from_[:, :, None] * to[:, None, :]
    left, _, right = np.linalg.svd(covariance)
    # A reflection fits better at times, but no molecule can be moved by one.
    left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
    rotation = left @ right
    return rotation, to - np.einsum("mi,mij->mj", from_, rotation)


def _distances(model: Array, native: Array, masks: Array) -> Array:
    """How far each superposition leaves each residue from its place, ``[motions, residues]``."""
    rotation, shift = superpose(model, native, masks)
    return np.asarray(np.linalg.norm(model @ rotation + shift[:, None, :] - native, axis=2))


def _counts(distance: Array) -> Array:
    """The largest number of residues within each cut-off, ``[cut-offs]``."""
    return np.array([(distance <= cutoff).sum(axis=1).max() for cutoff in CUTOFFS])


def _fragments(length: int) -> Array:
    """Fragments of several sizes all along the chain, and all of it, ``[fragments, residues]``."""
    place = np.arange(length)
    masks = [np.ones((1, length), dtype=bool)]
    for size in (size for size in _SIZES if size < length):
        step = max(1, size // 4, (length * len(_SIZES)) // _MOST_FRAGMENTS)
        start = np.arange(0, length - size + 1, step)[:, None]
        masks.append((place >= start) & (place < start + size))
    return np.concatenate(masks)


READER = folder_reader(SUFFIXES, _parse, _build, {"k": NEIGHBOURS}, ("biotite",))
read_folder = READER.read
