"""One self-contained HTML file about a run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from legs.files import write_atomically, writing
from legs.report.blocks import Block, Choice, Map, Page, Plot, Sliding
from legs.report.cv_page import cv_page, read_cv
from legs.report.demo_page import demo_page, read_demo
from legs.report.folders import kind_of, read_train
from legs.report.reproduce_page import read_reproduce, reproduce_page
from legs.report.theme import THEMES, NoPictures
from legs.report.train_page import Paper, train_page

FILE = "report.html"
ADVICE = "the page needs plotly and Jinja2: pip install torch-legs[report]"


def write_page(
    run: str | Path,
    out: str | Path | None = None,
    *,
    paper: Paper = lambda data, method: None,
) -> Path:
    """Writes a page about a run: one HTML file that needs no network.

    Args:
        run: folder of ``legs train``, ``legs cv``, ``legs reproduce`` or ``legs demo``.
        out: the file (default: ``report.html`` in the folder).
        paper: looks up the paper's number for a data set and method (default: there are none).
    """
    folder = Path(run).expanduser()
    page = read_page(folder, paper)
    out = folder / FILE if out is None else Path(out).expanduser()
    text = render(page)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    return out


def read_page(folder: Path, paper: Paper = lambda data, method: None) -> Page:
    """What the page of a folder shows."""
    kind = kind_of(folder)
    if kind == "train":
        return train_page(read_train(folder), paper)
    if kind == "cv":
        return cv_page(read_cv(folder), paper)
    if kind == "demo":
        return demo_page(read_demo(folder))
    return reproduce_page(read_reproduce(folder))


def render(page: Page) -> str:
    """A page as HTML. Whatever comes from files of users is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    environment = Environment(
        loader=PackageLoader("legs.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [get_plotlyjs(), _read("page.js")]
    template = environment.get_template("page.html")
    return template.render(
        page=page,
        style=Markup(_read("page.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=[_hash(script) for script in scripts],
        data=Markup(script_json(page_data(page))),
        drawing=Markup,  # of drawings that consist of shapes alone, see legs.report.drawings
    )


def page_data(page: Page) -> dict[str, Any]:
    """What the page's script needs."""
    plots, choices, slides, maps = {}, {}, {}, {}
    for number, block in enumerate(_blocks(page)):
        if isinstance(block, Plot):
            plots[block.name] = block.spec
        elif isinstance(block, Choice):
            choices[block.name] = list(block.plots.values())
        elif isinstance(block, Sliding):
            slides[str(number)] = {**block.states, "label": block.label, "start": block.start}
        elif isinstance(block, Map):
            maps[str(number)] = block.data
    colors = {
        name: {
            "paper": theme.paper,
            "ink": theme.ink,
            "muted": theme.muted,
            "grid": theme.grid,
            **{str(k): color for k, color in enumerate(theme.series)},
            **{
                kind: _stops(getattr(theme, kind)) for kind in ("sequential", "diverging", "points")
            },
        }
        for name, theme in THEMES.items()
    }
    return {
        "plots": plots,
        "choices": choices,
        "slides": list(slides.values()),
        "maps": list(maps.values()),
        "themes": colors,
    }


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its texts are.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _blocks(page: Page) -> Iterator[Block]:
    for section in page.sections:
        yield from section.blocks


def _stops(colors: tuple[str, ...]) -> list[list[Any]]:
    return [[k / (len(colors) - 1), color] for k, color in enumerate(colors)]


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(name: str) -> str:
    return (files("legs.report") / "web" / name).read_text(encoding="utf-8")
