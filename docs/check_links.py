"""Checks the links of the built pages: ``python docs/check_links.py build/docs``.

Links within the pages, with their anchors, must lead somewhere. Links to other hosts are only
listed: machines that build the pages may have no network.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# Written by Sphinx for its own use, without links that people follow.
SKIPPED = ("_static", "_sources")


@cache
def parsed(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(page: Path) -> frozenset[str]:
    """All places on a page that a link can name."""
    tags = parsed(page).find_all(True)
    return frozenset(str(tag[key]) for tag in tags for key in ("id", "name") if tag.get(key))


def check(folder: Path) -> tuple[list[str], set[str]]:
    """What is broken, one line each, and the addresses on other hosts."""
    broken, external = [], set()
    for page in sorted(folder.rglob("*.html")):
        if page.relative_to(folder).parts[0] in SKIPPED:
            continue
        for tag in parsed(page).find_all(["a", "img", "link", "script"]):
            address = str(tag.get("href") or tag.get("src") or "")
            link = urlsplit(address)
            if link.scheme in ("http", "https"):
                external.add(address)
            if link.scheme or link.netloc or not address:
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page.resolve()
            where = f"{page.relative_to(folder)}: {address}"
            if not target.is_file():
                broken.append(f"{where} (no such file)")
            elif target.suffix == ".html" and unquote(link.fragment) not in {"", *anchors(target)}:
                broken.append(f"{where} (no such place on the page)")
    return broken, external


def main() -> int:
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        print(f"{folder} holds no built pages; run make docs first", file=sys.stderr)
        return 2
    broken, external = check(folder)
    print(f"{len(external)} addresses on other hosts, not checked:")
    print("\n".join(f"  {address}" for address in sorted(external)))
    if broken:
        print(f"{len(broken)} broken links:", *broken, sep="\n  ", file=sys.stderr)
        return 1
    print("all links within the pages lead somewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
