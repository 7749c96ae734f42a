"""Numbers on the pages are those of the files of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.documented_numbers import MARK, Missing, fill, pages
from tests.docs.pages import name_of


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_marked_numbers_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- from ") == len(MARK.findall(text)), "a mark is not closed"
    assert fill(text) == text, "run python -m benchmarks.documented_numbers"


def test_the_readme_has_some() -> None:
    assert MARK.search(pages()[0].read_text(encoding="utf-8"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = [{"model": "a", "mean": 0.5}, {"model": "b", "mean": 0.25}, {"model": "b", "mean": 1}]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    table = "text\n\n| set | model | ours |\n|---|---|---|\n| x | a | 1 ± 2 |\n| y | b | 3 |\n"
    (tmp_path / "r.md").write_text(table)
    (tmp_path / "r.csv").write_text("model,rank\na,1.5\nb,2\n")
    (tmp_path / "both.md").write_text("| set | ours |\n|---|---|\n| x | 1 ± 2 (3) |\n")
    return tmp_path


def test_a_number_is_written(results: Path) -> None:
    mark = "is <!-- from r.json: rows[model=a].mean | .1% -->9%<!-- end -->."
    assert fill(mark, results) == mark.replace("9%", "50.0%")
    assert "0.25" in fill("<!-- from r.json: rows[1].mean | .2f --><!-- end -->", results)


def test_a_table_is_written(results: Path) -> None:
    filled = fill("<!-- from r.md: model=a; set, ours -->old<!-- end -->", results)
    assert filled.splitlines()[1:4] == ["| set | ours |", "| --- | --- |", "| x | 1 ± 2 |"]
    assert "old" not in filled and "| y |" not in filled
    assert "| y | 3 |" in fill("<!-- from r.md: model!=a; set, ours --><!-- end -->", results)
    assert "| y | 3 |" in fill("<!-- from r.md: set, ours --><!-- end -->", results)


def test_a_number_of_a_table_is_written(results: Path) -> None:
    mark = "is <!-- from r.csv: [model=a].rank | .2f -->9<!-- end -->."
    assert fill(mark, results) == mark.replace("9", "1.50")
    mark = "is <!-- from r.md: model=a; ours | -->9<!-- end -->."
    assert fill(mark, results) == mark.replace("9", "1 ± 2")


def test_what_is_in_brackets_has_a_column_of_its_own(results: Path) -> None:
    filled = fill("<!-- from both.md: ; set, ours(), (ours) --><!-- end -->", results)
    assert filled.splitlines()[1] == "| set | ours | ours, paper |"
    assert filled.splitlines()[3] == "| x | 1 ± 2 | 3 |"


@pytest.mark.parametrize(
    "what",
    [
        "r.json: rows[model=c].mean",
        "r.json: rows[model=b].mean",  # two rows
        "r.json: rows[model=a].std",
        "r.md: set, theirs",
        "r.md: model=c; set, ours",
        "s.md: set",
    ],
)
def test_what_is_not_there_is_told(what: str, results: Path) -> None:
    with pytest.raises(Missing):
        fill(f"<!-- from {what} --><!-- end -->", results)
