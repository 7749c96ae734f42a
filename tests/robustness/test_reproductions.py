"""Some of the commands of ``python -m tests.robustness.reproductions``."""

from __future__ import annotations

import sys

import pytest

from tests.robustness.reproductions import Step, outputs_over_inputs, reproduce

pytest.importorskip("rdkit", reason="the tables hold SMILES")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does")


def faulty(place, run):
    """Commands of which something is wrong each time."""
    (place / "mine.csv").write_text("smiles\nCC\n")
    words = ["embed", "legs-fixed", "mine.csv", "-o", "out.csv"]
    yield Step("refused", words, "would replace")
    (place / "out.csv").unlink()
    yield Step("a file that is not announced", words, done=True)
    (place / "out.csv").unlink()
    yield Step("another text", words, "no such words", done=True, writes=("out.csv",))


def test_inputs_are_not_replaced(tmp_path):
    (counts,) = reproduce([outputs_over_inputs], tmp_path).values()
    assert counts == {"commands": 2, "wrong": 0, "faults": []}


def test_what_is_wrong_is_counted(tmp_path):
    (counts,) = reproduce([faulty], tmp_path).values()
    assert (counts["commands"], counts["wrong"]) == (3, 3)
    faults = "\n".join(counts["faults"])
    assert "refused: status 0" in faults
    assert "not announced: out.csv is new" in faults
    assert "another text: no 'no such words'" in faults
