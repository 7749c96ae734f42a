"""Every page can be reached, every link leads somewhere, every name and option exists."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from legs.cli.main import app
from tests.docs.pages import DOCS, hand_written, name_of, without_code

PAGES = [*hand_written(), *sorted((DOCS / "results").rglob("*.md"))]
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`(legs(?:\.\w+)+)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
# Packages that users import from; others are our own business.
PUBLIC = {"cli", "data", "explain", "functional", "kernels", "models", "nn", "report", "sklearn"}
PUBLIC |= {"training"}
# Of every command.
FOREIGN = {"--help", "--version", "--debug"}
# Of torchrun.
FOREIGN |= {"--nnodes", "--nproc-per-node", "--rdzv-endpoint", "--no-python"}
# Of chemprop, on the page for those who know it.
FOREIGN |= {"--smiles-columns", "--target-columns", "--task-type", "--splits-column", "--init-lr"}
FOREIGN |= {"--molecule-featurizers", "--num-replicates", "--ensemble-size", "--test-path"}
FOREIGN |= {"--model-paths"}


def children(page: Path) -> set[Path]:
    """Pages that the tables of contents of a page name."""
    every = {p.relative_to(DOCS).with_suffix("").as_posix(): p for p in DOCS.rglob("*.md")}
    found = set()
    for tree in TOCTREE.findall(page.read_text(encoding="utf-8")):
        for line in filter(None, map(str.strip, tree.splitlines())):
            if line.startswith(":"):
                continue
            titled = re.fullmatch(r".*<(.+)>", line)
            entry = (page.parent / (titled[1] if titled else line)).relative_to(DOCS).as_posix()
            named = {p for name, p in every.items() if fnmatch(name, entry)}
            assert named or entry.startswith("gallery/"), f"{name_of(page)}: no page {entry}"
            found |= named
    return found


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += children(page)
    assert set(DOCS.rglob("*.md")) == reached


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_images_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path) if path else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)
    assert not broken


def resolve(name: str) -> Any:
    """An object by its dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", hand_written(), ids=name_of)
def test_names_exist(page: Path) -> None:
    for name in set(NAME.findall(without_code(page.read_text(encoding="utf-8")))):
        resolve(name)


@pytest.mark.parametrize("page", hand_written(), ids=name_of)
def test_options_exist(page: Path) -> None:
    known = {word for command in COMMANDS.values() for p in command.params for word in p.opts}
    used = set(OPTION.findall(re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"))))
    assert used <= known | FOREIGN


@pytest.mark.parametrize("page", hand_written(), ids=name_of)
def test_commands_exist(page: Path) -> None:
    used = set(re.findall(r"(?:`|^)legs ([a-z]+)", page.read_text(encoding="utf-8"), re.M))
    assert used <= set(COMMANDS)


def test_every_command_and_package_has_its_place_in_the_api() -> None:
    shown = re.findall(r"\{legs-help\} (\w+)", (DOCS / "api" / "cli.md").read_text("utf-8"))
    assert sorted(shown) == sorted(COMMANDS)
    pages = {p.stem for p in (DOCS / "api").glob("*.md")} - {"index", "legs"}
    assert pages >= PUBLIC
    for name in pages:
        assert import_module(f"legs.{name}").__all__
