import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Prepared data sets of the tests stay out of the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test draws the same numbers wherever and in whatever order it runs."""
    torch.manual_seed(0)


@pytest.fixture
def mutag(monkeypatch: pytest.MonkeyPatch):
    """MUTAG from ``$LEGS_DATA``, or from ``../shared/data`` beside the repository."""
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not (folder / "tu" / "MUTAG.zip").is_file():
        pytest.skip(f"no real data: set LEGS_DATA (looked in {folder})")
    monkeypatch.setenv("LEGS_DATA", str(folder))
    from legs.data import load

    return load("MUTAG", features="structure")
