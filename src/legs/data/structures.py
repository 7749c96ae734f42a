"""Protein and RNA structures as graphs: each residue a node, joined to those nearest in space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.spatial import cKDTree

from legs.data.dataset import Task
from legs.data.errors import BadRows, DataError
from legs.data.gdt import gdt_ts
from legs.data.label_tables import list_files
from legs.data.raw import RawGraphs
from legs.data.structure_files import CIF_SUFFIXES, PDB_SUFFIXES, need_biotite, read_structure
from legs.data.targets import Targets

__all__ = ["gdt_ts", "knn_graph", "read_folder", "read_structure", "structure_graphs"]

NEIGHBOURS = 10
SUFFIXES = frozenset((*PDB_SUFFIXES, *CIF_SUFFIXES))
_Array: TypeAlias = np.ndarray[Any, Any]


def read_folder(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    task: Task | None = None,
    id_column: str | None = None,
    table: str | Path | None = None,
    k: int = NEIGHBOURS,
    bad: BadRows | None = None,
) -> RawGraphs:
    """Reads a folder of PDB and mmCIF files, each one a graph of its residues.

    Node features are those of the graph alone (``structure``).

    Args:
        path: the folder.
        target: target column or columns of the label table (default: the one that can be meant).
        task: ``"classification"`` or ``"regression"``; default: see :mod:`legs.data.targets`.
        id_column: column of the table that names the files (default: the one that does).
        table: the label table (default: ``labels.csv`` and the like in the folder, see
            :func:`legs.data.label_tables.list_files`); without one there are no targets.
        k: number of nearest neighbours.
        bad: is told of files that cannot be used; default: the first one raises.

    Raises:
        DataError: names the file, and says what to do.
    """
    bad = BadRows() if bad is None else bad
    need_biotite()
    listing = list_files(path, SUFFIXES, table=table, target=target, id_column=id_column, bad=bad)
    found: dict[int, _Array] = {}
    for i, file in enumerate(listing.files):
        try:
            found[i] = read_structure(file).coords
        except DataError as error:
            bad.add(file.name, str(error))
    if not found:
        raise DataError(f"none of the {len(listing.files)} structure files of {path} can be used")
    chosen = list(found)
    targets = listing.encode(chosen, task, bad)
    if targets is not None:
        chosen = [i for i, kept in zip(chosen, targets.kept, strict=True) if kept]
    return structure_graphs(
        [found[i] for i in chosen],
        targets,
        k=k,
        name=Path(path).name,
        ids=tuple(listing.ids[i] for i in chosen),
        info={"source": str(path)},
    )


def knn_graph(coords: _Array, k: int = NEIGHBOURS) -> _Array:
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
    near: _Array = np.asarray(cKDTree(coords).query(coords, k=k + 1)[1])
    place = np.arange(size)
    myself = near == place[:, None]
    # Where many points coincide, a point may not be among its own nearest: it has one too many.
    myself[~myself.any(axis=1), -1] = True
    near = near[~myself].reshape(size, k)
    one, other = np.repeat(place, k), near.reshape(-1)
    edges = np.unique(np.concatenate([one * size + other, other * size + one]))
    return np.stack([edges // size, edges % size])


def structure_graphs(
    coords: Sequence[_Array], targets: Targets | None = None, *, k: int = NEIGHBOURS, **known: Any
) -> RawGraphs:
    """Neighbour graphs of many structures, with their targets.

    Args:
        coords: of each structure, ``[residues, 3]``.
        targets: of the same structures.
        k: number of nearest neighbours.
        known: further fields of :class:`~legs.data.raw.RawGraphs`.

    >>> structure_graphs([np.eye(3), np.eye(3)[:2]]).edge_index.shape
    torch.Size([2, 8])
    """
    ptr = np.cumsum([0, *map(len, coords)])
    edges = [knn_graph(one, k) + start for one, start in zip(coords, ptr, strict=False)]
    if targets is not None:
        known |= dict(zip(("y", "task", "class_names", "target_names"), targets, strict=False))
    return RawGraphs(
        torch.from_numpy(ptr), torch.from_numpy(np.concatenate(edges, axis=1)), **known
    )
