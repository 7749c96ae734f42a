"""What a name or a path stands for."""

from __future__ import annotations

import pytest

from legs.data.catalog import specs as origins
from legs.data.catalog import tu
from legs.data.errors import DataError
from legs.data.readers import graph_files, structures, tables
from tests.data.tu_sets import TWO_GRAPHS, write_folder, write_zip


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv("LEGS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.parquet", "a.smi", "a.sdf", "A.CSV", "a.csv.gz", "a.sdf.gz"]
)
def test_tables(tmp_path, name):
    (tmp_path / name).write_text("smiles,y\nC,1\n")
    assert origins.resolve(tmp_path / name).reader is tables.READER
    assert origins.resolve(name).files() == [type(tmp_path)(name)]


def test_tudataset_layout(tmp_path):
    for path in (
        write_folder(tmp_path / "flat", TWO_GRAPHS),
        write_folder(tmp_path / "deep" / "raw", TWO_GRAPHS).parent,
        write_zip(tmp_path / "SET.zip", TWO_GRAPHS),
    ):
        assert origins.resolve(path).reader.read is tu.read_tu


def test_folders_of_files(tmp_path):
    for name, reader in [("a.pdb", structures), ("b.CIF", structures), ("c.gml", graph_files)]:
        folder = tmp_path / name[0]
        folder.mkdir()
        (folder / name).write_text("")
        assert origins.resolve(folder).reader is reader.READER


def test_names_come_before_files_and_files_before_other_names(tmp_path):
    write_folder(tmp_path / "MUTAG", TWO_GRAPHS)
    write_folder(tmp_path / "AIDS", TWO_GRAPHS)
    assert origins.resolve("MUTAG").files() is None
    assert origins.resolve("./MUTAG").files() == [type(tmp_path)("MUTAG")]
    assert origins.resolve(type(tmp_path)("MUTAG")).files() == [type(tmp_path)("MUTAG")]
    assert origins.resolve("AIDS").files() == [type(tmp_path)("AIDS")]
    assert origins.resolve("BZR").name == "BZR"


@pytest.mark.parametrize("path", ["none.csv", "./NCI1", "a/b", "none.zip"])
def test_what_is_not_there(path):
    with pytest.raises(DataError, match="no such file or folder"):
        origins.resolve(path)


def test_what_cannot_be_told(tmp_path):
    (tmp_path / "movie.mp4").write_text("")
    with pytest.raises(DataError, match=r"movie.mp4: cannot tell what this is; .*\.csv"):
        origins.resolve("movie.mp4")


def test_options_that_nobody_heeds_are_an_error(tmp_path):
    source = origins.resolve(write_zip(tmp_path / "SET.zip", TWO_GRAPHS))
    assert source.take({"directed": "symmetrize", "target": "x"}) == {"directed": "symmetrize"}
    with pytest.raises(DataError, match="smiles_column= does not apply to SET"):
        source.take({"smiles_column": "x"})
