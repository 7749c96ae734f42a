"""One version everywhere, and a changelog that says what it holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import legs
from tests.lowest import lower_bounds

ROOT = Path(__file__).parents[1]
RELEASE = re.sub(r"\.dev\d+$", "", legs.__version__)
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    assert "version" in tomllib.loads(text_of("pyproject.toml"))["project"]["dynamic"]
    assert yaml.safe_load(text_of("CITATION.cff"))["version"] == RELEASE
    assert yaml.safe_load(text_of("recipe/recipe.yaml"))["context"]["version"] == RELEASE
    heading = r"^## \[([\d.]+)\] – (unreleased|\d{4}-\d\d-\d\d)$"
    versions = re.findall(heading, text_of("CHANGELOG.md"), re.M)
    assert versions[0][0] == RELEASE
    # A release has a date, and so have all before it.
    dated = [date != "unreleased" for _, date in versions]
    assert all(dated[1:])
    assert dated[0] == (legs.__version__ == RELEASE)


def test_the_changelog_has_the_sections_of_its_format() -> None:
    text = text_of("CHANGELOG.md")
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= SECTIONS
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        found = re.findall(r"^### (.+)$", part, re.M)
        assert len(found) == len(set(found))


def test_the_conda_recipe_has_the_bounds_of_pip() -> None:
    recipe = yaml.safe_load(text_of("recipe/recipe.yaml"))["requirements"]
    found = dict(line.split(" >=") for line in recipe["run"] + recipe["run_constraints"])
    names = {"torch": "pytorch", "torch_geometric": "pytorch_geometric"}
    names |= {"matplotlib": "matplotlib-base", "ray": "ray-core"}
    bounds = lower_bounds(text_of("pyproject.toml"))
    named = {names.get(name, name): lowest for name, lowest in bounds.items()}
    del found["python"]
    assert found.items() <= named.items()
    core = lower_bounds(text_of("pyproject.toml").partition("[project.optional-dependencies]")[0])
    assert {names.get(name, name) for name in core} <= set(found)


def test_links_of_the_readme_are_absolute_on_pypi() -> None:
    hooks = tomllib.loads(text_of("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
    text = text_of("README.md")
    for rule in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert all(link.startswith("https://") and link.count("://") == 1 for link in links)


def test_the_sdist_names_what_exists() -> None:
    build = tomllib.loads(text_of("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]
    for name in build["sdist"]["only-include"]:
        assert (ROOT / name).exists(), name
