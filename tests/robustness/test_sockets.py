"""No network unless a download is asked for: the main paths with all sockets closed."""

from __future__ import annotations

import socket

import pytest

from legs.cli import main
from tests.cli.molecules import write
from tests.data.graph_text import sample
from tests.data.graph_text import write as write_graph
from tests.data.tu_sets import write_zip
from tests.robustness.made import tu_parts


class NetworkUsed(AssertionError):
    """Somebody opened a socket."""


@pytest.fixture
def closed(monkeypatch):
    """Sockets of this process raise; what is tried is listed."""
    tried = []

    def refuse(*given, **more):
        tried.append(given)
        raise NetworkUsed(given)

    for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname", "create_server"):
        monkeypatch.setattr(socket, name, refuse)
    return tried


def test_the_fixture_closes_them(closed):
    import urllib.request

    with pytest.raises(NetworkUsed):
        urllib.request.urlopen("http://127.0.0.1:9/")
    assert closed


def test_a_download_that_is_asked_for_would_use_them(closed, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LEGS_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NetworkUsed):
        main(["train", "MUTAG", "-o", str(tmp_path / "run"), "--debug"])
    assert closed


def test_main_paths(closed, tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    data = tmp_path / "data"
    write_zip(data / "tu" / "MUTAG.zip", tu_parts(), name="MUTAG")
    monkeypatch.setenv("LEGS_DATA", str(data))
    table = write(tmp_path / "mols.csv", ("name", "smiles", "kind"))
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name in ("a", "b"):
        write_graph(folder / f"{name}.graphml", sample())
    run, cv = str(tmp_path / "run"), str(tmp_path / "cv")
    quick = ["--epochs", "2", "--model", "legs-fcn"]
    out = str(tmp_path / "out.csv")
    lines = [
        ["datasets"],
        ["datasets", "MUTAG"],
        ["train", str(table), "--target", "kind", "-o", run, *quick],
        ["predict", run, str(table), "-o", out],
        ["embed", run, str(table), "-o", out],
        ["embed", "legs-fixed", str(folder), "-o", str(tmp_path / "out.parquet")],
        [
            "cv",
            "MUTAG",
            "-o",
            cv,
            *quick,
            "--folds",
            "3",
            "--rotations",
            "1",
            "--strategy",
            "stacked",
        ],
        ["reproduce", "dataset-stats", "--datasets", "MUTAG", "-o", str(tmp_path / "stats")],
    ]
    for words in lines:
        assert main([*words, "--debug"]) == 0, words
    pytest.importorskip("plotly", reason="the page needs the extra report")
    for place in (run, cv):
        assert main(["report", place, "--debug"]) == 0
    assert closed == []
