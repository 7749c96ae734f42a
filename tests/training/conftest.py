"""Where the tests find real data."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def mutag(monkeypatch):
    """MUTAG from ``$LEGS_DATA``, or from ``../shared/data`` beside the repository."""
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not (folder / "tu" / "MUTAG.zip").is_file():
        pytest.skip(f"no real data: set LEGS_DATA (looked in {folder})")
    monkeypatch.setenv("LEGS_DATA", str(folder))
    from legs.data import load

    return load("MUTAG")
