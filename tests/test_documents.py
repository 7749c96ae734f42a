"""Every Python block of the README and the documents runs."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[pytest.param]:
    return [
        pytest.param(code, id=f"{page.name}-{i}")
        for page in PAGES
        for i, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("code", blocks())
def test_runs(code: str) -> None:
    if "rdkit" in code.lower() or "smiles" in code:
        pytest.importorskip("rdkit")
    if code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, {}, "block", None, 0)
        assert doctest.DocTestRunner().run(test).failed == 0
    else:
        exec(compile(code, "block", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
