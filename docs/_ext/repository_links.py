"""Links that hold in the repository are made to hold in the built pages; results get titles."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s#:]+)\)")


def titled(docname: str, text: str) -> str:
    """A page of results with a title that tells where it comes from.

    >>> titled("results/every-model/MUTAG", "| a |")
    '# every-model: MUTAG\\n\\n| a |'
    >>> titled("results/every-model/ZINC/results", "# zinc-bbab")
    '# every-model: zinc-bbab'
    """
    place = docname.split("/")
    if place[0] != "results" or len(place) < 3:
        return text
    if not text.lstrip().startswith("# "):
        return f"# {place[1]}: {place[-1]}\n\n{text}"
    return text.replace("# ", f"# {place[1]}: ", 1) if len(place) > 3 else text


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Rewrites a page before it is read.

    Links to example scripts lead to their pages in the gallery. Links to folders, and to files
    outside of the documentation, become text.
    """
    text = titled(docname, source[0])
    root = Path(app.srcdir).resolve()
    here = Path(root, docname).parent

    def repaired(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(here / link[2]))
        if target.parent == root.parent / "examples" and target.suffix == ".py":
            page = os.path.relpath(root / "gallery" / f"{target.stem}.rst", here)
            return f"[{link[1]}]({page})"
        if target.is_dir() or not target.is_relative_to(root):
            return link[1] if link[1].startswith("`") else f"{link[1]} (`{link[2]}`)"
        return link[0]

    source[0] = LINK.sub(repaired, text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", prepare)
    return {"parallel_read_safe": True}
