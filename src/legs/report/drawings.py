"""Graphs as SVG, and their layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from legs.report.theme import Floats

Pairs = npt.NDArray[np.integer]
# Components of a graph stand side by side, this far apart.
GAP = 1.5


def graph_svg(
    edges: Pairs,
    nodes: int,
    values: Sequence[float] | Floats | None = None,
    size: tuple[int, int] = (260, 180),
) -> str:
    """A graph as SVG: classes ``edge``, ``node``, ``plus`` and ``minus``, colored by the page.

    A node with a value is a dot as large as the value; its sign is the class.

    >>> graph_svg(np.array([[0, 1]]), 2).count("<circle")
    2
    """
    places = graph_layout(edges, nodes)
    width, height = size
    span = np.maximum(np.ptp(places, axis=0), 1e-9) if nodes else np.ones(2)
    scale = min((width - 28) / span[0], (height - 28) / span[1], 40.0)
    at = places * scale + [width / 2, height / 2]
    radius = float(np.clip(0.26 * scale, 1.6, 6.5))
    lines = "".join(
        f"M{at[a, 0]:.1f} {at[a, 1]:.1f}L{at[b, 0]:.1f} {at[b, 1]:.1f}"
        for a, b in np.asarray(edges).reshape(-1, 2)
        if a != b
    )
    amounts = np.zeros(nodes) if values is None else np.asarray(values, dtype=np.float64)
    share = amounts / largest if (largest := float(np.abs(amounts).max(initial=0))) else amounts
    dots = []
    for (x, y), part in zip(at, share, strict=True):
        kind = "node" if not largest else "plus" if part > 0 else "minus"
        r = radius * (0.5 + 0.9 * abs(part) ** 0.5) if largest else radius
        dots.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>')
    opening = f'<svg viewBox="0 0 {width} {height}" class="graph">'
    return f'{opening}<path class="edge" d="{lines or "M0 0"}"/>{"".join(dots)}</svg>'


def graph_distances(edges: Pairs, nodes: int) -> Floats:
    """Lengths of shortest paths, infinite between components, ``[nodes, nodes]``."""
    ends = np.asarray(edges).reshape(-1, 2).T.astype(np.int32)  # required by older SciPy
    adjacency = coo_array((np.ones(ends.shape[1]), ends), shape=(nodes, nodes)).tocsr()
    return np.asarray(shortest_path(adjacency, directed=False, unweighted=True))


def graph_layout(edges: Pairs, nodes: int, rounds: int = 80) -> Floats:
    r"""Coordinates of the nodes of a graph, ``[nodes, 2]``, by stress majorization.

    Minimizes :math:`\sum_{i<j} d_{ij}^{-2} (\|p_i - p_j\| - d_{ij})^2` with graph distances
    :math:`d` (Gansner, Koren and North, 2005), starting from classical scaling. The longest
    direction is horizontal; neighbors are about 1 apart.

    Args:
        edges: pairs of nodes, each edge once or twice, ``[edges, 2]``.
        nodes: number of nodes.
        rounds: number of iterations (default 80).

    >>> (graph_layout(np.array([[0, 1], [1, 2]]), 3).round(2) + 0.0).tolist()
    [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """
    places = np.zeros((nodes, 2))
    if not nodes:
        return places
    distance = graph_distances(edges, nodes)
    first = np.isfinite(distance).argmax(1)  # node of each component
    offset = 0.0
    for inside in (np.flatnonzero(first == start) for start in np.unique(first)):
        part = _majorize(distance[np.ix_(inside, inside)], rounds)
        part[:, 0] += offset - part[:, 0].min()
        offset = part[:, 0].max() + GAP
        places[inside] = part
    return np.asarray(places - (places.max(0) + places.min(0)) / 2, dtype=np.float64)


def _majorize(distance: Floats, rounds: int) -> Floats:
    """The layout of one component, its longest direction horizontal."""
    if len(distance) == 1:
        return np.zeros((1, 2))
    square = distance**2
    centered = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    values, vectors = np.linalg.eigh(-centered / 2)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    # Nodes with equal distances to all others would stay at the same point.
    places = places + 1e-3 * np.random.default_rng(0).standard_normal(places.shape)
    with np.errstate(divide="ignore"):
        weight = np.where(distance > 0, distance**-2.0, 0.0)
    # Without the last node, which stays at the origin, the Laplacian is invertible.
    inverse = np.linalg.inv((np.diag(weight.sum(1)) - weight)[:-1, :-1])
    pull = weight * distance
    for _ in range(rounds):
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        ratio = pull / np.maximum(apart, 1e-9)
        right = np.diag(ratio.sum(1)) - ratio
        places = np.vstack([inverse @ (right @ places)[:-1], np.zeros(2)])
    places = places - places.mean(0)
    turned = places @ np.linalg.svd(places, full_matrices=False)[2].T
    # The orientation is arbitrary: the first node is left of the last.
    return np.asarray(turned if turned[0, 0] <= turned[-1, 0] else -turned, dtype=np.float64)
