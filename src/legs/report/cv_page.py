"""The page of ``legs cv``: methods beside each other and beside the paper."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import (
    Block,
    Choice,
    Code,
    Missing,
    Page,
    Section,
    Sliding,
    Table,
    Words,
)
from legs.report.cards import card_blocks, part_blocks
from legs.report.cv_cards import cv_cards, cv_map
from legs.report.cv_charts import fold_plot, parameter_plot
from legs.report.cv_words import (
    facts,
    pair_rows,
    protocol,
    score,
    summary,
    train_command,
    unit,
    usual_setting,
)
from legs.report.folders import (
    RESULTS,
    Run,
    Scales,
    Shown,
    read_json,
    read_results,
    read_shown,
    read_table,
    read_train,
)
from legs.report.scale_charts import OLD, SCALES, scale_states, wavelet_blocks
from legs.report.score_charts import RESIDUALS, confusion_plot, reliability_plot, residual_spec
from legs.report.train_page import Paper
from legs.report.train_words import names_of
from legs.report.words import duration, method_name, moment, setting_words

# How sure the best method was; written by legs.explain.
CERTAINTY = "certainty.json"
# A run of legs train inside the folder, whose model can be asked what mattered.
ONE = "one-model"


@dataclass(frozen=True)
class CrossValidation:
    """What a folder of ``legs cv`` holds; ``one`` is a single model, if one was trained there."""

    folder: Path
    results: dict[str, Any]
    predictions: pd.DataFrame | None
    shown: Shown | None
    about: dict[str, Any]
    certainty: dict[str, Any] = field(default_factory=dict)
    one: Run | None = None

    @property
    def lead(self) -> str:
        """The method whose answers are shown: the best."""
        return str(self.about.get("lead") or self.methods[0]["method"])

    @property
    def noun(self) -> str:
        """What a graph is called."""
        return "molecule" if self.shown is not None and self.shown.smiles(0) else "graph"

    @property
    def classes(self) -> bool:
        """Whether classes are predicted."""
        if self.about.get("task"):
            return bool(self.about["task"] == "classification")
        return self.predictions is not None and "truth" in self.predictions

    @property
    def methods(self) -> list[dict[str, Any]]:
        """Results by method, the best first."""
        sign = -1 if self.classes else 1
        return sorted(self.results["methods"], key=lambda m: sign * float(m["mean"]))

    @property
    def factor(self) -> int:
        """Accuracies are told in per cent."""
        return 100 if self.classes else 1


def read_cv(folder: Path) -> CrossValidation:
    """Reads a folder of ``legs cv``."""
    results = read_results(folder)
    words = ("id", "smiles", "truth", *(str(m["method"]) for m in results["methods"]))
    predictions = read_table(folder / "predictions.csv", words)
    if predictions is not None and "truth" not in predictions:  # numbers, not names of classes
        predictions = read_table(folder / "predictions.csv", ("id", "smiles"))
    about = read_json(folder / "scales.json")
    one = folder / ONE
    return CrossValidation(
        folder,
        results,
        predictions,
        read_shown(folder),
        about,
        read_json(folder / CERTAINTY),
        read_train(one) if "scores" in read_json(one / RESULTS) else None,
    )


def cv_page(run: CrossValidation, paper: Paper = lambda data, method: None) -> Page:
    """What there is to see of a cross-validation.

    Args:
        run: of ``legs cv``.
        paper: looks up the paper's number for a data set and method.
    """
    found = [
        Section("scores", "Scores", _scores(run, paper)),
        Section("predictions", "Predictions and truth", _predictions(run)),
        Section("scales", "Learned scales and filters", _scales(run)),
        Section("map", f"Map of the {run.noun}s", cv_map(run.shown, run.predictions, run.classes)),
        Section("drawn", "Right and wrong, drawn", cv_cards(run.shown, run.predictions, run.lead)),
        Section("parts", f"Which part of the {run.noun} mattered", _parts(run)),
        Section("reproduce", "How to get this again", _again(run)),
    ]
    title = f"Cross-validation on {run.results['data'] or 'your data'}"
    return Page(title, summary(run), facts(run), [s for s in found if s.blocks])


def _scores(run: CrossValidation, paper: Paper) -> list[Block]:
    name = str(run.results["data"])
    guess = np.array(run.results["guess"])
    printed = {m["method"]: paper(name, str(m["method"])) for m in run.methods}
    has_paper = any(value is not None for value in printed.values())
    columns = ["method", unit(run), *(["paper"] if has_paper else [])]
    columns += ["parameters", "models", "time"]
    rows = []
    for method in run.methods:
        row = [method_name(str(method["method"])), score(run, method["mean"], method["std"])]
        if has_paper:
            row.append(_printed(printed[method["method"]]))
        time = duration(method["seconds"])
        rows.append([*row, f"{method['parameters']:,}", f"{method['models']:,}", time])
    row = ["most frequent class" if run.classes else "mean of the training set"]
    row.append(score(run, float(guess.mean()), float(guess.std())))
    rows.append([*row, *([""] if has_paper else []), "0", "0", ""])
    blocks: list[Block] = [Table(columns, rows, strong=(0,)), fold_plot(run.methods, run)]
    if has_paper and run.classes:
        blocks.insert(
            1,
            Words(
                "The paper's numbers are the mean and deviation over ten test sets, each answered "
                f"by nine models together. Here: {protocol(run)}."
            ),
        )
    if len(run.methods) > 1:
        blocks.append(parameter_plot(run.methods, run))
        caption = "Every pair over the same test sets (corrected resampled t-test)"
        blocks.append(Table(["first", "second", "difference", "p"], pair_rows(run), caption, 2))
    return blocks


def _printed(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.mean:g}" if value.std is None else f"{value.mean:.2f} ± {value.std:.2f}"


def _predictions(run: CrossValidation) -> list[Block]:
    table, lead = run.predictions, run.lead
    if table is None:
        return [Missing(OLD.format("predictions"))]
    if run.classes:
        if lead not in table:
            return []
        truth, found = table["truth"].astype(str).tolist(), table[lead].astype(str).tolist()
        names = [str(name) for name in run.about.get("names", [])]
        names = list(dict.fromkeys([*names, *sorted({*truth, *found})]))
        told = f"Answers of {method_name(lead)} for every {run.noun} when it was in a test set."
        blocks: list[Block] = [Words(told), confusion_plot(truth, found, names)]
        sure = run.certainty.get("sure", ())
        if run.certainty.get("method") == lead and len(sure) == len(truth):
            right = np.array([a == b for a, b in zip(truth, found, strict=True)])
            blocks.append(reliability_plot(np.array(sure, dtype=np.float64), right))
        return blocks
    targets = [c.removeprefix("truth:") for c in table.columns if c.startswith("truth:")]
    plots = {
        name: residual_spec(table[f"truth:{name}"], table[f"{lead}:{name}"], name)
        for name in targets
        if f"{lead}:{name}" in table
    }
    told = f"Predictions of {method_name(lead)} for every test set. "
    told += RESIDUALS.format(run.noun)
    alt = "Predicted numbers against true ones; the line is perfection."
    return [Words(told), Choice("residuals", "target", plots, alt, 380)] if plots else []


def _scales(run: CrossValidation) -> list[Block]:
    if not run.about:
        return [Missing(OLD.format("learned scales"))]
    known = run.about.get("scales", {})
    if not known:
        return []
    method = run.lead if run.lead in known else next(iter(known))
    weights = np.array(known[method], dtype=np.float64)
    scales = Scales(list(range(1, len(weights) + 1)), weights, np.full(len(weights), 0.5))
    spread = (weights @ np.arange(1, weights.shape[-1] + 1)).std(0)
    told = (
        f"{SCALES} Below are the scales that {method_name(method)} learned, the mean over the "
        "models of each test set. "
        f"Between test sets they differ by {', '.join(f'{s:.2f}' for s in spread)} steps "
        "(deviation of their means): how much of what is learned is chance."
    )
    return [
        Words(told),
        Sliding("test set", scale_states(scales), 0),
        *wavelet_blocks(run.shown, weights.mean(0), 0.5),
    ]


def _parts(run: CrossValidation) -> list[Block]:
    """What mattered, where there is a model to ask; else how to get one."""
    networks = [str(m["method"]) for m in run.methods if m["method"] != "gs-svm"]
    if not networks:
        return [Words("GS-SVM is no network: its answers cannot be shared out among nodes.")]
    method = run.lead if run.lead in networks else networks[0]
    if run.one is None:
        folder = str(run.folder / ONE)
        told = (
            "A cross-validation keeps answers, not models, so there is none here to ask. Train one "
            f"{method_name(method)} apart, and make this page again:"
        )
        known = str(run.results.get("command", ""))
        command = train_command(known, method, folder, usual_setting(run, method))
        command = command or f"legs train DATA --model {method} -o {shlex.quote(folder)}"
        return [Words(told), Code(f"{command}\nlegs report {shlex.quote(str(run.folder))}")]
    results = run.one.results
    split = results.get("split", {})
    told = (
        f"From one more {method_name(str(results['settings']['model']))}, trained apart from the "
        f"cross-validation on {split.get('train', 0):,} {run.noun}s; the drawings are of its "
        f"{split.get('test', 0):,} test {run.noun}s."
    )
    names = names_of(run.one)
    cards = card_blocks(run.one, names, run.classes)
    return [Words(told), *cards, *part_blocks(run.one, run.classes)]


def _again(run: CrossValidation) -> list[Block]:
    results = run.results
    options = results["options"]
    training = options.get("training", {})
    rows = [
        ["seeds", f"{training.get('seed', '')} (partitions, weights, batches)"],
        ["protocol", protocol(run)],
        ["chosen from", "; ".join(str(s) for s in options.get("grid", []) if s)],
        ["node features", ", ".join(map(str, results.get("features", [])[:12]))],
        ["training", setting_words(training)],
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", moment(str(results.get("date", "")))],
        ["folder", str(run.folder)],
    ]
    blocks: list[Block] = [Code(str(results["command"]))] if results.get("command") else []
    return [*blocks, Table(["", ""], [row for row in rows if row[1]], words=2)]
