from __future__ import annotations

import numpy as np
import pytest
import torch

from legs.data.features.atom_table import COLUMNS, ELEMENTS, atom_blocks, read_molecules

Chem = pytest.importorskip("rdkit.Chem")

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def test_atom_types_are_one_hot_with_fixed_columns() -> None:
    x, names = atom_blocks(read_molecules(["CNOS", "FC(Cl)(Br)I", "P", "[Na+].[Cl-]", "*B"]).atoms)[
        "atoms"
    ]()
    assert names == ("C", "N", "O", "S", "F", "Cl", "Br", "I", "P", "other")
    assert x.argmax(1).tolist() == [0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 9, 5, 9, 9]
    assert torch.equal(x.sum(1), torch.ones(len(x)))
    assert x.dtype == torch.float32


def test_hydrogens_get_a_column_where_they_are_nodes() -> None:
    x, names = atom_blocks(read_molecules(["CO"], hydrogens=True).atoms, hydrogens=True)["atoms"]()
    assert names == ("H", *ELEMENTS, "other")
    assert x.argmax(1).tolist() == [1, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("block", ["atoms", "qm9", "chem"])
def test_columns_do_not_depend_on_the_molecules(block: str) -> None:
    one = atom_blocks(read_molecules(["C"]).atoms)[block]()
    other = atom_blocks(read_molecules(["[U]", "c1ccccc1[Si](C)(C)C"]).atoms)[block]()
    assert one.names == other.names
    assert one.x.shape[1] == other.x.shape[1] == len(one.names) == len(set(one.names))


@pytest.mark.parametrize("smiles", [ASPIRIN, "C#N", "c1cc[nH]c1", "FC(F)=C=O", "[H][H]", "N"])
def test_qm9_features_follow_pygs_definition(smiles: str) -> None:
    """The eleven columns, from RDKit's atoms and the hydrogens among their neighbours."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    kinds = Chem.HybridizationType
    expected = [
        [atom.GetSymbol() == symbol for symbol in ("H", "C", "N", "O", "F")]
        + [atom.GetAtomicNum(), atom.GetIsAromatic()]
        + [atom.GetHybridization() == kind for kind in (kinds.SP, kinds.SP2, kinds.SP3)]
        + [sum(other.GetAtomicNum() == 1 for other in atom.GetNeighbors())]
        for atom in mol.GetAtoms()
    ]
    x, names = atom_blocks(read_molecules([smiles], hydrogens=True).atoms)["qm9"]()
    assert x.tolist() == np.array(expected, dtype=float).tolist()
    assert names[5:] == ("atomic_number", "aromatic", "sp", "sp2", "sp3", "hydrogens")


def test_methane_in_qm9() -> None:
    x, _ = atom_blocks(read_molecules(["C"], hydrogens=True).atoms)["qm9"]()
    assert x[0].tolist() == [0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 4]
    assert x[1].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_chem_features_are_finite_for_every_element() -> None:
    table = np.zeros((121, len(COLUMNS)), dtype=np.int16)
    table[:, 0] = np.arange(121)  # with some that do not exist
    assert atom_blocks(table)["chem"]().x.isfinite().all()


def test_chem_features_of_an_atom() -> None:
    x, names = atom_blocks(read_molecules(["C[C@H]1CCCC[NH2+]1"]).atoms)["chem"]()
    nitrogen = dict(zip(names, x[6].tolist(), strict=True))
    assert nitrogen["N"] == nitrogen["charge"] == nitrogen["ring"] == nitrogen["sp3"] == 1
    assert nitrogen["degree"] == 4
    assert nitrogen["hydrogens"] == 2
    assert nitrogen["ring_size"] == 1
    assert nitrogen["mass"] == pytest.approx(0.14007)
    assert nitrogen["electronegativity"] == pytest.approx(3.04)
    assert nitrogen["outer_electrons"] == pytest.approx(5 / 8)
    assert x[:, names.index("stereo")].tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_electronegativities_stand_at_their_elements() -> None:
    known = {
        "He": 0,
        "F": 3.98,
        "K": 0.82,
        "Br": 2.96,
        "Xe": 2.6,
        "Cs": 0.79,
        "Au": 2.54,
        "U": 1.38,
    }
    x, names = atom_blocks(read_molecules([f"[{symbol}]" for symbol in known]).atoms)["chem"]()
    assert x[:, names.index("electronegativity")].tolist() == pytest.approx(list(known.values()))


def test_chem_features_do_not_depend_on_the_order_of_atoms() -> None:
    mol = Chem.MolFromSmiles("C[C@H](N)C(=O)Oc1ccccc1")
    order = np.random.default_rng(0).permutation(mol.GetNumAtoms()).tolist()
    moved = Chem.RenumberAtoms(mol, order)
    x, y = (atom_blocks(read_molecules([m]).atoms)["chem"]().x for m in (mol, moved))
    assert torch.equal(x[order], y)


def test_blocks_are_computed_when_called() -> None:
    blocks = atom_blocks(np.zeros((0, len(COLUMNS)), dtype=np.int16))
    assert set(blocks) == {"atoms", "qm9", "chem"}
    assert blocks["chem"]().x.shape[0] == 0
