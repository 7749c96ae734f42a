"""What a page is made of."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Spec = dict[str, Any]


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str
    kind: str = "words"


@dataclass(frozen=True)
class Missing:
    """What a page cannot show, and what would help."""

    text: str
    kind: str = "missing"


@dataclass(frozen=True)
class Table:
    """A table; it scrolls by itself where it is wider than the page.

    Args:
        columns: their heads.
        rows: text by column.
        caption: above it.
        words: how many columns, from the left, are words; the others are numbers.
        strong: rows that stand out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: int = 1
    strong: tuple[int, ...] = ()
    kind: str = "table"


@dataclass(frozen=True)
class Plot:
    """An interactive plot: a Plotly figure whose colours are names such as ``@0`` or ``@ink``.

    Args:
        name: of the plot, for the page's own use.
        spec: data and layout.
        alt: what is to be seen, for those who cannot.
        height: in pixels.
        caption: below it.
        half: whether it is not to be wider than it needs, as matrices are.
    """

    name: str
    spec: Spec
    alt: str
    height: int = 340
    caption: str = ""
    half: bool = False
    kind: str = "plot"


@dataclass(frozen=True)
class Choice:
    """One of several plots, chosen from a list.

    Args:
        name: of the block.
        label: of the list.
        plots: by what the list calls them.
        alt: what is to be seen.
        height: in pixels.
    """

    name: str
    label: str
    plots: dict[str, Spec]
    alt: str
    height: int = 340
    kind: str = "choice"


@dataclass(frozen=True)
class Sliding:
    """Learned scales and filter responses, with a slider over states.

    Args:
        label: of what the slider chooses, such as ``"epoch"``.
        states: see :func:`legs.report.scale_charts.scale_states`.
        start: the state that is shown first.
    """

    label: str
    states: Spec
    start: int
    kind: str = "sliding"


@dataclass(frozen=True)
class Map:
    """Graphs on a map, drawn when they are pointed at.

    Args:
        data: see :func:`legs.report.map_charts.map_data`.
        ways: names of the maps.
        colors: names of what dots can be coloured by.
    """

    data: Spec
    ways: dict[str, str]
    colors: list[str]
    kind: str = "map"


@dataclass(frozen=True)
class Card:
    """A drawn graph and what is to be said of it."""

    svg: str
    title: str
    lines: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Cards:
    """Drawn graphs side by side; ``words`` come before, ``legend`` explains the dots."""

    title: str
    cards: Sequence[Card]
    legend: Sequence[tuple[str, str]] = ()
    small: bool = False
    words: str = ""
    kind: str = "cards"


@dataclass(frozen=True)
class Picture:
    """A picture from a file of the run."""

    source: str
    alt: str
    kind: str = "picture"


@dataclass(frozen=True)
class Code:
    """A command, or lines of one."""

    text: str
    kind: str = "code"


Block = (
    Words | Missing | Table | Plot | Choice | Sliding | Map | Cards | Picture | Code
)  # what the template knows


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    anchor: str
    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Fact:
    """A number in large type and what it is."""

    value: str
    label: str


@dataclass(frozen=True)
class Page:
    """A whole page.

    Args:
        title: of the page.
        lead: the summary in plain words, a sentence or some each.
        facts: the most important numbers.
        sections: what follows.
    """

    title: str
    lead: list[str]
    facts: list[Fact]
    sections: list[Section]


def plot_text(text: Any) -> str:
    """Text of users for a plot: Plotly takes tags in labels for mark-up.

    >>> plot_text("<b>x</b> & y")
    '&lt;b&gt;x&lt;/b&gt; &amp; y'
    """
    return html.escape(str(text), quote=False)


def numbers(values: Any, digits: int = 4) -> Any:
    """An array as JSON values: rounded to some significant digits, ``None`` for what is no number.

    >>> numbers(np.array([[1 / 3, np.nan]]))
    [[0.3333, None]]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [numbers(each, digits) for each in array]
    value = float(array)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
