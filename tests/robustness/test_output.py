"""Text of files that others made: no spreadsheet runs it, no terminal obeys it."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from legs.cli import main
from legs.data import load
from legs.data.errors import DataError, write_bad_rows
from legs.inference.table_writer import TableWriter
from legs.io import csv_table, plain_cell, printable
from legs.io.cells import safe_cell
from legs.report.folders import read_table

FORMULAS = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=x"]
PLAIN = ["-5", "+1.5e3", "-1,5", "CCO", "[Na+]", "", "'tis", "a=b", "C-C"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_text(text):
    assert safe_cell(text) == f"'{text}"
    assert plain_cell(safe_cell(text)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_other_cells_stay_as_they_are(text):
    assert safe_cell(text) == plain_cell(text) == text


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_that_are_written(ending, tmp_path):
    table = pd.DataFrame({"id": ["=1+1", "-5", None], "-x": [-1.5, 2, None]})
    with TableWriter(file := tmp_path / f"out.{ending}") as writer:
        writer.add(table)
    if ending == "parquet":  # has types: nothing in it is run
        assert pd.read_parquet(file)["id"].tolist()[:2] == ["=1+1", "-5"]
        return
    found = pd.read_csv(file, sep="\t" if ending == "tsv" else ",", dtype=str)
    assert list(found.columns) == ["id", "'-x"]
    assert found["id"].tolist()[:2] == ["'=1+1", "-5"]
    assert found["'-x"].tolist()[:2] == ["-1.5", "2.0"]
    write_bad_rows(tmp_path / "bad.csv", [("=evil line 2", "-no")])
    assert (tmp_path / "bad.csv").read_text().splitlines()[1] == "'=evil line 2,'-no"


def test_ids_read_back(tmp_path):
    table = pd.DataFrame({"id": ["=1+1", "-a", "'=x", "m"], "smiles": ["C", "CC", "CCC", "CO"]})
    file = tmp_path / "table.csv"
    file.write_text(csv_table(table))
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    assert load(file, target=[]).ids == ("=1+1", "-a", "'=x", "m")
    assert read_table(file, ("id",))["id"].tolist() == ["=1+1", "-a", "'=x", "m"]
    assert csv_table(pd.read_csv(io.StringIO(csv_table(table))).map(plain_cell)) == csv_table(table)


EVIL = "a\x1b[31m\x07b\x9b2Jc\u202ed"


def test_control_characters_are_escaped():
    assert printable(EVIL) == r"a\x1b[31m\x07b\x9b2Jc\u202ed"
    assert printable("Ärger, 分子 😀 x\u00a0y") == "Ärger, 分子 😀 x\u00a0y"
    assert printable("a\nb\ud800") == r"a\nb\ud800"
    assert str(DataError(f"{EVIL}: broken")) == r"a\x1b[31m\x07b\x9b2Jc\u202ed: broken"


def clean(capsys):
    """What was printed, after a look for characters that a terminal obeys."""
    printed = capsys.readouterr()
    for text in printed:
        assert not any(ord(c) < 32 and c != "\n" for c in text), repr(text)
        assert not set(text) & {"\x9b", "\u202e"}, repr(text)
    return printed


def test_the_terminal_obeys_no_file(tmp_path, capsys):
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    lines = ["smiles,kind"] + [
        f"{'C' * (1 + i % 7)}{'O' * (i % 2)},{EVIL}{i % 2}" for i in range(40)
    ]
    data = tmp_path / f"{EVIL}.csv"
    data.write_text("\n".join(lines) + "\n")
    run = tmp_path / "run\x1b[2J"
    quick = ["--epochs", "2", "--model", "baseline"]
    assert main(["train", str(data), "-o", str(run), *quick]) == 0
    assert r"a\x1b[31m" in clean(capsys).out
    new = tmp_path / "new.csv"
    new.write_text(f"smiles,kind\nC,{EVIL}2\n")
    assert main(["predict", str(run), str(new), "-o", str(tmp_path / f"{EVIL}out.csv")]) == 0
    assert r"not scored" in clean(capsys).out
    assert main(["train", str(tmp_path / f"no{EVIL}.csv"), "-o", str(tmp_path / "no")]) == 1
    assert r"\x1b[31m" in clean(capsys).err
    assert main(["train", str(data), f"--{EVIL}"]) == 2
    clean(capsys)
