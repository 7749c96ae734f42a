"""Picture: the learned selection of scales, over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def scale_map(
    weights: Floats,
    epochs: Sequence[int],
    best: int | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """The selection matrix ``F`` as heat maps over training, a panel a scale.

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
            f"weights [epochs, scales, steps] and epochs do not fit: {weights.shape}, {len(epochs)}"
        )
    _, scales, steps = weights.shape
    times = np.arange(1, steps + 1)
    with drawing(theme) as colors:
        figure = new_figure(1.9 * scales + 1.2, 3.0)
        axes = figure.subplots(1, scales, sharey=True, squeeze=False)[0]
        for number, axis in enumerate(axes):
            image = axis.pcolormesh(
                _edges(np.asarray(epochs, dtype=np.float64)),
                np.arange(0.5, steps + 1),
                weights[:, number].T,
                cmap=colors.colormap(),
                vmin=0,
                vmax=1,
            )
            mean = weights[:, number] @ times
            axis.plot(epochs, mean, color=colors.series[1], lw=1.6, label="mean")
            if best is not None:
                axis.axvline(best, color=colors.muted, ls=":", lw=1.2)
            axis.set_title(f"scale {number + 1}")
            axis.set_ylim(0.5, steps + 0.5)
            axis.grid(False)
        axes[0].set_ylabel("diffusion time t")
        figure.supxlabel("epoch", fontsize=9)
        figure.colorbar(image, ax=list(axes), label="weight F", shrink=0.9)
    return figure


def _edges(middles: Floats) -> Floats:
    """Borders between points, so that each has its own cell."""
    if len(middles) == 1:
        return np.array([middles[0] - 0.5, middles[0] + 0.5])
    between = (middles[1:] + middles[:-1]) / 2
    first, last = middles[0] - (between[0] - middles[0]), middles[-1] + (middles[-1] - between[-1])
    return np.concatenate([[first], between, [last]])
