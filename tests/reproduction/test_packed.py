"""Packed sets hold the same numbers, serve without RDKit, and tell damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import packed
from benchmarks.packed import find_set, pack, unpack
from legs.data.errors import DataError
from legs.data.splits import scaffold_split
from legs.training.fit import fingerprint
from tests.reproduction.made import cells, made_regression


@pytest.mark.parametrize("name", ["qm9", "rna-puzzles"])
def test_the_same_numbers(name, tmp_path):
    data = made_regression(name)
    found = unpack(pack(data, tmp_path / "a" / "set.npz"))
    assert fingerprint(found) == fingerprint(data)
    for field in ("x", "ptr", "rowptr", "col", "y"):
        assert torch.equal(getattr(found, field), getattr(data, field))
        assert getattr(found, field).dtype == getattr(data, field).dtype
    assert (found.groups, found.target_names, found.name) == (
        data.groups,
        data.target_names,
        data.name,
    )


def test_found_in_the_data_folder(tmp_path, monkeypatch):
    """Without RDKit and the raw files: also the splits by scaffold."""
    pytest.importorskip("rdkit", reason="scaffolds need torch-legs[chem]")
    data = made_regression("ki-p00918", "atoms")
    pack(data, tmp_path / "packed" / "ki-p00918.npz", scaffold_seeds=(0, 1, 2, 3))
    monkeypatch.setenv("LEGS_DATA", str(tmp_path))
    monkeypatch.setattr(packed, "load", None)
    cell = next(cell for cell in cells("affinity") if cell.splitting == "scaffold")
    found = cell.load()
    assert not found.smiles
    for seed, split in enumerate(cell.splits(found)):
        for mine, theirs in zip(split, scaffold_split(data.smiles, seed=seed), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(DataError, match=r"has the node features atoms, not structure"):
        find_set("ki-p00918", "structure")


def test_damage_is_told(tmp_path):
    path = pack(made_regression("qm9"), tmp_path / "set.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a packed data set, or a damaged one"):
        unpack(path)
    with np.load(pack(made_regression("qm9"), path)) as file:
        arrays = dict(file)
    arrays["y"][0, 0] += 1
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="does not hold the numbers that were packed"):
        unpack(path)


def test_what_cannot_be_packed(tmp_path):
    data = replace(made_regression("qm9"), y=None)
    with pytest.raises(DataError, match="only sets with targets"):
        pack(data, tmp_path / "set.npz")
