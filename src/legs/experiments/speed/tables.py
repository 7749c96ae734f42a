"""Results as tables of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from legs.experiments.speed.plan import GROUPS

TITLES = {
    "batches": "Batches of real graphs",
    "single": "One large graph",
    "growth": "Growth of a train step",
}
_TEXT = ("case", "work", "method", "path", "note")
# Heading, field, and how a value is shown.
_COLUMNS = (
    ("case", "case", "{}"),
    ("work", "work", "{}"),
    ("method", "method", "{}"),
    ("path", "path", "{}"),
    ("ms", "ms", "{:,.3g}"),
    ("× reference", "ratio", "{:.3g}"),
    ("of limit", "share", "{:.1%}"),
    ("replayed ms", "replay_ms", "{:,.3g}"),
    ("× reference replayed", "replay_ratio", "{:.3g}"),
    ("of limit replayed", "replay_share", "{:.1%}"),
    ("peak MB", "memory_mb", "{:,.3g}"),
    ("first run s", "first_s", "{:,.2g}"),
    ("note", "note", "{}"),
)
_NOT_ON_SCREEN = ("first run s", "of limit replayed")
_SHORT = {"× reference": "× ref", "× reference replayed": "× ref", "replayed ms": "replayed"}


class Text(NamedTuple):
    """A table whose cells are text; ``left`` says which columns are words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[bool, ...]


def text_tables(result: Mapping[str, Any]) -> list[Text]:
    """One table a group of cases; columns that nothing is in are left out.

    Args:
        result: as :meth:`~legs.experiments.speed.Result.as_dict` gives it.
    """
    found = []
    for group in GROUPS:
        rows = [row for row in result["rows"] if row["group"] == group]
        if not rows:
            continue
        columns = [c for c in _COLUMNS if any(row[c[1]] not in (None, "") for row in rows)]
        found.append(
            Text(
                TITLES[group],
                tuple(heading for heading, _, _ in columns),
                tuple(tuple(shown(row[name], form) for _, name, form in columns) for row in rows),
                tuple(name in _TEXT for _, name, _ in columns),
            )
        )
    return found


def screen_tables(result: Mapping[str, Any]) -> list[Text]:
    """The same, narrow enough for a terminal: case and work once, in the rows of their block."""
    found = []
    for table in text_tables(result):
        names = table.columns
        kept = [i for i, name in enumerate(names) if name not in ("case", "work", *_NOT_ON_SCREEN)]
        rows, before, place = [], ("", ""), 0
        for row in table.rows:
            block = (row[names.index("case")], row[names.index("work")])
            place = place + 1 if block == before else 0
            before = block
            label = block[place] if place < len(block) else ""
            rows.append((label if place == 0 else f"  {label}", *(row[i] for i in kept)))
        columns = ("case", *(_SHORT.get(names[i], names[i]) for i in kept))
        left = (True, *(table.left[i] for i in kept))
        found.append(Text(table.title, columns, tuple(rows), left))
    return found


def shown(value: Any, form: str) -> str:
    """A value as text: no exponents, nothing where there is none.

    >>> shown(12345.6, "{:,.3g}"), shown(0.01234, "{:,.3g}"), shown(None, "{}")
    ('12,346', '0.0123', '')
    """
    if value is None:
        return ""
    if isinstance(value, float) and "g" in form and abs(value) >= 1000:
        return f"{value:,.0f}"
    return form.format(value)


def machine_line(result: Mapping[str, Any]) -> str:
    """Machine, threads, versions and date in a line."""
    versions = result["versions"]
    packages = ("torch-legs", "torch", "torch_geometric", "numba", "karateclub")
    known = ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)
    threads = f"{result['threads']} thread{'s' * (result['threads'] != 1)}"
    return f"{result['machine']}, {threads}, {known}; {result['date']}"


def limits_line(result: Mapping[str, Any]) -> str:
    """The machine's limits in a line."""
    limits = result["limits"]
    return (
        f"Measured in the same run: a large copy moves {limits['copy'] / 1e9:,.3g} GB/s (read and "
        f"written), a product of float32 matrices does {limits['multiply'] / 1e9:,.4g} GFLOP/s"
    )


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(markdown_table(["a", "b"], [["1", "2|3"]]))
    | a | b |
    |---|---|
    | 1 | 2\\|3 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    text = ["| " + " | ".join(line) + " |" for line in escaped]
    text[1] = "|" + "---|" * len(columns)
    return "\n".join(text)


def markdown(result: Mapping[str, Any], lines: Sequence[str] = ()) -> str:
    """A page: machine, limits, what to say of it (``lines``), and all tables."""
    parts = ["# Speed of scattering", machine_line(result) + ".", limits_line(result) + "."]
    parts += ["\n".join(f"- {line}" for line in lines)] if lines else []
    for table in text_tables(result):
        parts += [f"## {table.title}", markdown_table(table.columns, table.rows)]
    if result["skipped"]:
        parts += ["## Left out", "\n".join(f"- {line}" for line in result["skipped"])]
    return "\n\n".join(parts) + "\n"
