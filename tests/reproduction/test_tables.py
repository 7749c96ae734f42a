"""Tables by hand, and the paired test against scipy."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reproduction.plan import Cell, experiment
from reproduction.tables import (
    by_target,
    compared,
    overview,
    paired,
    paper_table,
    ranking,
    shown,
    summary,
    tally,
)
from tests.reproduction.made import row

SPEC = experiment("classification")
MUTAG = [Cell("MUTAG", method) for method in ("legs-fcn", "gcn", "snowball")]


def rows_of(*scores):
    """Finished cells of MUTAG."""
    pairs = zip(MUTAG, scores, strict=False)
    return {cell.key: row(cell, scores=list(each)) for cell, each in pairs}


def test_numbers_beside_the_paper():
    rows = rows_of([80.0, 90.0, 85.0], [79.0, 80.0, 79.5])
    table = compared(SPEC, MUTAG, rows).set_index("method")
    assert table["status"].tolist() == ["run", "run", "not run"]
    assert table.loc["legs-fcn", "paper_mean"] == 82.98
    assert table.loc["legs-fcn", "difference"] == pytest.approx(85 - 82.98)
    error = math.sqrt(9.85**2 / 10 + np.var([80, 90, 85]) / 3)
    assert table.loc["legs-fcn", "combined_error"] == pytest.approx(error)
    assert table.loc[["legs-fcn", "gcn"], "within_one"].tolist() == ["yes", "yes"]
    assert math.isnan(table.loc["snowball", "paper_mean"])
    far = compared(SPEC, MUTAG, rows_of([99.0, 99.0], [60.0, 60.0])).set_index("method")
    assert far.loc[["legs-fcn", "gcn"], "within_one"].tolist() == ["no, above", "no, below"]
    counted = tally(far.reset_index(), is_error=False).set_index("method")
    assert counted.loc["legs-fcn"].tolist() == [1, 1, 0, 1, 0]
    assert counted.loc["gcn"].tolist() == [1, 0, 0, 0, 1]


def test_for_people():
    table = compared(SPEC, MUTAG, rows_of([80.0, 90.0]))
    page = shown(table, SPEC, is_error=False)
    assert page.loc[0, ["paper", "ours", "majority class"]].tolist() == [
        "82.98 ± 9.85",
        "85.00 ± 5.00",
        "50.00",
    ]
    assert page["ours"].tolist()[1:] == ["not run", "not run"]
    wide = overview(table, SPEC, is_error=False)
    assert wide.iloc[0].tolist() == [
        "MUTAG", "50.00", "85.00 ± 5.00 (82.98)", "not run (79.30)", "not run",
    ]  # fmt: skip


def test_numbers_that_are_not_comparable():
    """JBAB stands in for the paper's JBCD: shown with a star, and no difference is taken."""
    spec = experiment("zinc")
    cells = [Cell(name, "gcn", "whitened") for name in ("zinc-bbab", "zinc-jbab")]
    rows = {c.key: row(c, scores=[0.5, 0.7], train=[0.1, 0.3], r2=[0.5, 0.6]) for c in cells}
    table = compared(spec, cells, rows)
    assert table["difference"].notna().tolist() == [True, False]
    printed = paper_table("zinc").query("method == 'gcn'").set_index("data")["mean"]
    assert table["paper_mean"].tolist() == printed[["zinc-bbab", "zinc-jbcd"]].tolist()
    wide = overview(table, spec, is_error=True)
    assert wide["gcn"][1] == f"0.600 ± 0.100 ({printed['zinc-jbcd']:.3f}*)"
    page = shown(table, spec, is_error=True)
    assert page.loc[0, ["train", "R²"]].tolist() == ["0.200 ± 0.100", "0.550 ± 0.050"]


def test_paired_test_against_scipy():
    """Without the correction it is scipy's paired t-test."""
    rng = np.random.default_rng(0)
    ours, other = rng.normal(80, 5, 10).tolist(), rng.normal(75, 5, 10).tolist()
    rows = [row(MUTAG[1], scores=other), row(MUTAG[0], scores=ours)]
    plain = paired([{**each, "test_fraction": 0.0} for each in rows]).iloc[0]
    expected = stats.ttest_rel(ours, other)
    assert (plain["legs"], plain["other"]) == ("legs-fcn", "gcn")
    assert [plain["t"], plain["p"]] == pytest.approx([expected.statistic, expected.pvalue])
    corrected = paired(rows).iloc[0]
    assert corrected["t"] == pytest.approx(plain["t"] * math.sqrt((1 / 10) / (1 / 10 + 1 / 9)))
    assert corrected["difference"] == pytest.approx(np.mean(ours) - np.mean(other))
    counted = summary(paired(rows), is_error=False).iloc[0]
    assert (counted["sets"], counted["ahead"], counted["behind"]) == (1, 1, 0)
    assert summary(paired(rows), is_error=True).iloc[0]["behind"] == 1


def test_only_the_same_test_sets_are_compared():
    rows = [row(MUTAG[0]), row(MUTAG[1], fingerprint="other")]
    assert len(paired(rows)) == 0
    assert len(paired([row(MUTAG[0]), row(MUTAG[1])])) == 1
    assert len(paired([row(MUTAG[1]), row(MUTAG[2])])) == 0  # no LEGS among them


def test_ranking_and_targets():
    cells = [Cell("qm9", method, "whitened") for method in ("gcn", "legs-fcn")]
    known = {"targets": ["mu", "A"], "by_target": [[0.1, 0.5], [0.3, 0.7]]}
    rows = [
        row(cell, scores=scores, **known)
        for cell, scores in zip(cells, ([0.4, 0.6], [0.2, 0.3]), strict=True)
    ]
    ranked = ranking(rows, 3)
    assert ranked["method"].tolist() == ["legs-fcn", "gcn"]
    assert ranked["behind the first"].tolist() == ["", "+0.250"]
    table = by_target(rows, {("mu", "gcn"): 0.776})
    assert table["target"].tolist() == ["mu", "A", "mean"]
    assert table["gcn"].tolist() == ["0.200 ± 0.100 (0.776)", "0.600 ± 0.100", "0.400 ± 0.100"]


def test_tables_of_the_paper():
    sizes = dict.fromkeys(("classification", "ensemble", "qm9", "zinc"), 117 + 26 + 6 + 24)
    sizes |= {"reduced-training": 52, "affinity": 16, "structures": 7}
    sizes |= {"qm9-targets": 114, "enzymes": 3}
    for name, size in sizes.items():
        table = paper_table(name)
        assert len(table) == size
        assert table["mean"].notna().all()
        assert not table.duplicated([k for k in table if k not in ("mean", "std")]).any()
    assert isinstance(paper_table("zinc"), pd.DataFrame)
