"""Learning rates chosen on validation graphs."""

from __future__ import annotations

import json

from legs.experiments import cells, settings, tuning
from legs.experiments.request import Request
from tests.experiments.made import quick, small

__all__ = ["small"]  # a fixture


def row(data, method, losses):
    return {"data": data, "method": method, "rates": [0.001, 0.01], "losses": losses}


def test_the_smallest_geometric_mean_is_chosen():
    rows = [
        row("IMDB-BINARY", "gin", [[0.5, 0.5], [0.6, 0.6]]),
        row("IMDB-MULTI", "gin", [[1.5, 1.5], [1.2, 1.2]]),  # 0.5 * 1.5 > 0.6 * 1.2
        row("IMDB-BINARY", "gat", [[0.5, 0.5], [0.4, 0.4]]),  # not on all sets of its kind
    ]
    assert tuning.choices(rows) == {"social": {"gin": 0.01}}


def test_a_chosen_rate_is_the_only_one_of_a_cell(monkeypatch, tmp_path):
    request = Request(folder=tmp_path)
    monkeypatch.setattr("legs.experiments.settings.settings", dict)  # before anything is tuned
    both = cells.make_cell(request, "MUTAG", "gcn")
    monkeypatch.setattr(
        "legs.experiments.settings.settings", lambda: {"biochemical": {"gcn": 0.01}}
    )
    one = cells.make_cell(request, "MUTAG", "gcn")
    assert both.options.grid == ({"lr": 0.001}, {"lr": 0.01})
    assert one.options.grid == ({"lr": 0.01},)
    assert one.models == 90
    # Another kind has another choice, or none.
    assert cells.make_cell(request, "COLLAB", "gcn").options.grid == both.options.grid
    assert "legs reproduce tuning" in settings.tuned_words()


def test_choices_of_the_package_are_those_of_the_results():
    """settings.json is what docs/results/tuning found, if that was run."""
    from pathlib import Path

    found = Path(__file__).parents[2] / "docs" / "results" / "tuning" / "results.json"
    if not found.exists():
        assert settings.settings() == {}
        return
    known = json.loads(found.read_text())
    assert tuning.choices(known["rows"]) == settings.settings()


def test_nothing_of_the_test_sets_is_kept(tmp_path, small):
    request = quick(tmp_path / "t", datasets=("IMDB-BINARY",), models=("legs-fixed",))
    report = tuning.run(request)
    known = json.loads((tmp_path / "t" / "results.json").read_text())
    (found,) = known["rows"]
    assert len(found["losses"]) == len(settings.RATES)
    assert not {"mean", "scores", "guess"} & set(found)
    assert json.loads((tmp_path / "t" / "settings.json").read_text()) == {}
    assert list(report.table["method"]) == ["legs-fixed"]
