"""``{public} legs.nn``: all public names of a module, as they are now."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx


class Public(Directive):
    """Documents what ``__all__`` of a module lists, classes with their own methods."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = import_module(name)
        # Pages are Markdown, docstrings are not.
        lines = ["```{eval-rst}", f".. py:module:: {name}", ""]
        lines += inspect.cleandoc(module.__doc__ or "").splitlines()
        names = sorted(module.__all__, key=str.lower)
        lines += ["", ".. autosummary::", "", *(f"   {each}" for each in names)]
        for each in names:
            lines += ["", *_describe(f"{name}.{each}", getattr(module, each))]
        lines += ["", "```"]
        parent = nodes.section()
        parent.document = self.state.document
        self.state.nested_parse(StringList(lines, name), self.content_offset, parent)
        return parent.children


def _describe(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        return [f".. auto{kind}:: {name}", "   :members:", "   :show-inheritance:"]
    if callable(value):
        return [f".. autofunction:: {name}"]
    return [f".. autodata:: {name}"]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    return {"parallel_read_safe": True}
