"""Where the tests find real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def legs_data() -> Path:
    """The folder of real data: ``$LEGS_DATA``, or ``../shared/data`` beside the repository."""
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: set LEGS_DATA (looked in {folder})")
    return folder
