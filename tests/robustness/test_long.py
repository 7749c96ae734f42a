"""What takes minutes: ``make test-long``. The counts on the page come from the same programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "fuzz": ["tests.fuzz", "--inputs", "200000", "--minutes", "30"],
    "kills": ["tests.robustness.kills", "--kills", "20"],
    "embed": ["tests.robustness.embed_kills", "--rows", "20000"],
    "flips": ["tests.robustness.flips"],
    "soak": ["tests.robustness.soak"],
}


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, tmp_path):
    out = tmp_path / f"{name}.json"
    words = [sys.executable, "-m", *PROGRAMS[name], "-o", str(out)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    known = json.loads(out.read_text())
    count = {"embed": "missing", "fuzz": "crashes", "kills": "lost", "flips": "silent"}.get(name)
    assert known["seconds"] > 0
    if count is not None:
        assert known[count] == 0
