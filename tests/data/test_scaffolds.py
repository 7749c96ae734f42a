"""Splits of molecules by scaffold."""

from __future__ import annotations

import numpy as np
import pytest

from legs.data.errors import DataError
from legs.data.splits import scaffold_folds, scaffold_split, scaffolds

pytest.importorskip("rdkit")

RINGS = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccoc1", "C1CC1", "C1CCNC1", "c1ccsc1", "C1COC1"]
TAILS = ["C", "CC", "O", "N", "CCO", "F", "Cl", "Br"]


@pytest.fixture
def smiles() -> list[str]:
    """Ring i with 8 - i of the tails, shuffled."""
    listed = [tail + ring for i, ring in enumerate(RINGS) for tail in TAILS[i:]]
    return [listed[i] for i in np.random.default_rng(0).permutation(len(listed))]


def test_scaffolds_are_ring_systems_without_tails() -> None:
    assert scaffolds(["CCc1ccccc1", "OC1CCCCC1", "CCO", "C[C@H]1C[C@@H]1F"]) == [
        "c1ccccc1",
        "C1CCCCC1",
        "",
        "C1CC1",
    ]
    with pytest.raises(DataError, match="molecule 1: not a SMILES string: 'C1CC'"):
        scaffolds(["C", "C1CC"])


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_no_scaffold_is_in_two_parts(smiles: list[str], seed: int | None) -> None:
    split = scaffold_split(smiles, (0.6, 0.2, 0.2), seed)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(smiles)))
    held = [set(scaffolds([smiles[i] for i in part])) for part in split]
    assert all(held)
    assert sum(map(len, held)) == len(RINGS)
    assert all(map(np.array_equal, split, scaffold_split(smiles, (0.6, 0.2, 0.2), seed)))


def test_without_a_seed_scaffolds_come_by_falling_size(smiles: list[str]) -> None:
    split = scaffold_split(smiles, (0.6, 0.2, 0.2))
    held = [{RINGS.index(s) for s in scaffolds([smiles[i] for i in part])} for part in split]
    # 8, 7, 6, … molecules into 20, 8 and the rest: each into the first part it fits in.
    assert held == [{0, 1, 3}, {2, 6}, {4, 5, 7}]


def test_seeds_change_the_small_scaffolds_only(smiles: list[str]) -> None:
    many = smiles + [f"C1CCCCCC{'C' * n}1" for n in range(1, 30)]
    trains = [set(scaffold_split(many, seed=seed).train.tolist()) for seed in range(6)]
    assert len({tuple(sorted(train)) for train in trains}) > 1
    largest = {i for i, s in enumerate(scaffolds(many)) if s == RINGS[0]}
    assert all(largest <= train for train in trains)


def test_one_scaffold_cannot_be_split() -> None:
    with pytest.raises(DataError, match="part is empty: 20 molecules have only 1 scaffolds"):
        scaffold_split(["c1ccccc1" + "C" * n for n in range(20)])


def test_every_part_has_every_class_in_proportion() -> None:
    # Each scaffold has one class; those of class 1 are the first of the file.
    rings = [f"C1{'C' * n}1" for n in range(2, 42)]
    smiles = [tail + ring for ring in rings for tail in TAILS]
    y = np.repeat(np.arange(len(rings)) < 10, len(TAILS)).astype(int)
    tests = set()
    for seed in range(4):
        split = scaffold_split(smiles, seed=seed, y=y)
        assert [len(part) for part in split] == [256, 32, 32]
        assert [y[part].mean() for part in split] == [0.25, 0.25, 0.25]
        assert sum(len({*scaffolds([smiles[i] for i in part])}) for part in split) == len(rings)
        tests.add(tuple(split.test))
    assert len(tests) > 1
    folds = scaffold_folds(smiles, 5, y=y)
    assert [y[fold].sum() for fold in folds] == [16] * 5
    assert sum(len({*scaffolds([smiles[i] for i in fold])}) for fold in folds) == len(rings)


def test_a_part_of_one_class_is_an_error(smiles: list[str]) -> None:
    one = ["odd" if text == "Cc1ccccc1" else "usual" for text in smiles]
    with pytest.raises(DataError, match=r"the validation part has one class.* usual.*another seed"):
        scaffold_split(smiles, (0.6, 0.2, 0.2), y=one)
    with pytest.raises(DataError, match=r"fold . of 3 has one class only, usual"):
        scaffold_folds(smiles, 3, y=one)
    with pytest.raises(DataError, match="only 8 scaffolds, fewer than the 9 parts"):
        scaffold_folds(smiles, 9, y=one)
