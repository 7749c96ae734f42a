r"""Exchange preferences between classes, from features of their members (Gao et al. 2019).

``experiments.yaml`` has the definitions: :math:`D_{ij}` is the mean distance of class i to the PCA
subspace of class j, :math:`w_j` the share of class j that is nearer to another class.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from legs.data.catalog import fetch
from legs.data.errors import DataError
from legs.training import CVResult

Array = np.ndarray[Any, Any]
CLASSES = ("EC 1", "EC 2", "EC 3", "EC 4", "EC 5", "EC 6")
VARIANCE = 0.9


def distances_to(members: Array, points: Array, variance: float = VARIANCE) -> Array:
    """Distance of points to the smallest PCA subspace with a share of the members' variance."""
    if np.ptp(members, axis=0).max() == 0:  # a point
        return np.asarray(np.linalg.norm(points - members[0], axis=1))
    space = PCA(variance - 1e-12, svd_solver="full").fit(members)
    rest = points - space.inverse_transform(space.transform(points))
    return np.asarray(np.linalg.norm(rest, axis=1))


def class_distances(features: Array, classes: Array) -> tuple[Array, Array]:
    """``D`` ``[classes, classes]`` and ``w`` ``[classes]``.

    Args:
        features: ``[graphs, features]``.
        classes: of the graphs, from 0, ``[graphs]``.
    """
    members = [classes == k for k in range(int(classes.max()) + 1)]
    each = np.stack([distances_to(features[rows], features) for rows in members], axis=1)
    mean = np.stack([each[rows].mean(0) for rows in members])
    nearer = np.array([(each[rows].argmin(1) != k).mean() for k, rows in enumerate(members)])
    return mean, nearer


def preferences(distances: Array, nearer: Array) -> Array:
    """Exchange preferences ``[classes, classes]``; zero on the diagonal, NaN where undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):  # all features equal
        ratio = distances / np.diag(distances)[:, None]
        preference = nearer[None, :] / np.minimum(ratio, ratio.T)
    np.fill_diagonal(preference, 0)
    return np.asarray(preference)


def cosine_distance(first: Array, second: Array) -> float:
    """One minus the cosine between two matrices, their diagonals left out; NaN if one is zero."""
    off = ~np.eye(len(first), dtype=bool)
    a, b = first[off], second[off]
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(1 - a @ b / lengths) if lengths > 0 else math.nan


def exchange_facts(result: CVResult) -> dict[str, Any]:
    """Of every network, with features as they are and standardized: distances and shares ``w``."""
    (method,) = result.methods
    assert result.data.y is not None
    facts: dict[str, list[Any]] = {"raw": [], "standardised": []}
    for network in (each for group in method.measured.get("features", []) for each in group):
        network = network.double().numpy()
        spread = network.std(0)
        scaled = (network - network.mean(0)) / np.where(spread > 0, spread, 1)
        for name, features in (("raw", network), ("standardised", scaled)):
            distances, nearer = class_distances(features, result.data.y.numpy())
            rounded = {"distances": distances.round(5), "astray": nearer.round(5)}
            facts[name].append({key: values.tolist() for key, values in rounded.items()})
    return facts


def network_preferences(row: dict[str, Any], scaling: str) -> Array:
    """Preferences of every network of a cell, ``[networks, classes, classes]``."""
    networks = [(one["distances"], one["astray"]) for one in row["exchange"][scaling]]
    return np.stack([preferences(*map(np.array, network)) for network in networks])


def reference_matrices() -> dict[str, Array]:
    """Matrices to compare with: Gao et al.'s and the user's, where the data folder has them."""
    matrices = {}
    if (file := fetch.find("enzymes/observed.csv")) is not None:
        matrices["observed"] = read_matrix(file)
    if (file := fetch.find("enzymes/ec_exchange_gao2019.json")) is not None:
        published = json.loads(file.read_text(encoding="utf-8"))
        distances, nearer = np.array(published["D_mean_distance"]), np.array(published["w"])
        matrices["Gao et al. 2019"] = preferences(distances, nearer)
    return matrices


def read_matrix(file: Path) -> Array:
    """A 6 × 6 matrix from a CSV file: numbers alone, or with names in first row and column."""
    table = pd.read_csv(file, header=None, encoding="utf-8-sig")
    numbers = table.apply(pd.to_numeric, errors="coerce").to_numpy()[-6:, -6:]
    off = ~np.eye(len(numbers), numbers.shape[1], dtype=bool)
    if numbers.shape != (6, 6) or not (numbers >= 0).all() or not numbers[off].any():
        raise DataError(f"{file}: six rows of six numbers are needed, none negative, not all zero")
    return np.asarray(numbers)
