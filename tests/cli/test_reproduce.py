"""``legs reproduce``: the list, a table on the screen, going on, and errors in one line."""

from __future__ import annotations

import io
import json
import os
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from rich.console import Console

from legs.cli import main
from legs.cli.reproduce import _Shown, plan_lines
from legs.experiments.catalogue import EXPERIMENTS
from legs.experiments.outlook import PlanProgress
from tests.cli.molecules import told
from tests.cli.test_cv import FACTS
from tests.experiments.made import small

__all__ = ["small"]
QUICK = ("--quick", "--device", "cpu")


def reproduce(folder, *args):
    return main(["reproduce", *args, *QUICK, "-o", str(folder)])


def test_a_list_of_all(capsys):
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(EXPERIMENTS)
    assert all(len(line) <= 80 for line in lines)


def test_help_names_every_option(capsys):
    assert main(["reproduce", "--help"]) == 0
    out = capsys.readouterr().out
    for option in ("--quick", "--datasets", "--models", "--rotations", "--seed", "--observed"):
        assert option in out


def test_every_option_reaches_the_experiment(tmp_path, monkeypatch):
    asked = []

    def run(name, request, progress):
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr("legs.experiments.catalogue.run", run)
    given = "--engine ray --address 1.2.3.4:5 --minutes 2 --rotations 1 --seed 7"
    observed, more = str(tmp_path / "a.csv"), ("--observed", "--reuse", "--shuffle-labels")
    files = (more[0], observed, more[1], str(tmp_path), more[2])
    names = ("--datasets", "mutag", "--models", "gcn")
    assert reproduce(tmp_path, "classification", *names, *given.split(), *files) == 130
    (request,) = asked
    unset = [f.name for f in fields(request) if getattr(request, f.name) == f.default]
    # Workers are for the command that starts others; the device was asked to be the default.
    assert unset == ["device", "workers", "at_once"]
    assert reproduce(tmp_path, "classification", *names, "--at-once", "3") == 130
    assert asked[1].at_once == 3


def test_cells_at_once_are_for_one_machine(tmp_path, capsys):
    assert reproduce(tmp_path, "classification", "--engine", "ray", "--at-once", "2") == 1
    assert "--at-once is for this machine" in capsys.readouterr().err


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
    assert "results.md, results.csv, comparisons.csv, results.json" in captured.out
    known = json.loads((tmp_path / "results.json").read_text())
    assert known["command"].startswith("legs")
    assert {row["method"] for row in known["rows"]} == {"baseline", "legs-fixed"}


@pytest.mark.usefixtures("small")
def test_interrupted_and_started_again(tmp_path, capsys, monkeypatch):
    args = ("classification", "--datasets", "MUTAG", "--models", "baseline,legs-fixed")

    def stop(self, facts):
        if facts.number == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Shown, "__call__", stop)
        assert reproduce(tmp_path, *args) == 130
    assert "interrupted; the same command goes on" in told(capsys)
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 1
    assert reproduce(tmp_path, *args) == 0
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 2
    capsys.readouterr()
    assert reproduce(tmp_path, *args, "--seed", "1") == 1
    assert "holds results with seed 0, not 1" in told(capsys)
    others = ("classification", "--datasets", "MUTAG", "--models", "gcn", "--seed", "1")
    assert reproduce(tmp_path, *others) == 1
    assert "holds results with seed 0, not 1" in told(capsys)
    assert reproduce(tmp_path, *args, "--rotations", "2") == 1
    assert "other settings (options.rotations)" in told(capsys)


def test_statistics(tmp_path, capsys, monkeypatch):
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not (folder / "tu" / "MUTAG.zip").is_file():
        pytest.skip(f"no real data: set LEGS_DATA (looked in {folder})")
    monkeypatch.setenv("LEGS_DATA", str(folder))
    assert reproduce(tmp_path, "dataset-stats", "--datasets", "MUTAG,PTC") == 0
    out = capsys.readouterr().out
    assert "All numbers of 2 sets agree to the printed digits." in out
    page = (tmp_path / "results.md").read_text()
    assert "| MUTAG | 188 (188) | 2 (2) | 17.93 (17.93) | 19.79 (19.79) | 8.22 (8.22) |" in page
    assert "| DD | not run |" in page
    known = json.loads((tmp_path / "results.json").read_text())
    assert all(row["agrees"] for row in known["rows"])
    assert len(known["rows"]) == 12
    assert reproduce(tmp_path, "classification") == 1
    assert "holds results of dataset-stats; choose another folder" in told(capsys)
    (tmp_path / "results.json").write_text('{"experiment": "classification", "rows": []}')
    assert reproduce(tmp_path, "dataset-stats", "--datasets", "MUTAG") == 1
    assert "holds results of classification; choose another folder" in told(capsys)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["clasification"], ["'clasification'", "did you mean 'classification'?"]),
        (["classification", "--datasets", "MUTAG,qm9"], ["--datasets", "'qm9'", "PTC_MR"]),
        (["classification", "--datasets", ","], ["--datasets", "commas"]),
        (["classification", "--models", "legs-fnc"], ["did you mean 'legs-fcn'"]),
        (["classification", "--rotations", "0"], ["--rotations"]),
        (["classification", "-o", "FILE"], ["taken.txt", "is a file"]),
        (["classification", "--reuse", "nowhere"], ["--reuse", "nowhere"]),
        (["scales", "--observed", "x.csv"], ["--observed is for enzymes"]),
        (["enzymes", "--observed", "x.csv"], ["x.csv", "no such file"]),
        (["enzymes", "--datasets", "MUTAG"], ["ENZYMES", "'MUTAG'"]),
        (["dataset-stats", "--shuffle-labels"], ["--shuffle-labels"]),
        (["scales", "--shuffle-labels"], ["--shuffle-labels is for tables of accuracies"]),
        (["tuning", "--shuffle-labels"], ["--shuffle-labels is for tables of accuracies"]),
        (["dataset-stats", "--models", "gcn"], ["--models is for experiments that train"]),
        (["scales", "--models", "baseline"], ["methods that learn scales", "legs-fcn"]),
        (["tuning", "--models", "gs-svm"], ["gs-svm has no learning rate"]),
        (["affinity", "--models", "gs-svm"], ["gs-svm classifies; affinity predicts numbers"]),
        (["zinc", "--models", "gcn-legs-fcn"], ["gcn-legs-fcn classifies"]),
        (["classification", "--seed", "9" * 23], ["--seed"]),
    ],
)
def test_errors_are_one_line(args, words, tmp_path, capsys):
    taken = tmp_path / "taken.txt"
    taken.write_text("mine")
    given = [str(taken) if arg == "FILE" else arg for arg in args]
    folder = [] if "-o" in args else ["-o", str(tmp_path / "results")]
    assert main(["reproduce", *given, *QUICK, *folder]) == 1
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


def test_progress_on_a_terminal_only():
    from legs.training.cv_progress import CVProgress

    facts = PlanProgress(3, 30, 2, "REDDIT-MULTI-12K, legs-fixed", CVProgress(**FACTS), 9.0, 5000.0)
    lines = plan_lines(facts)
    assert lines[0] == "cell 3 of 30: REDDIT-MULTI-12K, legs-fixed"
    assert lines[-1] == "about 1:23:20 left for 28 cells"
    shown = {}
    for terminal in (False, True):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=80, color_system=None)
        with _Shown(console) as progress:
            progress(facts)
            (task,) = progress.progress.tasks
            assert task.total == 30
            assert 2 < task.completed < 3
        shown[terminal] = text.getvalue()
    assert shown[False].strip() == ""
    for line in lines:
        assert line in shown[True]  # none is cut at 80 columns
    preparing = PlanProgress(1, 1, 0, "MUTAG, gcn", None, 0.0, None)
    assert plan_lines(preparing) == ["cell 1 of 1: MUTAG, gcn", "preparing"]
