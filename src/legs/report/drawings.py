"""A drawing as SVG: graphs by ourselves, molecules by RDKit; nothing in it but shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from legs.report.layouts import graph_layout

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]
SPACE = "http://www.w3.org/2000/svg"
# What a drawing may consist of: labels of users' files can be text, and never code.
SHAPES = {"svg", "g", "path", "rect", "circle", "ellipse", "line", "polygon", "polyline", "text"}
ATTRIBUTES = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "points", "width",
    "height", "viewBox", "fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin",
    "opacity", "fill-opacity", "stroke-opacity", "class", "style", "text-anchor", "font-size",
    "transform",
}  # fmt: skip
_DANGER = re.compile(r"url\s*\(|expression|javascript:|@import|\\", re.IGNORECASE)


@dataclass(frozen=True)
class Drawing:
    """A picture that is not matplotlib's.

    Args:
        svg: the whole file.
        png: the whole file, empty if there is none.
    """

    svg: str
    png: bytes = b""

    def save(self, path: str | Path) -> list[Path]:
        """Saves it as SVG, and as PNG where there is one; ``path`` without ending."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = [path.with_name(path.name + ".svg")]
        found[0].write_text(self.svg, encoding="utf-8")
        if self.png:
            found.append(path.with_name(path.name + ".png"))
            found[1].write_bytes(self.png)
        return found


def clean_svg(text: str) -> str:
    """An SVG with nothing in it but shapes and their looks; for pages of other people's labels.

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
    """A graph as SVG: classes ``edge``, ``node``, ``plus`` and ``minus``, coloured by the page.

    Args:
        edges: pairs of nodes, ``[edges, 2]``.
        nodes: number of nodes.
        values: one a node; their size is the size of the dot, their sign its class (default: none).
        size: width and height.
        places: of the nodes, ``[nodes, 2]`` (default: :func:`~legs.report.layouts.graph_layout`).

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
    # Few nodes have room to be seen, many must not cover each other.
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
