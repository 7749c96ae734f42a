"""Picture: scattering coefficients by path, for classes or for single graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


class ColumnLike(Protocol):
    """What is known of a column: as of ``Scattering.paths()``."""

    @property
    def path(self) -> tuple[int, ...]: ...
    @property
    def moment(self) -> str: ...


def by_path(
    features: Floats, columns: Sequence[ColumnLike]
) -> tuple[list[str], list[str], npt.NDArray[np.float64]]:
    """Standardised coefficients, their mean over channels; the size of graphs is left out.

    Args:
        features: ``[graphs, columns]``.
        columns: of the features.

    Returns:
        Names of moments and of paths, and ``[moments, graphs, paths]``.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.shape[1] != len(columns):
        raise ValueError(f"{features.shape[1]} features, but {len(columns)} columns")
    spread = features.std(0)
    scaled = (features - features.mean(0)) / np.where(spread > 0, spread, 1)
    of_paths = [column for column in columns if column.moment != "size"]
    moments = list(dict.fromkeys(column.moment for column in of_paths))
    paths = list(dict.fromkeys(column.path for column in of_paths))
    found = np.zeros((len(moments), len(features), len(paths)))
    for i, moment in enumerate(moments):
        for k, path in enumerate(paths):
            chosen = [n for n, c in enumerate(columns) if c.moment == moment and c.path == path]
            found[i, :, k] = scaled[:, chosen].mean(1) if chosen else 0
    names = [" ".join(f"Ψ{j}" for j in path) or "x" for path in paths]
    return moments, names, found


def coefficient_figure(
    features: Floats,
    columns: Sequence[ColumnLike],
    classes: Sequence[str] | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Scattering coefficients by path as heat maps, a panel a moment.

    Every coefficient is standardised over the graphs; a cell is the mean over channels, and over
    the graphs of a class.

    Args:
        features: ``[graphs, columns]``.
        columns: of the features, as ``Scattering.paths()`` lists them.
        classes: one a graph; rows are classes then (default: rows are graphs).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    moments, paths, found = by_path(features, columns)
    rows = [str(k) for k in range(len(found[0]))]
    if classes is not None:
        rows = list(dict.fromkeys(classes))
        each = np.asarray(classes)
        found = np.stack([found[:, each == name].mean(1) for name in rows], axis=1)
    largest = float(np.abs(found).max()) or 1.0
    with drawing(theme) as colors:
        height = max(1.4, 0.28 * len(rows) + 0.9) if len(rows) <= 40 else 4.0
        figure = new_figure(max(6.0, 0.34 * len(paths) + 2), height * len(moments))
        axes = figure.subplots(len(moments), 1, sharex=True, squeeze=False)[:, 0]
        for axis, moment, values in zip(axes, moments, found, strict=True):
            image = axis.imshow(
                values,
                aspect="auto",
                cmap=colors.colormap("diverging"),
                vmin=-largest,
                vmax=largest,
                interpolation="nearest",
            )
            axis.set_title(moment or "coefficient")
            axis.grid(False)
            if len(rows) <= 40:
                axis.set_yticks(range(len(rows)), rows)
        axes[-1].set_xticks(range(len(paths)), paths, rotation=60, ha="right")
        figure.colorbar(image, ax=list(axes), label="standard deviations", shrink=0.8)
    return figure
