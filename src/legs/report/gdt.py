"""Picture: by how much a method is better than another, against how easy a structure is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
# Target, its mean GDT_TS, improvement in per cent.
Point = tuple[str, float, float]
COLUMNS = 4
_SIZE = 7  # of names, in points


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
            for _, mean, value in points:
                axis.plot(mean, value, "o", ms=5, color=colors.color(int(value < 0)))
            if min((value for _, _, value in points), default=0.0) < -100:
                axis.set_yscale("symlog", linthresh=100)  # one bad target must not hide the rest
                axis.yaxis.set_major_formatter("{x:g}")
            axis.set_title(title)
            axis.margins(0.12)
        figure.supxlabel("mean GDT_TS of the target", fontsize=9)
        figure.supylabel(f"{names[0]} over {names[1]}: smaller MSE, %", fontsize=9)
        figure.draw_without_rendering()  # labels need to know where points are
        for axis, points in zip(axes, panels.values(), strict=False):
            _name(axis, points)
    return figure


def _name(axis: Axes, points: Sequence[Point]) -> None:
    """Names beside points: each on the side where it covers least of what is there already."""
    unit = 72 / axis.figure.dpi
    places = [axis.transData.transform((mean, value)) * unit for _, mean, value in points]
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    for (name, mean, value), (x, y) in zip(points, places, strict=True):
        wide, high = 0.62 * _SIZE * len(name), 1.1 * _SIZE
        sides = [(5, 3), (5, -high - 1), (-5 - wide, 3), (-5 - wide, -high - 1), (5, -high / 2)]
        boxes = [(x + dx, y + dy, x + dx + wide, y + dy + high) for dx, dy in sides]
        best = min(range(len(sides)), key=lambda k: sum(_covered(boxes[k], t) for t in taken))
        taken.append(boxes[best])
        axis.annotate(
            name,
            (mean, value),
            xytext=sides[best],
            textcoords="offset points",
            fontsize=_SIZE,
            annotation_clip=False,
        )


def _covered(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Area that two boxes have in common."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(wide, 0.0) * max(high, 0.0)


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
