"""Plans: how many models, on which graphs, and what they are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from legs.experiments import (
    cells,
    classification,
    classification_labels,
    ensemble,
    enzymes,
    reduced_training,
    scales,
)
from legs.experiments.cells import LARGE, MESSAGE_PASSING, make_cell
from legs.experiments.request import Request
from legs.experiments.settings import SETS
from tests.experiments.made import made_set

FULL = Request(Path("x"))
PLANS = (classification, classification_labels, ensemble, enzymes, reduced_training, scales)


@pytest.mark.parametrize("module", PLANS, ids=lambda m: m.__name__.rpartition(".")[2])
@pytest.mark.parametrize("quick", [False, True])
def test_every_cell_has_a_name_of_its_own(module, quick):
    plan = module.plan(replace(FULL, quick=quick))
    assert len({cell.key for cell in plan}) == len(plan)
    assert all(c.isalnum() or c in "-_" for cell in plan for c in cell.key)
    if quick:
        assert {cell.limit for cell in plan} <= {cells.QUICK_GRAPHS, enzymes.QUICK_GRAPHS}
        assert all("epochs at most" in cell.protocol for cell in plan)


def test_the_papers_protocol():
    """90 models a cell, at the chosen rate; ten for message passing on large sets."""
    plan = classification.plan(FULL)
    assert len(plan) == 130
    for cell in plan:
        large = cell.data in LARGE and cell.method in MESSAGE_PASSING
        expected = 10 if large or cell.method == "gs-svm" else 90
        assert cell.models == expected
        assert cell.options.training.max_epochs == 1000
        assert [one.get("lr") for one in cell.options.grid] in ([1e-3], [1e-2], [None])
    assert {c.models for c in classification.plan(replace(FULL, rotations=1))} == {10}


def test_less_training_data():
    plan = reduced_training.plan(replace(FULL, datasets=("mutag",), models=("legs-rbf",)))
    assert [(c.variant, c.options.test_folds, c.models) for c in plan] == [
        ("80/10/10", 1, 90),
        ("70/10/20", 2, 80),
        ("40/10/50", 5, 50),
        ("20/10/70", 7, 30),
    ]
    same = classification.plan(replace(FULL, datasets=("MUTAG",), models=("legs-rbf",)))
    assert plan[0].settings() == same[0].settings()  # so that it can be reused


def test_choices_of_the_user():
    request = replace(FULL, datasets=("ptc", "COLLAB"), models=("gin", "mp-legs-fcn"))
    plan = classification.plan(request)
    assert [(c.data, c.method) for c in plan] == [
        ("PTC_MR", "gin"),
        ("PTC_MR", "mp-legs-fcn"),
        ("COLLAB", "gin"),
        ("COLLAB", "mp-legs-fcn"),
    ]
    with pytest.raises(ValueError, match=r"--datasets takes some of DD, .*; got 'qm9'"):
        classification.plan(replace(FULL, datasets=("qm9",)))
    with pytest.raises(ValueError, match="did you mean 'legs-fcn'"):
        classification.plan(replace(FULL, models=("legs-fnc",)))
    with pytest.raises(ValueError, match="gs-svm is none"):
        enzymes.plan(replace(FULL, models=("gs-svm",)))


def test_features_by_set():
    plan = classification_labels.plan(replace(FULL, models=("gcn",)))
    assert [cell.data for cell in plan] == list(SETS)
    assert {cell.features for cell in plan} == {
        "structure+labels",
        "structure+labels+attributes",
        "structure+degree",
    }
    assert {cell.features for cell in classification.plan(FULL)} == {"structure"}


def test_a_part_of_a_set_has_every_class(monkeypatch):
    monkeypatch.setattr(cells, "load", made_set)
    cell = make_cell(replace(FULL, quick=True), "MUTAG", "gcn", limit=25)
    data = cell.load()
    assert 18 <= len(data) <= 25
    assert int(torch.bincount(data.y).min()) >= 3
    assert len(replace(cell, limit=None).load()) == 60


def test_shuffled_labels(monkeypatch):
    monkeypatch.setattr(cells, "load", made_set)
    cell = make_cell(replace(FULL, shuffled=True), "MUTAG", "gcn")
    assert cell.key == "MUTAG-gcn-shuffled"
    assert "shuffled" in cell.title
    data, plain = cell.load(), made_set("MUTAG")
    assert torch.equal(torch.bincount(data.y), torch.bincount(plain.y))
    assert float((data.y == plain.y).double().mean()) < 0.5
    assert torch.equal(data.x, plain.x)
