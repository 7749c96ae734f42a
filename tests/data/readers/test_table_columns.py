from __future__ import annotations

import pytest

from legs.data.errors import DataError
from legs.data.readers.tables import id_column, smiles_column
from legs.data.readers.targets import find_column


def find(*columns: str, asked: str | None = None) -> str:
    return smiles_column(columns, asked)


@pytest.mark.parametrize(
    "name", ["smiles", "SMILES", "Smiles ", "canonical_smiles", "Isomeric SMILES", "smi"]
)
def test_found_by_name(name: str) -> None:
    assert find("id", name, "y") == name


def test_the_plain_name_goes_before_others() -> None:
    assert find("canonical_smiles", "smiles", "rdkit_smiles") == "smiles"


def test_the_name_asked_for_goes_before_all() -> None:
    assert find("smiles", "y", asked="y") == "y"


def test_found_by_another_usual_name() -> None:
    assert find("name", "label", "Drug") == "Drug"
    assert find("mol", "smiles") == "smiles"


def test_several_names_are_asked_about() -> None:
    with pytest.raises(DataError, match="which column holds the molecules: a_smiles, b_smiles"):
        find("a_smiles", "b_smiles")


def test_nothing_like_smiles() -> None:
    with pytest.raises(DataError, match="no column is named like SMILES; there are: name, y"):
        find("name", "y")


def test_a_table_without_header_is_noticed() -> None:
    with pytest.raises(DataError, match=r"there are: CCO, 1.* put a line of names above"):
        find("CCO", "1")


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
