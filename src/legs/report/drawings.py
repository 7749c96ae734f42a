"""Graphs as SVG: their layout, and what such a drawing may contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]
SPACE = "http://www.w3.org/2000/svg"
# What a drawing may consist of: names from users' files are text, never code.
SHAPES = {"svg", "g", "path", "rect", "circle", "ellipse", "line", "polygon", "polyline", "text"}
ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "points", "width",
    "height", "viewBox", "fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin",
    "opacity", "fill-opacity", "stroke-opacity", "class", "style", "text-anchor", "font-size",
    "transform",
}  # fmt: skip
# Components of a graph stand side by side, this far apart.
GAP = 1.5
_DANGER = re.compile(r"url\s*\(|expression|javascript:|@import|\\", re.IGNORECASE)


@dataclass(frozen=True)
class Drawing:
    """A drawing as file contents.

    Args:
        svg: the SVG file.
        png: the PNG file, empty if there is none.
    """

    svg: str
    png: bytes = b""

    def save(self, path: str | Path) -> list[Path]:
        """Saves it as SVG, and as PNG where there is one; ``path`` without suffix."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        files = [path.with_name(path.name + ".svg")]
        files[0].write_text(self.svg, encoding="utf-8")
        if self.png:
            files.append(path.with_name(path.name + ".png"))
            files[1].write_bytes(self.png)
        return files


def clean_svg(text: str) -> str:
    """An SVG reduced to shapes and their style.

    >>> clean_svg(
    ...     '<svg xmlns="http://www.w3.org/2000/svg"><script>1</script><path d="M0,0"/></svg>'
    ... )
    '<svg><path d="M0,0" /></svg>'
    """
    root = ElementTree.fromstring(text)
    _clean(root)
    return ElementTree.tostring(root, encoding="unicode").strip()


def _clean(element: ElementTree.Element) -> None:
    element.tag = element.tag.rpartition("}")[2]
    for name, value in list(element.attrib.items()):
        if name not in ATTRIBUTES or _DANGER.search(value):
            del element.attrib[name]
    element.tail = None
    if element.tag != "text":
        element.text = None
    for child in list(element):
        # Comments and the like have a function for a tag.
        if isinstance(child.tag, str) and child.tag.rpartition("}")[2] in SHAPES:
            _clean(child)
        else:
            element.remove(child)


def graph_svg(
    edges: Pairs,
    nodes: int,
    values: Sequence[float] | Floats | None = None,
    size: tuple[int, int] = (260, 180),
    places: Floats | None = None,
) -> str:
    """A graph as SVG: classes ``edge``, ``node``, ``plus`` and ``minus``, colored by the page.

    Args:
        edges: pairs of nodes, ``[edges, 2]``.
        nodes: number of nodes.
        values: one per node: magnitude is the size of the dot, sign its class (default: none).
        size: width and height.
        places: coordinates of the nodes, ``[nodes, 2]`` (default: :func:`graph_layout`).

    >>> graph_svg(np.array([[0, 1]]), 2).count("<circle")
    2
    """
    if places is None:
        places = graph_layout(edges, nodes)
    width, height = size
    margin = 14.0
    span = np.maximum(np.ptp(places, axis=0), 1e-9) if nodes else np.ones(2)
    scale = min((width - 2 * margin) / span[0], (height - 2 * margin) / span[1], 40.0)
    middle = (places.max(0) + places.min(0)) / 2 if nodes else np.zeros(2)
    at = (places - middle) * scale + [width / 2, height / 2]
    radius = float(np.clip(0.26 * scale, 1.6, 6.5))
    lines = [f'<svg xmlns="{SPACE}" viewBox="0 0 {width} {height}" class="graph">']
    pairs = np.asarray(edges).reshape(-1, 2)
    line = "".join(
        f"M{at[a, 0]:.1f} {at[a, 1]:.1f}L{at[b, 0]:.1f} {at[b, 1]:.1f}" for a, b in pairs if a != b
    )
    lines.append(f'<path class="edge" d="{line or "M0 0"}"/>')
    largest = 0.0 if values is None else float(np.abs(np.asarray(values)).max(initial=0))
    for number in range(nodes):
        x, y = at[number]
        if largest > 0:
            assert values is not None
            share = float(values[number]) / largest
            kind = "plus" if share > 0 else "minus"
            r = radius * (0.5 + 0.9 * abs(share) ** 0.5)
            lines.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>')
        else:
            lines.append(f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>')
    return "".join([*lines, "</svg>"])


def graph_distances(edges: Pairs, nodes: int) -> Floats:
    """Lengths of shortest paths, infinite between components, ``[nodes, nodes]``."""
    ends = np.asarray(edges).reshape(-1, 2).T.astype(np.int32)  # required by older SciPy
    adjacency = coo_array((np.ones(ends.shape[1]), ends), shape=(nodes, nodes)).tocsr()
    return np.asarray(shortest_path(adjacency, directed=False, unweighted=True))


def graph_layout(edges: Pairs, nodes: int, rounds: int = 80) -> Floats:
    r"""Coordinates of the nodes of a graph, ``[nodes, 2]``, by stress majorization.

    Minimises :math:`\sum_{i<j} d_{ij}^{-2} (\|p_i - p_j\| - d_{ij})^2` with graph distances
    :math:`d` (Gansner, Koren and North, 2005), starting from classical scaling. The longest
    direction is horizontal; neighbors are about 1 apart.

    Args:
        edges: pairs of nodes, each edge once or twice, ``[edges, 2]``.
        nodes: number of nodes.
        rounds: number of iterations (default 80).

    >>> (graph_layout(np.array([[0, 1], [1, 2]]), 3).round(2) + 0.0).tolist()
    [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """
    if not nodes:
        return np.zeros((0, 2))
    distance = graph_distances(edges, nodes)
    places = np.zeros((nodes, 2))
    offset, done = 0.0, np.zeros(nodes, dtype=bool)
    for start in range(nodes):
        if done[start]:
            continue
        inside = np.flatnonzero(np.isfinite(distance[start]))
        part = _flat(_majorize(distance[np.ix_(inside, inside)], rounds))
        part[:, 0] += offset - part[:, 0].min()
        offset = part[:, 0].max() + GAP
        places[inside] = part
        done[inside] = True
    middle = (places.max(0) + places.min(0)) / 2
    return np.asarray(places - middle, dtype=np.float64)


def _majorize(distance: Floats, rounds: int) -> Floats:
    count = len(distance)
    if count == 1:
        return np.zeros((1, 2))
    places = _classical(distance)
    with np.errstate(divide="ignore"):
        weight = np.where(distance > 0, distance**-2.0, 0.0)
    laplacian = np.diag(weight.sum(1)) - weight
    # Without the last node, which stays at the origin, the matrix is invertible.
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
    # Nodes with equal distances to all others would stay at the same point.
    nudge = 1e-3 * np.random.default_rng(0).standard_normal(places.shape)
    return np.asarray(places + nudge, dtype=np.float64)


def _flat(places: Floats) -> Floats:
    """Rotated so that the longest direction is horizontal."""
    centred = places - places.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    # The orientation is arbitrary: the first node is left of the last.
    sign = 1.0 if turned[0, 0] <= turned[-1, 0] else -1.0
    return np.asarray(sign * turned, dtype=np.float64)
