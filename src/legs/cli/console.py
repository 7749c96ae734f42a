"""What commands print: text of files as text, which no terminal obeys, and scores as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich import console
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from legs.io import printable


class Console(console.Console):
    """Rich's console, without highlights, which escapes control characters in all it shows."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)

    def echo(self, text: str) -> None:
        """Prints plain text, unwrapped: paths and commands can be copied."""
        self.print(text, soft_wrap=True, markup=False)

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # its own: moves the cursor, for progress
                yield segment
            else:
                text = "\n".join(printable(line) for line in segment.text.split("\n"))
                yield segment if text == segment.text else segment._replace(text=text)


def make_table(first: str, *columns: str, text: Iterable[str] = (), **options: Any) -> Table:
    """A table whose columns hold numbers, but for the first and those in ``text``."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, **options)
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="left" if name in text else "right")
    return table


def score_table(
    scores: Mapping[str, Mapping[str, float]], graphs: Mapping[str, int] | None = None
) -> Table:
    """One row per score, one column per part of the data.

    Args:
        scores: by part and name.
        graphs: number of graphs in each part, for the column heads.
    """
    from legs.report.words import SCORES, number

    heads = {part: "baseline (test)" if part == "guess" else part for part in scores}
    for part in set(heads) & set(graphs or {}):
        heads[part] += f"\n{(graphs or {})[part]:,}"
    table = make_table("score", *heads.values())
    for name in next(iter(scores.values())):
        kind, colon, target = name.partition(":")
        label = f"{kind.upper()} of {target}" if colon else SCORES.get(name, name)
        table.add_row(escape(label), *(number(part.get(name)) for part in scores.values()))
    return table
