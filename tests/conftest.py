import os

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
