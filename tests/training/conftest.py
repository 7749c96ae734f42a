"""Batches of one shape without a GPU."""

import pytest

from legs.training.stacked.replay import FilledBatches
from tests.training import filled


@pytest.fixture(autouse=True)
def gather(monkeypatch):
    kernel = FilledBatches.gather

    def choose(self, index, valid):
        return (kernel if index.is_cuda else filled.gather)(self, index, valid)

    monkeypatch.setattr(FilledBatches, "gather", choose)
