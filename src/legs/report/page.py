"""One self-contained HTML file about a run."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from legs.io import expand_user, write_atomically, writing
from legs.report import words
from legs.report.folders import (
    CLEAR,
    ReportError,
    kind_of,
    read_cv,
    read_demo,
    read_train,
    reading,
)
from legs.report.plots import MOST_CLASSES
from legs.report.theme import THEMES, NoPictures
from legs.report.views import Paper, View, cv_view, demo_view, train_view

FILE = "report.html"
BRAND = b'<span class="brand">torch-legs</span>'
ADVICE = "the page needs plotly and Jinja2: pip install torch-legs[report]"


def write_page(
    run: str | Path,
    out: str | Path | None = None,
    *,
    paper: Paper = lambda data, method: None,
) -> Path:
    """Writes a page about a run: one HTML file that needs no network.

    Args:
        run: folder of ``legs train``, ``legs cv`` or ``legs demo``.
        out: the file (default: ``report.html`` in the folder).
        paper: returns the paper's score for a data set and method (default: there are none).
    """
    folder = expand_user(run)
    out = page_file(folder, out)
    with reading(folder, CLEAR):
        content = render(read_page(folder, paper)).encode()
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)
    return out


def page_file(run: str | Path, out: str | Path | None = None) -> Path:
    """The file of the page; an error if it exists and is not a page written before."""
    path = expand_user(run) / FILE if out is None else expand_user(out)
    if path.is_file():
        with path.open("rb") as file:
            ours = b"<!doctype html>" in file.read(1_000) and BRAND in file.read()
        if not ours:
            raise ReportError(f"{path} is no page of legs report; name another file with -o")
    return path


def read_page(folder: Path, paper: Paper = lambda data, method: None) -> View:
    """What the page of a folder shows."""
    kind = kind_of(folder)
    if kind == "train":
        return train_view(read_train(folder), paper)
    if kind == "cv":
        return cv_view(read_cv(folder), paper)
    return demo_view(read_demo(folder), paper)


def render(view: View) -> str:
    """A page as HTML. Everything that comes from files of users is escaped."""
    template = environment().get_template(view["template"])
    try:
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    figures, graphs = dict(view["figures"]), view.get("map")
    if graphs:
        figures["map"] = graphs["figure"]
    data = {
        "figures": figures,
        "map": graphs and graphs["data"],
        "templates": {name: theme.template() for name, theme in THEMES.items()},
    }
    scripts = [get_plotlyjs(), _read("page.js")]
    text: str = template.render(
        **{**view, "figures": figures},
        nav=[],
        most_classes=MOST_CLASSES,
        style=Markup(_read("page.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=[_hash(script) for script in scripts],
        data=Markup(script_json(data)),
        drawing=Markup,  # drawings consist of shapes alone, see legs.report.drawings
    )
    return text


@cache
def environment() -> Any:
    """The Jinja environment of the templates."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    loader = PackageLoader("legs.report", "web")
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        lstrip_blocks=True,
    )
    made.globals |= {name: each for name, each in vars(words).items() if callable(each)}
    return made


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its texts are.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(name: str) -> str:
    return (files("legs.report") / "web" / name).read_text(encoding="utf-8")
