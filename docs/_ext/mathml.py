"""Formulas as MathML, which browsers draw themselves: no script, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# What docutils does not know, in words that it does.
KNOWN = {r"\tfrac": r"\frac", r"\dots": r"\ldots", r"\,": r"\thinspace ", "½": "{1/2}"}


def _draw(text: str, block: bool) -> str:
    for name, other in KNOWN.items():
        text = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, new=other: new, text)
    text = re.sub(r"\\[bB]igg?[lr]?(?=[^a-zA-Z])", "", text)
    # In TeX \frac12 is a half; docutils takes 12 for one number.
    text = re.sub(r"\\frac *(\w|\\[a-z]+) *(\w|\\[a-z]+)", r"\\frac{\1}{\2}", text)
    try:
        return tex2mathml(text, as_block=block)
    except MathError as error:
        raise ExtensionError(f"formula {text!r}: {error}") from error


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(_draw(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    # Not the class "math": the theme makes room for numbers there. Wide formulas scroll.
    self.body.append(self.starttag(node, "div", CLASS="formula", style="overflow-x: auto"))
    self.body.append(_draw(node.astext(), block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
