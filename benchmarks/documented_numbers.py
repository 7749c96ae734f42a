"""Numbers in the README and the documentation come from the files of results.

A marked number, or table, names its file::

    <!-- from docs/results/a.json: rows[model=gcn].mean | .1% -->81.4%<!-- end -->

    <!-- from docs/results/b.md: method=legs-fcn, difference!=; data, ours, paper -->
    (columns of the table in b.md that has them, in rows of this method where there is a difference)
    <!-- end -->

    <!-- from docs/results/c.csv: [method=gcn].rank | .2f -->3.00<!-- end -->

    <!-- from docs/results/b.md: method=gcn; ours | -->12.3 ± 4.5<!-- end -->

With a bar at the end, a table is the one cell that was chosen. Of a column whose cells end in
brackets, ``gcn()`` is what is before them and ``(gcn)`` what is inside: the paper's number.

``python -m benchmarks.documented_numbers`` writes what the files hold between the marks; a test
fails where they differ.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parent.parent
MARK = re.compile(
    r"(?P<start><!-- from (?P<file>\S+): (?P<what>.*?) -->)(?P<text>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
RULE = re.compile(r"(.+?)\s*(!?=)\s*(.*)")
STEP = re.compile(r"([\w-]+)|\[([^\]]*)\]|\.")


class Missing(LookupError):
    """A mark asks for what its file does not hold."""


def pages() -> list[Path]:
    """Where marks may be: the README and the documentation, but for what programs write whole."""
    written = ROOT / "docs" / "results"
    written_by_hand = [
        p for p in sorted((ROOT / "docs").rglob("*.md")) if not p.parent.is_relative_to(written)
    ]
    return [ROOT / "README.md", *written_by_hand, *sorted(written.glob("*.md"))]


def fill(text: str, root: Path = ROOT) -> str:
    """A page with what its marks ask for."""

    def filled(mark: re.Match[str]) -> str:
        file, what = root / mark["file"], mark["what"]
        if not file.is_file():
            raise Missing(f"{mark['file']} does not exist")
        content = table(file, what) if file.suffix == ".md" else number(file, what)
        return mark["start"] + content + mark["end"]

    return MARK.sub(filled, text)


def number(file: Path, what: str) -> str:
    """One number of a JSON or CSV file: where it is, and after a bar how to write it."""
    path, _, how = what.partition("|")
    if file.suffix == ".csv":
        value: Any = pd.read_csv(file).to_dict("records")
    else:
        value = json.loads(file.read_text(encoding="utf-8"))
    for name, choice in STEP.findall(path.strip()):
        try:
            if name:
                value = value[name]
            elif choice:
                value = _choose(value, choice)
        except (LookupError, TypeError) as error:
            raise Missing(f"{file.name} has no {path.strip()}: {error}") from error
    return format(value, how.strip())


def _choose(rows: list[dict[str, Any]], choice: str) -> Any:
    if choice.isdigit():
        return rows[int(choice)]
    wanted = dict(pair.split("=") for pair in choice.split(","))
    matching = [row for row in rows if all(str(row.get(k)) == v for k, v in wanted.items())]
    if len(matching) != 1:
        raise LookupError(f"{len(matching)} rows with {choice}")
    return matching[0]


def table(file: Path, what: str) -> str:
    """Some rows and columns of a table in a Markdown file, as they are written there."""
    chosen, _, named = what.removesuffix("|").rpartition(";")
    rules = [
        match.groups() for rule in chosen.split(",") if (match := RULE.fullmatch(rule.strip()))
    ]
    columns = [name.strip() for name in named.split(",")]
    needed = {*(name.strip("()") for name in columns), *(name for name, _, _ in rules)}
    lines = file.read_text(encoding="utf-8").splitlines()
    for start, line in enumerate(lines[:-1]):
        head = _cells(line)
        if not needed <= set(head) or not lines[start + 1].startswith("|--"):
            continue
        rows = []
        for row in lines[start + 2 :]:
            if not row.startswith("|"):
                break
            rows.append(dict(zip(head, _cells(row), strict=True)))
        selected = [r for r in rows if all((r[k] == v) == (how == "=") for k, how, v in rules)]
        if selected:
            if what.endswith("|"):
                return _entry(selected[0], columns[0])
            heads = [f"{c.strip('()')}, paper" if c[0] == "(" else c.strip("()") for c in columns]
            body = [heads, ["---"] * len(columns)]
            body += [[_entry(r, c) for c in columns] for r in selected]
            return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in body)
    raise Missing(f"{file.name} has no table with {what}")


def _entry(row: dict[str, str], column: str) -> str:
    before, _, inside = row[column.strip("()")].partition(" (")
    if column.startswith("("):
        return inside.rstrip(")")
    return before if column.endswith("()") else row[column]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = fill(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: numbers updated")


if __name__ == "__main__":
    main()
