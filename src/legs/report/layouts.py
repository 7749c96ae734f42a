"""Where nodes of a graph are drawn: distances on paper like distances in the graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]
ROUNDS = 80
# Components are set side by side, this far apart.
GAP = 1.5


def graph_layout(edges: Pairs, nodes: int, rounds: int = ROUNDS) -> Floats:
    r"""Places of the nodes of a graph, ``[nodes, 2]``, by stress majorisation.

    Minimises :math:`\sum_{i<j} d_{ij}^{-2} (\|p_i - p_j\| - d_{ij})^2` with graph distances
    :math:`d` (Gansner, Koren and North, 2005), from the first two coordinates of classical scaling.
    The longest direction comes to lie across; neighbours are about 1 apart.

    Args:
        edges: pairs of nodes, each edge once or twice, ``[edges, 2]``.
        nodes: number of nodes.
        rounds: of improvement (default 80).

    >>> (graph_layout(np.array([[0, 1], [1, 2]]), 3).round(2) + 0.0).tolist()
    [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """
    if not nodes:
        return np.zeros((0, 2))
    edges = np.asarray(edges).reshape(-1, 2)
    ends = edges.T.astype(np.int32)  # older versions of SciPy find paths between no others
    adjacency = coo_array((np.ones(len(edges)), ends), shape=(nodes, nodes)).tocsr()
    distance = shortest_path(adjacency, directed=False, unweighted=True)
    places = np.zeros((nodes, 2))
    offset, done = 0.0, np.zeros(nodes, dtype=bool)
    for start in range(nodes):
        if done[start]:
            continue
        inside = np.flatnonzero(np.isfinite(distance[start]))
        part = _flat(_majorise(distance[np.ix_(inside, inside)], rounds))
        part[:, 0] += offset - part[:, 0].min()
        offset = part[:, 0].max() + GAP
        places[inside] = part
        done[inside] = True
    middle = (places.max(0) + places.min(0)) / 2
    return np.asarray(places - middle, dtype=np.float64)


def _majorise(distance: Floats, rounds: int) -> Floats:
    count = len(distance)
    if count == 1:
        return np.zeros((1, 2))
    places = _classical(distance)
    with np.errstate(divide="ignore"):
        weight = np.where(distance > 0, distance**-2.0, 0.0)
    laplacian = np.diag(weight.sum(1)) - weight
    # Without the last node, whose place is free: the rest is then invertible.
    inverse = np.linalg.inv(laplacian[:-1, :-1])
    pull = weight * distance
    for _ in range(rounds):
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        ratio = pull / np.maximum(apart, 1e-9)
        np.fill_diagonal(ratio, 0)
        right = np.diag(ratio.sum(1)) - ratio
        places = np.vstack([inverse @ (right @ places)[:-1], np.zeros(2)])
    return places


def _classical(distance: Floats) -> Floats:
    square = distance**2
    centred = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 1)))
    # Twins have the same distances to all others: without a nudge they would never part.
    nudge = 1e-3 * np.random.default_rng(0).standard_normal(places.shape)
    return np.asarray(places + nudge, dtype=np.float64)


def _flat(places: Floats) -> Floats:
    """Turned so that the longest direction lies across."""
    centred = places - places.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    # Which way round is arbitrary; the first node left of the last keeps it the same.
    sign = 1.0 if turned[0, 0] <= turned[-1, 0] else -1.0
    return np.asarray(sign * turned, dtype=np.float64)
