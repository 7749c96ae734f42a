from __future__ import annotations

from typing import Any

import pytest
import torch

from legs.data.errors import BadRows, DataError
from legs.data.features.blocks import assemble
from legs.data.readers.base import RawGraphs
from legs.data.readers.molecules import from_smiles

Chem = pytest.importorskip("rdkit.Chem")

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].[Cl-]", "C1CC2CC1CC2", "C#N"]


def adjacency(raw: RawGraphs, graph: int, weight: torch.Tensor | None = None) -> torch.Tensor:
    start, end = raw.ptr[graph : graph + 2].tolist()
    source, target = raw.edge_index
    inside = (source >= start) & (source < end)
    matrix = torch.zeros(end - start, end - start)
    values = torch.ones(len(source)) if weight is None else weight
    index = (target[inside] - start, source[inside] - start)
    return matrix.index_put_(index, values[inside], accumulate=True)


@pytest.mark.parametrize("hydrogens", [False, True])
@pytest.mark.parametrize("bond_weights", [False, True])
def test_bonds_are_edges_in_both_directions(hydrogens: bool, bond_weights: bool) -> None:
    raw = from_smiles(SMILES, hydrogens=hydrogens, bond_weights=bond_weights)
    assert raw.edge_index.max() < raw.ptr[-1]
    for graph, smiles in enumerate(SMILES):
        mol = Chem.MolFromSmiles(smiles)
        mol = Chem.AddHs(mol) if hydrogens else mol
        expected = Chem.GetAdjacencyMatrix(mol, useBO=bond_weights)
        assert adjacency(raw, graph, raw.edge_weight).tolist() == expected.tolist()
    assert (raw.edge_weight is None) != bond_weights


def test_fields_say_what_is_there() -> None:
    raw = from_smiles(["CO", "C"], ids=["a", "b"], y=torch.tensor([[1.0], [2.0]]), name="two")
    assert raw.ptr.dtype == raw.edge_index.dtype == torch.int64
    assert raw.ptr.tolist() == [0, 2, 3]
    assert (raw.ids, raw.smiles, raw.name) == (("a", "b"), ("CO", "C"), "two")
    assert raw.default_features == ("chem",)
    assert raw.info == {"hydrogens": False, "bond_weights": False}


def test_bad_ones_are_dropped_with_their_rows() -> None:
    bad = BadRows("skip")
    raw = from_smiles(
        ["C", "xx", "", None, "CO"],
        ids=["a", "b", "c", "d", "e"],
        y=torch.arange(5),
        bad=bad,
        where=lambda i: f"row {i + 2}",
    )
    assert [where for where, _ in bad] == ["row 3", "row 4", "row 5"]
    assert raw.ids == ("a", "e")
    assert raw.y is not None
    assert raw.y.tolist() == [0, 4]
    assert raw.ptr.tolist() == [0, 1, 3]


def test_the_first_bad_one_raises_by_default() -> None:
    with pytest.raises(DataError, match=r"molecule 2: not a SMILES string: 'xx'"):
        from_smiles(["C", "xx"])
    with pytest.raises(DataError, match=r"molecule 1: no molecule"):
        from_smiles([None])


@pytest.mark.parametrize("known", [{"ids": ["a"]}, {"y": torch.zeros(3)}])
def test_every_molecule_needs_its_row(known: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="2 molecules, but"):
        from_smiles(["C", "O"], **known)


def test_no_molecules_are_no_graphs() -> None:
    raw = from_smiles(["xx"], bad=BadRows("skip"))
    assert raw.ptr.tolist() == [0]
    assert raw.edge_index.shape == (2, 0)
    assert raw.blocks["chem"]().x.shape[0] == 0


@pytest.mark.parametrize("hydrogens", [False, True])
def test_a_molecule_gives_the_same_graph_as_its_smiles(hydrogens: bool) -> None:
    mols = [Chem.AddHs(Chem.MolFromSmiles(smiles)) for smiles in SMILES]
    one, other = from_smiles(mols, hydrogens=hydrogens), from_smiles(SMILES, hydrogens=hydrogens)
    assert torch.equal(one.ptr, other.ptr)
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.blocks["chem"]().x, other.blocks["chem"]().x)
    assert one.smiles == tuple(Chem.CanonSmiles(smiles) for smiles in SMILES)


def test_a_data_set_can_be_assembled() -> None:
    data = assemble(from_smiles(SMILES), "chem+structure")
    assert len(data) == 5
    assert data.x.isfinite().all()
    assert data.feature_names[-2:] == ("eccentricity", "clustering")
