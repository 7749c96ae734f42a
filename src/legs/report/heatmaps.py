"""Heat maps: scattering coefficients by path, and learned scales over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from legs.report.theme import ThemeName, drawing, new_figure, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def by_path(features: Floats, columns: Sequence[Any]) -> tuple[list[str], list[str], Floats]:
    """Moments, paths, and standardized coefficients ``[moments, graphs, paths]``.

    Coefficients are averaged over channels; the size of graphs is left out.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.shape[1] != len(columns):
        raise ValueError(f"{features.shape[1]} features, but {len(columns)} columns")
    spread = features.std(0)
    scaled = (features - features.mean(0)) / np.where(spread > 0, spread, 1)
    keys = [(column.moment, column.path) for column in columns]
    moments = list(dict.fromkeys(moment for moment, _ in keys if moment != "size"))
    paths = list(dict.fromkeys(path for moment, path in keys if moment != "size"))
    means = np.zeros((len(moments), len(features), len(paths)))
    for i, moment in enumerate(moments):
        for k, path in enumerate(paths):
            channels = [n for n, key in enumerate(keys) if key == (moment, path)]
            means[i, :, k] = scaled[:, channels].mean(1) if channels else 0
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
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 3 or len(weights) != len(epochs):
        raise ValueError(
            f"weights must be [epochs, scales, steps]; got {weights.shape} for {len(epochs)} epochs"
        )
    _, scales, steps = weights.shape
    at = np.asarray(epochs, dtype=np.float64)
    between = (at[1:] + at[:-1]) / 2
    # Borders of the cells; the first and last are as wide on both sides of their epochs.
    ends = (
        (2 * at[0] - between[0], 2 * at[-1] - between[-1]) if len(at) > 1 else at[0] + [-0.5, 0.5]
    )
    borders = np.array([ends[0], *between, ends[1]])
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
