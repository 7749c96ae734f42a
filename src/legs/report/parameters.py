"""Picture: accuracy against the number of learned parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from legs.report.responses import panels
from legs.report.theme import MARKS, Theme, ThemeName, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[str, int, float, float]


def parameter_figure(
    sets: Mapping[str, Sequence[Point]],
    score: str = "accuracy, %",
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Accuracy against the number of parameters, a panel a data set.

    Args:
        sets: by data set: method, parameters, mean score and its deviation.
        score: what the score is called (default: accuracy in per cent).
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = parameter_figure({"MUTAG": [("gcn", 9000, 70.0, 5.0)]})
    >>> figure.axes[0].get_title(loc="left")
    'MUTAG'
    """
    methods = list(dict.fromkeys(point[0] for points in sets.values() for point in points))
    drawn: dict[str, Any] = {}
    with drawing(theme) as colors:
        from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

        figure, axes = panels(len(sets), "learned parameters", score)
        for axis, (title, points) in zip(axes, sets.items(), strict=True):
            for method, parameters, mean, std in points:
                number = methods.index(method)
                drawn[method] = axis.errorbar(
                    max(parameters, 1),
                    mean,
                    std,
                    fmt=MARKS[number % len(MARKS)],
                    color=colors.color(number),
                    lw=0.8,
                    ms=5,
                )
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=6))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_title(title, fontsize=9)
        figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=5)
    return figure
