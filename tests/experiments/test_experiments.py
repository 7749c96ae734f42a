"""A tiny run of every experiment, through the same code: tables, figures, and the same again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from legs.experiments import enzymes, pictures, scales
from legs.experiments.catalogue import EXPERIMENTS, check_name, run
from legs.experiments.exchange import preferences
from tests.experiments.made import CLASSES, quick, small

__all__ = ["small"]
pytestmark = pytest.mark.usefixtures("small")
pytest.importorskip("pycirclize", reason="figures need torch-legs[report]")
# Few of each: enough for every column.
TABLES = {
    "classification": ("legs-fixed", "gs-svm", "baseline"),
    "classification-labels": ("legs-rbf", "baseline"),
    "reduced-training": ("baseline",),
    "ensemble": ("gcn-legs-fixed",),
}
STUDIES = ("qm9", "zinc", "affinity", "structures")  # their tests are in files of their own


def files(folder):
    return {p.name for p in folder.iterdir() if p.is_file() and p.name != ".lock"}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, tmp_path):
    request = quick(tmp_path, datasets=("MUTAG",), models=TABLES[name])
    report = run(name, request)
    known = json.loads((tmp_path / "results.json").read_text())
    ran = {(row["method"], row["variant"]) for row in known["rows"]}
    assert {method for method, _ in ran} == set(TABLES[name])
    assert len(ran) == (4 if name == "reduced-training" else len(TABLES[name]))
    table = pd.read_csv(tmp_path / "results.csv")
    assert (table["status"] == "run").sum() == len(ran)
    page = (tmp_path / "results.md").read_text()
    assert "(quick)" in page.splitlines()[0]
    assert "**Quick: not the paper's protocol.**" in page
    for words in ("not run", "guess", "Seed: 0", "Versions: torch-legs", "`legs reproduce`"):
        assert words in page
    assert "nan" not in page.lower()
    assert len(report.table) == len(ran)
    assert {path.name for path in report.files} == files(tmp_path)
    if name.startswith("classification"):
        assert {"comparisons.csv", "parameters.png", "parameters.svg"} <= files(tmp_path)
        pairs = pd.read_csv(tmp_path / "comparisons.csv")
        assert set(pairs["legs"]) == {m for m in TABLES[name] if m.startswith("legs")}
    before = (tmp_path / "results.json").read_text()
    run(name, request)
    assert (tmp_path / "results.json").read_text() == before


def test_requests_add_up(tmp_path):
    """What another request has run stays in the page, whatever is asked for now."""
    run("classification", quick(tmp_path, datasets=("PTC",), models=("mp-legs-fcn",)))
    run("classification", quick(tmp_path, datasets=("MUTAG",), models=("baseline",)))
    table = pd.read_csv(tmp_path / "results.csv")
    ran = table[table["status"] == "run"]
    assert set(zip(ran["data"], ran["method"], strict=True)) == {
        ("PTC_MR", "mp-legs-fcn"),
        ("MUTAG", "baseline"),
    }
    assert table["data"].tolist() == sorted(table["data"], key=list(table["data"]).index)


def test_cells_of_one_experiment_serve_another(tmp_path):
    first = quick(tmp_path / "a", datasets=("MUTAG",), models=("legs-fcn",))
    run("classification", first)
    seen = []
    again = replace(first, folder=tmp_path / "b", reuse=(tmp_path / "a",))
    report = run("scales", again, seen.append)
    assert not seen
    assert report.table["data"].tolist() == ["before training", "MUTAG"]


def test_scales(tmp_path):
    for seed in (0, 1):
        request = quick(tmp_path, datasets=("MUTAG", "PTC"), seed=seed)
        report = run("scales", request)
    assert report.table["data"].tolist() == ["before training", "MUTAG", "PTC_MR"]
    known = json.loads((tmp_path / "results.json").read_text())
    assert sorted(row["variant"] for row in known["rows"]) == ["seed 0"] * 2 + ["seed 1"] * 2
    groups = scales.grouped(known["rows"])
    assert [len(rows) for rows in groups.values()] == [2, 2]
    assert {"results.md", "results.csv", "responses.png", "responses.svg"} <= files(tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert "Not run: DD, ENZYMES, NCI1" in page
    assert "![frequency responses](responses.svg)" in page


def test_enzymes(tmp_path, monkeypatch):
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))  # without Gao et al.'s numbers
    observed = tmp_path / "observed.csv"
    matrix = np.random.default_rng(0).random((CLASSES, CLASSES))
    pd.DataFrame(matrix).to_csv(observed)
    folder = tmp_path / "out"
    request = quick(folder, observed=observed)
    report = run("enzymes", request)
    assert set(report.table["method"]) == {"legs-fixed", "legs-fcn", "gcn", "all the same"}
    assert list(report.table.columns)[-1] == "observed"
    known = json.loads((folder / "results.json").read_text())
    for row in known["rows"]:
        for scaling in enzymes.SCALED:
            found = enzymes.network_preferences(row, scaling)
            assert found.shape == (5, CLASSES, CLASSES)
            one = row["exchange"][scaling][0]
            direct = preferences(np.array(one["distances"]), np.array(one["astray"]))
            np.testing.assert_array_equal(found[0], direct)
    # Fixed scattering is the same whatever a head is trained on; learned features are not.
    spread = {
        row["method"]: np.std(enzymes.network_preferences(row, "raw"), axis=0).max()
        for row in known["rows"]
    }
    assert spread["legs-fixed"] < 1e-9 < spread["gcn"]
    assert {"chords-observed.svg", "chords-gcn.png", "chords-gcn.svg"} <= files(folder)
    for method in ("legs-fixed", "legs-fcn"):  # ten graphs a class may all be told apart
        note = f"No chord diagram of {method}: no enzyme is astray."
        assert (f"chords-{method}.svg" in files(folder)) != (note in report.notes)
    before = (folder / "results.json").read_text()
    run("enzymes", request)
    assert (folder / "results.json").read_text() == before


def test_a_wrong_matrix_is_told_before_training(tmp_path):
    file = tmp_path / "observed.csv"
    file.write_text("1,2\n")
    with pytest.raises(ValueError, match="6 numbers are needed"):
        run("enzymes", quick(tmp_path / "out", observed=file))
    assert not (tmp_path / "out").exists()


def test_without_what_draws(tmp_path, monkeypatch):
    """Numbers do not depend on figures: one line says what is missing."""

    def missing(*given):
        raise pictures.NoPictures(pictures._ADVICE)

    monkeypatch.setattr(scales, "draw_responses", missing)
    report = run("scales", quick(tmp_path, datasets=("MUTAG",)))
    (note,) = [note for note in report.notes if "figure" in note]
    assert "pip install torch-legs[report]" in note
    assert "results.md" in files(tmp_path)


def test_options_that_say_nothing_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--observed is for enzymes"):
        run("scales", quick(tmp_path, observed=tmp_path))
    with pytest.raises(ValueError, match="not for enzymes"):
        run("enzymes", quick(tmp_path, shuffled=True))


def test_names():
    assert set(EXPERIMENTS) == {*TABLES, "dataset-stats", "tuning", "enzymes", "scales", *STUDIES}
    with pytest.raises(ValueError, match="did you mean 'enzymes'"):
        check_name("enzyme")
    with pytest.raises(ValueError, match="there are dataset-stats, tuning, classification, "):
        check_name("xyz")
