"""Small stand-ins for every data set, and finished cells without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from legs.data.catalog.molecules import TARGETS as QM9_TARGETS
from legs.data.dataset import GraphDataset
from reproduction import plan
from reproduction.plan import Request, cells_of, document, experiment
from tests.training.made import graph, made_data

CLASSES = 6
# Rings with different chains: as many scaffolds as rings.
_RINGS = tuple(f"C1{atom}{'C' * size}1" for size in range(1, 9) for atom in "CNO")


def made_classes(name, features="structure", graphs=60):
    """Trees and rings of about six sizes: the class mostly follows from the size."""
    rng = np.random.default_rng(0)
    sizes = 5 + 2 * (np.arange(graphs) % CLASSES) + rng.integers(3, size=graphs)
    drawn = [graph(k % 2, int(size), rng) for k, size in enumerate(sizes)]
    data = GraphDataset.from_pyg(drawn, task="classification", feature_names=("degree", "noise"))
    names = tuple(str(k) for k in range(1, CLASSES + 1))
    y = torch.arange(graphs) % CLASSES
    return replace(data, y=y, class_names=names, name=name, info={"features": [features]})


def smiles_of(count):
    """So many small molecules."""
    return tuple(f"{'C' * (k // len(_RINGS) + 1)}{_RINGS[k % len(_RINGS)]}" for k in range(count))


def made_regression(name, features="structure", graphs=60):
    """Trees and rings; the targets follow from their size, with names as the set has them."""
    data = made_data("regression", graphs)
    size, noise = data.y[:, 0], torch.arange(graphs) % 7
    names = {"qm9": tuple(QM9_TARGETS), "zinc": ("qed", "MolWt"), "ki": ("pKi",)}
    names = names.get(name.partition("-")[0], ("gdt_ts",))
    y = torch.stack([size * (k + 1) + noise for k in range(len(names))], dim=1)
    groups = ()
    if names == ("gdt_ts",):
        groups = tuple(f"T{k}" for k in np.arange(graphs) % 6)
        y = y + 5 * (torch.arange(graphs) % 6)[:, None]
    return replace(
        data,
        y=y.float(),
        target_names=names,
        name=name,
        groups=groups,
        smiles=smiles_of(graphs) if name.startswith("ki") else (),
        info={"features": features.split("+")},
    )


def made_set(name, features="structure", on_error="raise"):
    """A stand-in for any data set of the experiments."""
    if name in document()["defaults"]["statistics"]["datasets"]:
        return made_classes(name, features)
    return made_regression(name, features)


@pytest.fixture
def small(monkeypatch):
    """Every data set is made up, and quick runs are over in seconds."""
    monkeypatch.setattr(plan, "find_set", made_set)
    # No processes.
    monkeypatch.setattr("reproduction.cell.os.cpu_count", lambda: 1)
    monkeypatch.setattr(
        "legs.training.cv.cross_validation.default_strategy", lambda *given, **more: "stacked"
    )
    for kind in ("accuracy", "losses"):
        quick = document()["defaults"][kind]["quick"]["protocol"]
        monkeypatch.setitem(quick, "max_epochs", 4)
    for spec in (document()["defaults"]["error"], document()["experiments"]["qm9"]):
        quick = spec["quick"]["protocol"]
        for name, value in {"max_epochs": 2, "patience": 2, "validate_every": 1}.items():
            monkeypatch.setitem(quick, name, value)


def quick(folder, **more):
    """A request for a quick run."""
    return Request(Path(folder), quick=True, command="legs reproduce", **more)


def cells(name, request=None):
    """The cells of an experiment."""
    request = request or Request(Path("x"))
    return cells_of(experiment(name, request.quick), request)


def row(cell, mean=70.0, scores=None, **more):
    """A finished cell, as if it had been run."""
    scores = scores or [mean - 2, mean + 2]
    known = {
        "experiment": "classification",
        "quick": False,
        "seed": 0,
        "command": "legs reproduce",
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
