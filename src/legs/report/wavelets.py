"""Values at nodes, drawn on a graph or a molecule: wavelets and attributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from legs.functional import random_walk, wavelet_transform
from legs.report.drawings import graph_distances, graph_layout
from legs.report.molecules import Drawing, molecule_panels, read_molecule
from legs.report.responses import cumulative_scales, filter_names
from legs.report.theme import Theme, ThemeName, drawing, new_figure, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]


def wavelets_around(
    edges: Pairs, nodes: int, weights: Floats, centre: int | None = None, laziness: float = 0.5
) -> Floats:
    r""":math:`\Psi_j` and :math:`\Phi` of a signal that is one at one node and zero elsewhere.

    They are ``[scales + 1, nodes]`` and sum to the signal; arguments as in :func:`wavelet_figure`.

    >>> wavelets_around(np.array([[0, 1], [1, 2]]), 3, np.eye(2), centre=1).sum(0).round(6)
    array([0., 1., 0.])
    """
    pairs = np.asarray(edges).reshape(-1, 2)
    if centre is None:
        distance = graph_distances(pairs, nodes)
        reached = np.isfinite(distance)
        # The smallest mean distance to all others, in the largest component.
        total = np.where(reached, distance, 0).sum(1) - nodes**2 * reached.sum(1)
        centre = int(total.argmin())
    loops = pairs[:, 0] == pairs[:, 1]
    both = np.concatenate([pairs, pairs[~loops, ::-1]]).T.astype(np.int64)
    walk = random_walk(torch.from_numpy(both.copy()), None, nodes, torch.float64)
    signal = torch.zeros(nodes, 1, dtype=torch.float64)
    signal[centre] = 1
    cumulative = cumulative_scales(weights)
    bands = wavelet_transform(signal, walk, laziness, cumulative, lowpass=True)
    return np.asarray(bands.squeeze(-1).numpy(), dtype=np.float64)


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
        figure, axes = panels(len(bands), most=3, size=(2.6, 2.1))
        for axis, values, name in zip(axes, bands, filter_names(len(bands)), strict=True):
            _draw(axis, places, edges, values, colors)
            axis.set_title(name)
    return figure


def _draw(axis: Any, places: Floats, edges: Pairs, values: Floats, colors: Theme) -> Any:
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
        dots = _draw(figure.subplots(), places, edges, values, colors)
        figure.colorbar(dots, label=label or "contribution", shrink=0.8)
    return figure


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
    return molecule_panels(smiles, np.asarray(values)[None], [label], theme, size=(420, 300))


def wavelet_drawing(
    smiles: str,
    weights: Floats,
    centre: int | None = None,
    laziness: float = 0.5,
    theme: ThemeName = "light",
) -> Drawing:
    """The wavelets around an atom, on RDKit's drawing of the molecule, one panel each.

    Args:
        smiles: the molecule.
        weights: the selection matrix ``F``, ``[scales, steps]``.
        centre: index of the atom (default: a central one).
        laziness: of the walk (default ½).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    mol = read_molecule(smiles)
    if mol is None:
        raise ValueError(f"RDKit cannot read the molecule {smiles!r}")
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 2)
    bands = wavelets_around(edges, mol.GetNumAtoms(), weights, centre, laziness)
    # RDKit's font has no Greek letters.
    names = [*(f"psi {j}" for j in range(len(bands) - 1)), "phi"]
    return molecule_panels(smiles, bands, names, theme)
