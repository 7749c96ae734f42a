"""Runs of every kind, made once, and a browser to look at their pages."""

from __future__ import annotations

import csv
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legs.cli import main
from legs.explain import explain_folder
from legs.report.page import write_page
from legs.training import CVOptions, TrainingOptions, cross_validate, fit
from legs.training.cv.results import write_results
from legs.training.shown import write_cv_shown
from tests.backends import prefer
from tests.cli.molecules import rows
from tests.training.made import made_data, made_split

# Names that a user's file may hold, and a page must show as they are.
SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = '<img src="x" onerror="window.hacked = 2">'
SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
QUICK = TrainingOptions(max_epochs=6, validate_every=2, batch_size=16, lr=3e-3)


def page_of(folder: Path) -> Path:
    """Makes the page of a run, as ``legs report`` does."""
    # For a picture a reader waits longer than a test.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("legs.explain.runs.QUALITY", {"draws": 1, "tolerance": 0.1, "most": 60})
        explain_folder(folder)
    return write_page(folder)


@pytest.fixture(scope="session")
def classes_run(tmp_path_factory) -> Path:
    """A LEGS model of molecules whose file, classes and ids hold HTML."""
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    folder = tmp_path_factory.mktemp("classes")
    data = folder / "a<b>&c.csv"
    with data.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "smiles", "kind"])
        for row in rows(80):
            kind = SCRIPT if row["kind"] == "alcohol" else IMAGE
            writer.writerow([f"{row['name']} {IMAGE}", row["smiles"], kind])
    run = folder / "run"
    words = ["train", str(data), "--target", "kind", "--id-column", "name", "-o", str(run)]
    assert main([*words, "--epochs", "8", "--model", "legs-fcn"]) == 0
    return run


@pytest.fixture(scope="session")
def numbers_run(tmp_path_factory) -> Path:
    """A LEGS model of three numbers, one of which is missing here and there."""
    folder = tmp_path_factory.mktemp("numbers")
    data = made_data("regression")
    data.y[::7, 0] = np.nan
    fit(data, "legs-fcn", made_split(), QUICK, directory=folder)
    return folder


@pytest.fixture(scope="session")
def cv_run(tmp_path_factory) -> Path:
    """Two methods by cross-validation."""
    folder = tmp_path_factory.mktemp("cv")
    data = replace(made_data(), name=f"MUTAG {IMAGE}")
    options = CVOptions(folds=3, rotations=1, training=QUICK)
    methods = ["legs-fcn", "baseline"]
    result = cross_validate(data, methods, options, directory=folder, strategy="stacked")
    write_results(result, folder, command="legs cv MUTAG")
    write_cv_shown(folder, result)
    return folder


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory) -> Path:
    """The demonstration on a few of its molecules."""
    pytest.importorskip("rdkit", reason="the demo reads the compounds inside RDKit's package")
    folder = tmp_path_factory.mktemp("demo") / "demo"
    with prefer("reference"):  # to compile them takes longer than to train
        assert main(["demo", "--limit", "100", "-o", str(folder)]) == 0
    return folder


KINDS = ("classes", "numbers", "cv", "demo")


@pytest.fixture(scope="session")
def pages(request) -> dict[str, Path]:
    """Pages of all runs, made when first asked for."""

    class Made(dict[str, Path]):
        def __missing__(self, kind: str) -> Path:
            self[kind] = page_of(request.getfixturevalue(f"{kind}_run"))
            return self[kind]

    return Made()


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    place = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if place is None:
        pytest.skip("no Chromium found: apt-get install chromium, or set CHROMIUM")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield started
        started.close()
