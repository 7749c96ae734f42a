"""A console on which text of files is text: a terminal obeys none of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import console
from rich.segment import Segment

from legs.io import printable


class Console(console.Console):
    """Rich's console, which escapes control characters in all that it shows."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # its own: moves the cursor, for progress
                yield segment
            else:
                text = "\n".join(printable(line) for line in segment.text.split("\n"))
                yield segment if text == segment.text else segment._replace(text=text)
