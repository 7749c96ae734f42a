from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legs.data.atom_table import COLUMNS, LONGEST_SMILES, concatenate, read_molecules, select

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
    assert read.kept.tolist() == [0, 2]
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


def test_parts_put_together_are_the_whole() -> None:
    whole = read_molecules(SMILES, hydrogens=True)
    parts = [SMILES[:1], SMILES[1:4], SMILES[4:]]
    joined = concatenate(
        [read_molecules(p, hydrogens=True) for p in parts], [len(p) for p in parts]
    )
    for one, other in zip(whole, joined, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [row for row, _ in joined.bad] == [2, 4]


def test_selected_molecules_are_those_read_alone() -> None:
    chosen = select(read_molecules(SMILES), np.array([False, True, False, True]))
    alone = read_molecules([SMILES[1], SMILES[5]])
    for name in ("atoms", "sizes", "bonds", "orders", "bonds_of", "smiles"):
        np.testing.assert_array_equal(getattr(chosen, name), getattr(alone, name))
    assert chosen.kept.tolist() == [1, 5]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("CNOclBr123456()[]=#@+-%.H*/\\é\0 ", max_size=12) | st.text(), max_size=4))
def test_nothing_raises(texts: list[str]) -> None:
    read = read_molecules(texts)
    assert len(read.kept) + len(read.bad) == len(texts)
    assert read.sizes.sum() == len(read.atoms)
    assert read.bonds_of.sum() == len(read.bonds)
