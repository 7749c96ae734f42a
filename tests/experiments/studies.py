"""Small stand-ins for the sets of the regression studies, and protocols that take seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from legs.data.qm9 import TARGETS as QM9_TARGETS
from legs.experiments import affinity, qm9, regression_cells, structures, zinc
from legs.experiments.regression_cells import Protocol
from legs.experiments.zinc import METHODS as ZINC_METHODS
from tests.training.made import made_data

__all__ = ["ZINC_METHODS", "made_regression", "smiles_of", "tiny"]

TINY = Protocol(
    seeds=2, folds=3, epochs=2, patience=2, validate_every=1, batch_size=16, rates=(1e-2,)
)
# Rings with different chains: as many scaffolds as rings.
_RINGS = tuple(f"C1{atom}{'C' * size}1" for size in range(1, 9) for atom in "CNO")


def smiles_of(count):
    """So many small molecules."""
    found = [f"{'C' * (k // len(_RINGS) + 1)}{_RINGS[k % len(_RINGS)]}" for k in range(count)]
    return tuple(found)


def made_regression(name, features="structure", on_error="raise", graphs=60):
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


@pytest.fixture
def tiny(monkeypatch):
    """Every set is made up, and quick runs are over in seconds."""
    monkeypatch.setattr(regression_cells, "find_set", made_regression)
    for module in (qm9, zinc, affinity, structures):
        monkeypatch.setattr(module, "QUICK_PROTOCOL", TINY)
    monkeypatch.setattr(affinity, "QUICK_TREES", 5)
