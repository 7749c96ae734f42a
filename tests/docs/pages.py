"""The pages people read, and the code on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PYTHON = ("python", "py", "pycon")
SHELL = ("bash", "sh", "shell", "console")
FENCE = re.compile(r"^(?P<fence>```+)(?P<kind>[^\n`]*)\n(?P<code>.*?)^(?P=fence)\s*$", re.M | re.S)
MARK = re.compile(r"<!--\s*(not run|needs data)\s*(?::\s*(.*?))?\s*-->\s*\Z")


@dataclass(frozen=True)
class Block:
    """Code on a page: what it is, and what the mark before it says."""

    line: int
    kind: str  # "python" or "shell"
    code: str
    mark: str  # "", "not run" or "needs data"
    reason: str


def hand_written() -> list[Path]:
    """README and documentation, but for results: programs write those, in hours."""
    pages = [p for p in sorted(DOCS.rglob("*.md")) if not p.is_relative_to(DOCS / "results")]
    return [ROOT / "README.md", *pages]


def name_of(page: Path) -> str:
    """A page as tests call it."""
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """All Python and shell blocks of a page, in order.

    >>> blocks("<!-- not run: slow -->\\n```bash\\nlegs demo\\n```\\n")
    [Block(line=3, kind='shell', code='legs demo\\n', mark='not run', reason='slow')]
    """
    found = []
    for fence in FENCE.finditer(text):
        kind = fence["kind"].strip()
        if kind not in PYTHON + SHELL:
            continue
        mark = MARK.search(text[: fence.start()])
        found.append(
            Block(
                text.count("\n", 0, fence.start("code")) + 1,
                "python" if kind in PYTHON else "shell",
                fence["code"],
                mark[1] if mark else "",
                (mark[2] or "") if mark else "",
            )
        )
    return found


def without_code(text: str) -> str:
    """A page without its fenced blocks, so that links in prose can be found."""
    return FENCE.sub("", text)
