"""Figures for files alone: values at nodes of a drawn graph or molecule, and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from legs.functional import random_walk, wavelet_transform
from legs.report.drawings import Pairs, graph_distances, graph_layout
from legs.report.molecules import Drawing, molecule_panels, read_molecule
from legs.report.responses import cumulative_scales, filter_names
from legs.report.theme import Floats, Theme, ThemeName, drawing, new_figure, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    bands = wavelet_transform(signal, walk, laziness, cumulative_scales(weights), lowpass=True)
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


def by_path(features: Floats, columns: Sequence[Any]) -> tuple[list[str], list[str], Floats]:
    """Moments, paths, and standardized coefficients ``[moments, graphs, paths]``.

    Coefficients are averaged over channels; the size of graphs is left out.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.shape[1] != len(columns):
        raise ValueError(f"{features.shape[1]} features, but {len(columns)} columns")
    spread = features.std(0)
    scaled = (features - features.mean(0)) / np.where(spread > 0, spread, 1)
    channels: dict[tuple[str, Any], list[npt.NDArray[Any]]] = {}
    for column, values in zip(columns, scaled.T, strict=True):
        if column.moment != "size":
            channels.setdefault((column.moment, column.path), []).append(values)
    moments, paths = (list(dict.fromkeys(keys)) for keys in zip(*channels, strict=True))
    means = np.zeros((len(moments), len(features), len(paths)))
    for (moment, path), same in channels.items():
        means[moments.index(moment), :, paths.index(path)] = np.mean(same, axis=0)
    return moments, [" ".join(f"Ψ{j}" for j in path) or "x" for path in paths], means


def coefficient_figure(
    features: Floats,
    columns: Sequence[Any],
    classes: Sequence[str] | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Scattering coefficients by path as heat maps, one panel per moment.

    Every coefficient is standardized over the graphs; a cell is the mean over channels, and over
    the graphs of a class.

    Args:
        features: ``[graphs, columns]``.
        columns: of the features, as ``Scattering.columns()`` lists them.
        classes: one per graph; rows are classes then (default: rows are graphs).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    moments, paths, means = by_path(features, columns)
    rows = [str(k) for k in range(len(means[0]))]
    if classes is not None:
        rows = list(dict.fromkeys(classes))
        each = np.asarray(classes)
        means = np.stack([means[:, each == name].mean(1) for name in rows], axis=1)
    largest = float(np.abs(means).max()) or 1.0
    with drawing(theme) as colors:
        height = max(1.4, 0.28 * len(rows) + 0.9) if len(rows) <= 40 else 4.0
        figure = new_figure(max(6.0, 0.34 * len(paths) + 2), height * len(moments))
        axes = figure.subplots(len(moments), 1, sharex=True, squeeze=False)[:, 0]
        shades = colors.colormap("diverging")
        for axis, moment, values in zip(axes, moments, means, strict=True):
            image = axis.imshow(values, shades, aspect="auto", vmin=-largest, vmax=largest)
            axis.set_title(moment or "coefficient")
            axis.grid(False)
            if len(rows) <= 40:
                axis.set_yticks(range(len(rows)), rows)
        axes[-1].set_xticks(range(len(paths)), paths, rotation=60, ha="right")
        figure.colorbar(image, ax=list(axes), label="standard deviations", shrink=0.8)
    return figure


def scale_map(
    weights: Floats,
    epochs: Sequence[int],
    best: int | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """The selection matrix ``F`` over training as heat maps, one panel per scale.

    Args:
        weights: ``F`` at each epoch, ``[epochs, scales, steps]``.
        epochs: their numbers, increasing.
        best: the epoch whose weights were kept, marked by a line (default: none).
        theme: ``"light"`` (default) or ``"dark"``.

    >>> scale_map(np.full((3, 2, 4), 0.25), [0, 1, 2]).axes[0].get_title(loc="left")
    'scale 1'
    """
    weights, at = np.asarray(weights, dtype=np.float64), np.asarray(epochs, dtype=np.float64)
    if weights.ndim != 3 or len(weights) != len(at):
        shape = f"{weights.shape} for {len(at)} epochs"
        raise ValueError(f"weights must be [epochs, scales, steps]; got {shape}")
    scales, steps = weights.shape[1:]
    half = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    borders = np.r_[at[0] - half[0], at[1:] - half[: len(at) - 1], at[-1] + half[-1]]
    with drawing(theme) as colors:
        figure, axes = panels(scales, "epoch", "diffusion time t", most=scales, size=(1.9, 2.2))
        up, shades = np.arange(0.5, steps + 1), colors.colormap()
        for number, axis in enumerate(axes):
            cells = weights[:, number].T
            image = axis.pcolormesh(borders, up, cells, cmap=shades, vmin=0, vmax=1)
            mean = weights[:, number] @ np.arange(1, steps + 1)
            axis.plot(epochs, mean, color=colors.series[1], lw=1.6, label="mean")
            if best is not None:
                axis.axvline(best, color=colors.muted, ls=":", lw=1.2)
            axis.set(title=f"scale {number + 1}", ylim=(0.5, steps + 0.5))
            axis.grid(False)
        figure.colorbar(image, ax=axes, label="weight F", shrink=0.9)
    return figure
