"""``legs bench``: files, words on the screen, and what can be wrong on the command line."""

from __future__ import annotations

import json

import pytest
import torch

import legs.experiments.speed.plan as plans
from legs.cli import main
from legs.experiments.speed import Plan
from tests.cli.molecules import told

TINY = Plan(
    sets=("NCI1",),
    graphs=3,
    whole=False,
    models=1,
    edges=(300,),
    channels=2,
    steps=2,
    whole_step_up_to=0,
    nodes=64,
    series={"edges": (256,)},
    rounds=1,
    least=1,
    seconds=0.01,
    copied=2**16,
    matrix=16,
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """A quick plan that takes a second, and a machine without data sets."""
    monkeypatch.setattr(plans, "QUICK", TINY)
    monkeypatch.delenv("LEGS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_everything(tmp_path, capsys):
    pytest.importorskip("rdkit", reason="molecules come from RDKit's package")
    folder = tmp_path / "new" / "results"
    assert main(["bench", "--quick", "--device", "cpu", "--threads", "1", "-o", str(folder)]) == 0
    out = capsys.readouterr().out
    known = json.loads((folder / "bench.json").read_text())
    page = (folder / "bench.md").read_text()
    cases = {row["case"] for row in known["rows"]}
    assert cases == {
        "nci-5k, 3 graphs",
        "random, 300 edges",
        "lattice, 300 edges",
        "edges = 256",
    }
    for text in (*cases, known["date"], known["machine"]):
        assert text in page
        assert text in out
    assert {"cpu", "reference"} >= {row["path"] for row in known["rows"] if row["method"] == "auto"}
    assert known["seed"] == 0
    assert known["device"] == "cpu"
    assert known["versions"]["torch"] == torch.__version__
    assert "train step against the reference" in out
    assert str(folder) in out
    assert "\x1b" not in out  # no colours or bars where nobody looks


def test_some_groups_and_threads(tmp_path, capsys):
    args = ["bench", "--quick", "--device", "cpu", "--only", "single", "--threads", "1"]
    assert main([*args, "-o", str(tmp_path)]) == 0
    known = json.loads((tmp_path / "bench.json").read_text())
    assert {row["group"] for row in known["rows"]} == {"single"}
    assert known["threads"] == 1
    assert "1 thread," in capsys.readouterr().out


def test_a_missing_set_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plans, "QUICK", Plan(**{**vars(TINY), "sets": ("PROTEINS",)}))
    args = ["bench", "--quick", "--device", "cpu", "--only", "batches", "-o", str(tmp_path)]
    assert main(args) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "PROTEINS" in line]
    assert line.startswith("left out: ")
    assert "legs datasets PROTEINS" in line


def test_help_names_the_groups(capsys):
    assert main(["bench", "--help"]) == 0
    assert "batches,single,growth" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--only", "batches,speed"], ["--only", "batches,single,growth", "'speed'"]),
        (["--only", ","], ["--only", "none"]),
        (["--threads", "0"], ["--threads"]),
        (["--device", "abacus"], ["--device", "abacus"]),
        (["-o", "FILE"], ["taken.txt", "folder"]),
    ],
)
def test_errors_are_one_line(args, words, tmp_path, capsys):
    taken = tmp_path / "taken.txt"
    taken.write_text("mine")
    given = [str(taken) if arg == "FILE" else arg for arg in args]
    folder = [] if "-o" in args else ["-o", str(tmp_path / "results")]
    assert main(["bench", "--quick", *given, *folder]) == 1
    err = told(capsys)
    for word in words:
        assert word in err
    assert taken.read_text() == "mine"
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line(tmp_path, capsys):
    folder = tmp_path / "results"
    assert main(["bench", "--quick", "--device", "cuda", "-o", str(folder)]) == 1
    assert "no CUDA device" in told(capsys)
    assert not folder.exists()
