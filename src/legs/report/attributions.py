"""Pictures: what nodes and scattering paths add to a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.drawings import Drawing
from legs.report.layouts import graph_layout
from legs.report.molecules import molecule_panels
from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]


def node_figure(
    edges: Pairs,
    values: Floats,
    label: str = "",
    places: Floats | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """What each node adds, on the drawn graph.

    Args:
        edges: pairs of nodes, each edge once, ``[edges, 2]``.
        values: one a node.
        label: what the values are.
        places: of the nodes (default: :func:`~legs.report.layouts.graph_layout`).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    values = np.asarray(values, dtype=np.float64)
    places = graph_layout(edges, len(values)) if places is None else places
    largest = float(np.abs(values).max(initial=0)) or 1.0
    with drawing(theme) as colors:
        from matplotlib.collections import LineCollection

        figure = new_figure(5.0, 3.8)
        axis = figure.subplots()
        segments = list(places[np.asarray(edges).reshape(-1, 2)])
        axis.add_collection(LineCollection(segments, colors=colors.grid, linewidths=1.6))
        dots = axis.scatter(
            places[:, 0],
            places[:, 1],
            s=30 + 150 * np.abs(values) / largest,
            c=values,
            cmap=colors.colormap("diverging"),
            vmin=-largest,
            vmax=largest,
            edgecolors=colors.muted,
            linewidths=0.6,
            zorder=2,
        )
        figure.colorbar(dots, label=label or "share", shrink=0.8)
        axis.set_aspect("equal")
        axis.margins(0.1)
        axis.set_axis_off()
    return figure


def atom_drawing(
    smiles: str, values: Floats, label: str = "", theme: ThemeName | Theme = "light"
) -> Drawing:
    """What each atom adds, on RDKit's drawing of the molecule.

    Args:
        smiles: the molecule.
        values: one a (heavy) atom, in the order of the SMILES.
        label: below the drawing.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    return molecule_panels(smiles, np.asarray(values)[None], [label], theme, size=(420, 300))


def path_figure(
    paths: Mapping[str, float], label: str = "", theme: ThemeName | Theme = "light"
) -> Figure:
    """What each scattering path adds, as bars.

    Args:
        paths: shares by name, as :class:`legs.explain.Attribution` has them.
        label: what the values are.
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = path_figure({"x": 1.0, "Ψ0": -0.5})
    >>> len(figure.axes[0].patches)
    2
    """
    names, values = list(paths), np.array(list(paths.values()))
    with drawing(theme) as colors:
        figure = new_figure(5.0, 0.24 * len(names) + 1.0)
        axis = figure.subplots()
        shade = np.where(values >= 0, colors.series[1], colors.series[0])
        axis.barh(range(len(names)), values, color=shade)
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis()
        axis.axvline(0, color=colors.muted, lw=1)
        axis.set_xlabel(label or "share")
        axis.grid(axis="y", visible=False)
    return figure
