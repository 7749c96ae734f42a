from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legs.data.errors import BadRows, DataError, OnError
from legs.data.readers.base import RawGraphs
from legs.data.readers.tables import iter_table, read_table

Chem = pytest.importorskip("rdkit.Chem")

MOLECULES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "C[C@H](N)C(=O)O", "C#N"]
TABLE = "id,smiles,size,kind\n" + "".join(
    f"m{i},{smiles},{i}.5,{'ab'[i % 2]}\n" for i, smiles in enumerate(MOLECULES)
)


def read(folder: Path, content: str | bytes, name: str = "table.csv", **options: Any) -> RawGraphs:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, **options)


def sdf() -> bytes:
    text = io.StringIO()
    writer = Chem.SDWriter(text)
    for i, smiles in enumerate(MOLECULES):
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
        mol.SetProp("_Name", f"m{i}")
        mol.SetProp("size", f"{i}.5")
        writer.write(mol)
    writer.close()
    return text.getvalue().encode()


def parquet(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


FILES: dict[str, bytes] = {
    "t.csv": TABLE.encode(),
    "t.tsv": TABLE.replace(",", "\t").encode(),
    "t.txt": TABLE.replace(",", ";").encode(),
    "t.csv.gz": gzip.compress(TABLE.encode()),
    "t.parquet": parquet(pd.read_csv(io.StringIO(TABLE))),
    "t.sdf": sdf(),
    "t.sdf.gz": gzip.compress(sdf()),
}


@pytest.mark.parametrize("name", list(FILES))
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    raw = read(tmp_path, FILES[name], name, target="size", keep_salts=True)
    assert (raw.task, raw.target_names, raw.name) == ("regression", ("size",), "t")
    assert raw.y is not None
    assert raw.y.tolist() == [[0.5], [1.5], [2.5], [3.5], [4.5]]
    assert raw.ids == ("m0", "m1", "m2", "m3", "m4")
    assert [Chem.CanonSmiles(s) for s in raw.smiles] == [Chem.CanonSmiles(s) for s in MOLECULES]
    assert raw.ptr.tolist() == [0, 3, 10, 15, 21, 23]
    assert raw.default_features == ("chem",)


@pytest.mark.parametrize("name", ["t.smi", "t.txt", "t.smi.gz"])
@pytest.mark.parametrize("header", ["", "smiles zinc_id\n"])
def test_lines_of_smiles(tmp_path: Path, name: str, header: str) -> None:
    content = (header + "CCO ethyl alcohol\n\nC\nCC ethane\n").encode()
    raw = read(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    third = "4" if header else "3"
    assert raw.ids == ("ethyl alcohol", third, "ethane")
    assert raw.y is None and raw.task is None


def test_classes(tmp_path: Path) -> None:
    raw = read(tmp_path, TABLE, target="kind")
    assert raw.y is not None
    assert (raw.task, raw.class_names, raw.y.tolist()) == (
        "classification",
        ("a", "b"),
        [0, 1, 0, 1, 0],
    )


def test_several_targets_and_gaps(tmp_path: Path) -> None:
    table = "smiles,a,b\nC,1,0.5\nCC,2,\nCCC,NA,nan\n"
    bad = BadRows("skip")
    raw = read(tmp_path, table, target=["b", "a"], bad=bad)
    assert raw.y is not None
    np.testing.assert_array_equal(raw.y, [[0.5, 1], [np.nan, 2]])
    assert list(bad) == [("table.csv line 4", "no value in the target column 'b'")]


def test_no_targets_on_request(tmp_path: Path) -> None:
    assert read(tmp_path, TABLE, target=[]).y is None


def test_hydrogens(tmp_path: Path) -> None:
    assert read(tmp_path, TABLE, target="size", hydrogens=True).ptr[1] == 9
    assert read(tmp_path, FILES["t.sdf"], "t.sdf", hydrogens=True).ptr[1] == 9


def test_a_limit_counts_rows(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.sdf"):
        assert len(read(tmp_path, FILES[name], name, target="size", limit=2).ids) == 2


def test_bad_rows_are_named_by_their_lines(tmp_path: Path) -> None:
    table = 'smiles,y\nC,1.5\nxx,2.5\nCC\n,1\nCCC,nan\n\nCCCC,5.5,9\nO,inf\n"N",7.5\n'
    bad = BadRows("skip")
    raw = read(tmp_path, table, bad=bad)
    assert raw.ids == ("2", "10")
    assert sorted(where for where, _ in bad) == [f"table.csv line {i}" for i in (3, 4, 5, 6, 8, 9)]
    reasons = dict(bad)
    assert "not a SMILES string: 'xx'" in reasons["table.csv line 3"]
    assert "fields" in reasons["table.csv line 4"]
    assert "no SMILES" in reasons["table.csv line 5"]
    assert "no value" in reasons["table.csv line 6"]
    assert "finite" in reasons["table.csv line 9"]


def test_the_first_bad_row_raises_by_default(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^table.csv line 3: not a SMILES string: 'xx'"):
        read(tmp_path, "smiles,y\nC,1.5\nxx,2.5\n")


def test_a_class_of_bad_rows_only_is_no_class(tmp_path: Path) -> None:
    raw = read(tmp_path, "smiles,y\nC,a\nCC,b\nxx,c\n", bad=BadRows("skip"))
    assert raw.class_names == ("a", "b")


def test_repeated_ids(tmp_path: Path) -> None:
    table = "id,smiles,y\na,C,0.5\nb,CC,1.5\na,CCC,2.5\n,CCCC,2.5\n"
    with pytest.raises(DataError, match=r"line 4: the id 'a' was used before, in line 2"):
        read(tmp_path, table)
    bad = BadRows("skip")
    assert read(tmp_path, table, bad=bad).ids == ("a", "b")
    assert [where for where, _ in bad] == ["table.csv line 4", "table.csv line 5"]
    assert read(tmp_path, table, target="y", id_column="").ids == ("2", "3", "4", "5")


def test_titles_of_an_sdf_need_not_differ(tmp_path: Path) -> None:
    content = FILES["t.sdf"].replace(b"m1\n", b"m0\n")
    assert read(tmp_path, content, "t.sdf").ids == ("1", "2", "3", "4", "5")


def test_a_broken_record_of_an_sdf(tmp_path: Path) -> None:
    records = FILES["t.sdf"].split(b"$$$$\n")
    records[1] = records[1].replace(b"V2000", b"V9000")
    bad = BadRows("skip")
    raw = read(tmp_path, b"$$$$\n".join(records), "t.sdf", bad=bad)
    assert raw.ids == ("m0", "m2", "m3", "m4")
    assert [where for where, _ in bad] == ["t.sdf record 2"]


def test_a_column_nobody_reads_may_be_broken(tmp_path: Path) -> None:
    table = b"smiles,name,y\nC,caf\x8d,0.5\nC\x81,x,1.5\nCC,y,2.5\n"
    bad = BadRows("skip")
    assert read(tmp_path, table, target="y", bad=bad).ids == ("2", "4")
    assert list(bad) == [("table.csv line 3", "the column 'smiles' is not UTF-8 text")]


def test_a_table_as_excel_exports_it(tmp_path: Path) -> None:
    text = "smiles;Fläche (Å²)\r\nC;0,5\r\nCC;1,25\r\n"
    for content in (
        text.encode("cp1252"),
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        b"sep=;\r\n" + text.encode("cp1252"),
    ):
        raw = read(tmp_path, content)
        assert raw.target_names == ("Fläche (Å²)",)
        assert raw.y is not None and raw.y.tolist() == [[0.5], [1.25]]
    assert raw.ids == ("3", "4")


@pytest.mark.parametrize("name", ["t.csv", "t.sdf"])
def test_the_largest_fragment_of_a_salt(tmp_path: Path, name: str) -> None:
    raw = read(tmp_path, FILES[name], name, target="size")
    assert raw.ptr.tolist() == [0, 3, 10, 14, 20, 22]
    assert (raw.smiles[2], raw.info["salts"], raw.info["keep_salts"]) == ("CC(=O)[O-]", 1, False)
    whole = read(tmp_path, FILES[name], name, target="size", keep_salts=True)
    assert whole.info["salts"] == 0
    # A dot may also stand between parts of one molecule.
    assert read(tmp_path, "smiles,y\nC1.C1,0.5\n").smiles == ("C1.C1",)


def test_a_split_column(tmp_path: Path) -> None:
    parts = ["train", "Test", "valid", "", "training"]
    rows = zip(MOLECULES, parts, strict=True)
    table = "id,smiles,y,part\n" + "".join(
        f"m{i},{smiles},{i}.5,{part}\n" for i, (smiles, part) in enumerate(rows)
    )
    bad = BadRows("skip")
    raw = read(tmp_path, table, split_column="part", bad=bad)
    assert raw.target_names == ("y",)
    assert [raw.info["split"][name] for name in raw.ids] == [
        *("train", "test", "validation", "train")
    ]
    reason = "the split column 'part' holds '', not train, validation or test"
    assert list(bad) == [("table.csv line 5", reason)]
    with pytest.raises(DataError, match="no split column 'Part'; did you mean 'part'"):
        read(tmp_path, table, split_column="Part")


def test_an_excel_file(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["id", "smiles", "size"], [7, "CCO", 0.5], [], [8, "C1", 1.5], ["m9", "CC", 2]):
        book.active.append(row)
    book.create_sheet("notes").append(["other"])
    book.save(tmp_path / "t.xlsx")
    bad = BadRows("skip")
    raw = read_table(tmp_path / "t.xlsx", target="size", bad=bad)
    assert (raw.name, raw.ids, raw.smiles) == ("t", ("7", "m9"), ("CCO", "CC"))
    assert raw.y is not None and raw.y.tolist() == [[0.5], [2.0]]
    assert [where for where, _ in bad] == ["t.xlsx row 4"]
    for content in (b"PK\x03\x04", b"", (tmp_path / "t.xlsx").read_bytes()[:-100]):
        with pytest.raises(DataError, match="not an Excel file that can be read"):
            read(tmp_path, content, "t.xlsx")


def test_an_excel_file_without_openpyxl(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"pip install 'torch-legs\[cli\]'"):
        read(tmp_path, b"PK\x03\x04", "t.xlsx")


def test_parquet_columns_keep_their_types(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": ["C", None, "CC", "CCC"], "y": [True, False, False, True]})
    bad = BadRows("skip")
    raw = read(tmp_path, parquet(frame), "t.parquet", bad=bad)
    assert (raw.task, raw.class_names) == ("classification", ("False", "True"))
    assert [where for where, _ in bad] == ["t.parquet row 2"]
    # A column that was the table's index is a column all the same.
    indexed = parquet(frame.dropna().set_index("smiles"))
    assert read(tmp_path, indexed, "t.parquet").smiles == ("C", "CC", "CCC")


def test_parquet_of_nested_values_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [[1], [2]], "smiles": ["C", "CC"], "y": [[0.5], [1.5]]})
    with pytest.raises(DataError, match="targets are numbers, names or true/false"):
        read(tmp_path, parquet(frame), "t.parquet")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n \n", "is empty"),
        ("t.smi", b"", "is empty"),
        ("t.sdf", b"", "no row that can be used"),
        ("t.csv", b"smiles,y\n", "no row that can be used"),
        ("t.csv", b"smiles,y\nC,\n", "no value in the target column"),
        ("t.csv", b"C,1\nCC,2\n", "put a line of names above"),
        ("t.csv", b"smiles,a,b\nC,1,2\n", r"t.csv: which column is the target\? There are a, b"),
        ("t.csv", b"smiles,y\nC,1.5\nCC,two\n", "line 3: .*mixes numbers and names"),
        ("t.csv", "smiles,y\nC,1.5\n".encode("utf-16-le"), "not UTF-8 text"),
        ("t.csv", b"PK\x03\x04", "Excel"),
        ("t.csv.gz", gzip.compress(b"smiles,y\nC,1.5\n", mtime=0)[:-9], "cannot be read"),
        ("t.sdf.gz", gzip.compress(sdf(), mtime=0)[:-20], "cannot be read: Compressed file ended"),
        ("t.parquet", b"PAR1 and no more", "not a Parquet file"),
        ("t.xyz", b"", "Known endings"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(tmp_path, content, name)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no target column 'Size'; did you mean 'size'"):
        read(tmp_path, TABLE, target="Size")
    with pytest.raises(DataError, match="no SMILES column 'smile'; did you mean 'smiles'"):
        read(tmp_path, TABLE, target="size", smiles_column="smile")
    with pytest.raises(DataError, match="named twice"):
        read(tmp_path, TABLE, target=["size", "size"])


@pytest.mark.parametrize("name", [*FILES, "t.smi"])
def test_a_stream_is_the_table_in_pieces(tmp_path: Path, name: str) -> None:
    smi = "".join(f"{smiles} m{i}\n" for i, smiles in enumerate(MOLECULES)).encode()
    content = FILES.get(name, smi)
    whole = read(tmp_path, content, name, target=[])
    parts = [batch.read() for batch in iter_table(tmp_path / name, chunk=2)]
    assert [len(part.ids) for part in parts] == [2, 2, 1]
    assert tuple(name for part in parts for name in part.ids) == whole.ids
    graphs = [part.build(range(len(part.index))) for part in parts]
    assert torch.equal(
        torch.cat([raw.blocks["chem"]().x for raw in graphs]), whole.blocks["chem"]().x
    )
    assert all(raw.y is None for raw in graphs)


def test_a_stream_tells_of_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles\nC\nxx\nxy\nCC\n")
    parts = [batch.read() for batch in iter_table(path, chunk=1, on_error="skip")]
    assert [part.smiles for part in parts] == [["C"], ["xx"], ["xy"], ["CC"]]
    assert [part.where[0] for part in parts if part.errors[0]] == ["t.csv line 3", "t.csv line 4"]
    with pytest.raises(DataError, match=r"t.csv line 3"):
        next(iter_table(path)).read()


def test_a_short_record_does_not_swallow_the_next(tmp_path: Path) -> None:
    first, second, *rest = sdf().split(b"$$$$\n")
    content = b"$$$$\n".join([first, b"m1\n", second, *rest])  # a record of one line
    raw = read(tmp_path, content, "t.sdf", bad=(bad := BadRows("skip")), target=[])
    assert len(raw.smiles) == len(MOLECULES)
    assert [where for where, _ in bad] == ["t.sdf record 2"]


MARKS = [b'"', b"\0", b"\xff\xfe", b"\n", b"\r", b",", b"\t", b";", b"\xe9", b"-", b"  "]
WORDS = [
    b"nan",
    b"inf",
    b"1e999",
    b"smiles",
    b"C" * 300,
    b"$$$$\n",
    b"M  END\n",
    b"True",
    b"9" * 30,
]
PIECES = st.sampled_from([*MARKS, *WORDS]) | st.binary()


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(list(FILES)),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), PIECES), max_size=5),
    on_error=st.sampled_from(["raise", "skip"]),
    target=st.sampled_from([None, "size", "kind", ["size", "kind"]]),
)
def test_broken_files_raise_nothing_but_data_errors(
    tmp_path: Path,
    name: str,
    cuts: list[tuple[float, int, bytes]],
    on_error: OnError,
    target: Any,
) -> None:
    content = FILES[name]
    for place, length, piece in cuts:
        start = int(place * len(content))
        content = content[:start] + piece + content[start + length :]
    try:
        raw = read(tmp_path, content, name, bad=BadRows(on_error), target=target)
    except DataError as error:
        assert str(error)
    else:
        assert len(raw.ids) == len(raw.smiles) == len(raw.ptr) - 1 > 0
        assert raw.y is None or len(raw.y) == len(raw.ids)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=st.sampled_from([*FILES, "t.smi"]), content=st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_data_errors(tmp_path: Path, name: str, content: bytes) -> None:
    try:
        raw = read(tmp_path, content, name, bad=BadRows("skip"))
    except DataError as error:
        assert str(error)
    else:
        assert raw.ptr[-1] > 0


def test_a_real_table(legs_data: Path) -> None:
    path = legs_data / "ki" / "ki_P00918_P14416.parquet"
    raw = read_table(path, smiles_column="smiles_parent", target="pKi", limit=40)
    assert raw.task == "regression"
    assert raw.info["id_column"] == "chembl_id"
    assert raw.ids[0] == "CHEMBL1054"
    with pytest.raises(DataError, match="which column holds the molecules"):
        read_table(path, target="pKi", limit=5)


def test_text_that_repeats_is_bounded_by_the_size_of_the_file(tmp_path):
    """Four strings of 1 MB that do not compress, each in 100 rows: 4 MB become 400."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    texts = [rng.integers(33, 127, 1 << 20, dtype=np.uint8).tobytes().decode() for _ in range(4)]
    indices = pa.array(np.arange(400, dtype=np.int32) % 4)
    column = pa.DictionaryArray.from_arrays(indices, pa.array(texts))
    path = tmp_path / "t.parquet"
    options = {"dictionary_pagesize_limit": 1 << 30, "store_schema": False}
    parquet.write_table(pa.table({"smiles": column}), path, **options)
    assert 3 << 20 < path.stat().st_size < 6 << 20
    with pytest.raises(DataError, match="in column 'smiles', up to row 400"):
        read_table(path)
