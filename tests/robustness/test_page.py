"""The page says what the files say."""

from __future__ import annotations

import json

import pytest

from tests.robustness.origin import FOLDER
from tests.robustness.page import PAGE, page

ORIGIN = {
    "label": "",
    "date": "2030-01-02T03:04:05+00:00",
    "seconds": 60.0,
    "machine": "M",
    "device": "CPU, 2 cores",
    "versions": {"torch": "2"},
    "commit": "abcdef0123456789",
}
FLIPS = {"tried": 1234, "silent": 0, "every": 1, **ORIGIN}
FLIPS["files"] = {"models": {"tried": 1234, "refused": 1230, "same": 4, "silent": 0}}


def test_counts_and_their_origin():
    text = page({"flips": FLIPS})
    assert "| bytes changed on disk | 1,234 | silently accepted | 0 | 2030-01-02 | long |" in text
    assert "| processes killed | not run yet | results lost | | | |" in text
    assert "| models | 1,234 | 1,230 | 4 | 0 |" in text
    assert "2030-01-02 03:04 UTC, 60 s, M, CPU, 2 cores; torch 2; commit abcdef0123" in text
    assert "| 2030-01-02 | two minutes |" in page({"flips": {**FLIPS, "label": "two minutes"}})


def test_rows_of_a_long_table():
    words = ("rows_in", "rows_out", "missing", "twice", "wrong", "listed", "kills", "parts", "kept")
    known = {word: 1000 + number for number, word in enumerate(words)}
    text = page({"embed": {**known, "engine": "local", "megabytes": 12.6, **ORIGIN}})
    row = "| 1,000 | 1,001 | 1,002 | 1,003 | 1,004 | 1,005 | 1,006 | 1,007 | 1,008 | 13 |"
    assert row in text
    assert (
        "| rows embedded, with kills | 1,000 | rows missing | 1,002 | 2030-01-02 | long |" in text
    )


def test_memory_and_commands():
    row = {"inputs": 5000, "accepted": 10, "refused": 4990, "broken": 0, "peak_bytes": 271_000_000}
    known = {"inputs": 5000, "crashes": 0, "parsers": {"CSV": row}, **ORIGIN}
    text = page({"fuzz": known})
    assert "| CSV | 5,000 | 10 | 4,990 | 0 | 271 MB |" in text
    points = {"Rings": {"commands": 3, "wrong": 1, "faults": ["x"]}}
    known = {"commands": 3, "wrong": 1, "memory": 6 << 30, "points": points, **ORIGIN}
    text = page({"reproductions": known})
    assert "| Rings | 3 | 1 |" in text
    assert "limited to 6 GB" in text
    assert "| commands that once failed | 3 | still wrong | 1 | 2030-01-02 | long |" in text


def test_the_page_is_that_of_the_files():
    if not PAGE.exists():
        pytest.skip("no page has been written yet")
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    assert PAGE.read_text() == page(found), "python -m tests.robustness.page writes it anew"
