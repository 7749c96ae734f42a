"""The page of ``legs cv``: methods beside each other and beside the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import (
    Block,
    Choice,
    Code,
    Fact,
    Missing,
    Page,
    Section,
    Sliding,
    Table,
    Words,
)
from legs.report.cv_cards import cv_cards, cv_map
from legs.report.cv_charts import fold_plot, parameter_plot
from legs.report.folders import RESULTS, Scales, Shown, read_json, read_shown, read_table
from legs.report.scale_charts import OLD, scale_states, wavelet_blocks
from legs.report.score_charts import confusion_plot, residual_spec
from legs.report.train_page import Paper
from legs.report.words import duration, method_name, number


@dataclass(frozen=True)
class CrossValidation:
    """What a folder of ``legs cv`` holds."""

    folder: Path
    results: dict[str, Any]
    predictions: pd.DataFrame | None
    shown: Shown | None
    about: dict[str, Any]

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
    results = read_json(folder / RESULTS)
    words = ("id", "smiles", "truth", *(str(m["method"]) for m in results["methods"]))
    predictions = read_table(folder / "predictions.csv", words)
    if predictions is not None and "truth" not in predictions:  # numbers, not names of classes
        predictions = read_table(folder / "predictions.csv", ("id", "smiles"))
    about = read_json(folder / "scales.json")
    return CrossValidation(folder, results, predictions, read_shown(folder), about)


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
        Section("map", "Map of the graphs", cv_map(run.shown, run.predictions, run.classes)),
        Section(
            "drawn", "Right and wrong, drawn", cv_cards(run.shown, run.predictions, _lead(run))
        ),
        Section("reproduce", "How to get this again", _again(run)),
    ]
    title = f"Cross-validation on {run.results['data'] or 'your data'}"
    return Page(title, _summary(run, paper), _facts(run), [s for s in found if s.blocks])


def _lead(run: CrossValidation) -> str:
    return str(run.about.get("lead") or run.methods[0]["method"])


def _unit(run: CrossValidation) -> str:
    return "accuracy, %" if run.classes else "MSE, targets scaled to variance 1"


def _score(run: CrossValidation, mean: float, std: float) -> str:
    digits = 2 if run.classes else 4
    return f"{run.factor * mean:.{digits}f} ± {run.factor * std:.{digits}f}"


def _protocol(run: CrossValidation) -> str:
    options = run.results["options"]
    sets = len(run.results["guess"])
    if not run.classes:
        return f"{sets} random splits (80 % train, 10 % validate, 10 % test)"
    rotations = options.get("rotations")
    most = options["folds"] - options["test_folds"]
    models = most if rotations is None else min(rotations, most)
    voted = f"{models} models vote on each" if models > 1 else "one model answers for each"
    return f"{sets} test sets; {voted}"


def _summary(run: CrossValidation, paper: Paper) -> list[str]:
    results, best = run.results, run.methods[0]
    guess = np.array(results["guess"])
    named = method_name(str(best["method"]))
    many = len(run.methods)
    lines = [
        f"{many} method{'s were' if many > 1 else ' was'} tried on {results['graphs']:,} graphs of "
        f"{results['data'] or 'a data set'}: {_protocol(run)}."
    ]
    ours = _score(run, best["mean"], best["std"])
    base = _score(run, float(guess.mean()), float(guess.std()))
    if run.classes:
        lines.append(
            f"{named} {'did best' if many > 1 else 'did this well'}: {ours} % of unseen graphs "
            "right (mean and deviation over test sets). The most frequent class alone gives "
            f"{base} %."
        )
    else:
        lines.append(
            f"{named} {'has the smallest' if many > 1 else 'has a'} mean squared error: {ours}, "
            f"with targets scaled to variance 1. Guessing the mean gives {base}."
        )
    if many > 1:
        sure = [row for row in results.get("comparisons", ()) if _involves(row, best)]
        far = [row for row in sure if row["p"] is not None and row["p"] < 0.05]
        lines.append(
            f"Of the {len(sure)} other{'s' * (len(sure) > 1)}, {len(far) or 'none'} "
            f"{'is' if len(far) == 1 else 'are'} reliably different from it (p below 0.05, "
            "corrected resampled t-test): with few test sets many differences are chance."
        )
    return lines


def _involves(row: dict[str, Any], method: dict[str, Any]) -> bool:
    return method["method"] in (row["first"], row["second"])


def _facts(run: CrossValidation) -> list[Fact]:
    results, best = run.results, run.methods[0]
    digits = 1 if run.classes else 3
    unit = " %" if run.classes else ""
    return [
        Fact(f"{run.factor * best['mean']:.{digits}f}{unit}", method_name(str(best["method"]))),
        Fact(f"{run.factor * np.mean(results['guess']):.{digits}f}{unit}", "by guessing"),
        Fact(f"{sum(m['models'] for m in run.methods):,}", "models trained"),
        Fact(duration(sum(m["seconds"] for m in run.methods)), "of training"),
    ]


def _scores(run: CrossValidation, paper: Paper) -> list[Block]:
    name = str(run.results["data"])
    guess = np.array(run.results["guess"])
    printed = {m["method"]: paper(name, str(m["method"])) for m in run.methods}
    has_paper = any(value is not None for value in printed.values())
    columns = ["method", _unit(run), *(["paper"] if has_paper else [])]
    columns += ["parameters", "models", "time"]
    rows = []
    for method in run.methods:
        row = [method_name(str(method["method"])), _score(run, method["mean"], method["std"])]
        if has_paper:
            row.append(_printed(printed[method["method"]]))
        time = duration(method["seconds"])
        rows.append([*row, f"{method['parameters']:,}", f"{method['models']:,}", time])
    row = ["most frequent class" if run.classes else "mean of the training set"]
    row.append(_score(run, float(guess.mean()), float(guess.std())))
    rows.append([*row, *([""] if has_paper else []), "0", "0", ""])
    blocks: list[Block] = [Table(columns, rows, strong=(0,)), fold_plot(run.methods, run)]
    if has_paper and run.classes:
        blocks.insert(
            1,
            Words(
                "The paper's numbers are the mean and deviation over ten test sets, each answered "
                f"by nine models together. Here: {_protocol(run)}."
            ),
        )
    if len(run.methods) > 1:
        blocks.append(parameter_plot(run.methods, run))
        pairs = [
            [
                method_name(str(row["first"])),
                method_name(str(row["second"])),
                f"{row['difference']:+.{2 if run.classes else 4}f}",
                number(row["p"]),
            ]
            for row in run.results.get("comparisons", ())
        ]
        caption = "Every pair over the same test sets (corrected resampled t-test)"
        blocks.append(Table(["first", "second", "difference", "p"], pairs, caption, 2))
    return blocks


def _printed(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.mean:g}" if value.std is None else f"{value.mean:.2f} ± {value.std:.2f}"


def _predictions(run: CrossValidation) -> list[Block]:
    table, lead = run.predictions, _lead(run)
    if table is None:
        return [Missing(OLD.format("predictions"))]
    if run.classes:
        if lead not in table:
            return []
        truth, found = table["truth"].astype(str).tolist(), table[lead].astype(str).tolist()
        names = [str(name) for name in run.about.get("names", [])]
        names = list(dict.fromkeys([*names, *sorted({*truth, *found})]))
        told = f"Answers of {method_name(lead)} for every graph when it was in a test set."
        return [Words(told), confusion_plot(truth, found, names)]
    targets = [c.removeprefix("truth:") for c in table.columns if c.startswith("truth:")]
    plots = {
        name: residual_spec(table[f"truth:{name}"], table[f"{lead}:{name}"], name)
        for name in targets
        if f"{lead}:{name}" in table
    }
    told = f"Predictions of {method_name(lead)} for the graphs of every test set."
    alt = "Predicted numbers against true ones; the line is perfection."
    return [Words(told), Choice("residuals", "target", plots, alt, 380)] if plots else []


def _scales(run: CrossValidation) -> list[Block]:
    if not run.about:
        return [Missing(OLD.format("learned scales"))]
    known = run.about.get("scales", {})
    if not known:
        return []
    method = _lead(run) if _lead(run) in known else next(iter(known))
    weights = np.array(known[method], dtype=np.float64)
    scales = Scales(list(range(1, len(weights) + 1)), weights, np.full(len(weights), 0.5))
    spread = (weights @ np.arange(1, weights.shape[-1] + 1)).std(0)
    told = (
        f"Scales that {method_name(method)} learned, the mean over the models of each test set. "
        f"Between test sets they differ by {', '.join(f'{s:.2f}' for s in spread)} steps "
        "(deviation of their means): how much of what is learned is chance."
    )
    return [
        Words(told),
        Sliding("test set", scale_states(scales), 0),
        *wavelet_blocks(run.shown, weights.mean(0), 0.5),
    ]


def _again(run: CrossValidation) -> list[Block]:
    results = run.results
    options = results["options"]
    training = options.get("training", {})
    rows = [
        ["seeds", f"{training.get('seed', '')} (partitions, weights, batches)"],
        ["protocol", _protocol(run)],
        ["chosen from", "; ".join(str(s) for s in options.get("grid", []) if s)],
        ["node features", ", ".join(map(str, results.get("features", [])[:12]))],
        ["training", ", ".join(f"{k} {v}" for k, v in training.items() if k != "seed")],
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", str(results.get("date", ""))],
        ["folder", str(run.folder)],
    ]
    blocks: list[Block] = [Code(str(results["command"]))] if results.get("command") else []
    return [*blocks, Table(["", ""], [row for row in rows if row[1]], words=2)]
