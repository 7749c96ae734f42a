"""Folders of PDB and mmCIF files: a node per residue, joined to its nearest neighbours.

Node features are those of the graph alone (``structure``). :func:`read_folder` has the options of
:func:`legs.data.readers.folders.folder_reader`, and ``k``: number of nearest neighbours.

Also GDT_TS, the share of a native structure that a predicted model gets right.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from legs.data.errors import BadRows, DataError
from legs.data.readers.base import RawGraphs
from legs.data.readers.folders import folder_reader
from legs.data.readers.node_data import Graph, join_graphs
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
# What is superposed next lies within one of these of its place. They need not be the cut-offs:
# with these twelve, scores of protein decoys are half a point higher than with the four alone.
_RADII = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0)
_FRAGMENTS = (4, 8, 16, 32, 64)
_MOST_SEEDS = 256
_ROUNDS = 20
_MOST_AT_ONCE = 2**18  # residues times motions: arrays that fit a processor's cache


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
    """Joins every point to its nearest neighbours; an edge holds in both directions.

    Args:
        coords: points, ``[points, dimensions]``.
        k: number of neighbours a point chooses; it gets more where others choose it. Of fewer than
            ``k + 1`` points all are joined.

    Returns:
        Edges ``[2, edges]`` in both directions, without loops, ordered.

    >>> knn_graph(np.array([[0.0], [1.0], [3.0]]), k=1).tolist()
    [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    size = len(coords)
    if k < 1:
        raise DataError(f"a neighbour graph needs at least one neighbour, not {k}")
    if not np.isfinite(coords).all():
        raise DataError("coordinates are NaN or infinite")
    k = min(k, size - 1)
    if k < 1:
        return np.zeros((2, 0), dtype=np.int64)
    near: Array = np.asarray(cKDTree(coords).query(coords, k=k + 1)[1])
    place = np.arange(size)
    itself = near == place[:, None]
    # Where many points coincide, a point may not be among its own nearest: it has one too many.
    itself[~itself.any(axis=1), -1] = True
    near = near[~itself].reshape(size, k)
    one, other = np.repeat(place, k), near.reshape(-1)
    edges = np.unique(np.concatenate([one * size + other, other * size + one]))
    return np.stack([edges // size, edges % size])


def structure_graphs(
    coords: Sequence[Array], targets: Targets | None = None, *, k: int = NEIGHBOURS, **fields: Any
) -> RawGraphs:
    """Neighbour graphs of many structures, with their targets.

    Args:
        coords: of each structure, ``[residues, 3]``.
        targets: of the same structures.
        k: number of nearest neighbours.
        fields: of :class:`~legs.data.readers.base.RawGraphs`.

    >>> structure_graphs([np.eye(3), np.eye(3)[:2]]).edge_index.shape
    torch.Size([2, 8])
    """
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
    """Places of the residues that two structures share, by number, in each of the two.

    Chains are distinguished if both structures have the same ones; else their names do not matter.

    Raises:
        DataError: a number stands for two residues, or no residue is shared.

    >>> chain, xyz = np.array(["A"] * 3), np.zeros((3, 3))
    >>> one = Structure(xyz, chain, np.array(["1", "2", "3"]))
    >>> two = Structure(xyz[:2], np.array(["", ""]), np.array(["3", "2"]))
    >>> match_residues(two, one)
    (array([1, 0]), array([1, 2]))
    """
    same = set(model.chain.tolist()) == set(native.chain.tolist())
    named: list[Array] = []
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
    """GDT_TS of a model, residues matched by number; see :func:`gdt_ts`."""
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


def gdt_ts(model: Array, native: Array, *, length: int | None = None) -> float:
    """Global distance test, total score: 0 to 100, a model equal to the native structure has 100.

    For each of the cut-offs 1, 2, 4 and 8 Å, the largest share of residues that one rigid motion
    of the model brings to within it of their place; the mean of the four, in percent.

    The largest share is searched for, as by LGA (Zemla 2003): superpositions of many fragments are
    refined by superposing what is within the cut-off, again and again. A search can only miss
    better motions, so the score is a lower bound, as LGA's own is; LGA's differs by its search.

    Args:
        model: coordinates of the residues that the model and the native structure share, in Å,
            ``[residues, 3]``.
        native: coordinates of the same residues, ``[residues, 3]``.
        length: number of residues of the native structure (default: all are shared). Residues the
            model lacks count as misplaced.

    >>> chain = np.cumsum(np.ones((20, 3)), axis=0)
    >>> gdt_ts(chain + 5, chain)
    100.0
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
    return 100 * float(_best_counts(model, native).mean()) / length if shared else 0.0


def superpose(model: Array, native: Array, chosen: Array) -> tuple[Array, Array]:
    """Rigid motions that bring chosen residues nearest to their places (Kabsch 1976).

    Args:
        model: ``[residues, 3]``.
        native: ``[residues, 3]``.
        chosen: a motion per row, ``[motions, residues]``, true for the residues it looks at.

    Returns:
        Rotations ``[motions, 3, 3]`` and shifts ``[motions, 3]``: ``model @ rotation + shift``.
    """
    weight = chosen / chosen.sum(axis=1, keepdims=True)
    from_, to = weight @ model, weight @ native
    products = (model[:, :, None] * native[:, None, :]).reshape(len(model), 9)
    covariance = (weight @ products).reshape(-1, 3, 3) - from_[:, :, None] * to[:, None, :]
    left, _, right = np.linalg.svd(covariance)
    # A reflection fits better at times, but no molecule can be moved by one.
    left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
    rotation = left @ right
    return rotation, to - np.einsum("mi,mij->mj", from_, rotation)


def _best_counts(model: Array, native: Array) -> Array:
    """The largest number of residues within each cut-off that was found, ``[cut-offs]``."""
    model, native = model - model.mean(axis=0), native - native.mean(axis=0)
    best = np.zeros(len(CUTOFFS), dtype=np.int64)
    masks, radius = _seeds(len(model)), None
    seen: set[tuple[float, bytes]] = set()
    for _ in range(_ROUNDS):
        distance = _distances(model, native, masks)
        for k, cutoff in enumerate(CUTOFFS):
            best[k] = max(best[k], (distance <= cutoff).sum(axis=1).max())
        if radius is None:  # from here on every seed is refined once for each radius
            radius = np.repeat(_RADII, len(distance))
            distance = np.tile(distance, (len(_RADII), 1))
        masks, radius = _unseen(distance <= radius[:, None], radius, seen)
        if not len(masks):
            break
    return best


def _distances(model: Array, native: Array, masks: Array) -> Array:
    """How far each superposition leaves each residue from its place, ``[motions, residues]``."""
    distance = np.empty(masks.shape)
    rows = max(1, _MOST_AT_ONCE // len(model))
    for start in range(0, len(masks), rows):
        rotation, shift = superpose(model, native, masks[start : start + rows])
        moved = model @ rotation + shift[:, None, :]
        distance[start : start + rows] = np.linalg.norm(moved - native, axis=2)
    return distance


def _unseen(masks: Array, radius: Array, seen: set[tuple[float, bytes]]) -> tuple[Array, Array]:
    """Selections not superposed before that hold three residues, which fix a motion."""
    fresh = []
    packed = np.packbits(masks, axis=1)
    for row in np.flatnonzero(masks.sum(axis=1) >= 3).tolist():
        key = (float(radius[row]), packed[row].tobytes())
        if key not in seen:
            seen.add(key)
            fresh.append(row)
    return masks[fresh], radius[fresh]


def _seeds(length: int) -> Array:
    """Fragments of several lengths all along the chain, and all of it, ``[seeds, residues]``."""
    place = np.arange(length)
    found = [np.ones((1, length), dtype=bool)]
    for size in _FRAGMENTS:
        if size < length:
            step = max(1, size // 4, (length * len(_FRAGMENTS)) // _MOST_SEEDS)
            start = np.arange(0, length - size + 1, step)[:, None]
            found.append((place >= start) & (place < start + size))
    return np.concatenate(found)


READER = folder_reader(SUFFIXES, _parse, _build, {"k": NEIGHBOURS}, ("biotite",))
read_folder = READER.read
