"""Colors for light and dark, safe for color-blind readers; how figures are made and saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

    def colormap(
        self, kind: Literal["sequential", "diverging", "points"] = "sequential"
    ) -> Colormap:
        """A color map for matplotlib."""
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
            "annotationdefaults": {"showarrow": False, "font": small},
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


def panels(
    count: int, across: str = "", up: str = "", most: int = 4, size: tuple[float, float] = (3, 2.4)
) -> tuple[Figure, list[Axes]]:
    """A figure of so many small panels, at most ``most`` per row, and their axes."""
    columns = min(count, most)
    rows = -(-count // columns)
    figure = new_figure(size[0] * columns + 0.5, size[1] * rows + 0.8)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[count:]:
        axis.remove()
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, axes[:count]


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Saves a figure as PNG and SVG.

    Args:
        figure: to save.
        path: without suffix.

    Returns:
        Both files.
    """
    from matplotlib import rc_context

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_name(path.name + ending) for ending in (".png", ".svg")]
    # Without dates and random ids, so that the same figure gives the same file.
    with rc_context({"svg.hashsalt": "legs"}):
        figure.savefig(files[0], dpi=150, facecolor=figure.get_facecolor())
        figure.savefig(files[1], metadata={"Date": None}, facecolor=figure.get_facecolor())
    return files
