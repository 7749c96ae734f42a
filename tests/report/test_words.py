"""The first lines of a page: the answer first, and no praise that the numbers do not bear out."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from legs.report import words
from legs.report.folders import CrossValidation, Run
from legs.report.page import environment
from legs.report.views import cv_view, train_view
from legs.report.words import ABOUT, about_method, method_name
from legs.training import methods


def lead(view):
    """The first lines of a page, as a reader sees them."""
    template = environment().get_template(view["template"])
    html = "".join(template.blocks["lead"](template.new_context(view)))
    lines = re.findall(r"<p>(.*?)</p>", html, re.DOTALL)
    return [" ".join(unescape(line).split()) for line in lines]


def summary(run):
    return lead(train_view(run))


def cv_summary(run):
    return lead(cv_view(run))


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
    return Run(Path("run"), results, None, predictions)


def classes_of(right, guess, tested):
    scores = ({"accuracy": right}, {"accuracy": guess})
    return run_of(*scores, ["yes", "no"], "classification", tested=tested)


def test_an_error_stands_beside_that_of_the_baseline():
    table = pd.DataFrame({"logP": [1.0, 2.0, 3.0], "truth:logP": [1.5, 2.5, 4.5]})
    scores = {"mae:logP": 0.8333, "r2": 0.7}
    run = run_of(scores, {"mae:logP": 2.0}, ["logP"], predictions=table)
    first, second, last = summary(run)
    assert first == (
        "On 50 molecules that were not used for training, the mean absolute error of logP is "
        "0.833 ± 0.33 (standard error). Always predicting the mean gives 2."
    )
    assert second.startswith("The model explains 70% of the variance (R² 0.70; ")
    assert "do not rely" not in second
    assert "how signals on its atoms spread along its bonds" in last
    assert "predict logP on 400 molecules from “mine”, with 50 others for early stopping." in last
    assert train_view(run)["title"] == "Predicting logP with LEGS-FCN"


@pytest.mark.parametrize("r2", [-0.3, 0.05])
def test_a_model_that_learned_nothing_is_called_so(r2):
    text = " ".join(summary(run_of({"mae:y": 1.0, "r2": r2}, {"mae:y": 1.0}, ["y"])))
    assert "do not rely on its predictions" in text
    assert f"explains {max(0, round(100 * r2))}% of the variance" in text


def test_many_targets_are_counted():
    run = run_of({"r2": 0.5}, {}, ["a", "b", "c", "d"], molecules=False)
    text = " ".join(summary(run))
    assert (
        "of 50 graphs that were not used for training (R² 0.50, the mean over all targets" in text
    )
    assert train_view(run)["title"] == "Predicting 4 targets with LEGS-FCN"


@pytest.mark.parametrize(
    ("right", "guess", "tested", "said"),
    [
        (0.76, 0.66, 50, "is about 6 points, so the model may be no better than this baseline."),
        (0.95, 0.66, 50, "the standard error of the accuracy is about 3 points."),
        (0.95, 0.66, 5000, "for early stopping"),  # nothing to warn of
    ],
)
def test_few_test_graphs_are_told(right, guess, tested, said):
    lines = summary(classes_of(right, guess, tested))
    assert f"the accuracy is {100 * right:.0f}%" in lines[0]
    assert said in lines[1]


def test_a_model_that_loses_to_the_baseline_says_so_first():
    lines = summary(classes_of(0.6, 0.66, 50))
    assert lines[0] == (
        "The model is no better than always predicting the most frequent class: do not rely on "
        "its predictions."
    )
    assert "the accuracy is 60%" in lines[1]
    scores = ({"mae:y": 1.0, "r2": -0.3, "whitened_mse": 1.3}, {"mae:y": 0.9, "whitened_mse": 1.0})
    lines = summary(run_of(*scores, ["y"]))
    assert lines[0].startswith("The model is no better than always predicting the mean: do not")
    assert "do not rely" not in " ".join(lines[1:])


def test_a_tiny_test_set_is_named_first():
    lines = summary(classes_of(1.0, 0.5, 1))
    assert lines[0] == "Scores on fewer than 10 graphs mean little: the test set has 1."
    assert "mean little" not in " ".join(summary(classes_of(1.0, 0.5, 10)))


def test_every_method_is_explained():
    assert set(ABOUT) == set(methods())
    assert [method_name(m) for m in ("legs-fcn", "graphsage", "mine")] == [
        *("LEGS-FCN", "GraphSAGE", "mine")
    ]
    for method in ABOUT:
        for molecules in (False, True):
            text = about_method(method, molecules)
            assert text.endswith(".")
            assert ("molecule" in text) == molecules
            assert "{" not in text
    assert about_method("mine") == ""


SIZE = {"parameters": 10, "models": 1, "seconds": 1.0}


def compared(rows, methods=("legs-fcn", "gcn", "gin")):
    results = {
        "data": "MUTAG",
        "graphs": 188,
        "options": {"folds": 10, "test_folds": 1, "rotations": None, "grid": [{}]},
        "guess": [0.66] * 10,
        "methods": [
            {"method": m, "mean": 0.9 - 0.1 * k, "std": 0.05, "scores": [0.9], **SIZE}
            for k, m in enumerate(methods)
        ],
        "comparisons": [{"first": a, "second": b, "p": p, "difference": 1} for a, b, p in rows],
    }
    return CrossValidation(Path("cv"), results, None, None, {"task": "classification"})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("legs-fcn", "gcn", 0.4), ("gin", "legs-fcn", None)],
            "over GCN and GIN is not significant (corr",
        ),
        (
            [("legs-fcn", "gcn", 0.4), ("gin", "legs-fcn", 0.01)],
            "over GIN is significant (p < 0.05, corrected resampled t-test); its lead over GCN is",
        ),
        (
            [("legs-fcn", "gcn", 0.01), ("gin", "legs-fcn", 0.01), ("gcn", "gin", 0.9)],
            "over GCN and GIN is significant (p < 0.05, corrected resampled t-test).",
        ),
    ],
)
def test_a_lead_is_called_chance_where_it_may_be(rows, said):
    lines = cv_summary(compared(rows))
    assert "LEGS-FCN has the highest accuracy on unseen graphs: 90.00 ± 5.00%" in lines[0]
    assert said in lines[1]
    assert "3 methods were compared on 188 graphs of “MUTAG”: 10 test sets, 9 models" in lines[2]


def test_a_method_alone_leads_nobody():
    lines = cv_summary(compared([], ["gcn"]))
    assert lines[0].startswith("GCN has an accuracy on unseen graphs of 90.00")
    assert len(lines) == 2


def test_no_method_is_called_best_that_loses_to_the_baseline():
    run = compared([("legs-fcn", "gcn", 0.4)])
    run.results["guess"] = [0.95] * 10
    lines = cv_summary(run)
    assert lines[0] == (
        "No method is better than always predicting the most frequent class: do not rely on any "
        "of them."
    )
    text = " ".join(lines)
    assert "highest" not in text
    assert "lead" not in text
    assert "90.00 ± 5.00%" in text
    run = replace(compared([]), about={"task": "regression"})
    run.results["guess"] = [0.6] * 10
    text = " ".join(cv_summary(run))
    assert text.startswith("No method is better than always predicting the mean")
    assert "smallest" not in text


def test_tiny_test_sets_of_a_cross_validation():
    tested = pd.DataFrame({"test_set": np.arange(30) % 10, "graph": range(30)})
    run = replace(compared([]), predictions=tested)
    assert cv_summary(run)[0] == (
        "Scores on fewer than 10 graphs mean little: a test set has about 3."
    )


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        ("number", (0.12345,), "0.123"),
        ("number", (1234.5,), "1,234"),
        ("number", (None,), ""),
        ("number", (1e-7,), "1e-07"),
        ("number", (-0.0,), "0"),
        ("percent", (0.8333,), "83.3%"),
        ("percent", (1.0,), "100%"),
        ("percent", (-0.001, 0), "0%"),
        ("percent", (0.105, 0), "10%"),
        ("joined", (["a", "b", "c"],), "a, b and c"),
        ("joined", (list("abcdefg"), 3), "a, b, c and 4 more"),
        ("duration", (3.21,), "3.2 seconds"),
        ("duration", (200,), "3.3 minutes"),
        ("duration", (9000,), "2.5 hours"),
        ("graph_count", (True, 1), "1 molecule"),
        ("graph_count", (False, 1200, "test "), "1,200 test graphs"),
        ("moment", ("2026-01-31T19:54:00+00:00",), "2026-01-31 19:54 UTC"),
        ("moment", ("yesterday",), "yesterday"),
        ("setting_words", ({"seed": 0, "lr": 0.1, "clip": None, "x": False},), "lr 0.1"),
        (
            "about_method",
            ("baseline", True),
            "uses the features of the atoms of a molecule, and none of its bonds.",
        ),
        ("loses", ({"accuracy": 0.5}, {"accuracy": 0.6}), True),
        ("loses", ({"whitened_mse": 0.9}, {}), False),
    ],
)
def test_words_and_numbers(function, arguments, text):
    assert getattr(words, function)(*arguments) == text
