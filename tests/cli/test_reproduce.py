"""``legs reproduce``: the list, a table on the screen, resuming, and errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import legs.cli.reproduce as command
from legs.cli import main
from reproduction import command as runner
from reproduction import plan
from reproduction.cell import read_cells
from reproduction.plan import document
from tests.cli.molecules import told
from tests.reproduction.made import made_set, small

__all__ = ["small"]
QUICK = ("--quick", "--device", "cpu")


def reproduce(folder, *args):
    return main(["reproduce", *args, *QUICK, "-o", str(folder)])


def test_a_list_of_all(capsys):
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(document()["experiments"])
    assert all(len(line) <= 80 for line in lines)


def test_without_a_clone(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "classification"]) == 1
    assert "legs reproduce needs a clone of the repository" in told(capsys)
    monkeypatch.chdir(Path(__file__).parents[2])  # a clone, with the package installed elsewhere
    assert main(["reproduce"]) == 0


def test_every_option_reaches_the_experiment(tmp_path, monkeypatch):
    asked = []

    def run(name, request, show):
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    given = "--minutes 2 --rotations 1 --seed 7 --at-once 3 --datasets mutag,ptc --models gcn"
    words = ("classification", *given.split(), "--reuse", str(tmp_path))
    assert reproduce(tmp_path, *words) == 130
    (request,) = asked
    assert (request.minutes, request.rotations, request.seed, request.at_once) == (2, 1, 7, 3)
    assert (request.datasets, request.models) == (("mutag", "ptc"), ("gcn",))
    assert (request.reuse, request.quick, request.device) == ((tmp_path,), True, "cpu")
    assert request.folder == tmp_path


@pytest.mark.usefixtures("small")
def test_a_table(tmp_path, capsys):
    args = ("classification", "--datasets", "mutag, ptc", "--models", "baseline,legs-fixed")
    assert reproduce(tmp_path, *args) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert captured.err == ""
    # Older versions of rich leave an empty line where a bar would have been.
    lines = captured.out.lstrip("\n").splitlines()
    assert lines[0].startswith("Classification of graphs (Table II) (quick)")
    (line,) = [line for line in lines if line.startswith("PTC_MR") and "legs-fixed" in line]
    assert "54.31 ± 6.92" in line
    assert all(len(line) <= 80 for line in lines[:-1])
    assert "results.md, results.csv, comparisons.csv" in captured.out
    assert {row["method"] for row in read_cells(tmp_path).values()} == {"baseline", "legs-fixed"}


@pytest.mark.usefixtures("small")
def test_interrupted_and_resumed(tmp_path, capsys, monkeypatch):
    args = ("classification", "--datasets", "MUTAG,ENZYMES", "--models", "baseline")

    def stop(name, *given):
        if name == "MUTAG":
            raise KeyboardInterrupt
        return made_set(name, *given)

    with monkeypatch.context() as patched:
        patched.setattr(plan, "find_set", stop)
        assert reproduce(tmp_path, *args) == 130
    assert "interrupted; the same command resumes" in told(capsys)
    assert list(read_cells(tmp_path)) == ["ENZYMES-baseline"]
    assert reproduce(tmp_path, *args) == 0
    assert list(read_cells(tmp_path)) == ["ENZYMES-baseline", "MUTAG-baseline"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["clasification"], ["'clasification'", "did you mean 'classification'?"]),
        (["classification", "--datasets", "MUTAG,qm9"], ["--datasets", "'qm9'", "PTC_MR"]),
        (["classification", "--models", "legs-fnc"], ["did you mean 'legs-fcn'"]),
        (["classification", "--rotations", "0"], ["--rotations"]),
        (["classification", "-o", "FILE"], ["taken.txt", "is a file"]),
        (["classification", "--reuse", "nowhere"], ["--reuse", "nowhere"]),
        (["enzymes", "--datasets", "MUTAG"], ["ENZYMES", "'MUTAG'"]),
        (["dataset-stats", "--models", "gcn"], ["--models is for experiments that train"]),
        (["qm9", "--rotations", "1"], ["--rotations is for tables of accuracies"]),
        (["tuning", "--models", "gs-svm"], ["gs-svm has no learning rate"]),
        (["affinity", "--models", "gs-svm"], ["gs-svm classifies; affinity"]),
        (["zinc", "--models", "gcn-legs-fcn"], ["gcn-legs-fcn classifies"]),
        (["classification", "--seed", "9" * 23], ["--seed"]),
    ],
)
def test_errors_are_one_line(args, words, tmp_path, capsys):
    taken = tmp_path / "taken.txt"
    taken.write_text("mine")
    given = [str(taken) if arg == "FILE" else arg for arg in args]
    folder = [] if "-o" in args else ["-o", str(tmp_path / "results")]
    assert main(["reproduce", *given, *QUICK, *folder]) in (1, 2)
    err = told(capsys)
    for word in words:
        assert word in err
    assert taken.read_text() == "mine"
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line(tmp_path, capsys):
    folder = tmp_path / "results"
    args = ["reproduce", "classification", "--quick", "--device", "cuda", "-o", str(folder)]
    assert main(args) == 1
    assert "no CUDA device" in told(capsys)
    assert not folder.exists()
