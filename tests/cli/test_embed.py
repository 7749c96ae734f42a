"""``legs embed``: features of graphs as a table."""

from __future__ import annotations

import networkx as nx
import pandas as pd
import pytest
import torch

from legs.cli import main
from tests.cli.molecules import read, rows, told, train_classes, write

pytest.importorskip("rdkit", reason="the tables hold SMILES")


def test_fixed_scattering_needs_no_training(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("name", "smiles"), rows(5))
    out = tmp_path / "out.parquet"
    args = ["embed", "legs-fixed", str(data), "-o", str(out), "--id-column", "name"]
    assert main([*args, "--features", "atoms", "--set", "order=1", "--set", "lowpass=true"]) == 0
    assert f"5 rows in {out}: id and 480 features" in capsys.readouterr().out
    table = pd.read_parquet(out)
    assert list(table.columns[:2]) == ["id", "C.mean"]
    assert "O.psi4.kurtosis" in table.columns
    assert "C.phi.mean" in table.columns
    assert table["id"].tolist() == [f"m{i}" for i in range(5)]
    assert table["C.mean"].tolist() == pytest.approx([1, 1 / 2, 1, 4 / 5, 1])
    assert not (tmp_path / "out.bad_rows.csv").exists()


def test_descriptors_and_fingerprints_are_appended(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("name", "smiles"), rows(5))
    args = ["embed", "legs-fixed", str(data), "-o", str(tmp_path / "out.parquet")]
    assert main([*args, "--descriptors", "rdkit", "--fingerprint", "morgan-count"]) == 0
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert "MolWt" in table.columns
    assert table.columns[-1] == "morgan-count2047"
    assert main([*args, "--descriptors", "mordred"]) == 2


def test_features_of_a_trained_model(tmp_path, capsys):
    run = train_classes(tmp_path, "--model", "legs-fcn")
    data = write(tmp_path / "new.csv", ("smiles",), rows(5))
    out = tmp_path / "out.csv"
    assert main(["embed", str(run), str(data), "-o", str(out)]) == 0
    found = read(out)
    assert len(found) == 5
    assert "hydrogens.psi0.psi3.skewness" in found[0]
    chosen = [("--features", "atoms"), ("--hydrogens",), ("--set", "order=1")]
    for more in (*chosen, ("--descriptors", "rdkit"), ("--fingerprint", "morgan")):
        assert main(["embed", str(run), str(data), "-o", str(out), *more]) == 1
        assert "legs-fixed alone" in capsys.readouterr().err


def test_bad_rows_go_to_a_file_of_their_own(tmp_path, capsys):
    data = tmp_path / "data.csv"
    data.write_text("smiles,id\nCO,a\nC1CC,b\nCC,c\n")
    out = tmp_path / "out.csv"
    args = ["embed", "legs-fixed", str(data), "-o", str(out)]
    assert main(args) == 1
    assert "data.csv line 3" in told(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv"]
    assert main([*args, "--on-error", "skip"]) == 0
    assert f"1 row skipped, listed in {tmp_path / 'out.bad_rows.csv'}" in capsys.readouterr().out
    assert [row["id"] for row in read(out)] == ["a", "c"]
    (bad,) = read(tmp_path / "out.bad_rows.csv")
    assert bad["where"] == "data.csv line 3"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["gcn"], ["gcn", "trained first"]),
        (["none"], ["none", "no such run"]),
        (["legs-fixed", "--set", "order"], ["NAME=VALUE"]),
        (["legs-fixed", "--set", "odrer=1"], ["odrer", "order"]),
        (["legs-fixed", "--features", "atmos"], ["atmos", "'atoms'"]),
        (["legs-fixed", "--smiles-column", "mol"], ["'mol'"]),
    ],
)
def test_errors_are_one_line(args, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.csv", ("smiles",), rows(5))
    model, *more = args
    usage = words == ["NAME=VALUE"]
    assert main(["embed", model, str(data), "-o", "out.csv", *more]) == (2 if usage else 1)
    err = told(capsys)
    for word in words:
        assert word in err
    assert not (tmp_path / "out.csv").exists()


def test_a_folder_is_made_in_parts_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("legs.engine.os.cpu_count", lambda: 1)
    data = tmp_path / "data.csv"
    data.write_text("smiles,id\nCO,a\nC1CC,b\nCC,c\n")
    out = tmp_path / "out"
    args = ["embed", "legs-fixed", str(data), "-o", str(out), "--set", "order=1"]
    assert main(args) == 1
    assert "data.csv line 3" in told(capsys)
    assert main([*args, "--on-error", "skip"]) == 0
    said = capsys.readouterr().out
    assert f"3 rows in {out}: row, id and" in said
    assert f"1 row without features, listed in {out / '_bad_rows.csv'}" in said
    table = pd.read_parquet(out)
    assert table["row"].tolist() == [0, 1, 2]
    assert table["id"].tolist() == ["a", "b", "c"]
    assert table.isna().any(axis=1).tolist() == [False, True, False]
    (bad,) = read(out / "_bad_rows.csv")
    assert bad["where"] == "data.csv line 3"
    assert main([*args, "--on-error", "skip", "--set", "lowpass=true"]) == 1
    assert "other settings (columns, embedder.options.lowpass)" in told(capsys)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "out.csv", "--engine", "ray"], "a folder of Parquet files, not out.csv"),
        (["-o", "out", "--address", "1.2.3.4:5"], "add --engine ray"),
    ],
)
def test_engines_are_asked_for_what_they_do(more, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.csv", ("smiles",), rows(5))
    assert main(["embed", "legs-fixed", str(data), *more]) == 2
    assert words in told(capsys)


def test_directed_graphs_as_undirected_ones(tmp_path, capsys):
    folder = tmp_path / "graphs"
    folder.mkdir()
    nx.write_graphml(nx.path_graph(3, create_using=nx.DiGraph), folder / "a.graphml")
    words = ["embed", "legs-fixed", str(folder), "-o", str(tmp_path / "out.csv")]
    assert main(words) == 1
    assert "(--symmetrize takes every arc as an undirected edge" in told(capsys)
    assert main([*words, "--symmetrize"]) == 0
    assert len(read(tmp_path / "out.csv")) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(tmp_path, capsys):
    args = ["embed", "legs-fixed", "none.csv", "-o", str(tmp_path / "e.csv"), "--device", "cuda"]
    assert main(args) == 1
    assert "PyTorch finds no CUDA device here; use --device cpu" in capsys.readouterr().err
