"""The figures, each saved as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from legs.report.plots import SYMBOLS, Bank
from legs.report.theme import MARKERS, NoPictures, drawing, new_figure, save
from reproduction.cell import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[str, float, float]  # target, its mean GDT_TS, improvement in percent


def panels(count: int, across: str, up: str) -> tuple[Figure, list[Axes]]:
    """A figure of so many small panels, at most four per row, and their axes."""
    columns = min(count, 4)
    rows = -(-count // columns)
    figure = new_figure(3 * columns + 0.5, 2.4 * rows + 0.8)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.remove()
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, axes[:count]


def draw_parameters(path: Path, groups: Mapping[str, Sequence[Row]], score: str) -> list[Path]:
    """Scores against the number of parameters, one panel per data set."""
    methods = list(dict.fromkeys(row["method"] for rows in groups.values() for row in rows))
    with drawing("light") as colors:
        figure, axes = panels(len(groups), "parameters", score)
        for axis, (title, rows) in zip(axes, groups.items(), strict=True):
            for row in rows:
                k, count = methods.index(row["method"]), max(row["parameters"], 1)
                style = {"color": colors.color(k), "label": row["method"], "elinewidth": 0.9}
                marker = MARKERS[SYMBOLS[k % len(SYMBOLS)]]
                axis.errorbar(count, row["mean"], row["std"], fmt=marker, ms=8, **style)
            axis.set(title=title, xscale="log")
            axis.xaxis.set_major_formatter("{x:,g}")
        return _save_with_legend(figure, path)


def draw_responses(path: Path, banks: Mapping[str, Bank], fixed: Bank) -> list[Path]:
    """Frequency responses of learned filters, one panel per bank, those of fixed ones dashed."""
    with drawing("light") as colors:
        figure, axes = panels(len(banks), "graph frequency 1 − λ", "response")
        for axis, (title, bank) in zip(axes, banks.items(), strict=True):
            for k, name in enumerate(bank.names):
                axis.plot(bank.frequency, bank.responses[k], color=colors.color(k), label=name)
            axis.plot(bank.frequency, bank.energy, ":", color=colors.muted, label="Σ squares")
            for k, response in enumerate(fixed.responses):
                axis.plot(fixed.frequency, response, "--", lw=0.8, color=colors.color(k))
            axis.set(title=title, ylim=(0, 1.06))
        return _save_with_legend(figure, path)


def _save_with_legend(figure: Any, path: Path) -> list[Path]:
    """Saves panels with one legend of whatever any of them shows."""
    legend: dict[str, Any] = {}
    for handles, labels in (axis.get_legend_handles_labels() for axis in figure.axes):
        legend |= dict(zip(labels, handles, strict=True))
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=6)
    figure.set_figwidth(max(figure.get_figwidth(), 6.5))  # for the legend, where panels are few
    return save(figure, path)


def draw_ranks(path: Path, table: pd.DataFrame, difference: float) -> list[Path]:
    """Average ranks; bars are as long as the critical difference."""
    with drawing("light") as colors:
        axis = new_figure(6.5, 0.24 * len(table) + 0.8).subplots()
        style = {"color": colors.color(0), "elinewidth": 3, "ecolor": colors.sequential[1]}
        axis.errorbar(table["rank"], table.index, xerr=difference / 2, fmt="o", **style)
        axis.set_yticks(table.index, table["method"])
        axis.invert_yaxis()
        axis.set_xlabel("average rank; methods whose bars do not overlap differ significantly")
        return save(axis.figure, path)


def draw_improvement(
    path: Path, groups: Mapping[str, Sequence[Point]], names: tuple[str, str]
) -> list[Path]:
    """Improvement over another method by target, against the target's mean GDT_TS."""
    with drawing("light") as colors:
        up = f"{names[0]} over {names[1]}: smaller MSE, %"
        figure, axes = panels(len(groups), "mean GDT_TS of the target", up)
        figure.set_size_inches(1.45 * figure.get_size_inches())
        for axis, (title, points) in zip(axes, groups.items(), strict=True):
            axis.axhline(0, color=colors.muted, lw=1, ls="--")
            for number, (name, mean, value) in enumerate(points):
                axis.plot(mean, value, "o", ms=5, color=colors.color(int(value < 0)))
                place = (5, 3) if number % 2 else (5, -9)
                axis.annotate(name, (mean, value), place, textcoords="offset points", fontsize=7)
            axis.set_yscale("symlog", linthresh=100)  # one bad target must not hide the rest
            axis.yaxis.set_major_formatter("{x:g}")
            axis.set_title(title)
            axis.margins(0.12)
        return save(figure, path)


def draw_chords(path: Path, preferences: Any, names: Sequence[str]) -> list[Path]:
    """A chord diagram: the width of a ribbon is how often one class becomes another."""
    size = np.array(preferences, dtype=np.float64)
    np.fill_diagonal(size, 0)
    with drawing("light") as colors:
        try:
            from matplotlib import pyplot
            from pycirclize import Circos
        except ImportError as error:
            raise NoPictures("chord diagrams need pycirclize: pip install pycirclize") from error
        table = pd.DataFrame(size / size.sum() * 1000, index=list(names), columns=list(names))
        circos = Circos.chord_diagram(
            table,
            space=4,
            cmap={name: colors.color(k) for k, name in enumerate(names)},
            link_kws={"direction": 1, "lw": 0.3, "alpha": 0.7},
        )
        figure = circos.plotfig()
        figure.set_facecolor(colors.paper)
        pyplot.close(figure)  # the library draws with pyplot, which would keep it
        return save(figure, path)
