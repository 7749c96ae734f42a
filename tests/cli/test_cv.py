"""``legs cv``: from a file to a table, with a grid, and what can be wrong on the way."""

from __future__ import annotations

import inspect
import io
import json
import math

import pytest
from rich.console import Console

import legs.training
from legs.cli import main
from legs.cli.cv import cv
from legs.cli.progress import Plan, plan_lines
from legs.training.cv_progress import CVProgress
from tests.cli.molecules import read, told, write

pytest.importorskip("rdkit", reason="the tables hold SMILES")

QUICK = ("--folds", "3", "--rotations", "1", "--epochs", "4", "--way", "stacked", "--device", "cpu")


def run(folder, *args):
    data = write(folder / "data.csv", ("smiles", "kind"))
    return main(["cv", str(data), "--target", "kind", "-o", str(folder / "cv"), *QUICK, *args])


def test_a_grid_by_options(tmp_path, capsys):
    models = ("--model", "baseline", "--model", "legs-fixed")
    assert run(tmp_path, *models, "--tune", "lr=1e-9,0.01", "--tune", "hidden-channels=4,8") == 0
    captured = capsys.readouterr()
    assert "Chosen on validation loss" in captured.out
    assert f"legs report {tmp_path / 'cv'}" in captured.out
    assert "lr=0.01, hidden_channels=" in captured.out
    assert "\x1b" not in captured.out + captured.err
    assert "epoch" not in captured.out + captured.err  # no progress where nobody looks
    known = json.loads((tmp_path / "cv" / "results.json").read_text())
    grid = known["options"]["grid"]
    assert [tuple(setting.values()) for setting in grid] == [
        (1e-9, 4), (1e-9, 8), (0.01, 4), (0.01, 8)
    ]  # fmt: skip
    folds = read(tmp_path / "cv" / "folds.csv")
    assert len(folds) == 6
    for fold in folds:
        setting = grid[int(fold["setting"])]
        assert fold["chosen"] == f"lr={setting['lr']}, hidden_channels={setting['hidden_channels']}"
    names = {path.name for path in (tmp_path / "cv" / "models").iterdir()}
    assert {"baseline-0-0.bin", "baseline-1-0.bin"} <= names  # a stack a width
    assert not {"baseline-2-0.bin", "baseline-3-0.bin"} & names


def test_without_a_grid_nothing_is_chosen(tmp_path, capsys):
    assert run(tmp_path, "--model", "baseline") == 0
    assert "Chosen" not in capsys.readouterr().out
    assert {fold["chosen"] for fold in read(tmp_path / "cv" / "folds.csv")} == {"defaults"}


def test_the_same_command_again(tmp_path, capsys):
    args = ("--model", "baseline", "--tune", "lr=0.001,0.01")
    assert run(tmp_path, *args) == 0
    first = (tmp_path / "cv" / "folds.csv").read_bytes()
    assert run(tmp_path, *args) == 0
    assert (tmp_path / "cv" / "folds.csv").read_bytes() == first
    capsys.readouterr()
    assert run(tmp_path, "--model", "baseline", "--tune", "lr=0.001,0.1") == 1
    assert "other settings (options.grid)" in told(capsys)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--tune", "lr"], ["--tune", "lr=0.001,0.003"]),
        (["--tune", "lr=1", "--grid", "[{}]"], ["--tune", "--grid"]),
        (["--grid", "lr=1"], ["--grid", "JSON"]),
        (["--model", "gcn", "--tune", "num_scales=3,4"], ["gcn", "'num_scales'", "it takes lr, "]),
        (["--grid", '[{"steps": 3}]', "--model", "gin"], ["gin", "'steps'", "hidden_channels"]),
        (["--tune", "lr=fast"], ["lr", "positive", "'fast'"]),
        (["--tune", "dropout=lots"], ["legs-fcn", "lots"]),
        (["--model", "gs-svm", "--tune", "lr=1,2"], ["gs-svm", "C and gamma"]),
        (["--model", "legs-fnc"], ["legs-fnc", "did you mean 'legs-fcn'"]),
    ],
)
def test_errors_are_one_line_and_leave_nothing(args, words, tmp_path, capsys):
    assert run(tmp_path, *args) == 1
    err = told(capsys)
    for word in words:
        assert word in err
    assert not (tmp_path / "cv").exists()


def test_defaults_are_those_of_training():
    ours = {name: p.default for name, p in inspect.signature(cv).parameters.items()}
    training, options = legs.training.TrainingOptions(), legs.training.CVOptions()
    for name in ("lr", "batch_size", "patience", "seed"):
        assert ours[name] == getattr(training, name)
    for name in ("folds", "rotations", "test_folds"):
        assert ours[name] == getattr(options, name)
    assert ours["epochs"] == training.max_epochs
    assert tuple(range(ours["seeds"])) == options.seeds


FACTS = {
    "method": "gcn", "method_number": 2, "methods": 3, "settings": (0, 2), "grid": 4,
    "step": "networks", "first": 1, "last": 90, "method_models": 360, "epoch": 120,
    "max_epochs": 1000, "models": 1080, "done": 360, "running": 80, "stopped": 10,
    "best_loss": 0.43215, "seconds": 65.0, "seconds_left": 3725.0, "at_most": False,
}  # fmt: skip


def test_the_plan_in_short_lines():
    assert plan_lines(CVProgress(**FACTS)) == [
        "gcn (method 2 of 3), settings 1, 3 of 4",
        "1,080 models: 360 done, 80 running, 10 stopped",
        "epoch 120 of 1000, best loss 0.4321, about 1:02:05 left",
    ]
    early = {"step": "trial", "settings": (1,), "epoch": 0, "best_loss": math.inf}
    assert plan_lines(CVProgress(**FACTS | early | {"seconds_left": None, "running": 0})) == [
        "gcn (method 2 of 3), setting 2 of 4",
        "1,080 models: 360 done, 0 running, 10 stopped",
        "trying which way is faster",
    ]
    bound = CVProgress(**FACTS | {"grid": 1, "settings": (0,), "at_most": True})
    assert plan_lines(bound)[0] == "gcn (method 2 of 3)"
    assert plan_lines(bound)[2] == "epoch 120 of 1000, best loss 0.4321, ≤ 1:02:05 left"
    start = {"epoch": 0, "best_loss": math.inf, "seconds_left": None}
    assert len(plan_lines(CVProgress(**FACTS | start))) == 2


def test_the_plan_on_a_terminal_alone():
    shown = {}
    for terminal in (True, False):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=80)
        with Plan(console) as progress:
            progress(CVProgress(**FACTS))
            progress.progress.refresh()
            (task,) = progress.progress.tasks
            assert task.total == 1080
            assert task.completed == pytest.approx(360 + 10 + 80 * 0.12)
        shown[terminal] = text.getvalue()
    assert shown[False].strip() == ""
    for line in plan_lines(CVProgress(**FACTS)):
        assert line in shown[True]  # none is cut at 80 columns
    assert "0:00:0" in shown[True]  # time used


def test_interrupted_and_started_again(tmp_path, capsys, monkeypatch):
    args = ("--model", "baseline", "--model", "legs-fixed", "--tune", "lr=0.001,0.01")
    show, seen = Plan.__call__, []

    def stop(self, facts):
        seen.append(facts)
        if facts.method == "legs-fixed":
            raise KeyboardInterrupt
        show(self, facts)

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "__call__", stop)
        assert run(tmp_path, *args) == 130
    assert "interrupted; the same command goes on" in told(capsys)
    assert (seen[0].done, seen[-1].done, seen[0].models) == (0, 6, 12)
    seen.clear()
    monkeypatch.setattr(Plan, "__call__", lambda self, facts: seen.append(facts))
    assert run(tmp_path, *args) == 0
    assert {facts.done for facts in seen} == {6}
    assert {facts.method for facts in seen} == {"legs-fixed"}
