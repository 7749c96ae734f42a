"""Picture: by how much a method is better than another, against how easy a structure is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
# Target, its mean GDT_TS, improvement in per cent.
Point = tuple[str, float, float]
COLUMNS = 4


def improvement(ours: Floats, other: Floats) -> Floats:
    """By how many per cent an error is smaller than another.

    >>> improvement(np.array([0.5, 2.0]), np.array([1.0, 1.0])).tolist()
    [50.0, -100.0]
    """
    return np.asarray(100 * (1 - np.asarray(ours) / np.asarray(other)), dtype=np.float64)


def gdt_panels(
    panels: Mapping[str, Sequence[Point]],
    names: tuple[str, str] = ("LEGS-FCN", "GCN"),
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Improvement in mean squared error, a point a target, against the target's mean GDT_TS.

    As the paper's figure of CASP12: how much the first method gains on structures that are easy
    (high GDT) or hard to predict.

    Args:
        panels: by title: of each target its name, mean GDT_TS (0 to 100) and improvement in per
            cent (:func:`improvement`).
        names: of the methods.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    with drawing(theme) as colors:
        columns = min(len(panels), COLUMNS)
        rows = math.ceil(len(panels) / columns)
        figure = new_figure(4.4 * columns + 0.8, 3.4 * rows + 0.6)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axis in axes[len(panels) :]:
            axis.remove()
        for axis, (title, points) in zip(axes, panels.items(), strict=False):
            axis.axhline(0, color=colors.muted, lw=1, ls="--")
            for name, mean, value in points:
                axis.plot(mean, value, "o", ms=5, color=colors.color(int(value < 0)))
                axis.annotate(
                    name, (mean, value), xytext=(5, 4), textcoords="offset points", fontsize=7
                )
            if min((value for _, _, value in points), default=0.0) < -100:
                axis.set_yscale("symlog", linthresh=100)  # one bad target must not hide the rest
                axis.yaxis.set_major_formatter("{x:g}")
            axis.set_title(title)
            axis.margins(0.12)
        figure.supxlabel("mean GDT_TS of the target", fontsize=9)
        figure.supylabel(f"{names[0]} over {names[1]}: smaller MSE, %", fontsize=9)
    return figure


def gdt_figure(
    targets: Sequence[str],
    gdt: Floats,
    ours: Floats,
    other: Floats,
    names: tuple[str, str] = ("LEGS-FCN", "GCN"),
    theme: ThemeName | Theme = "light",
) -> Figure:
    """One panel of :func:`gdt_panels`, from errors.

    Args:
        targets: names of the structures.
        gdt: their mean GDT_TS, 0 to 100.
        ours: mean squared error of the first method on each.
        other: of the second.
        names: of the methods.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    gains = improvement(ours, other).tolist()
    points = list(zip(targets, np.asarray(gdt).tolist(), gains, strict=True))
    return gdt_panels({"": points}, names, theme)
