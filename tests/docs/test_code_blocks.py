"""Every block of code in README and documentation runs, page by page, in the order of the page."""

from __future__ import annotations

import doctest
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from legs.cli import main
from tests.backends import prefer
from tests.docs.pages import Block, blocks, hand_written, name_of

# Appended to commands that say nothing about it themselves: a reader's run takes minutes.
SMALL = {
    "demo": {"--limit": "60"},
    "train": {"--epochs": "6"},
    "cv": {
        "--epochs": "4",
        "--folds": "3",
        "--rotations": "1",
        "--num-splits": "1",
        "--limit": "60",
        "--strategy": "stacked",
    },
}
CODE = {page: blocks(page.read_text(encoding="utf-8")) for page in hand_written()}


@pytest.mark.parametrize("page", [p for p, code in CODE.items() if code], ids=name_of)
def test_code_runs(page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch) -> None:
    code = [block for block in CODE[page] if block.mark != "not run"]
    if any("smiles" in block.code or "molecules" in block.code for block in code):
        pytest.importorskip("rdkit", reason="the page is about molecules")
    monkeypatch.chdir(tmp_path)
    # For a picture in a report a reader waits longer than a test.
    monkeypatch.setattr("legs.explain.runs.QUALITY", {"draws": 1, "tolerance": 0.1, "most": 30})
    for most in ("TREES", "ROUNDS"):
        monkeypatch.setattr(f"legs.training.auto.{most}", 20)
    if page.name == "README.md":
        write_tables()
    waiting = [block for block in code if block.mark == "needs data"]
    if waiting:
        try:
            monkeypatch.setenv("LEGS_DATA", str(request.getfixturevalue("legs_data")))
            waiting = []
        except pytest.skip.Exception:
            code = [block for block in code if block not in waiting]
    names: dict[str, Any] = {"__name__": "__main__"}
    # Commands with compiled kernels are tests/cli's; to compile them here takes a minute.
    with prefer("reference"):
        for block in code:
            run(block, names, f"{name_of(page)}, line {block.line}")
    if waiting:
        pytest.skip(f"{len(waiting)} blocks need real data: set LEGS_DATA; the others ran")


def run(block: Block, names: dict[str, Any], where: str) -> None:
    """Runs a block; names that Python code defines stay for the blocks after it."""
    if block.kind == "shell":
        for line in block.code.replace("\\\n", " ").splitlines():
            run_line(line, where)
    elif block.code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.code, names, where, None, 0)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False).failed == 0
        names.update(test.globs)
    else:
        exec(compile(block.code, where, "exec"), names)


def run_line(line: str, where: str) -> None:
    """Runs one line of shell: a command of ours, or Python."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[0] == "legs":
        given = words[1:]
        for option, value in SMALL.get(given[0] if given else "", {}).items():
            if option not in given:
                given += [option, value]
        assert main(given) == 0, f"{where}: {line}"
    elif words[0] == "python":
        subprocess.run([sys.executable, *words[1:]], check=True)
    else:
        pytest.fail(f"{where}: {line!r} is not run; put <!-- not run: why --> before the block")


def write_tables() -> None:
    """What the README takes for granted: tables of the reader's own."""
    import pandas as pd

    from legs.data import load

    data = load("nci-5k", limit=80)
    assert data.y is not None
    table = pd.DataFrame({"id": data.ids, "smiles": data.smiles, "activity": data.y[:, 0].numpy()})
    table[:60].to_csv("molecules.csv", index=False)
    table[60:].drop(columns="activity").to_csv("new-molecules.csv", index=False)


def test_what_is_not_run_says_why_and_is_little() -> None:
    found = [block for code in CODE.values() for block in code]
    left_out = [block for block in found if block.mark == "not run"]
    assert all(len(block.reason) > 5 for block in left_out)
    assert len(found) >= 40
    assert len(left_out) <= 4


def test_a_block_that_cannot_run_fails() -> None:
    block = Block(1, "shell", "make demo\n", "", "")
    with pytest.raises(pytest.fail.Exception, match="not run"):
        run(block, {}, "page")
    with pytest.raises(AssertionError, match="legs train nothing"):
        run(Block(1, "shell", "legs train nothing.csv -o run\n", "", ""), {}, "page")
    with pytest.raises(AssertionError):
        run(Block(1, "python", ">>> 1 + 1\n3\n", "", ""), {}, "page")
