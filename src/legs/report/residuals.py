"""Picture: predicted numbers against true ones, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def residual_figure(
    truth: Floats, found: Floats, name: str = "", theme: ThemeName | Theme = "light"
) -> Figure:
    """Predictions against the truth, and the distribution of what is left over.

    Args:
        truth: true numbers, NaN where unknown, ``[graphs]``.
        found: predictions, ``[graphs]``.
        name: of the target.
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = residual_figure(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.9, 2.2]))
    >>> len(figure.axes)
    2
    """
    truth, found = np.asarray(truth, dtype=np.float64), np.asarray(found, dtype=np.float64)
    known = np.isfinite(truth) & np.isfinite(found)
    truth, found = truth[known], found[known]
    left = found - truth
    with drawing(theme) as colors:
        figure = new_figure(8.0, 3.6)
        first, second = figure.subplots(1, 2)
        ends = [min(truth.min(), found.min()), max(truth.max(), found.max())] if len(truth) else []
        first.plot(ends, ends, ls="--", color=colors.muted, lw=1)
        first.scatter(truth, found, s=12, color=colors.series[0], alpha=0.6, linewidths=0)
        first.set(xlabel=f"true {name}".strip(), ylabel=f"predicted {name}".strip())
        second.hist(left, bins=min(40, max(5, len(left) // 4)), color=colors.series[0], alpha=0.85)
        second.axvline(0, color=colors.muted, ls="--", lw=1)
        second.set(xlabel="predicted − true", ylabel="graphs")
        if len(left):
            second.set_title(f"mean {left.mean():+.3g}, spread {left.std():.3g}")
    return figure
