"""A few real molecules and structures through every study but QM9, which takes long to read."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from legs.experiments import affinity, structures, zinc
from legs.experiments.catalogue import run
from tests.data.conftest import legs_data
from tests.experiments.made import quick
from tests.experiments.studies import TINY

__all__ = ["legs_data"]
CASES = {
    "zinc": (zinc, "zinc-fbab", ("legs-fcn", "graphsage")),
    "affinity": (affinity, "ki-p14416", ("legs-fixed", "morgan-ridge")),
    "structures": (structures, "rna-puzzles", ("legs-fixed", "target-mean")),
}


@pytest.mark.parametrize("name", CASES)
def test_small_but_real(name, legs_data, tmp_path, monkeypatch):
    if name != "structures":
        pytest.importorskip("rdkit", reason="molecules need torch-legs[chem]")
    module, data, models = CASES[name]
    monkeypatch.setenv("LEGS_DATA", str(legs_data))
    monkeypatch.setattr(module, "QUICK_PROTOCOL", replace(TINY, limit=80))
    run(name, quick(tmp_path, datasets=(data,), models=(*models, "mean")))
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert {row["method"] for row in rows} == {*models, "mean"}
    for row in rows:
        assert row["graphs"] == 80
        assert np.isfinite([row["scores"], row["train"], row["r2"]]).all()
    if name == "structures":  # even of 64 models, the target's mean tells more than that of all
        found = {row["method"]: row["mean"] for row in rows if row["variant"] == "random"}
        assert found["target-mean"] < found["mean"]
