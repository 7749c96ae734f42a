from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from legs.data.features.atom_table import MoleculeArrays, read_molecules
from legs.data.features.molecule_binary import Tables, decodes

Chem = pytest.importorskip("rdkit.Chem")

SMILES = [
    *("C", "[H][H]", "[2H]C", "O=C=O", "C1CC12CC2", "C12C3C4C1C5C2C3C45", "CC[N]", "[U+6]"),
    *("[NH4+].[O-]S(=O)(=O)[O-].[Fe+2]", "c1ccc2c(c1)ccc1ccccc12", "[13CH3][C@@](F)(Cl)[Si](C)C"),
    *(r"F/C=C/C=C\F", "C[S@](=O)CC", "N[Pt@SP1](F)(Cl)Br"),
    *("[Co]->[Fe]", "[Cr]$[Cr]", "CC=[N+]=[N-]"),
]
UNUSUAL = ["[CH3:1]C", "*C", "C" * 300]  # decoded by none, so that rows come from both


def both(
    items: list[object], monkeypatch: pytest.MonkeyPatch, hydrogens: bool = False
) -> tuple[MoleculeArrays, MoleculeArrays]:
    decoded = read_molecules(items, hydrogens)
    with monkeypatch.context() as patch:
        patch.setattr("legs.data.features.atom_table.decodes", lambda: False)
        return decoded, read_molecules(items, hydrogens)


def assert_equal(one: MoleculeArrays, other: MoleculeArrays) -> None:
    for name, a, b in zip(one._fields, one, other, strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            assert a == b, name


@pytest.mark.parametrize("hydrogens", [False, True])
def test_decoded_molecules_equal_listed_ones(
    hydrogens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = [item for pair in zip(SMILES, UNUSUAL * 9, strict=False) for item in pair]
    decoded, listed = both([*mixed, "no molecule"], monkeypatch, hydrogens)
    assert not [reason for _, reason in decoded.bad[:-1]]
    assert_equal(decoded, listed)


def test_molecules_of_files_equal_listed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    peptide = Chem.MolFromSequence("ACDEFGHIK")  # its atoms know their residues
    named = Chem.MolFromMolBlock(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](F)Cl")))
    named.SetProp("_Name", "a name")
    assert_equal(*both([peptide, named], monkeypatch))


def test_this_rdkit_is_decoded() -> None:
    assert decodes()
    tables = Tables(binary=True)
    for smiles in [*SMILES, *UNUSUAL]:
        tables.add(Chem.MolFromSmiles(smiles))
    decoded = [count[3] for count in tables.counts]
    assert decoded == [True] * len(SMILES) + [False] * len(UNUSUAL)


def test_another_format_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legs.data.features.molecule_binary._COUNTS", 24)
    assert not decodes.__wrapped__()


def test_no_molecules_give_empty_arrays() -> None:
    read = read_molecules([])
    assert (read.atoms.shape, read.bonds.shape) == ((0, 8), (0, 5))


def test_the_molecules_of_tox21_equal_listed_ones(
    legs_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    file = legs_data / "moleculenet" / "tox21.csv"
    assert_equal(*both(pd.read_csv(file)["smiles"].tolist(), monkeypatch))
