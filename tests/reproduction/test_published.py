"""The published results: their settings are those of the plan, their tables come out the same."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from reproduction.cell import read_cells
from reproduction.page import choices
from reproduction.plan import Cell, Request, cells_of, document, experiment
from reproduction.tables import compared, paired, statistics_tables

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/cells"))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_plan_is_that_of_the_published_cells(name):
    rows = read_cells(RESULTS / name)
    assert rows
    for seed in {row["seed"] for row in rows.values()}:
        own = {key: row for key, row in rows.items() if row["seed"] == seed}
        first = next(iter(own.values()))
        rotations = 1 if name == "classification-one-model" else None
        methods = tuple(dict.fromkeys(row["method"] for row in own.values() if row["method"]))
        request = Request(Path("x"), models=methods, seed=seed, rotations=rotations)
        known = {c.key: c.settings() for c in cells_of(experiment(first["experiment"]), request)}
        for key, row in own.items():
            assert row["settings"] == known[key]


TABLES = ("classification", "reduced-training", "qm9", "zinc", "structures")


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_published_ones(name):
    rows = read_cells(RESULTS / name)
    file = pd.read_csv(RESULTS / name / "results.csv", keep_default_na=False)
    spec = experiment(name)
    keys = file[["data", "variant", "method"]].itertuples(index=False)
    listed = [Cell(data, method, spec["score"], variant=variant) for data, variant, method in keys]
    _same(compared(spec, listed, rows), RESULTS / name / "results.csv")
    pairs = RESULTS / name / "comparisons.csv"
    if pairs.exists():
        found = paired([rows[cell.key] for cell in listed if cell.key in rows])
        _same(found, pairs)


def _same(table, file):
    """Whether a table is that of a CSV file, but for rounding."""
    again = pd.read_csv(StringIO(table.to_csv(index=False)))
    pd.testing.assert_frame_equal(again, pd.read_csv(file), rtol=1e-9)


def test_the_learning_rates_are_those_that_tuning_chose():
    chosen = choices(list(read_cells(RESULTS / "tuning").values()))
    assert chosen == document()["tuned"]


def test_all_statistics_agree_with_the_paper():
    rows = list(read_cells(RESULTS / "dataset-stats").values())
    numbers, page, notes = statistics_tables(rows)
    assert (len(numbers), len(page), numbers["agrees"].all()) == (78, 13, True)
    assert notes == ["All numbers of 13 data sets agree to the printed digits."]
