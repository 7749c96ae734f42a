"""The examples run, show what they say, and stay short."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))
Found = dict[str, Any]

# What each must have found, in the names it defines.
SHOWN: dict[str, Callable[[Found], bool]] = {
    "01": lambda s: float((s["moved"] - s["features"]).abs().max()) < 1e-3,
    "02": lambda s: s["accuracy"] > 0.7,
    "03": lambda s: s["result"].methods[0].mean > sum(s["result"].baseline) / 5,
    "04": lambda s: s["model"].score(s["test"], s["y_test"]) > 0.5,
    "05": lambda s: [*s["distances"][0]] == sorted(s["distances"][0]) and len(s["neighbours"]) == 5,
    "06": lambda s: s["scores"].mean() > 0.8 and s["search"].best_score_ > 0.8,
    "07": lambda s: s["upper"] <= 1 + 1e-9 and abs(s["learned"] - s["start"]).max() > 0.05,
    "08": lambda s: s["sizes"] == [6, 6, 12, 12, 24] and s["accuracy"] > s["baseline"],
    "09": lambda s: s["accuracy"]["GCN, 3 layers"] == 0.5 < 0.9 < s["accuracy"]["LEGS, 16 steps"],
    "10": lambda s: len(s["molecules"]) == 2 and len(s["data"]) == 60,
    "11": lambda s: s["accuracy"]["relu-pair"] > s["accuracy"]["abs"] > s["baseline"],
    "12": lambda s: s["accuracy"][0] > s["accuracy"][1] + 0.2,
    "13": lambda s: s["accuracy"] > s["baseline"] + 0.2,
    "14": lambda s: min(s["accuracy"].values()) > 0.7,
    "15": lambda s: s["accuracy"] > 0.8 > s["baseline"] + 0.2,
    "16": lambda s: s["accuracy"] > s["baseline"] + 0.3,
    "17": lambda s: (
        s["error"]["denoised"] < 0.8 * min(s["error"]["noisy"], s["error"]["low-pass"])
        and float((s["again"] - s["noisy"]).abs().max()) < 1e-8
    ),
    "18": lambda s: s["study"].best_value > 0.7 and s["score"] > 0.7,
}
PICTURES = {
    "01": "wavelets.png",
    "04": "tpsa.png",
    "05": "similar.png",
    "07": "responses.png",
    "08": "groups.png",
}


# They run when the documentation is built, too.
SLOW = ("03", "04", "06", "09")
RUN = [
    pytest.param(script, id=script.stem, marks=[pytest.mark.long] * (script.name[:2] in SLOW))
    for script in SCRIPTS
]


@pytest.mark.parametrize("script", RUN)
def test_example(script: Path, tmp_path: Path, monkeypatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="examples draw")
    pytest.importorskip("rdkit", reason="examples read molecules")
    if script.name[:2] == "18":
        pytest.importorskip("optuna", reason="the example is about Optuna")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    # Made graphs, not what happens to be on this machine.
    monkeypatch.delenv("LEGS_DATA", raising=False)
    found = runpy.run_path(str(script), run_name="__main__")
    number = script.name[:2]
    assert SHOWN[number](found)
    if number in PICTURES:
        assert (tmp_path / PICTURES[number]).stat().st_size > 5_000
    pyplot.close("all")


def test_they_are_numbered_and_short() -> None:
    assert [script.name[:2] for script in SCRIPTS] == [f"{i:02}" for i in range(1, 19)]
    for script in SCRIPTS:
        longest = 60 if script.name < "11" else 40
        assert len(script.read_text(encoding="utf-8").splitlines()) <= longest, script.name
