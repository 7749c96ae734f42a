"""``{legs-help} train``: what ``legs train --help`` prints, as it is now."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

WIDTH = 80


class LegsHelp(Directive):
    """The help of a command as a literal block."""

    required_arguments = 0
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        from typer.testing import CliRunner

        from legs.cli.main import app

        size = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1"}
        asked = CliRunner().invoke(app, [*self.arguments, "--help"], env={**os.environ, **size})
        if asked.exit_code:
            raise self.error(f"legs {' '.join(self.arguments)} --help failed: {asked.output}")
        text = "\n".join(line.rstrip() for line in asked.output.strip("\n").splitlines())
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("legs-help", LegsHelp)
    return {"parallel_read_safe": True}
