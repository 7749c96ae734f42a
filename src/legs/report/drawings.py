"""Graphs and molecules, drawn: as SVG without colors for the page, with a theme's for files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from legs.functional import random_walk, wavelet_transform
from legs.report.plots import cumulative_scales, filter_names
from legs.report.theme import (
    Floats,
    NoPictures,
    Theme,
    ThemeName,
    drawing,
    files_of,
    new_figure,
    theme_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = npt.NDArray[np.integer]
# Components of a graph stand side by side, this far apart.
GAP = 1.5
ADVICE = "drawings of molecules need RDKit: pip install torch-legs[chem]"
# Highlights to which the page gives its own colors.
PLUS, MINUS = "#FF0000", "#0000FF"
_OPTIONS = {"bondLineWidth": 1.4, "fixedBondLength": 30, "legendFontSize": 15, "padding": 0.04}
_OPTIONS |= {"atomHighlightsAreCircles": True, "standardColoursForHighlightedAtoms": True}


def graph_svg(
    edges: Pairs, nodes: int, values: Any = None, size: tuple[int, int] = (260, 180)
) -> str:
    """A graph as SVG: classes ``edge``, ``node``, ``plus`` and ``minus``, colored by the page.

    A node with a value is a dot as large as the value; its sign is the class.
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
    # With constants added, which change no differences, the Laplacian is invertible.
    inverse = np.linalg.inv(np.diag(weight.sum(1)) - weight + 1.0)
    pull = weight * distance
    for _ in range(rounds):
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        ratio = pull / np.maximum(apart, 1e-9)
        places = inverse @ ((np.diag(ratio.sum(1)) - ratio) @ places)
    turned = places @ np.linalg.svd(places, full_matrices=False)[2].T
    # The orientation is arbitrary: the first node is left of the last.
    return np.asarray(turned if turned[0, 0] <= turned[-1, 0] else -turned, dtype=np.float64)


def node_figure(
    edges: Pairs,
    values: Floats,
    label: str = "",
    places: Floats | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """The contribution of each node, on the drawn graph.

    Args:
        edges: pairs of nodes, each edge once, ``[edges, 2]``.
        values: one per node.
        label: what the values are.
        places: coordinates of the nodes (default: by stress majorization).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    values = np.asarray(values, dtype=np.float64)
    places = graph_layout(edges, len(values)) if places is None else places
    with drawing(theme) as colors:
        figure = new_figure(5.0, 3.8)
        dots = _draw_graph(figure.subplots(), places, edges, values, colors)
        figure.colorbar(dots, label=label or "contribution", shrink=0.8)
    return figure


def wavelet_figure(
    edges: Pairs,
    nodes: int,
    weights: Floats,
    centre: int | None = None,
    laziness: float = 0.5,
    places: Floats | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """The wavelets around a node on the drawn graph, one panel each.

    Args:
        edges: pairs of nodes, each edge once, ``[edges, 2]``.
        nodes: number of nodes.
        weights: the selection matrix ``F``, ``[scales, steps]``.
        centre: the node (default: a central one).
        laziness: of the walk (default ½).
        places: coordinates of the nodes, ``[nodes, 2]`` (default: by stress majorization).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    bands = wavelets_around(edges, nodes, weights, centre, laziness)
    places = graph_layout(edges, nodes) if places is None else places
    with drawing(theme) as colors:
        rows, columns = -(-len(bands) // 3), min(len(bands), 3)
        figure = new_figure(2.6 * columns + 0.5, 2.1 * rows + 0.8)
        axes = figure.subplots(rows, columns, squeeze=False).flat
        for values, name, axis in zip(bands, filter_names(len(bands)), axes, strict=False):
            _draw_graph(axis, places, edges, values, colors)
            axis.set_title(name)
        for axis in axes:  # the rest
            axis.remove()
    return figure


def _draw_graph(axis: Any, places: Floats, edges: Pairs, values: Floats, colors: Theme) -> Any:
    """Draws a graph with values at its nodes; returns the markers."""
    from matplotlib.collections import LineCollection

    segments = list(places[np.asarray(edges).reshape(-1, 2)])
    axis.add_collection(LineCollection(segments, colors=colors.grid, linewidths=1.5))
    largest = float(np.abs(values).max(initial=0)) or 1.0
    axis.set_aspect("equal")
    axis.margins(0.12)
    axis.set_axis_off()
    size, shades = 20 + 120 * np.abs(values) / largest, colors.colormap("diverging")
    rim = {"edgecolors": colors.muted, "linewidths": 0.5, "zorder": 2}
    return axis.scatter(*places.T, size, values, cmap=shades, vmin=-largest, vmax=largest, **rim)


def wavelets_around(
    edges: Pairs, nodes: int, weights: Floats, centre: int | None = None, laziness: float = 0.5
) -> Floats:
    r""":math:`\Psi_j` and :math:`\Phi` of a signal that is one at one node and zero elsewhere.

    They are ``[scales + 1, nodes]`` and sum to the signal; arguments as in :func:`wavelet_figure`.
    """
    pairs = np.asarray(edges).reshape(-1, 2)
    if centre is None:
        # The largest harmonic centrality, also where some nodes cannot be reached.
        centre = int((1 / (1 + graph_distances(pairs, nodes))).sum(1).argmax())
    loops = pairs[:, 0] == pairs[:, 1]
    both = np.concatenate([pairs, pairs[~loops, ::-1]]).T.astype(np.int64)
    walk = random_walk(torch.from_numpy(both.copy()), None, nodes, torch.float64)
    signal = torch.zeros(nodes, 1, dtype=torch.float64)
    signal[centre] = 1
    bands = wavelet_transform(signal, walk, laziness, cumulative_scales(weights), lowpass=True)
    return np.asarray(bands.squeeze(-1).numpy(), dtype=np.float64)


@dataclass(frozen=True)
class Drawing:
    """A drawing as file contents.

    Args:
        svg: the SVG file.
        png: the PNG file.
    """

    svg: str
    png: bytes

    def save(self, path: str | Path) -> list[Path]:
        """Saves it as SVG and PNG; ``path`` without suffix."""
        svg, png = files = files_of(path, ".svg", ".png")
        svg.write_text(self.svg, encoding="utf-8")
        png.write_bytes(self.png)
        return files


def atom_drawing(
    smiles: str, values: Floats, label: str = "", theme: ThemeName = "light"
) -> Drawing:
    """The contribution of each atom, on RDKit's drawing of the molecule.

    Args:
        smiles: the molecule.
        values: one per (heavy) atom, in the order of the SMILES.
        label: below the drawing.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    colors, mol, values = theme_of(theme), read_molecule(smiles), np.asarray(values)
    if mol is None:
        raise ValueError(f"RDKit cannot read the molecule {smiles!r}")
    if mol.GetNumAtoms() != len(values):
        raise ValueError(f"{len(values)} values for a molecule of {mol.GetNumAtoms()} atoms")
    from rdkit.Chem.Draw import rdMolDraw2D

    minus, plus = colors.diverging[1], colors.diverging[3]
    contents = []
    for canvas in (rdMolDraw2D.MolDraw2DSVG(420, 300), rdMolDraw2D.MolDraw2DCairo(420, 300)):
        options: Any = canvas.drawOptions()
        if colors.name == "dark":
            rdMolDraw2D.SetDarkMode(options)
        options.setBackgroundColour(_rgb(colors.paper))
        options.setLegendColour(_rgb(colors.ink))
        contents.append(_draw_molecule(canvas, mol, values, plus, minus, label))
    return Drawing(*contents)


def read_molecule(smiles: str, hydrogens: bool = False) -> Any:
    """RDKit's molecule of a SMILES; ``None`` if it cannot read it."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    with rdBase.BlockLogs():
        mol = None if "\0" in smiles else Chem.MolFromSmiles(smiles)
    return Chem.AddHs(mol) if mol is not None and hydrogens else mol


def molecule_svg(
    smiles: str, values: Any = None, size: tuple[int, int] = (260, 180), hydrogens: bool = False
) -> str | None:
    """A molecule as a small SVG, colored by the page; dots as in :func:`graph_svg`.

    ``None`` if RDKit is not installed or cannot read the molecule, or the molecule (with
    ``hydrogens``, if they are nodes) has another number of atoms than there are values.
    """
    try:
        mol = read_molecule(smiles, hydrogens)
    except NoPictures:
        return None
    if mol is None or (values is not None and mol.GetNumAtoms() != len(values)):
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(*size)
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.clearBackground = False
    amounts = np.zeros(0) if values is None else np.asarray(values, dtype=np.float64)
    return _compact(_draw_molecule(canvas, mol, amounts, PLUS, MINUS), size)


def _draw_molecule(
    canvas: Any, mol: Any, values: Floats, plus: str, minus: str, label: str = ""
) -> Any:
    """Draws a molecule, large values as large circles; returns the file."""
    from rdkit.Chem.Draw import rdMolDraw2D

    for name, value in _OPTIONS.items():
        setattr(canvas.drawOptions(), name, value)
    largest = float(np.abs(values).max(initial=0))
    shares = {k: v / largest for k, v in enumerate(values.tolist()) if abs(v) > 0.03 * largest}
    colors = {True: _rgb(plus), False: _rgb(minus)}
    canvas.DrawMolecule(
        rdMolDraw2D.PrepareMolForDrawing(mol),
        legend=label,
        highlightAtoms=list(shares),
        highlightBonds=[],
        highlightAtomColors={k: colors[v > 0] for k, v in shares.items()},
        highlightAtomRadii={k: 0.12 + 0.36 * abs(v) ** 0.5 for k, v in shares.items()},
    )
    canvas.FinishDrawing()
    return canvas.GetDrawingText()


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))


def _compact(text: str, size: tuple[int, int]) -> str:
    """A tenth of RDKit's SVG: its circles, one path of lines and one of filled shapes.

    Only coordinates are taken over, so that no text from a file can become code on a page.
    """
    circles, lines, shapes = list[str](), list[str](), list[str]()
    for element in ElementTree.fromstring(text).iter():
        tag, style = str(element.tag).rpartition("}")[2], element.get("style", "")
        if tag in ("ellipse", "circle"):
            kind = {PLUS: "plus", MINUS: "minus"}.get(style[5:12], "node")  # fill:#…
            x, y, r = (float(element.get(name, 0)) for name in ("cx", "cy", "rx"))
            circles.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{r:g}"/>')
        elif tag == "path":
            path = " ".join(re.findall(r"[A-Za-z]|-?\d+\.?\d*", element.get("d", "")))
            (lines if "fill:none" in style else shapes).append(path)
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" class="molecule">{"".join(circles)}'
        f'<path class="line" d="{" ".join(lines)}"/><path d="{" ".join(shapes)}"/></svg>'
    )
