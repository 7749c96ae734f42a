import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test draws the same numbers wherever and in whatever order it runs."""
    torch.manual_seed(0)
