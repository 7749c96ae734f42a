"""Affinities: errors in pKi units, two ways to split, fingerprints beside networks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error, r2_score

from legs.data.splits import scaffold_split
from legs.experiments import affinity
from legs.experiments.catalogue import run
from legs.experiments.paper_tables import paper_table
from tests.experiments.made import quick
from tests.experiments.studies import made_regression, tiny

__all__ = ["tiny"]
pytest.importorskip("rdkit", reason="molecules need torch-legs[chem]")
pytestmark = pytest.mark.usefixtures("tiny")


def test_everything(tmp_path):
    models = ("legs-fcn", "mean", "morgan-ridge", "morgan-forest")
    report = run("affinity", quick(tmp_path, datasets=("ki-p00918",), models=models))
    assert list(report.table.columns) == ["data", "split", "method", "ours", "R²", "guess"]
    known = json.loads((tmp_path / "results.json").read_text())
    rows = {(row["variant"], row["method"]): row for row in known["rows"]}
    assert set(rows) == {(v, m) for v in ("random", "scaffold") for m in models}
    data = made_regression("ki-p00918")
    for (variant, method), row in rows.items():
        assert row["splits"] == rows[variant, "mean"]["splits"]
        assert row["score"] == "units"
        # In units: the error of the mean is the variance of the test ligands, and a little more.
        if method == "mean":
            assert row["train"] == pytest.approx([float(data.y.var())] * 2, rel=0.3)
            assert max(row["r2"]) <= 0
        if method == "morgan-forest":
            assert row["chosen"][0].startswith("trees=5, features=")
        if method == "morgan-ridge":
            assert row["chosen"][0].startswith("alpha=")
    assert rows["random", "mean"]["splits"] != rows["scaffold", "mean"]["splits"]
    page = (tmp_path / "results.md").read_text()
    for words in (
        "**The values are ChEMBL's, not BindingDB's**",
        "(scaling unknown)",
        "**not comparable**",
        "| morgan-ridge | alpha=1.0; alpha=3.0;",
        "fingerprints |",
    ):
        assert words in page
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["difference"].isna().all()


def test_errors_are_those_of_predictions(tmp_path):
    """Mean squared error and R² against scikit-learn, for the mean of the training ligands."""
    run("affinity", quick(tmp_path, datasets=("ki-p14416",), models=("mean",)))
    known = json.loads((tmp_path / "results.json").read_text())["rows"]
    row = next(row for row in known if row["variant"] == "scaffold")
    data = made_regression("ki-p14416")
    y = data.y.double().numpy()
    for seed in (0, 1):
        split = scaffold_split(data.smiles, seed=seed)
        guess = np.full((len(split.test), 1), y[split.train].mean())
        assert row["scores"][seed] == pytest.approx(
            mean_squared_error(y[split.test], guess), rel=1e-4
        )
        assert row["r2"][seed] == pytest.approx(r2_score(y[split.test], guess), abs=1e-4)
        assert row["train"][seed] == pytest.approx(y[split.train].var(), rel=1e-4)


def test_every_row_of_the_paper_is_planned():
    planned = {
        (cell.method, cell.data.removeprefix("ki-"))
        for cell in affinity.plan(quick("x"))
        if affinity.paper(cell)
    }
    assert planned == set(paper_table("bindingdb"))


def test_of_the_full_size():
    plan = affinity.plan(replace(quick("x"), quick=False))
    assert len(plan) == 2 * 2 * 11
    assert {cell.variant for cell in plan} == {"random", "scaffold"}
    networks = [cell for cell in plan if cell.method in ("gcn", "legs-fcn", "baseline")]
    assert len({str(cell.options.to_json()) for cell in networks}) == 1  # the same for all
