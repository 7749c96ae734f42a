"""Colors for light and dark, safe for color-blind readers; figures as files, by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
ThemeName = Literal["light", "dark"]
MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v",
    "cross": "P", "x": "X", "star": "*", "pentagon": "p", "line-ns": "|",
    "triangle-left": "<", "triangle-right": ">",
}  # fmt: skip
DASHES = {"dash": "--", "dot": ":", "solid": "-"}
ADVICE = "figures need plotly, matplotlib and Jinja2: pip install torch-legs[report]"


class NoPictures(ImportError):
    """A library that draws is not installed; the message says which."""


@dataclass(frozen=True)
class Theme:
    """Colors of a figure."""

    name: ThemeName
    paper: str
    ink: str
    muted: str  # secondary text and reference lines
    grid: str
    series: tuple[str, ...]  # distinct colors, after Okabe and Ito (2008)
    sequential: tuple[str, ...]  # from low to high, one hue
    diverging: tuple[str, ...]  # from negative over zero to positive
    points: tuple[str, ...]  # for markers, all visible on the background (cividis)

    def color(self, number: int) -> str:
        """The color of the ``number``-th series; colors repeat after the last."""
        return self.series[number % len(self.series)]

    def colormap(self, kind: str = "sequential") -> Colormap:
        """``"sequential"``, ``"diverging"`` or ``"points"`` as a color map for matplotlib."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list(f"legs-{kind}-{self.name}", getattr(self, kind))

    def template(self) -> dict[str, Any]:
        """A template for Plotly."""
        small = {"color": self.muted, "size": 12}
        axis = {
            **dict.fromkeys(("gridcolor", "linecolor", "zerolinecolor"), self.grid),
            **dict.fromkeys(("automargin", "fixedrange"), True),
            "tickfont": small,
            "title": {"font": {"color": self.ink, "size": 13}, "standoff": 10},
        }
        bar = {"thickness": 12, "len": 0.9, "outlinewidth": 0, "tickfont": small}
        shades, points = (
            {"colorscale": [[k / 4, color] for k, color in enumerate(colors)], "colorbar": bar}
            for colors in (self.sequential, self.points)
        )
        layout = {
            **dict.fromkeys(("paper_bgcolor", "plot_bgcolor"), "rgba(0,0,0,0)"),
            **dict.fromkeys(("xaxis", "yaxis"), axis),
            "colorway": self.series,
            "dragmode": False,
            "hovermode": "closest",
            "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
            "font": {"family": "system-ui, sans-serif", "color": self.ink, "size": 13},
            "hoverlabel": {"bgcolor": self.paper, "bordercolor": self.grid},
            "legend": {"orientation": "h", "x": 0, "y": 1.03, "yanchor": "bottom"},
            "coloraxis": points,
            "shapedefaults": {"line": {"color": self.muted, "dash": "dot", "width": 1.5}},
        }
        histogram = {"marker": {"color": self.series[0]}}
        return {"layout": layout, "data": {"heatmap": [shades], "histogram": [histogram]}}

    def settings(self) -> Any:
        """Settings of matplotlib."""
        from matplotlib.rcsetup import cycler

        return {
            **dict.fromkeys(("figure.facecolor", "axes.facecolor"), self.paper),
            **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), self.ink),
            **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), self.muted),
            **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
            **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
            "axes.titlelocation": "left",
            "axes.prop_cycle": cycler(color=self.series),
            "grid.color": self.grid,
            "font.size": 8.5,
            "text.parse_math": False,  # names of classes and targets may contain $
        }


LIGHT = Theme(
    "light",
    paper="#ffffff",
    ink="#1b1f24",
    muted="#5d6670",
    grid="#e3e7eb",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7a5195", "#6b6b6b"),
    sequential=("#f7fafc", "#b9d7ea", "#5ea3cd", "#0072b2", "#073b5c"),
    diverging=("#0b4f83", "#6baed6", "#f4f4f4", "#f0a35e", "#a03c00"),
    points=("#00224e", "#434e6c", "#7d7c78", "#bcae6c", "#e8cf3f"),
)
DARK = Theme(
    "dark",
    paper="#14181d",
    ink="#e8ecf0",
    muted="#9aa5b1",
    grid="#2b323a",
    series=("#56b4e9", "#f08a4b", "#2fc79a", "#e39bc2", "#e6c84a", "#9ecbff", "#b79af0", "#a9b1ba"),
    sequential=("#1a2027", "#1f4b6e", "#2e86bd", "#7cc4ee", "#e2f3fd"),
    diverging=("#7cc4ee", "#2a6a98", "#262c33", "#b0581c", "#ffb37a"),
    points=("#4a78c2", "#7f93a8", "#a8a593", "#d6c268", "#fee838"),
)
THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


def theme_of(name: ThemeName) -> Theme:
    """A theme by name."""
    if name not in THEMES:
        raise ValueError(f'theme must be "light" or "dark"; got {name!r}')
    return THEMES[name]


@contextmanager
def drawing(name: ThemeName) -> Iterator[Theme]:
    """Makes matplotlib draw in a theme, within the context."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    with rc_context((theme := theme_of(name)).settings()):
        yield theme


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its size in inches. Not from pyplot, which keeps figures alive."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def files_of(path: str | Path, *endings: str) -> list[Path]:
    """Files with these endings, in a folder that exists."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return [path.with_name(path.name + ending) for ending in endings]


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Saves a figure as PNG and SVG.

    Args:
        figure: to save.
        path: without suffix.

    Returns:
        Both files.
    """
    from matplotlib import rc_context

    files = files_of(path, ".png", ".svg")
    # Without dates and random ids, so that the same figure gives the same file.
    with rc_context({"svg.hashsalt": "legs"}):
        figure.savefig(files[0], dpi=150, facecolor=figure.get_facecolor())
        figure.savefig(files[1], metadata={"Date": None}, facecolor=figure.get_facecolor())
    return files


def draw(plot: Any, theme: ThemeName | None, size: tuple[float, float] = (6.4, 3.8)) -> Any:
    """A Plotly figure, or its dictionary, drawn with matplotlib; itself where ``theme`` is None.

    Covers what :mod:`legs.report.plots` uses: scatter, bar, heatmap and histogram traces, lines as
    shapes, and two subplots by ``layout.grid``. ``layout.meta`` is the title.
    """
    if theme is None:
        return plot
    spec = plot if isinstance(plot, dict) else plot.to_dict()
    layout = spec["layout"]
    with drawing(theme) as colors:
        figure = new_figure(*size)
        columns = layout.get("grid", {}).get("columns", 1)
        axes = list(figure.subplots(1, columns, squeeze=False).flat)
        for number, trace in enumerate(spec["data"]):
            color = colors.color(trace.get("meta", number))  # meta: another number
            axis = axes[trace.get("xaxis") == "x2"]
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
        for shape in layout.get("shapes", ()):
            # Lines across the whole height refer to the domain of the axis.
            whole = shape.get("yref") == "y domain"
            at = axes[0].get_xaxis_transform() if whole else axes[0].transData
            x, y = ([shape[f"{name}0"], shape[f"{name}1"]] for name in "xy")
            axes[0].plot(x, y, color=colors.muted, ls=":", lw=1.2, transform=at)
        for axis, suffix in zip(axes, ("", "2"), strict=False):
            for name in "xy":
                _style(axis, name, layout.get(f"{name}axis{suffix}", {}))
        axes[-1].set_title(layout.get("meta", ""))
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1 and layout.get("showlegend", True):
            figure.legend(handles, labels, loc="outside right upper")
    return figure


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
