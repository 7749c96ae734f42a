"""A small stand-in for every data set, and an experiment's results without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from legs.data.dataset import GraphDataset
from legs.experiments import cells, enzymes
from legs.experiments.request import Request
from tests.training.made import graph

CLASSES = 6


def made_set(name, features="structure", graphs=60):
    """Trees and rings of about six sizes: the class mostly follows from the size."""
    rng = np.random.default_rng(0)
    sizes = 5 + 2 * (np.arange(graphs) % CLASSES) + rng.integers(3, size=graphs)
    found = [graph(k % 2, int(size), rng) for k, size in enumerate(sizes)]
    data = GraphDataset.from_pyg(found, task="classification", feature_names=("degree", "noise"))
    names = tuple(str(k) for k in range(1, CLASSES + 1))
    y = torch.arange(graphs) % CLASSES
    return replace(data, y=y, class_names=names, name=name, info={"features": [features]})


@pytest.fixture
def small(monkeypatch):
    """Every set is the made one, and quick runs are over in a second."""
    monkeypatch.setattr(cells, "load", made_set)
    monkeypatch.setattr(cells, "QUICK_EPOCHS", 4)
    monkeypatch.setattr(enzymes, "QUICK_GRAPHS", 60)


def quick(folder, **more):
    """A request for a quick run in this process."""
    return Request(Path(folder), quick=True, workers=1, command="legs reproduce", **more)


def row(cell, mean=70.0, scores=None, **more):
    """A finished cell, as if it had been run."""
    scores = scores or [mean - 2, mean + 2]
    known = {
        "cell": cell.key,
        "data": cell.data,
        "method": cell.method,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "mean": float(np.mean(scores)),
        "std": float(np.std(scores)),
        "scores": scores,
        "guess": [50.0] * len(scores),
        "graphs": 60,
        "features": ["a"],
        "test_fraction": 1 / 9,
        "parameters": 1234,
        "models": cell.models,
        "seconds": 12.5,
        "chosen": ["lr=0.01"] * len(scores),
        "way": "stacked",
        "fingerprint": "f",
        "settings": cell.settings(),
        "device": "CPU, 2 cores",
        "machine": "M",
        "versions": {"torch": "2"},
        "date": "2030-01-02T03:04:05+00:00",
        "commit": "abc",
    }
    return {**known, **more}
