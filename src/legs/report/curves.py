"""Picture: losses over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curve_figure(
    epochs: Sequence[float],
    train: Sequence[float],
    validation: Sequence[float],
    best: int | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Losses on training and validation graphs, epoch by epoch.

    Args:
        epochs: their numbers.
        train: losses.
        validation: losses, NaN where there was no validation.
        best: the epoch whose weights were kept, marked by a line (default: none).
        theme: ``"light"`` (default) or ``"dark"``.

    >>> len(curve_figure([1, 2], [1.0, 0.5], [float("nan"), 0.7]).axes)
    1
    """
    at, losses = np.asarray(epochs), np.asarray(validation, dtype=np.float64)
    known = np.isfinite(losses)
    with drawing(theme) as colors:
        figure = new_figure(6.0, 3.4)
        axis = figure.subplots()
        axis.plot(at, train, color=colors.series[0], label="training")
        axis.plot(at[known], losses[known], color=colors.series[1], label="validation")
        if best is not None:
            axis.axvline(best, color=colors.muted, ls=":", lw=1.2, label="kept")
        axis.set(xlabel="epoch", ylabel="loss")
        axis.legend()
    return figure
