"""``legs datasets``: the list, one set, the check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from legs.cli import main
from legs.data.catalog.specs import NAMED
from tests.data.tu_sets import TWO_GRAPHS, write_zip


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with a set that has MUTAG's name and not its numbers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    write_zip(tmp_path / "data" / "tu" / "MUTAG.zip", TWO_GRAPHS, name="MUTAG")
    return tmp_path / "data"


@pytest.fixture
def real(tmp_path, monkeypatch):
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: set LEGS_DATA (looked in {folder})")
    monkeypatch.setenv("LEGS_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_list_names_every_set_its_place_and_licence(data, capsys):
    assert main(["datasets"]) == 0
    out = capsys.readouterr().out
    for name in NAMED:
        assert f" {name} " in out
    row = next(line for line in out.splitlines() if " MUTAG " in line)
    assert "LEGS_DATA" in row
    assert "none stated" in row
    assert "download" in next(line for line in out.splitlines() if " NCI1 " in line)
    assert "SYNTHETIC" in out
    assert "torch-legs[chem]" in out
    assert str(data) in out


def test_one_set_beside_the_paper(data, capsys):
    assert main(["datasets", "mutag"]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.split()[:1] == ["MUTAG"])
    assert "2 (188)" in row
    assert " 2.50 " in row
    assert "MUTAG, nodes: 2.5000 here, 17.93 in the paper" in out
    assert f"source: {data / 'tu' / 'MUTAG.zip'}" in out


def test_a_set_of_ones_own_has_no_column_of_the_paper(data, tmp_path, capsys):
    path = write_zip(tmp_path / "own.zip", TWO_GRAPHS)
    assert main(["datasets", str(path)]) == 0
    out = capsys.readouterr().out
    assert ["SET", "2"] in [line.split()[:2] for line in out.splitlines()]
    assert "paper" not in out


def test_check_fails_on_differences(data, capsys):
    assert main(["datasets", "MUTAG", "--check"]) == 1
    out = capsys.readouterr().out
    assert "2 (188)" in out
    assert "MUTAG, nodes: 2.5000 here, 17.93 in the paper" in out
    assert "agree" not in out


def test_check_of_real_sets(real, capsys):
    for name in ("MUTAG", "PTC"):
        assert main(["datasets", name, "--check"]) == 0
        assert "All numbers agree to the printed digits." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["no set", "./none.csv"])
def test_unknown_names_are_one_line(data, name, capsys):
    assert main(["datasets", name]) == 1
    err = capsys.readouterr().err
    assert err.startswith("legs: ")
    assert err.count("\n") == 1


def test_check_of_a_set_that_is_not_in_the_paper(data, tmp_path, capsys):
    path = write_zip(tmp_path / "own.zip", TWO_GRAPHS)
    assert main(["datasets", str(path), "--check"]) == 1
    assert "Table I has no SET" in capsys.readouterr().err
