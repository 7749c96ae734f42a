from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from legs.data.errors import DataError
from legs.data.readers.tables import id_column, smiles_column
from legs.data.readers.targets import find_column

pytest.importorskip("rdkit")


def find(asked: str | None = None, **columns: list[Any]) -> str:
    return smiles_column(list(columns), pd.DataFrame(columns), asked)


@pytest.mark.parametrize(
    "name", ["smiles", "SMILES", "Smiles ", "canonical_smiles", "Isomeric SMILES", "smi"]
)
def test_found_by_name(name: str) -> None:
    assert find(**{"id": ["CCO"], name: ["?"], "y": ["1"]}) == name


def test_the_plain_name_goes_before_others() -> None:
    assert find(canonical_smiles=["C"], smiles=["C"], rdkit_smiles=["C"]) == "smiles"


def test_the_name_asked_for_goes_before_all() -> None:
    assert find("y", smiles=["C"], y=["C"]) == "y"


def test_found_by_content() -> None:
    label = ["C", "N", "C"]  # elements are SMILES as well, but shorter
    assert find(name=["a1", "b2", "x"], label=label, drug=["CCO", "c1ccccc1", ""]) == "drug"


def test_several_names_are_asked_about() -> None:
    with pytest.raises(DataError, match="which column holds the molecules: a_smiles, b_smiles"):
        find(a_smiles=["C"], b_smiles=["C"])


def test_nothing_like_smiles() -> None:
    with pytest.raises(DataError, match="no column looks like SMILES; there are: name, y"):
        find(name=["aspirin", "xylene"], y=["1", "2"])


def test_a_table_without_header_is_noticed() -> None:
    with pytest.raises(DataError, match="'CCO' is a SMILES string"):
        find(CCO=["CCC", "CCN"], **{"1": ["2", "3"]})


def test_ids_by_name() -> None:
    assert id_column(["smiles", "mol_id", "y"]) == "mol_id"
    assert id_column(["smiles", "y"]) is None
    assert id_column(["id", "name"], "name") == "name"
    assert id_column(["id", "name"], "") is None


def test_missing_columns_come_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match="no target column 'solubilty'; did you mean 'Solubility'"):
        find_column(["smiles", "Solubility"], "solubilty", "target column")
    with pytest.raises(DataError, match="no id column 'q'; There are: smiles"):
        find_column(["smiles"], "q", "id column")
    with pytest.raises(DataError, match="2 columns named 'y'"):
        find_column(["y", "y"], "y", "target column")
