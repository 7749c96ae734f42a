"""Progress over a whole plan: which cell, and a time left that follows from what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from legs.experiments.cells import make_cell
from legs.experiments.outlook import Outlook, work_of
from legs.experiments.request import Request
from legs.training.cv_progress import CVProgress

FULL = Request(Path("x"))
CELLS = [make_cell(FULL, data, m) for data in ("MUTAG", "PTC_MR") for m in ("gcn", "gin")]
FACTS = CVProgress(
    method="gcn", method_number=1, methods=1, settings=(0, 1), grid=2, step="networks", first=1,
    last=180, method_models=180, epoch=500, max_epochs=1000, models=180, done=0, running=90,
    stopped=90, best_loss=0.5, seconds=40.0, seconds_left=20.0, at_most=False,
)  # fmt: skip


def told(outlook, cell, facts=None):
    found = []
    outlook.send = found.append
    outlook.tell(cell, facts)
    return found[0]


def test_work_follows_models_and_graphs():
    gcn = CELLS[0]
    one = replace(gcn, options=replace(gcn.options, rotations=1))
    assert work_of(gcn) == pytest.approx(9 * work_of(one))
    assert work_of(CELLS[2]) > work_of(gcn)  # PTC has more graphs than MUTAG
    assert work_of(replace(gcn, limit=94)) == pytest.approx(work_of(gcn) / 2)


def test_time_left():
    now = [0.0]
    outlook = Outlook(CELLS, print, lambda: now[0])
    first = told(outlook, CELLS[0])
    assert (first.number, first.cells, first.done, first.seconds_left) == (1, 4, 0, None)
    assert first.time_left == ""
    assert first.part == 0
    # Nothing is finished: the pace of the cell in work counts for all.
    rate = 60 / work_of(CELLS[0])
    rest = sum(map(work_of, CELLS[1:]))
    running = told(outlook, CELLS[0], FACTS)
    assert running.seconds_left == pytest.approx(20 + rate * rest)
    assert running.part == pytest.approx((90 + 45) / 180)
    outlook.end(CELLS[0], 60.0)
    outlook.end(CELLS[1], 30.0)
    now[0] = 90.0
    later = told(outlook, CELLS[2])
    assert (later.number, later.done, later.seconds) == (3, 2, 90.0)
    gin = 30 / work_of(CELLS[1])
    assert later.seconds_left == pytest.approx(work_of(CELLS[2]) * rate + work_of(CELLS[3]) * gin)
    assert "left for 2 cells" in later.time_left
    assert str(later) == "cell 3 of 4: PTC_MR, gcn"


def test_cells_of_other_machines_do_not_count():
    outlook = Outlook(CELLS, print)
    outlook.end(CELLS[0], None)
    assert told(outlook, CELLS[1]).seconds_left is None
    assert told(outlook, CELLS[1]).done == 1
