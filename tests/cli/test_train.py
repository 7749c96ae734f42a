"""``legs train``: from a file to a model, and what can be wrong on the way."""

from __future__ import annotations

import errno
import inspect
import io
import json
import math
import os

import pytest
from filelock import FileLock
from rich.console import Console

import legs.training
from legs.cli import main
from legs.cli.console import Epochs, Rows
from legs.cli.train import train
from tests.cli.molecules import QUICK, read, rows, told, train_classes, train_numbers, write

pytest.importorskip("rdkit", reason="the tables hold SMILES")


def test_classes_from_a_table(tmp_path, capsys):
    run = train_classes(tmp_path)
    out = capsys.readouterr().out
    assert "40 graphs" in out
    assert "classification of kind: alcohol (20), alkane (20)" in out
    for word in ("train", "validation", "test", "baseline", "accuracy", "log loss", "parameters"):
        assert word in out
    assert "best epoch 4 of 4" in out
    assert f"legs predict {run} new.csv -o out.csv" in out
    assert f"page       legs report {run}" in out
    files = {path.name for path in run.iterdir()}
    assert {"model", "results.json", "metrics.csv", "test_predictions.csv"} <= files
    assert "bad_rows.csv" not in files


def test_a_split_column(tmp_path, capsys):
    parts = ["test" if i % 4 == 0 else "train" for i in range(40)]
    table = [{**row, "part": part} for row, part in zip(rows(), parts, strict=True)]
    data = write(tmp_path / "data.csv", ("name", "smiles", "kind", "part"), table)
    words = ["train", str(data), "--target", "kind", "--split-column", "part", "-o"]
    assert main([*words, str(tmp_path / "run"), *QUICK]) == 0
    split = json.loads((tmp_path / "run" / "split.json").read_text())[0]
    assert split["test"] == [i for i in range(40) if i % 4 == 0]
    assert len(split["validation"]) == 3 and len(split["train"]) == 27
    assert main([*words, str(tmp_path / "no"), "--split", "scaffold"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_several_numbers_from_a_table(tmp_path, capsys):
    run = train_numbers(tmp_path)
    out = capsys.readouterr().out
    assert "regression: atoms, weight, cost" in out
    for name in ("RMSE of atoms", "MAE of weight", "RMSE of cost", "R²"):
        assert name in out
    scores = json.loads((run / "results.json").read_text())["scores"]
    assert scores["test"]["rmse:atoms"] > 0


@pytest.mark.parametrize("model", ["baseline", "gs-svm"])
def test_rows_may_miss_some_of_several_targets(model, tmp_path, capsys):
    table = rows()
    for i in range(0, 40, 3):
        table[i]["cost"] = ""
    for i in range(1, 40, 3):
        table[i]["weight"] = "nan"
    data = write(tmp_path / "numbers.csv", ("name", "smiles", "weight", "cost"), table)
    targets = ["--target", "weight", "--target", "cost"]
    run, out = tmp_path / "run", tmp_path / "out.csv"
    assert main(["train", str(data), *targets, "-o", str(run), *QUICK, "--model", model]) == 0
    assert "40 graphs" in capsys.readouterr().out
    known = json.loads((run / "results.json").read_text())
    assert all(math.isfinite(value) for value in known["scores"]["train"].values())
    task = json.loads((run / "model" / "model.json").read_text())["task"]
    train = json.loads((run / "split.json").read_text())[0]["train"]
    costs = [table[i]["cost"] for i in train if table[i]["cost"] != ""]
    assert task["mean"][1] == pytest.approx(sum(costs) / len(costs), rel=1e-5)
    assert main(["predict", str(run), str(data), "-o", str(out)]) == 0
    assert "RMSE" in capsys.readouterr().out
    table[4].update(weight="", cost="")
    write(data, ("name", "smiles", "weight", "cost"), table)
    assert main(["train", str(data), *targets, "-o", str(tmp_path / "other"), *QUICK]) == 1
    assert "numbers.csv line 6: no value in the target column" in told(capsys)


def test_a_model_that_loses_to_the_mean_says_so_before_its_scores(tmp_path, capsys):
    train_numbers(tmp_path, "--epochs", "1", "--lr", "10")
    out = capsys.readouterr().out
    said = "the model is no better than always predicting the mean: do not rely on its predictions"
    assert out.index(said) < out.index("RMSE of atoms")


def test_a_tiny_test_set_is_named_before_the_scores(tmp_path, capsys):
    data = write(tmp_path / "four.csv", ("smiles", "atoms"), rows(4))
    words = ["train", str(data), "--target", "atoms", "-o", str(tmp_path / "run"), *QUICK]
    assert main(words) == 0
    out = capsys.readouterr().out
    said = "scores on fewer than 10 graphs mean little: the test set has 1"
    assert out.index(said) < out.index("RMSE of atoms")


def test_no_progress_where_nobody_looks(tmp_path, capsys):
    train_classes(tmp_path)
    captured = capsys.readouterr()
    assert "epoch 1" not in captured.out
    assert "\x1b" not in captured.out + captured.err
    assert "\r" not in captured.out + captured.err


def test_progress_on_a_terminal_alone():
    shown = {}
    for terminal in (True, False):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=100)
        with Epochs(console, 20, "gcn") as progress:
            progress({"epoch": 1, "train_loss": 0.75})
            progress({"epoch": 10, "train_loss": 0.5, "validation_loss": 0.625})
            progress.refresh()
        with Rows(console, "gcn:") as counter:
            counter(4321)
            counter.refresh()
        shown[terminal] = text.getvalue()
    assert shown[False].strip() == ""
    for word in (
        "gcn",
        "epoch 10/20",
        "train loss 0.5",
        "validation loss 0.625",
        "0:00:0",
        "4,321 rows",
    ):
        assert word in shown[True]


def test_skipped_rows_are_listed(tmp_path, capsys):
    found = rows()
    found[3]["smiles"] = "C1CC"
    data = write(tmp_path / "data.csv", ("smiles", "kind"), found)
    args = ["train", str(data), "--target", "kind", "-o", str(tmp_path / "run"), *QUICK]
    assert main(args) == 1
    assert "data.csv line 5" in told(capsys)
    assert not (tmp_path / "run").exists()
    assert main([*args, "--on-error", "skip"]) == 0
    out = capsys.readouterr().out
    assert "39 graphs" in out
    assert f"skipped    1 row, listed in {tmp_path / 'run' / 'bad_rows.csv'}" in out
    (bad,) = read(tmp_path / "run" / "bad_rows.csv")
    assert bad["where"] == "data.csv line 5"
    assert "C1CC" in bad["reason"]


def test_options_reach_the_run(tmp_path):
    run = train_classes(
        tmp_path, "--set", "dropout=0.25", "--set", "hidden-channels=8", "--lr", "0.01",
        "--batch-size", "8", "--patience", "7", "--grad-clip", "1", "--balanced", "--seed", "3",
        "--precision", "float64", "--limit", "30", "--device", "cpu",
    )  # fmt: skip
    results = json.loads((run / "results.json").read_text())
    assert results["settings"]["model_options"] == {"dropout": 0.25, "hidden_channels": 8}
    training = results["settings"]["training"]
    wanted = {
        "lr": 0.01, "batch_size": 8, "max_epochs": 4, "patience": 7, "clip": 1.0,
        "balanced": True, "seed": 3, "precision": "float64",
    }  # fmt: skip
    assert {name: training[name] for name in wanted} == wanted
    assert results["data"]["graphs"] == 30


def test_defaults_are_those_of_training():
    ours = {name: p.default for name, p in inspect.signature(train).parameters.items()}
    theirs = legs.training.TrainingOptions()
    for name in (
        "lr",
        "batch_size",
        "max_epochs",
        "patience",
        "clip",
        "balanced",
        "precision",
        "seed",
    ):
        assert ours[name] == getattr(theirs, name)


def test_splits(tmp_path, capsys):
    run = train_classes(tmp_path)
    data = tmp_path / "classes.csv"
    again = ["train", str(data), "--target", "kind", *QUICK, "--split"]
    given = run / "split.json"
    assert main([*again, str(given), "-o", str(tmp_path / "same")]) == 0
    assert json.loads((tmp_path / "same" / "split.json").read_text()) == json.loads(
        given.read_text()
    )
    capsys.readouterr()
    assert main([*again, "scaffold", "-o", str(tmp_path / "no")]) == 1
    assert "scaffold" in told(capsys)  # no rings at all
    assert main([*again, "halves", "-o", str(tmp_path / "no")]) == 1
    assert "'halves'" in told(capsys)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--model", "legs-fnc"], ["legs-fnc", "did you mean 'legs-fcn'"]),
        (["--target", "knid"], ["knid", "'kind'"]),
        (["--target", "one"], ["'one'", "one class"]),
        (["--set", "dropout"], ["NAME=VALUE", "'dropout'"]),
        (["--set", "droput=1"], ["droput", "dropout"]),
        (["--set", "dropout=lots"], ["legs-fcn", "lots"]),
        (["--set", "level=node"], ["nodes"]),
        (["--model", "gs-svm", "--set", "order=1"], ["gs-svm", "order"]),
        (["--model", "gcn-legs-fcn", "--set", "order=1"], ["order", "hidden_channels"]),
        (["--features", "atmos"], ["atmos", "'atoms'"]),
        (["--task", "guess"], ["guess", "--task"]),
        (["--lr", "0"], ["lr", "positive"]),
        (["--limit", "2"], ["2 graphs are too few"]),
        (
            ["--lr", "1e30", "--grad-clip", "1e30", "--model", "gcn"],
            ["not a finite number", "--grad-clip"],
        ),
    ],
)
def test_errors_are_one_line_and_leave_nothing(args, words, tmp_path, capsys):
    found = [row | {"one": "same"} for row in rows()]
    data = write(tmp_path / "data.csv", ("smiles", "kind", "one"), found)
    if "--target" not in args:
        args = [*args, "--target", "kind"]
    run = tmp_path / "run"
    usage = "--task" in args or "NAME=VALUE" in words
    assert main(["train", str(data), "-o", str(run), *args]) == (2 if usage else 1)
    err = told(capsys)
    for word in words:
        assert word in err
    if "finite" not in err:
        assert not run.exists()


@pytest.mark.parametrize("data", ["none.csv", "no such set", "./folder"])
def test_unknown_data(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", data, "-o", "run"]) == 1
    assert data.removeprefix("./") in told(capsys)


def test_a_table_without_targets(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("name", "smiles"))
    assert main(["train", str(data), "--id-column", "name", "-o", str(tmp_path / "run")]) == 1
    assert "--target" in told(capsys)


def test_a_failed_start_does_not_hold_up_the_next(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("smiles", "kind"))
    args = ["train", str(data), "-o", str(tmp_path / "run"), *QUICK]
    assert main([*args, "--lr", "1e30"]) == 1
    assert "smaller learning rate" in told(capsys)
    assert main([*args, "--lr", "1e-3"]) == 0


def test_a_run_with_other_settings_is_refused(tmp_path, capsys):
    run = train_classes(tmp_path)
    before = (run / "model" / "model.json").read_bytes()
    args = ["train", str(tmp_path / "classes.csv"), "--target", "kind", "-o", str(run), *QUICK]
    assert main([*args, "--lr", "0.1"]) == 1
    err = told(capsys)
    assert "other settings" in err
    assert "lr" in err
    assert (run / "model" / "model.json").read_bytes() == before
    capsys.readouterr()
    assert main(args) == 0
    assert "nothing was left to train" in capsys.readouterr().out


def test_one_writer_at_a_time(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    data = write(tmp_path / "data.csv", ("smiles", "kind"))
    args = ["train", str(data), "-o", str(run), *QUICK]
    with FileLock(run / ".lock"):
        assert main(args) == 1
    assert "another process" in told(capsys)
    assert main(args) == 0


def test_a_run_needs_a_directory(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ("smiles", "kind"))
    before = data.read_bytes()
    for run, reason in ((data, "would replace"), (data / "run", "file")):
        assert main(["train", str(data), "-o", str(run), *QUICK]) == 1
        assert reason in told(capsys)
    assert data.read_bytes() == before


@pytest.mark.parametrize(
    ("number", "word"), [(errno.ENOSPC, "no space"), (errno.EROFS, "no permission")]
)
def test_disks_that_take_nothing(number, word, tmp_path, capsys, monkeypatch):
    data = write(tmp_path / "data.csv", ("smiles", "kind"))
    main(["datasets", str(data)])  # into the cache while it can be written
    capsys.readouterr()

    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    assert main(["train", str(data), "-o", str(tmp_path / "run"), *QUICK]) == 1
    err = told(capsys)
    assert word in err
    assert str(tmp_path / "run") in err


def test_interrupted_and_started_again(tmp_path, capsys, monkeypatch):
    undisturbed = train_classes(tmp_path)
    data, run = tmp_path / "classes.csv", tmp_path / "again"
    args = ["train", str(data), "--target", "kind", "-o", str(run), *QUICK]
    show = Epochs.__call__

    def stop(self, row):
        if row["epoch"] == 3:
            raise KeyboardInterrupt
        show(self, row)

    with monkeypatch.context() as patched:
        patched.setattr(Epochs, "__call__", stop)
        capsys.readouterr()
        assert main(args) == 130
    assert "the same command resumes from the checkpoint" in told(capsys)
    assert main(["predict", str(run), str(data), "-o", str(tmp_path / "x.csv")]) == 1
    assert "has not ended" in told(capsys)
    assert main(args) == 0
    assert "resuming after epoch" in capsys.readouterr().out
    weights = "model/weights.safetensors"
    assert (run / weights).read_bytes() == (undisturbed / weights).read_bytes()


def test_duplicates_stay_in_one_part(tmp_path, capsys):
    def parts_of(run):
        (split,) = json.loads((tmp_path / run / "split.json").read_text())
        return [{row % 40 for row in split[part]} for part in ("train", "validation", "test")]

    data = write(tmp_path / "data.csv", ("smiles", "kind"), rows() * 2)
    command = ["train", str(data), "--target", "kind", *QUICK, "-o"]
    assert main([*command, str(tmp_path / "a")]) == 0
    out, err = capsys.readouterr()
    words = "80 rows, 40 structures; rows of one structure stay in one part of a split"
    assert f"groups     {words}\n" in out
    assert not err
    assert sum(map(len, parts_of("a"))) == 40
    assert main([*command, str(tmp_path / "b"), "--group-by", "none"]) == 0
    out, err = capsys.readouterr()
    assert "groups" not in out
    assert not err
    assert sum(map(len, parts_of("b"))) > 40
    # The same split, now the user's own.
    split = ("--split", str(tmp_path / "b" / "split.json"))
    assert main([*command, str(tmp_path / "c"), *split]) == 0
    err = capsys.readouterr().err
    assert err.startswith("legs: warning: ")
    assert err.count("\n") == 1
    assert " of 16 validation and test rows have the same structure" in err


def test_scaffold_splits_have_a_seed(tmp_path):
    rings = [{"smiles": f"C1{'C' * n}1", "atoms": n} for n in range(2, 42)]
    data = write(tmp_path / "data.csv", ("smiles", "atoms"), rings)
    tests = []
    for seed in "01":
        run = tmp_path / seed
        more = ("--split", "scaffold", "--seed", seed, "-o", str(run))
        assert main(["train", str(data), "--target", "atoms", *QUICK, *more]) == 0
        tests.append(json.loads((run / "split.json").read_text())[0]["test"])
    assert tests[0] != tests[1]
