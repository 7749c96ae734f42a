"""Figures of the regression studies, as files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from legs.experiments.ledger import Row
from legs.report.gdt import Point as Point
from legs.report.gdt import gdt_panels
from legs.report.parameters import parameter_figure
from legs.report.responses import response_panels
from legs.report.theme import drawing, new_figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
_COLUMNS = 4
# Room for the legend, where there is one panel only.
_LEAST_WIDTH = 6.5


def draw_errors(
    path: Path, panels: Mapping[str, Sequence[tuple[str, int, float, float]]], errors: str
) -> list[Path]:
    """Errors against the number of parameters, a panel a data set.

    Args:
        path: without ending.
        panels: by data set: method, parameters, mean error and its deviation.
        errors: what they are.
    """
    figure = parameter_figure(panels, errors)
    figure.set_figwidth(max(figure.get_figwidth(), _LEAST_WIDTH))
    return save(figure, path)


def draw_filters(
    path: Path, banks: Mapping[str, tuple[Floats, Floats]], fixed: tuple[Floats, Floats]
) -> list[Path]:
    """Frequency responses of learned filters, a panel a bank, those of fixed ones dashed.

    Args:
        path: without ending.
        banks: by title: frequencies ``[points]`` and responses ``[filters, points]``.
        fixed: the same of dyadic scales.
    """
    figure = response_panels(banks, fixed)
    figure.set_figwidth(max(figure.get_figwidth(), _LEAST_WIDTH))
    return save(figure, path)


def draw_importance(path: Path, panels: Mapping[str, Sequence[Row]]) -> list[Path]:
    """How much the error rises without each path: a panel a data set, a colour a method.

    Args:
        path: without ending.
        panels: by title, finished cells with importances.
    """
    methods = list(dict.fromkeys(row["method"] for rows in panels.values() for row in rows))
    thick = 0.8 / len(methods)
    drawn: dict[str, Any] = {}
    with drawing("light") as colors:
        figure, axes = _panels(len(panels), "rise of the whitened MSE", "path", (3.0, 3.6))
        for axis, (title, rows) in zip(axes, panels.items(), strict=True):
            for row in rows:
                number = methods.index(row["method"])
                names, rise = row["importance"]["paths"], np.asarray(row["importance"]["rise"])
                place = np.arange(len(names)) + (number - (len(methods) - 1) / 2) * thick
                drawn[row["method"]] = axis.barh(
                    place,
                    rise.mean(0),
                    thick,
                    xerr=rise.std(0),
                    color=colors.color(number),
                    error_kw={"lw": 0.6},
                )
                axis.set_yticks(np.arange(len(names)), names, fontsize=7)
            axis.axvline(0, color=colors.muted, lw=0.6)
            axis.invert_yaxis()
            axis.set_title(title, fontsize=9)
        columns = 2 * min(len(panels), _COLUMNS)
        figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=columns)
    return save(figure, path)


def draw_improvement(
    path: Path, panels: Mapping[str, Sequence[Point]], names: tuple[str, str]
) -> list[Path]:
    """Improvement over another method by target, against the target's mean score.

    Args:
        path: without ending.
        panels: by title: of each target its name, mean score and improvement in per cent.
        names: of the two methods.
    """
    return save(gdt_panels(panels, names), path)


def _panels(
    count: int, across: str, up: str, size: tuple[float, float]
) -> tuple[Figure, list[Any]]:
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    figure = new_figure(size[0] * columns + 0.5, size[1] * rows + 0.8)
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).flat)
    for axis in axes[count:]:
        axis.remove()
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, axes[:count]
