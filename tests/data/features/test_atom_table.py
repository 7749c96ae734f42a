from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.features.atom_table import (
    COLUMNS,
    LONGEST_SMILES,
    read_molecules,
    select,
    too_large,
)

Chem = pytest.importorskip("rdkit.Chem")

SMILES = ["CCO", "c1ccccc1C#N", "not one", "C[C@H](N)C(=O)[O-].[Na+]", "", "F"]


def test_an_atom_is_described_by_its_surroundings() -> None:
    read = read_molecules(["C[C@H](N)C(=O)[O-]"])
    found = [dict(zip(COLUMNS, row, strict=True)) for row in read.atoms.tolist()]
    assert [atom["atomic_number"] for atom in found] == [6, 6, 7, 6, 8, 8]
    assert [atom["charge"] for atom in found] == [0, 0, 0, 0, 0, -1]
    assert [atom["hydrogens"] for atom in found] == [3, 1, 2, 0, 0, 0]
    assert [atom["degree"] for atom in found] == [4, 4, 3, 3, 1, 1]
    assert [atom["chiral"] for atom in found] == [0, 1, 0, 0, 0, 0]
    assert [atom["hybridization"] for atom in found] == [4, 4, 4, 3, 3, 3]


def test_numbers_of_hybridization_are_rdkits() -> None:
    kinds = Chem.HybridizationType
    assert [int(kinds.SP), int(kinds.SP2), int(kinds.SP3)] == [2, 3, 4]


def test_rings_are_measured_by_the_smallest() -> None:
    ring_size = COLUMNS.index("ring_size")
    # Cyclopropane fused to cyclohexane, with a methyl group.
    assert read_molecules(["CC1CCCC2CC12"]).atoms[:, ring_size].tolist() == [0, 6, 6, 6, 6, 3, 3, 3]


def test_hydrogens_become_atoms() -> None:
    read = read_molecules(["CO"], hydrogens=True)
    assert read.atoms[:, 0].tolist() == [6, 8, 1, 1, 1, 1]
    # The count of hydrogens does not depend on whether they are atoms.
    assert read.atoms[:2, 2].tolist() == read_molecules(["CO"]).atoms[:, 2].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("C1CC", "not a SMILES string: 'C1CC'"),
        ("C>>C", "not a SMILES string"),
        ("C\0O", "not a SMILES string"),
        ("C(C)(C)(C)(C)C", "valence for atom # 0 C, 5"),
        ("c1cccc1", "kekulize"),
        ("", "no SMILES"),
        ("  ", "no SMILES"),
        (None, "no molecule"),
        ("C" * (LONGEST_SMILES + 1), "20,001 characters"),
        ("\udce9", "RDKit cannot use this molecule"),
    ],
)
def test_what_is_no_molecule_gets_a_reason(item: str | None, reason: str) -> None:
    read = read_molecules(["C", item, "O"])
    assert read.position.tolist() == [0, 2]
    [(position, why)] = read.bad
    assert position == 1
    assert reason in why
    assert len(why) < 400


def test_an_empty_molecule_gets_a_reason() -> None:
    assert read_molecules([Chem.Mol()]).bad == [(0, "a molecule without atoms")]


def test_a_callers_molecule_stays_as_it_is() -> None:
    mol = Chem.MolFromSmiles("[H]OC", sanitize=False)
    read = read_molecules([mol])
    assert read.sizes.tolist() == [2]
    assert mol.GetNumAtoms() == 3


def test_rdkits_log_is_silent_meanwhile_and_back_afterwards(
    capfd: pytest.CaptureFixture[str],
) -> None:
    read_molecules(["C1CC"])
    assert capfd.readouterr().err == ""
    Chem.MolFromSmiles("C1CC")
    assert "C1CC" in capfd.readouterr().err


def test_selected_molecules_are_those_read_alone() -> None:
    chosen = select(read_molecules(SMILES), np.array([False, True, False, True]))
    alone = read_molecules([SMILES[1], SMILES[5]])
    for name in ("atoms", "sizes", "bonds", "bonds_of", "smiles"):
        np.testing.assert_array_equal(getattr(chosen, name), getattr(alone, name))
    assert chosen.position.tolist() == [1, 5]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("CNOclBr123456()[]=#@+-%.H*/\\é\0 ", max_size=12) | st.text(), max_size=4))
def test_nothing_raises(texts: list[str]) -> None:
    read = read_molecules(texts)
    assert len(read.position) + len(read.bad) == len(texts)
    assert read.sizes.sum() == len(read.atoms)
    assert read.bonds_of.sum() == len(read.bonds)


def test_large_molecules_that_are_read():
    glycines = "N" + "CC(=O)N" * 1000 + "CC(=O)O"
    disulfide = "NC(CS1)C(=O)" + "NCC(=O)" * 300 + "NC(CS1)C(=O)O"
    polystyrene = "CC(c1ccccc1)" * 1000
    assert too_large(hexagons(20, 40)) == ""
    for smiles in (glycines, disulfide, polystyrene, "C" * 19_000):
        fault = too_large(Chem.MolFromSmiles(smiles, sanitize=False))
        assert fault == "", (smiles[:40], fault)
    assert [len(glycines), *read_molecules([disulfide]).sizes.tolist()] == [7008, 1213]


def hexagons(rows: int, columns: int):
    """A flake of graphene."""
    mol = Chem.RWMol()
    for _ in range(rows * columns):
        mol.AddAtom(Chem.Atom(6))
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            if column + 1 < columns:
                mol.AddBond(here, here + 1, Chem.BondType.SINGLE)
            if row + 1 < rows and (row + column) % 2 == 0:
                mol.AddBond(here, here + columns, Chem.BondType.SINGLE)
    return mol


def test_molecules_too_large_for_a_search_of_rings():
    bipartite = Chem.RWMol()
    for _ in range(402):
        bipartite.AddAtom(Chem.Atom(0))
    for k in range(400):
        bipartite.AddBond(0, k + 2, Chem.BondType.SINGLE)
        bipartite.AddBond(1, k + 2, Chem.BondType.SINGLE)
    for items, why in (
        ([f"C1{'C' * 3999}1"], "a ring system of 4,000 bonds and 1 rings"),
        ([hexagons(40, 60)], "a ring system of 3,5.. bonds and 1,1.. rings"),
        ([bipartite], "an atom with 400 neighbours in a system of 399 rings"),
        ([chain(20_001)], "a molecule of 20,001 atoms"),
    ):
        read = read_molecules(["C", *items])
        assert read.position.tolist() == [0]
        assert read.bad[0][0] == 1 and re.match(why, read.bad[0][1]), read.bad


def chain(atoms: int):
    mol = Chem.RWMol()
    for k in range(atoms):
        mol.AddAtom(Chem.Atom(6))
        if k:
            mol.AddBond(k - 1, k, Chem.BondType.SINGLE)
    return mol
