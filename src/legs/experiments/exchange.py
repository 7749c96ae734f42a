r"""Exchange preferences between classes, from features of their members (Gao et al. 2019).

The distance of a graph to a class is :math:`\|v - \mathrm{proj}_{C_j}(v)\|`, with :math:`v` its
features and :math:`C_j` the affine PCA subspace that holds 90 % of the class's variance;
:math:`D_{ij}` is its mean over class :math:`i`, and :math:`w_j` the share of class :math:`j` that
is nearer to another class than to its own:

.. math::
    \mathrm{pref}(i, j) = w_j \Big/
        \min\Big(\frac{D_{ij}}{D_{ii}}, \frac{D_{ji}}{D_{jj}}\Big) .

The LEGS paper prints both ratios upside down, and :math:`w_i`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from legs.data.errors import DataError

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
VARIANCE = 0.9


class Subspace(NamedTuple):
    """An affine subspace: a point ``[features]`` and orthonormal rows ``[rank, features]``."""

    centre: Floats
    basis: Floats

    def distance(self, features: Floats) -> Floats:
        """Distance of points ``[points, features]`` to it, ``[points]``."""
        rest = features - self.centre
        rest = rest - (rest @ self.basis.T) @ self.basis
        return np.asarray(np.linalg.norm(rest, axis=1), dtype=np.float64)


def class_subspace(features: Floats, variance: float = VARIANCE) -> Subspace:
    """The smallest PCA subspace that holds a share of the variance.

    Args:
        features: of the members of a class, ``[members, features]``.
        variance: the share (default 0.9).

    >>> line = np.array([[0.0, 0.0], [3.0, 0.1], [6.0, 0.0]])
    >>> class_subspace(line).basis.shape
    (1, 2)
    """
    centre = features.mean(0)
    _, singular, rows = np.linalg.svd(features - centre, full_matrices=False)
    power = singular**2
    if not power.sum() > 0:
        return Subspace(centre, rows[:0])  # all members alike: the subspace is a point
    share = np.cumsum(power) / power.sum()
    rank = int(np.searchsorted(share, variance - 1e-12) + 1)
    return Subspace(centre, rows[:rank])


def class_distances(
    features: Floats, classes: Classes, variance: float = VARIANCE
) -> tuple[Floats, Floats]:
    """Mean distances between classes, and the share of each that is nearer to another.

    Args:
        features: ``[graphs, features]``.
        classes: of the graphs, from 0, ``[graphs]``.
        variance: see :func:`class_subspace`.

    Returns:
        ``D`` ``[classes, classes]`` and ``w`` ``[classes]``.
    """
    count = int(classes.max()) + 1
    spaces = [class_subspace(features[classes == j], variance) for j in range(count)]
    each = np.stack([space.distance(features) for space in spaces], axis=1)
    nearest = each.argmin(1)
    inside = [classes == i for i in range(count)]
    mean = np.stack([each[rows].mean(0) for rows in inside])
    astray = np.array([float((nearest[rows] != i).mean()) for i, rows in enumerate(inside)])
    return mean, astray


def preferences(distances: Floats, astray: Floats) -> Floats:
    """Exchange preferences, ``[classes, classes]``; zero on the diagonal, NaN where undefined.

    Args:
        distances: ``D`` of :func:`class_distances`.
        astray: ``w`` of :func:`class_distances`.

    >>> preferences(np.array([[1.0, 4.0], [9.0, 3.0]]), np.array([0.5, 0.6])).round(6)
    array([[0.      , 0.2     ],
           [0.166667, 0.      ]])
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # features that are all alike
        ratio = distances / np.diag(distances)[:, None]
        found = astray[None, :] / np.minimum(ratio, ratio.T)
    np.fill_diagonal(found, 0)
    return np.asarray(found, dtype=np.float64)


def cosine_distance(first: Floats, second: Floats) -> float:
    """One minus the cosine between two matrices, their diagonals left out; NaN if one is zero.

    >>> cosine_distance(np.array([[5.0, 1.0], [0.0, 5.0]]), np.array([[0.0, 0.0], [2.0, 0.0]]))
    1.0
    """
    if first.shape != second.shape:
        raise ValueError(f"matrices of shapes {first.shape} and {second.shape} cannot be compared")
    off = ~np.eye(len(first), dtype=bool)
    a, b = first[off], second[off]
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(1 - a @ b / lengths) if lengths > 0 else math.nan


def read_matrix(path: Path, classes: Sequence[str]) -> Floats:
    """A square matrix from a CSV file: numbers alone, or with names in the first row and column.

    Where the names are those of the classes, they may be in any order; others are not looked at.

    Args:
        path: of the file.
        classes: their names, in order.

    Raises:
        DataError: says which line is wrong.
    """
    if not path.is_file():
        raise DataError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        text = path.read_text(encoding="utf-8-sig")  # Excel begins files with a mark
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text in UTF-8; save it as CSV in UTF-8") from error
    rows = [
        (n, [cell.strip() for cell in row])
        for n, row in enumerate(csv.reader(text.splitlines()), 1)
        if any(cell.strip() for cell in row)
    ]
    size, header, names = len(classes), [], []
    # Names may be numbers, as pandas writes them, and a matrix may begin with 1, 2, 3.
    counted = [[str(k + first) for k in range(size)] for first in (0, 1)]
    numbered = len(rows) == size + 1 and rows[0][1][-size:] in counted
    if rows and (numbered or not _number(rows[0][1][-1])):
        header = rows.pop(0)[1][-size:]
    found = []
    for number, row in rows:
        cells = row[1:] if len(row) == size + 1 else row
        if len(cells) != size or not all(map(_number, cells)):
            raise DataError(
                f"{path}, line {number}: {size} numbers are needed, one for each class; got "
                f"{', '.join(row)}"
            )
        names += row[:-size]
        found.append([float(cell) for cell in cells])
    if len(found) != size:
        raise DataError(f"{path} has {len(found)} rows of numbers; {size} are needed")
    matrix = np.array(found)
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise DataError(f"{path}: exchanges must be finite and not negative")
    if not matrix[~np.eye(size, dtype=bool)].any():
        raise DataError(f"{path}: no exchange between different classes is above zero")
    if sorted(names) == sorted(classes):
        matrix = matrix[[names.index(name) for name in classes]]
    if sorted(header) == sorted(classes):
        matrix = matrix[:, [header.index(name) for name in classes]]
    return matrix


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
