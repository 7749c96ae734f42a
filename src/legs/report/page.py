"""One self-contained HTML file about a run, and its pictures as files."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from legs.io import expand_user, write_atomically, writing
from legs.report import words
from legs.report.drawings import Drawing, atom_drawing, node_figure
from legs.report.folders import CLEAR, ReportError, kind_of, read_cv, read_train, reading, runs_in
from legs.report.plots import MOST_CLASSES, placed
from legs.report.theme import ADVICE, THEMES, NoPictures, ThemeName, draw, save
from legs.report.views import View, cv_view, demo_view, train_view

FILE, PICTURES = "report.html", "pictures"
BRAND = b'<span class="brand">torch-legs</span>'


def write_page(run: str | Path, out: str | Path | None = None) -> Path:
    """Writes a page about a run: one HTML file that needs no network.

    Args:
        run: folder of ``legs train``, ``legs cv`` or ``legs demo``.
        out: the file (default: ``report.html`` in the folder).
    """
    folder = expand_user(run)
    out = page_file(folder, out)
    with reading(folder, CLEAR):
        content = render(read_page(folder)).encode()
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


def read_page(folder: Path) -> View:
    """What the page of a folder shows."""
    kind = kind_of(folder)
    if kind == "train":
        return train_view(read_train(folder))
    if kind == "cv":
        return cv_view(read_cv(folder))
    return demo_view(folder, [read_train(path) for path in runs_in(folder)])


def render(view: View) -> str:
    """A page as HTML. Everything that comes from files of users is escaped."""
    template = environment().get_template(view["template"])
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    data = {
        "figures": {name: figure.to_dict() for name, figure in view["figures"].items()},
        "map": view["map"] and view["map"]["data"],
        "templates": {name: theme.template() for name, theme in THEMES.items()},
    }
    scripts = [get_plotlyjs(), _read("page.js")]
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    text: str = template.render(
        **view,
        nav=[],
        most_classes=MOST_CLASSES,
        style=Markup(_read("page.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=[f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests],
        data=Markup(script_json(data)),
        drawing=Markup,  # drawings consist of shapes and coordinates alone
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
    strict: Any = {"autoescape": True, "undefined": StrictUndefined, "lstrip_blocks": True}
    made = Environment(loader=loader, **strict)
    made.globals |= {name: each for name, each in vars(words).items() if callable(each)}
    made.globals["quote"] = shlex.quote
    return made


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its texts are."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _read(name: str) -> str:
    return (files("legs.report") / "web" / name).read_text(encoding="utf-8")


def write_pictures(run: str | Path) -> list[Path]:
    """Writes the plots and explanations of a page as PNG and SVG, light and dark.

    Args:
        run: folder of ``legs train``, ``legs cv`` or ``legs demo``; they are in ``pictures`` there.
    """
    folder = expand_user(run)
    view, written = read_page(folder), []
    for theme in THEMES:
        for title, figure in _pictures(view, theme):
            path = folder / PICTURES / f"{title}-{theme}"
            written += figure.save(path) if isinstance(figure, Drawing) else save(figure, path)
    return written


def _pictures(view: View, theme: ThemeName) -> Iterator[tuple[str, Any]]:
    figures = dict(view["figures"])
    if graphs := figures.pop("map", None):
        for how, places in view["map"]["data"]["places"].items():
            yield f"map-{how}", placed(graphs, places, theme)
    for name, figure in figures.items():
        spec = figure.to_dict()
        frames = spec.get("frames") or [spec]
        if name in ("weights", "responses"):  # as the page shows them first
            frames = [frames[view["scales"]["start"]]]
        for k, frame in enumerate(frames):
            size = (8.0, 3.6) if name == "residuals" else (6.4, 3.8)
            yield f"{name}-{k}" if len(frames) > 1 else name, draw(frame, theme, size)
    run = view["run"].one if view["template"] == "cv.html" else view["run"]
    for index, attribution in run.explanations.items() if run else ():
        shares, target = np.array(attribution["nodes"]), attribution["target"]
        smiles = run.shown.smiles(index) if run.shown.is_aligned(index) else ""
        try:
            drawn: Any = atom_drawing(smiles, shares, target, theme)
        except (ValueError, NoPictures):  # no molecule, or hydrogens are nodes
            drawn = node_figure(run.shown.graph(index)[0], shares, target, theme=theme)
        yield f"explained-{index}", drawn
