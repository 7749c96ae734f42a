"""Picture: the wavelets around a node, on a drawn graph or on a molecule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from legs.functional import random_walk, wavelet_transform
from legs.report.drawings import Drawing
from legs.report.layouts import graph_layout
from legs.report.molecules import molecule_panels, read_molecule
from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.integer]


def wavelets_around(
    edges: Pairs, nodes: int, weights: Floats, centre: int | None = None, laziness: float = 0.5
) -> Floats:
    r"""What :math:`\Psi_j` and :math:`\Phi` make of a signal of one at one node.

    Args:
        edges: pairs of nodes, each edge once, ``[edges, 2]``.
        nodes: number of nodes.
        weights: the selection matrix ``F``, ``[scales, steps]``.
        centre: the node (default: the one that is nearest to all others).
        laziness: of the walk (default ½).

    Returns:
        ``[scales + 1, nodes]``; they sum to the signal.

    >>> wavelets_around(np.array([[0, 1], [1, 2]]), 3, np.eye(2), centre=1).sum(0).round(6)
    array([0., 1., 0.])
    """
    pairs = np.asarray(edges).reshape(-1, 2)
    if centre is None:
        centre = central_node(pairs, nodes)
    loops = pairs[:, 0] == pairs[:, 1]
    both = np.concatenate([pairs, pairs[~loops, ::-1]]).T.astype(np.int64)
    walk = random_walk(torch.from_numpy(both.copy()), None, nodes, torch.float64)
    signal = torch.zeros(nodes, 1, dtype=torch.float64)
    signal[centre] = 1
    rows = np.asarray(weights, dtype=np.float64)
    sums = np.cumsum(rows, axis=1)[:, :-1]
    cumulative = torch.from_numpy(np.concatenate([np.zeros((len(rows), 1)), sums], axis=1))
    found = wavelet_transform(signal, walk, laziness, cumulative, lowpass=True)
    return np.asarray(found.squeeze(-1).numpy(), dtype=np.float64)


def central_node(edges: Pairs, nodes: int) -> int:
    """The node nearest to all others.

    >>> central_node(np.array([[0, 1], [1, 2]]), 3)
    1
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    ends = np.asarray(edges).reshape(-1, 2).T.astype(np.int32)
    ones = coo_array((np.ones(len(edges)), ends), (nodes, nodes))
    distance = shortest_path(ones.tocsr(), directed=False, unweighted=True)
    reached = np.isfinite(distance)
    # Among the nodes that reach most others, the nearest.
    total = np.where(reached, distance, 0).sum(1) - nodes**2 * reached.sum(1)
    return int(total.argmin())


def wavelet_figure(
    edges: Pairs,
    nodes: int,
    weights: Floats,
    centre: int | None = None,
    laziness: float = 0.5,
    places: Floats | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """The wavelets around a node on the drawn graph, a panel each.

    Args:
        edges: pairs of nodes, each edge once, ``[edges, 2]``.
        nodes: number of nodes.
        weights: the selection matrix ``F``, ``[scales, steps]``.
        centre: the node (default: a central one).
        laziness: of the walk (default ½).
        places: of the nodes, ``[nodes, 2]`` (default: :func:`~legs.report.layouts.graph_layout`).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    found = wavelets_around(edges, nodes, weights, centre, laziness)
    places = graph_layout(edges, nodes) if places is None else places
    segments = places[np.asarray(edges).reshape(-1, 2)]
    with drawing(theme) as colors:
        from matplotlib.collections import LineCollection

        columns = min(3, len(found))
        rows = -(-len(found) // columns)
        figure = new_figure(2.6 * columns, 2.1 * rows)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axis in axes[len(found) :]:
            axis.remove()
        for axis, values, name in zip(axes, found, names_of(len(found)), strict=False):
            axis.add_collection(LineCollection(list(segments), colors=colors.grid, linewidths=1.4))
            largest = float(np.abs(values).max()) or 1.0
            axis.scatter(
                places[:, 0],
                places[:, 1],
                s=18 + 90 * np.abs(values) / largest,
                c=values,
                cmap=colors.colormap("diverging"),
                vmin=-largest,
                vmax=largest,
                edgecolors=colors.muted,
                linewidths=0.5,
                zorder=2,
            )
            axis.set_title(name)
            axis.set_aspect("equal")
            axis.margins(0.12)
            axis.set_axis_off()
    return figure


def wavelet_drawing(
    smiles: str,
    weights: Floats,
    centre: int | None = None,
    laziness: float = 0.5,
    theme: ThemeName | Theme = "light",
) -> Drawing:
    """The wavelets around an atom, on RDKit's drawing of the molecule, a panel each.

    Args:
        smiles: the molecule.
        weights: the selection matrix ``F``, ``[scales, steps]``.
        centre: number of the atom (default: a central one).
        laziness: of the walk (default ½).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    mol = read_molecule(smiles)
    if mol is None:
        raise ValueError(f"RDKit cannot read the molecule {smiles!r}")
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 2)
    found = wavelets_around(edges, mol.GetNumAtoms(), weights, centre, laziness)
    # RDKit's font has no Greek.
    names = [*(f"psi {j}" for j in range(len(found) - 1)), "phi"]
    return molecule_panels(smiles, found, names, theme)


def names_of(filters: int) -> list[str]:
    """Names of a bank's filters, the low-pass last.

    >>> names_of(3)
    ['Ψ0', 'Ψ1', 'Φ']
    """
    return [*(f"Ψ{j}" for j in range(filters - 1)), "Φ"]
