"""The first lines of a page: the answer first, and no praise that the numbers do not bear out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest

from legs.report.cv_page import CrossValidation
from legs.report.cv_words import summary as cv_summary
from legs.report.cv_words import train_command, usual_setting
from legs.report.folders import Run
from legs.report.train_words import facts, summary, title
from legs.report.words import ABOUT, METHODS, about_method


def run_of(test, guess, names, kind="regression", predictions=None, molecules=True, tested=50):
    results = {
        "settings": {"model": "legs-fcn"},
        "data": {"name": "mine", "graphs": 500, "molecules": molecules},
        "task": {"kind": kind, "names": names},
        "split": {"train": 400, "validation": 50, "test": tested},
        "scores": {"train": test, "test": test, "guess": guess},
        "parameters": 1000,
        "seconds": 3.0,
    }
    return Run(Path("run"), results, pd.DataFrame(), predictions)


def classes_of(right, guess, tested):
    scores = ({"accuracy": right}, {"accuracy": guess})
    return run_of(*scores, ["yes", "no"], "classification", tested=tested)


def test_an_error_stands_beside_that_of_a_guess():
    table = pd.DataFrame({"logP": [1.0, 2.0, 3.0], "truth:logP": [1.5, 2.5, 4.5]})
    scores = {"mae:logP": 0.8333, "r2": 0.7}
    run = run_of(scores, {"mae:logP": 2.0}, ["logP"], predictions=table)
    first, second, last = summary(run)
    assert first == (
        "For 50 molecules that it had not seen, the model's predictions of logP are off by 0.833 "
        "on average, give or take 0.33. Always answering the mean would be off by 2."
    )
    assert second.startswith("It explains 70 % of the differences (R² 0.70; ")
    assert "do not rely" not in second
    assert "how signals at its atoms spread along its bonds" in last
    assert "predict logP from 400 molecules from “mine”; 50 others told it when to stop" in last
    assert title(run) == "Predicting logP with LEGS-FCN"
    assert [fact.value for fact in facts(run)] == ["0.833", "2", "70 %", "400"]


@pytest.mark.parametrize("r2", [-0.3, 0.05])
def test_a_model_that_learned_nothing_is_called_so(r2):
    text = " ".join(summary(run_of({"mae:y": 1.0, "r2": r2}, {"mae:y": 1.0}, ["y"])))
    assert "do not rely on its predictions" in text
    assert f"explains {max(0, round(100 * r2))} % of the differences" in text


def test_many_numbers_name_the_best_and_the_hardest():
    names = ["a", "b", "c", "d"]
    test = {"r2": 0.5, "rmse:a": 1.0, "rmse:b": 5.0, "rmse:c": 9.0, "rmse:d": 11.0}
    run = run_of(test, {f"rmse:{name}": 10.0 for name in names}, names, molecules=False)
    text = " ".join(summary(run))
    assert "between 50 graphs that it had not seen (R² 0.50, the mean over all numbers;" in text
    assert "Best predicted is a, with an error 90 % smaller" in text
    assert "hardest is d (no smaller)" in text
    assert title(run) == "Predicting 4 numbers with LEGS-FCN"


@pytest.mark.parametrize(
    ("right", "guess", "tested", "said"),
    [
        (0.76, 0.66, 50, "by about 6 points (one standard error), so it may be no better"),
        (0.95, 0.66, 50, "by about 3 points (one standard error)."),
        (0.66, 0.66, 50, "no better than that guess: do not rely"),
        (0.95, 0.66, 5000, "told it when to stop"),  # nothing to warn of
    ],
)
def test_few_test_graphs_are_told(right, guess, tested, said):
    lines = summary(classes_of(right, guess, tested))
    assert f"named the right class for {100 * right:.0f} %" in lines[0]
    assert said in lines[1]


def test_every_method_is_explained():
    assert set(ABOUT) == set(METHODS)
    for method in METHODS:
        for molecules in (False, True):
            text = about_method(method, molecules)
            assert text.endswith(".")
            assert ("molecule" in text) == molecules
            assert "{" not in text
    assert about_method("mine") == ""


def compared(rows, methods=("legs-fcn", "gcn", "gin")):
    results = {
        "data": "MUTAG",
        "graphs": 188,
        "options": {"folds": 10, "test_folds": 1, "rotations": None, "grid": [{}]},
        "guess": [0.66] * 10,
        "methods": [
            {"method": m, "mean": 0.9 - 0.1 * k, "std": 0.05} for k, m in enumerate(methods)
        ],
        "comparisons": [{"first": a, "second": b, "p": p, "difference": 1} for a, b, p in rows],
    }
    return CrossValidation(Path("cv"), results, None, None, {"task": "classification"})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("legs-fcn", "gcn", 0.4), ("gin", "legs-fcn", None)], "over GCN and GIN may be chance"),
        (
            [("legs-fcn", "gcn", 0.4), ("gin", "legs-fcn", 0.01)],
            "over GIN is hardly chance (p below 0.05, corrected resampled t-test); over GCN it may",
        ),
        (
            [("legs-fcn", "gcn", 0.01), ("gin", "legs-fcn", 0.01), ("gcn", "gin", 0.9)],
            "over GCN and GIN is hardly chance (p below 0.05, corrected resampled t-test).",
        ),
    ],
)
def test_a_lead_is_called_chance_where_it_may_be(rows, said):
    lines = cv_summary(compared(rows))
    assert "LEGS-FCN did best: it named the right class for 90.00 ± 5.00 %" in lines[0]
    assert said in lines[1]
    assert "3 methods were tried on 188 graphs of “MUTAG”: 10 test sets; 9 models vote" in lines[2]


def test_a_method_alone_leads_nobody():
    lines = cv_summary(compared([], ["gcn"]))
    assert lines[0].startswith("GCN named the right class")
    assert len(lines) == 2


def test_the_command_of_one_model():
    command = (
        "legs cv --target=kind 'my file.csv' --model gcn --folds 5 --seed 3 --tune lr=1,2 -o x"
    )
    words = shlex.split(train_command(command, "gcn", "x/one-model", {"lr": 0.1, "lowpass": True}))
    assert words == [
        *["legs", "train", "my file.csv", "--target", "kind", "--seed", "3", "--model", "gcn"],
        *["--lr", "0.1", "--set", "lowpass=true", "-o", "x/one-model"],
    ]
    assert train_command("python my_script.py", "gcn", "x") == ""
    run = compared([])
    run.results["options"]["grid"] = [{"lr": 1}, {"lr": 2}]
    run.results["methods"][1]["chosen"] = [1, 0, 1]
    assert usual_setting(run, "gcn") == {"lr": 2}
    assert usual_setting(run, "gin") == {}
