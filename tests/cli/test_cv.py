"""``legs cv``: from a file to a table, with a grid, and what can be wrong on the way."""

from __future__ import annotations

import inspect
import io
import json
import math

import networkx as nx
import numpy as np
import pytest
from rich.console import Console

import legs.training
from legs.cli import main
from legs.cli.console import Plan
from legs.cli.cv import cv
from legs.data.splits import Split, random_split
from legs.training.cv.cross_validation import CVProgress, Unit
from legs.training.cv.models import Job
from legs.training.cv.protocol import CVOptions
from legs.training.stacked.trainer import Standing
from tests.cli.molecules import read, rows, told, write

pytest.importorskip("rdkit", reason="the tables hold SMILES")

TASKS = {"kind": "classification", "atoms": "regression"}
QUICK = (
    "--folds",
    "3",
    "--rotations",
    "1",
    "--epochs",
    "4",
    "--strategy",
    "stacked",
    "--device",
    "cpu",
)


def run(folder, *args):
    data = write(folder / "data.csv", ("smiles", "kind"))
    return main(["cv", str(data), "--target", "kind", "-o", str(folder / "cv"), *QUICK, *args])


def test_a_metric_chooses_the_setting(tmp_path, capsys, monkeypatch):
    words = ("--model", "baseline", "--tune", "lr=1e-9,0.01", "--metric")
    assert run(tmp_path, *words, "rocauc") == 1
    assert "choose one of accuracy, balanced_accuracy" in capsys.readouterr().err
    monkeypatch.setattr("legs.training.cv.models.ERRORS", ("roc_auc",))  # the worst is chosen
    assert run(tmp_path, *words, "roc_auc") == 0
    assert "ROC-AUC" in capsys.readouterr().out
    assert {row["chosen"] for row in read(tmp_path / "cv" / "folds.csv")} == {"lr=1e-09"}
    rows = read(tmp_path / "cv" / "metrics.csv")
    assert {"accuracy", "mcc", "recall:alkane"} <= {row["metric"] for row in rows}


def test_a_grid_by_options(tmp_path, capsys):
    models = ("--model", "baseline", "--model", "legs-fixed")
    assert run(tmp_path, *models, "--tune", "lr=1e-9,0.01", "--tune", "hidden-channels=4,8") == 0
    captured = capsys.readouterr()
    assert "Chosen on validation graphs" in captured.out
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
    assert {f"baseline-{s}-{k}.bin" for s in range(4) for k in range(3)} <= names


def test_files_are_read_as_for_training(tmp_path, capsys):
    table = rows()
    table[3]["smiles"] = "C1CC"
    for row in table:
        row["mol"], row["code"] = row["smiles"], row["name"]
        row["smiles"] = "not these"
    data = write(tmp_path / "data.csv", ("smiles", "code", "mol", "kind", "cost"), table)
    options = ["--smiles-column", "mol", "--id-column", "code", "--target", "kind", "--balanced"]
    words = ["cv", str(data), "-o", str(tmp_path / "cv"), "--model", "baseline", *options, *QUICK]
    assert main(words) == 1
    assert "line 5" in told(capsys)
    assert main([*words, "--on-error", "skip", "--grad-clip", "1"]) == 0
    out = capsys.readouterr().out
    assert "features   chem: " in out
    assert f"skipped    1 row, listed in {tmp_path / 'cv' / 'bad_rows.csv'}" in out
    assert [row["where"] for row in read(tmp_path / "cv" / "bad_rows.csv")] == ["data.csv line 5"]
    known = json.loads((tmp_path / "cv" / "results.json").read_text())
    assert (known["graphs"], known["options"]["training"]["balanced"]) == (39, True)
    assert known["options"]["training"]["clip"] == 1
    ids = {row["id"] for row in read(tmp_path / "cv" / "predictions.csv")}
    assert ids == {row["name"] for row in table} - {"m3"}


def test_directed_graphs_as_undirected_ones(tmp_path, capsys):
    folder = tmp_path / "graphs"
    folder.mkdir()
    lines = ["file,kind"]
    for i in range(24):
        graph = nx.path_graph(4 + i % 5, create_using=nx.DiGraph)
        if i % 2:
            graph.add_edge(3, 0)
        nx.write_graphml(graph, folder / f"g{i}.graphml")
        lines.append(f"g{i}.graphml,{'ring' if i % 2 else 'path'}")
    (folder / "labels.csv").write_text("\n".join(lines))
    words = ["cv", str(folder), "-o", str(tmp_path / "cv"), "--model", "baseline", *QUICK]
    assert main(words) == 1
    assert "directed graph" in told(capsys)
    assert main([*words, "--symmetrize"]) == 0


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
    usage = words[0] in ("--tune", "--grid")
    assert run(tmp_path, *args) == (2 if usage else 1)
    err = told(capsys)
    for word in words:
        assert word in err
    assert not (tmp_path / "cv").exists()


def test_defaults_are_those_of_training():
    ours = {name: p.default for name, p in inspect.signature(cv).parameters.items()}
    training, options = legs.training.TrainingOptions(), legs.training.CVOptions()
    for name in ("lr", "batch_size", "max_epochs", "patience", "clip", "seed"):
        assert ours[name] == getattr(training, name)
    for name in ("folds", "rotations", "test_folds"):
        assert ours[name] == getattr(options, name)
    assert tuple(range(ours["num_splits"])) == options.seeds


JOBS = [Job(0, Split([0], [1], [2]), {}, setting) for setting in (0, 2)]
FACTS = {
    "unit": Unit("gcn", "stacked", JOBS), "standing": Standing(120, 80, 10, 0.43215),
    "methods": ["gin", "gcn", "snowball"], "options": CVOptions(grid=({},) * 4),
    "models": 1080, "done": 360,
}  # fmt: skip


def test_the_plan_in_short_lines():
    assert str(CVProgress(**FACTS)).splitlines() == [
        "gcn (method 2 of 3), settings 1, 3 of 4",
        "1,080 models: 360 done, 80 running, 10 stopped",
        "epoch 120 of 1000, best loss 0.4321",
    ]
    bound = CVProgress(**FACTS | {"options": CVOptions()})
    assert str(bound).splitlines()[0] == "gcn (method 2 of 3)"
    assert str(bound).splitlines()[2] == "epoch 120 of 1000, best loss 0.4321"
    start = {"standing": Standing(0, 2, 0, math.inf), "unit": Unit("gcn", "stacked", JOBS[1:])}
    assert str(CVProgress(**FACTS | start)).splitlines() == [
        "gcn (method 2 of 3), setting 3 of 4",
        "1,080 models: 360 done, 2 running, 0 stopped",
    ]


def test_the_plan_on_a_terminal_alone():
    shown = {}
    for terminal in (True, False):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=80)
        with Plan(console) as progress:
            progress(CVProgress(**FACTS))
            progress.refresh()
            (task,) = progress.tasks
            assert task.total == 1080
            assert task.completed == pytest.approx(360 + 10 + 80 * 0.12)
        shown[terminal] = text.getvalue()
    assert shown[False].strip() == ""
    for line in str(CVProgress(**FACTS)).splitlines():
        assert line in shown[True]  # none is cut at 80 columns
    assert "0:00:0" in shown[True]  # time used


def test_interrupted_and_started_again(tmp_path, capsys, monkeypatch):
    args = ("--model", "baseline", "--model", "legs-fixed", "--tune", "lr=0.001,0.01")
    show, seen = Plan.__call__, []

    def stop(self, facts):
        seen.append(facts)
        if facts.unit.method == "legs-fixed":
            raise KeyboardInterrupt
        show(self, facts)

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "__call__", stop)
        assert run(tmp_path, *args) == 130
    assert "interrupted; the same command resumes" in told(capsys)
    assert (seen[0].done, seen[-1].done, seen[0].models) == (0, 6, 12)
    seen.clear()
    monkeypatch.setattr(Plan, "__call__", lambda self, facts: seen.append(facts))
    assert run(tmp_path, *args) == 0
    assert (seen[0].done, seen[-1].done) == (6, 12)
    assert {facts.unit.method for facts in seen} == {"legs-fixed"}


def splits_of(folder):
    return json.loads((folder / "cv" / "splits.json").read_text())


def test_duplicates_stay_in_one_partition(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("smiles", "kind"), rows() * 2)
    command = ["cv", str(data), "--target", "kind", *QUICK, "--model", "baseline"]
    assert main([*command, "-o", str(tmp_path / "cv")]) == 0
    out, err = capsys.readouterr()
    assert "groups     80 rows, 40 structures; rows of one structure stay" in out
    assert not err
    for split in splits_of(tmp_path):
        parts = [{row % 40 for row in split[part]} for part in ("train", "validation", "test")]
        assert sum(map(len, parts)) == 40
    own = [{"train": [*range(40)], "validation": [40, 41], "test": [42]}]
    (tmp_path / "own.json").write_text(json.dumps(own))
    more = ("--splits", str(tmp_path / "own.json"), "-o", str(tmp_path / "own"))
    assert main([*command, *more]) == 0
    err = capsys.readouterr().err
    assert err.startswith("legs: warning: 3 of 3 validation and test rows have the same structure")
    assert err.count("\n") == 1
    assert main([*command, *more, "--split", "scaffold"]) == 2
    assert "--splits" in told(capsys)


def test_the_seed_is_that_of_random_splits(tmp_path):
    data = write(tmp_path / "data.csv", ("smiles", "weight"))
    tests = []
    for seed in range(2):
        folder = tmp_path / str(seed)
        more = ("--model", "baseline", "--seed", str(seed), "-o", str(folder / "cv"))
        assert (
            main(["cv", str(data), "--target", "weight", "--num-splits", "2", *QUICK, *more]) == 0
        )
        tests += [split["test"] for split in splits_of(folder)]
    assert tests[:2] == [random_split(40, seed=seed).test.tolist() for seed in range(2)]
    assert len({tuple(test) for test in tests}) == 4


def test_scaffold_splits(tmp_path):
    rings = [f"C1{'C' * n}1" for n in range(2, 26)]
    table = [
        {"smiles": tail + ring, "kind": "small" if len(ring) < 17 else "large", "atoms": len(ring)}
        for ring in rings
        for tail in ("C", "N")
    ]
    data = write(tmp_path / "data.csv", ("smiles", "kind", "atoms"), table)
    more = ("--split", "scaffold", "--model", "baseline", *QUICK)
    for target in ("kind", "atoms"):
        folder = tmp_path / target
        run = ["cv", str(data), "--target", target, "--task", TASKS[target], *more]
        assert main([*run, "-o", str(folder / "cv")]) == 0
        for split in splits_of(folder):
            parts = [split[part] for part in ("train", "validation", "test")]
            assert sum(len({row // 2 for row in part}) for part in parts) == len(rings)
            for part in parts if target == "kind" else ():
                assert 0.3 < np.mean([table[row]["kind"] == "small" for row in part]) < 0.7
