"""LEGS against the others: the same test as between two methods of one cross-validation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from legs.experiments.cells import make_cell
from legs.experiments.pairs import paired, points, summary
from legs.experiments.request import Request
from tests.experiments.made import row

FULL = Request(Path("x"))
RNG = np.random.default_rng(1)
LEGS, GCN = RNG.normal(80, 3, 10).tolist(), RNG.normal(70, 3, 10).tolist()


def rows(data="MUTAG", request=FULL, legs=LEGS, gcn=GCN):
    return [
        row(make_cell(request, data, "legs-fcn"), scores=legs),
        row(make_cell(request, data, "legs-rbf"), scores=gcn),
        row(make_cell(request, data, "gcn"), scores=gcn),
    ]


def test_against_the_formula():
    found = paired(rows())
    assert found[["legs", "other"]].to_numpy().tolist() == [
        ["legs-fcn", "gcn"],
        ["legs-rbf", "gcn"],
    ]
    difference = np.subtract(LEGS, GCN)
    t = difference.mean() / np.sqrt(difference.var(ddof=1) * (1 / 10 + 1 / 9))
    assert found["difference"][0] == pytest.approx(difference.mean())
    assert found["t"][0] == pytest.approx(t)
    assert found["p"][0] == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert (found["difference"][1], found["p"][1]) == (0, 1)


def test_only_the_same_partitions_are_compared():
    legs, rbf, gcn = rows()
    other = row(make_cell(replace(FULL, seed=1), "MUTAG", "gcn"), scores=GCN)
    assert len(paired([legs, other])) == 0
    assert len(paired([legs, {**gcn, "fingerprint": "of other graphs"}])) == 0
    assert len(paired([legs, rbf])) == 0
    # Fewer rotations change the models, not the test sets.
    fewer = row(make_cell(replace(FULL, rotations=1), "MUTAG", "gcn"), scores=GCN)
    assert len(paired([legs, fewer])) == 1


def test_summary():
    found = paired([*rows(), *rows("PTC_MR", legs=GCN, gcn=LEGS)])
    first, second = summary(found).to_dict("records")
    assert (first["LEGS"], first["other"], first["sets"]) == ("legs-fcn", "gcn", 2)
    assert (first["ahead"], first["behind"]) == (1, 1)
    assert (first["ahead, p < 0.05"], first["behind, p < 0.05"]) == (1, 1)
    assert first["mean difference"] == "+0.00"
    assert (second["ahead"], second["behind"]) == (0, 0)


def test_points():
    assert points(rows())["MUTAG"][2] == ("gcn", 1234, np.mean(GCN), np.std(GCN))
