"""Plotly figures drawn with matplotlib: for files, without a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v",
    "cross": "P", "x": "X", "star": "*", "pentagon": "p", "line-ns-open": "|",
    "triangle-left": "<", "triangle-right": ">",
}  # fmt: skip
DASHES = {"dash": "--", "dot": ":", "solid": "-"}


def to_matplotlib(
    figure: Any, theme: ThemeName | Theme = "light", size: tuple[float, float] = (6.0, 3.6)
) -> Figure:
    """A matplotlib figure of a Plotly figure.

    Covers what :mod:`legs.report.plots` uses: scatter, bar, heatmap and histogram traces, lines as
    shapes, annotations, and subplots by ``layout.grid``.

    Args:
        figure: a Plotly figure.
        theme: ``"light"`` (default) or ``"dark"``.
        size: width and height in inches.
    """
    spec = figure.to_dict()
    grid = spec["layout"].get("grid", {})
    with drawing(theme) as colors:
        static = new_figure(*size)
        shape = grid.get("rows", 1), grid.get("columns", 1)
        axes = list(static.subplots(*shape, squeeze=False).flat)
        _draw(axes, spec, colors)
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1 and spec["layout"].get("showlegend", True):
            static.legend(handles, labels, loc="outside right upper")
    return static


def to_panels(figures: Mapping[str, Any], theme: ThemeName | Theme = "light") -> Figure:
    """A matplotlib figure of several Plotly figures, one panel each, with a common legend.

    Args:
        figures: by title.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    with drawing(theme) as colors:
        static, axes = panels(len(figures))
        legend: dict[str, Any] = {}
        for axis, (title, figure) in zip(axes, figures.items(), strict=True):
            _draw([axis], figure.to_dict(), colors)
            axis.set_title(title, fontsize=9)
            handles, labels = axis.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        static.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=6)
    return static


def panels(count: int, across: str = "", up: str = "") -> tuple[Figure, list[Axes]]:
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


def _draw(axes: list[Axes], spec: dict[str, Any], colors: Theme) -> None:
    layout = spec["layout"]
    for number, trace in enumerate(spec["data"]):
        color = trace.get("meta", number)  # the number of its color, if not that of the trace
        draw = _TRACES[trace.get("type", "scatter")]
        draw(axes[_number(trace.get("xaxis"))], trace, colors, color)
    for shape in layout.get("shapes", ()):
        _line(axes[_number(shape.get("xref"))], shape, colors)
    for note in layout.get("annotations", ()):
        _note(axes[_number(note.get("xref"))], note, colors)
    for number, axis in enumerate(axes):
        suffix = "" if number == 0 else str(number + 1)
        _style(axis, layout.get(f"xaxis{suffix}", {}), layout.get(f"yaxis{suffix}", {}))


def _number(name: str | None) -> int:
    """Index of the subplot of an axis called ``"x"``, ``"x2"``, …"""
    digits = (name or "").removesuffix(" domain")[1:]
    return int(digits) - 1 if digits.isdigit() else 0


def _scatter(axis: Axes, trace: dict[str, Any], colors: Theme, number: int) -> None:
    y = np.array(trace["y"], dtype=object if isinstance(trace["y"][:1], str) else None)
    x = (
        np.array(trace["x"])
        if "x" in trace
        else trace.get("x0", 0) + trace["dx"] * np.arange(len(y))
    )
    marker, line, mode = trace.get("marker", {}), trace.get("line", {}), trace.get("mode", "lines")
    color = marker.get("color", line.get("color", colors.color(number)))
    label = unescape(trace["name"]) if trace.get("showlegend", True) and "name" in trace else None
    if "lines" in mode:
        style = DASHES[line.get("dash", "solid")]
        axis.plot(x, y, style, color=line.get("color", colors.color(number)), label=label,
                  lw=0.8 * line.get("width", 2))  # fmt: skip
        label = None
    if "markers" in mode:
        area = (0.75 * np.asarray(marker.get("size", 6))) ** 2
        symbol = marker.get("symbol", "circle")
        symbol = symbol if isinstance(symbol, str) else symbol[0]
        more: dict[str, Any] = {"color": color}
        if not isinstance(color, str):
            more = {"c": color, "cmap": colors.colormap("points")}
        shape = MARKERS.get(symbol.removesuffix("-open"), MARKERS.get(symbol, "o"))
        dots = axis.scatter(x, y, s=area, marker=shape, alpha=marker.get("opacity", 1.0),
                            label=label, zorder=3, **more)  # fmt: skip
        if not isinstance(color, str):
            axis.figure.colorbar(dots, ax=axis, label=trace.get("name", ""))
    if "error_y" in trace:
        axis.errorbar(x, y, trace["error_y"]["array"], fmt="none", color=color, lw=0.9)


def _bar(axis: Axes, trace: dict[str, Any], colors: Theme, number: int) -> None:
    color = trace.get("marker", {}).get("color", colors.color(number))
    if trace.get("orientation") == "h":
        axis.barh(trace["y"], trace["x"], color=color)
    else:
        axis.bar(trace["x"], trace["y"], color=color)


def _heatmap(axis: Axes, trace: dict[str, Any], colors: Theme, number: int) -> None:
    z = np.array(trace["z"], dtype=np.float64)
    image = axis.imshow(z, cmap=colors.colormap(), vmin=trace.get("zmin"), vmax=trace.get("zmax"),
                        origin="lower")  # fmt: skip
    light = "#ffffff" if colors.name == "light" else "#10141a"
    for row, texts in enumerate(trace.get("text", ())):
        for column, text in enumerate(texts):
            ink = light if z[row, column] > 0.55 else colors.ink
            axis.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    axis.grid(False)
    axis.figure.colorbar(image, ax=axis, shrink=0.8)


def _histogram(axis: Axes, trace: dict[str, Any], colors: Theme, number: int) -> None:
    x = np.array(trace["x"], dtype=np.float64)
    axis.hist(x, bins=min(trace["nbinsx"], max(5, len(x) // 4)), color=colors.series[0])


_TRACES = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap, "histogram": _histogram}


def _line(axis: Axes, shape: dict[str, Any], colors: Theme) -> None:
    style: dict[str, Any] = {"color": colors.muted, "ls": ":", "lw": 1.2}
    if str(shape.get("yref", "")).endswith(("paper", "domain")):
        axis.axvline(shape["x0"], **style)
    elif str(shape.get("xref", "")).endswith(("paper", "domain")):
        axis.axhline(shape["y0"], **style)
    else:
        axis.plot([shape["x0"], shape["x1"]], [shape["y0"], shape["y1"]], **style)


def _note(axis: Axes, note: dict[str, Any], colors: Theme) -> None:
    across = "axes fraction" if str(note.get("xref", "")).endswith(("paper", "domain")) else "data"
    up = "axes fraction" if str(note.get("yref", "")).endswith(("paper", "domain")) else "data"
    axis.annotate(note["text"], (note["x"], note["y"]), xycoords=(across, up), fontsize=8,
                  color=colors.muted, ha=note.get("xanchor", "center"),
                  va=note.get("yanchor", "bottom"))  # fmt: skip


def _style(axis: Axes, x: dict[str, Any], y: dict[str, Any]) -> None:
    axis.set_xlabel(unescape(x.get("title", {}).get("text", "")))
    axis.set_ylabel(unescape(y.get("title", {}).get("text", "")))
    for kind, options in ((axis.xaxis, x), (axis.yaxis, y)):
        if options.get("type") == "log":
            axis.set(**{f"{kind.axis_name}scale": "log"})
        if "tickvals" in options:
            kind.set_ticks(options["tickvals"], [unescape(text) for text in options["ticktext"]])
        if options.get("showticklabels") is False:
            kind.set_ticks([])
        if options.get("autorange") == "reversed":
            getattr(axis, f"invert_{kind.axis_name}axis")()
    if "tickangle" in x:
        axis.tick_params(axis="x", labelrotation=-x["tickangle"])
    if "range" in x:
        axis.set_xlim(*x["range"])
    if "range" in y:
        axis.set_ylim(*y["range"])
