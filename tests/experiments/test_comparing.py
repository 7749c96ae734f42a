"""Ours beside the paper's: differences, errors, cells that were not run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from legs.experiments import classification
from legs.experiments.cells import make_cell
from legs.experiments.comparing import combined_error, compared, overview, shown, tally, within
from legs.experiments.paper_tables import Printed
from legs.experiments.request import Request
from legs.training.cv_tables import markdown
from tests.experiments.made import row

FULL = Request(Path("x"))
PAPER = {"gcn": Printed(79.3, 9.66), "gin": Printed(83.57, 9.68)}


def plan(*methods):
    return [make_cell(FULL, "MUTAG", method) for method in methods]


def table(*methods, ran=()):
    chosen = plan(*methods)
    rows = {cell.key: row(cell) for cell in chosen if cell.method in ran}
    return compared(chosen, rows, lambda cell: PAPER.get(cell.method))


def test_combined_error():
    assert combined_error(3.0, 4.0, 10) == pytest.approx(math.sqrt((9 + 16) / 10))
    assert combined_error(3.0, 4.0, 4) == pytest.approx(math.sqrt(0.9 + 4))
    assert within(1.0, 1.0) == within(-1.0, 1.0) == "yes"
    assert within(-1.1, 1.0) == "no, below"


def test_numbers():
    found = table("gcn", "snowball", ran=("gcn", "snowball"))
    gcn, snowball = found.to_dict("records")
    assert gcn["difference"] == pytest.approx(70 - 79.3)
    # Two test sets of ours, ten of the paper's.
    assert gcn["combined_error"] == pytest.approx(math.sqrt(9.66**2 / 10 + 2**2 / 2))
    assert gcn["within_one"] == "no, below"
    assert gcn["guess"] == 50
    assert math.isnan(snowball["paper_mean"])
    assert math.isnan(snowball["difference"])


def test_pages_say_what_was_not_run():
    found = table("gcn", "gin", "snowball", ran=("gcn",))
    assert found["status"].tolist() == ["run", "not run", "not run"]
    lines = markdown(shown(found)).splitlines()
    assert "| MUTAG | gcn | 79.30 ± 9.66 | 70.00 ± 2.00 | -9.30 | 3.37 | no, below |" in lines[2]
    assert "| MUTAG | gin | 83.57 ± 9.68 | not run |" in lines[3]
    assert "nan" not in "".join(lines).lower()
    (line,) = overview(found).to_dict("records")
    assert line == {
        "data": "MUTAG",
        "guess": "50.00",
        "gcn": "70.00 ± 2.00 (79.30)",
        "gin": "not run (83.57)",
        "snowball": "not run",
    }


def test_shuffled_labels_have_no_paper():
    (cell,) = [make_cell(Request(Path("x"), shuffled=True), "MUTAG", "gcn")]
    found = compared([cell], {cell.key: row(cell)}, lambda cell: PAPER[cell.method])
    assert found["variant"].tolist() == ["shuffled labels"]
    assert found["paper_mean"].isna().all()


def test_tally():
    """Of two cells of one method, one far above and one within; those without a paper count not."""
    chosen = [make_cell(FULL, data, m) for m in ("gcn", "gat") for data in ("MUTAG", "PTC_MR")]
    means = {"MUTAG": 69.9, "PTC_MR": 10.0}
    rows = {cell.key: row(cell) for cell in chosen}
    found = compared(
        chosen, rows, lambda c: Printed(means[c.data], 1.0) if c.method == "gcn" else None
    )
    (line,) = tally(found).to_dict("records")
    assert line == {
        "method": "gcn",
        "cells": 2,
        "at or above the paper's mean": 2,
        "within one standard error": 1,
        "above by more": 1,
        "below by more": 0,
    }
    assert tally(table("gcn", "gin")).empty


def test_another_protocol_is_told_and_lists_no_cells_that_nobody_asked_for(tmp_path):
    request = Request(
        tmp_path, datasets=("MUTAG",), models=("gcn",), rotations=1, minutes=0, device="cpu"
    )
    report = classification.EXPERIMENT.run(request)
    assert report.title.endswith("models a test set: 1")
    assert "Not the paper's protocol" in report.sections[0]
    assert report.notes == [
        "1 of 1 cells were not run.",
        "Not run: no time was left; the same command goes on",
    ]
    plain = classification.EXPERIMENT.run(replace(request, rotations=None))
    assert "Not the paper's protocol" not in "".join(plain.sections)
    assert plain.notes[0] == "130 of 130 cells were not run."
