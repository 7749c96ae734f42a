"""Rankings, paired tests and tables of errors: the smaller the better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from legs.experiments import affinity, qm9, zinc
from legs.experiments.paper_tables import Printed
from legs.experiments.regression_pairs import paired, ranking, summary
from legs.experiments.regression_tables import by_target, compared, overview, shown
from tests.experiments.made import quick

RNG = np.random.default_rng(2)
LEGS = RNG.normal(0.2, 0.02, 4).tolist()
FIXED = RNG.normal(0.25, 0.02, 4).tolist()
GCN = RNG.normal(0.4, 0.02, 4).tolist()


def row(method, scores, data="qm9", variant="", **more):
    known = {
        "cell": f"{data}-{method}",
        "data": data,
        "method": method,
        "variant": variant,
        "mean": float(np.mean(scores)),
        "std": float(np.std(scores)),
        "scores": scores,
        "train": [0.1] * len(scores),
        "guess": [1.0] * len(scores),
        "r2": [0.5] * len(scores),
        "targets": ["mu", "zpve"],
        "by_target": [[score, 0.0] for score in scores],
        "test_fraction": 1 / 9,
        "parameters": 12,
        "graphs": 60,
        "models": 8,
        "seconds": 3.0,
        "chosen": ["lr=0.01"] * len(scores),
        "protocol": "p",
        "device": "d",
        "fingerprint": "f",
        "splits": ["a", "b", "c", "d"],
        "settings": {"shuffled": False},
    }
    return {**known, **more}


ROWS = [row("legs-fcn", LEGS), row("legs-fixed", FIXED), row("gcn", GCN)]


def test_pairs_against_the_formula():
    found = paired(ROWS)
    assert found[["legs", "other"]].to_numpy().tolist() == [
        ["legs-fcn", "legs-fixed"],
        ["legs-fcn", "gcn"],
        ["legs-fixed", "gcn"],
    ]
    difference = np.subtract(LEGS, GCN)
    t = difference.mean() / np.sqrt(difference.var(ddof=1) * (1 / 4 + 1 / 9))
    assert found["difference"][1] == pytest.approx(difference.mean())
    assert found["per_cent"][1] == pytest.approx(100 * difference.mean() / np.mean(GCN))
    assert found["t"][1] == pytest.approx(t)
    assert found["p"][1] == pytest.approx(2 * stats.t.sf(abs(t), 3))
    first = summary(found).to_dict("records")[1]
    assert (first["smaller error"], first["larger error"]) == (1, 0)
    assert first["smaller, p < 0.05"] == 1


def test_only_the_same_test_graphs_are_compared():
    assert len(paired([ROWS[0], {**ROWS[2], "splits": ["other"]}])) == 0
    assert len(paired([ROWS[0], {**ROWS[2], "fingerprint": "of other graphs"}])) == 0
    assert len(paired([ROWS[0], {**ROWS[2], "variant": "scaffold"}])) == 0
    assert len(paired([ROWS[0], {**ROWS[2], "settings": {"shuffled": True}}])) == 0


def test_ranking():
    found = ranking([ROWS[2], ROWS[0], ROWS[1]])
    assert found["method"].tolist() == ["legs-fcn", "legs-fixed", "gcn"]
    assert found["rank"].tolist() == [1, 2, 3]
    assert found["behind the first"][2] == f"{np.mean(GCN) - np.mean(LEGS):+.3f}"
    assert "split" not in found
    both = ranking([row("gcn", GCN, variant="random"), row("gcn", LEGS, variant="scaffold")])
    assert both["split"].tolist() == ["random", "scaffold"]


def test_beside_the_paper():
    cells = qm9.plan(quick("x", models=("legs-fcn", "gin", "mean")))
    table = compared(cells, {cells[0].key: ROWS[0]}, qm9.paper, 4)
    first = table.iloc[0]
    assert first["difference"] == pytest.approx(np.mean(LEGS) - 0.216)
    assert first["combined_error"] == pytest.approx(np.sqrt(0.009**2 / 4 + np.std(LEGS) ** 2 / 4))
    assert table["status"].tolist() == ["run", "not run", "not run"]
    page = shown(table)
    assert page["paper"].tolist() == ["0.216 ± 0.009", "0.247 ± 0.037", ""]
    assert page["ours"][1] == "not run"
    assert page["train"][0] == "0.100 ± 0.000"
    wide = overview(table)
    assert wide["qm9"].tolist()[1:] == ["not run (0.247)", "not run"]


def test_what_is_not_comparable_is_not_compared():
    stand_in = zinc.plan(quick("x", datasets=("zinc-jbab",), models=("gin",)))
    other_scale = affinity.plan(quick("x", datasets=("ki-p00918",), models=("gin",)))
    for cells, paper in ((stand_in, zinc.paper), (other_scale, affinity.paper)):
        done = {cells[0].key: row("gin", GCN, cells[0].data)}
        table = compared(cells[:1], done, paper, 4)
        assert pd.isna(table["difference"][0])
        assert table["paper_note"][0]
        assert "*)" in overview(table).iloc[0, 1]
    shuffled = [replace(cell, shuffled=True) for cell in stand_in]
    assert compared(shuffled, {}, zinc.paper, 4)["paper_mean"].isna().all()


def test_by_target():
    found = by_target(ROWS[:1], lambda target, method: Printed(0.5, None))
    assert found["target"].tolist() == ["mu", "zpve", "mean"]
    assert found["legs-fcn"][1] == "0.000 ± 0.000 (0.500)"
    assert found["legs-fcn"][2].startswith(f"{np.mean(LEGS) / 2:.3f} ±")
