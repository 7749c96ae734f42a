"""Plotly figures drawn with matplotlib: for files, without a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np

from legs.report.theme import Theme, ThemeName, drawing, new_figure, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v",
    "cross": "P", "x": "X", "star": "*", "pentagon": "p", "line-ns": "|",
    "triangle-left": "<", "triangle-right": ">",
}  # fmt: skip
DASHES = {"dash": "--", "dot": ":", "solid": "-"}


def to_matplotlib(
    figure: Any, theme: ThemeName = "light", size: tuple[float, float] = (6.4, 3.8)
) -> Figure:
    """A matplotlib figure, its size in inches, of a Plotly figure or its dictionary.

    Covers what :mod:`legs.report.plots` uses: scatter, bar, heatmap and histogram traces, lines as
    shapes, annotations, and subplots by ``layout.grid``.
    """
    spec = figure if isinstance(figure, dict) else figure.to_dict()
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


def to_panels(figures: Mapping[str, Any], theme: ThemeName = "light") -> Figure:
    """A matplotlib figure of several Plotly figures by title, with a common legend."""
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


def _draw(axes: list[Axes], spec: dict[str, Any], colors: Theme) -> None:
    for number, trace in enumerate(spec["data"]):
        color = colors.color(trace.get("meta", number))  # meta: another number than the trace's
        axis = axes[_number(trace.get("xaxis"))]
        match trace.get("type", "scatter"):
            case "bar":
                axis.bar(trace["x"], trace["y"], color=color)
            case "heatmap":
                _heatmap(axis, trace, colors)
            case "histogram":
                bins = min(trace["nbinsx"], max(5, len(trace["x"]) // 4))
                axis.hist(np.array(trace["x"], float), bins, color=colors.series[0])
            case _:
                _scatter(axis, trace, colors, color)
    layout = spec["layout"]
    for mark in [*layout.get("shapes", ()), *layout.get("annotations", ())]:
        axis = axes[_number(mark.get("xref"))]
        # Coordinates of the data, or of the axes where a mark refers to their domain.
        inside = axis.transData
        if str(mark.get("yref", "")).endswith("domain"):
            inside = axis.get_xaxis_transform()
        elif str(mark.get("xref", "")).endswith("domain"):
            inside = axis.get_yaxis_transform()
        if "text" in mark:
            place = {"ha": mark.get("xanchor", "center"), "va": mark.get("yanchor", "bottom")}
            style: dict[str, Any] = {"color": colors.muted, "fontsize": 8, "transform": inside}
            axis.text(mark["x"], mark["y"], mark["text"], **style, **place)
        else:
            x, y = ([mark[f"{name}0"], mark[f"{name}1"]] for name in "xy")
            axis.plot(x, y, color=colors.muted, ls=":", lw=1.2, transform=inside)
    for number, axis in enumerate(axes):
        for name in "xy":
            _style(axis, name, layout.get(f"{name}axis{number + 1 if number else ''}", {}))


def _number(name: str | None) -> int:
    """Index of the subplot of an axis called ``"x"``, ``"x2"``, …"""
    digits = (name or "").removesuffix(" domain")[1:]
    return int(digits) - 1 if digits.isdigit() else 0


def _scatter(axis: Axes, trace: dict[str, Any], colors: Theme, color: str) -> None:
    y = np.array(trace["y"])
    x = np.array(trace["x"]) if "x" in trace else trace["x0"] + trace["dx"] * np.arange(len(y))
    marker, line, mode = trace.get("marker", {}), trace.get("line", {}), trace.get("mode", "lines")
    label = unescape(trace["name"]) if trace.get("showlegend", True) and "name" in trace else None
    if "lines" in mode:
        dash, width = DASHES[line.get("dash", "solid")], 0.8 * line.get("width", 2)
        axis.plot(x, y, dash, color=color, label=label, lw=width)
        label = None
    if "markers" in mode:
        symbol = np.atleast_1d(marker.get("symbol", "circle"))[0]
        style: dict[str, Any] = {"zorder": 3, "label": label, "alpha": marker.get("opacity")}
        style["s"] = (0.75 * np.asarray(marker.get("size", 6))) ** 2
        style["marker"] = MARKERS[symbol.removesuffix("-open")]
        if "color" in marker:
            style |= {"c": marker["color"], "cmap": colors.colormap("points")}
            axis.figure.colorbar(axis.scatter(x, y, **style), ax=axis, label=trace.get("name", ""))
        else:
            axis.scatter(x, y, color=color, **style)
    if "error_y" in trace:
        axis.errorbar(x, y, trace["error_y"]["array"], fmt="none", color=color, lw=0.9)


def _heatmap(axis: Axes, trace: dict[str, Any], colors: Theme) -> None:
    z, x, y = np.array(trace["z"], dtype=np.float64), trace["x"], trace["y"]
    extent = (x[0] - 0.5, x[-1] + 0.5, y[0] - 0.5, y[-1] + 0.5)
    limits = {"vmin": trace["zmin"], "vmax": trace["zmax"], "extent": extent}
    image = axis.imshow(z, colors.colormap(), aspect="auto", origin="lower", **limits)
    light = "#ffffff" if colors.name == "light" else "#10141a"
    for (row, column), text in np.ndenumerate(np.array(trace.get("text", ()), dtype=object)):
        ink = light if z[row, column] > 0.55 else colors.ink
        axis.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    axis.grid(False)
    axis.figure.colorbar(image, ax=axis, shrink=0.8)


def _style(axis: Axes, name: str, options: dict[str, Any]) -> None:
    """The title, scale, ticks and range of an axis called ``"x"`` or ``"y"``."""
    kind = getattr(axis, f"{name}axis")
    kind.set_label_text(unescape(options.get("title", {}).get("text", "")))
    if options.get("type") == "log":
        axis.set(**{f"{name}scale": "log"})
    if "tickvals" in options:
        kind.set_ticks(options["tickvals"], [unescape(text) for text in options["ticktext"]])
    if options.get("showticklabels") is False:
        kind.set_ticks([])
    if "tickangle" in options:
        kind.set_tick_params(labelrotation=-options["tickangle"])
    if options.get("autorange") == "reversed":
        kind.set_inverted(True)
    if "range" in options:
        axis.set(**{f"{name}lim": options["range"]})
