"""What each kind of page shows: numbers, tables and figures; the text is in ``web/*.html``."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.report import plots, words
from legs.report.folders import DEMO, ONE, CrossValidation, Run, Scales, read_json
from legs.report.graphs import View, cv_graphs, run_cards, run_map
from legs.report.responses import scale_figures
from legs.report.theme import Floats
from legs.report.words import method_name, number

Table = list[list[str]]
# The paper's score (mean, std) for a data set and method; None if it has none.
Paper = Callable[[str, str], Any]
ENSEMBLES = ("gcn-legs-fixed", "gcn-legs-fcn")
LEARNED = ("legs-fcn", "legs-rbf", "legs-attn-fcn", "mp-legs-fcn", "gcn-legs-fcn")
# Options of legs cv that legs train has as well; the latter have no value.
SHARED = {"--target", "--task", "--features", "--limit", "--lr", "--epochs", "--batch-size"}
SHARED |= {"--patience", "--seed", "--smiles-column", "--id-column", "--on-error"}
SHARED |= {"--grad-clip", "--clip"}  # the latter in old runs
FLAGS = {"--hydrogens", "--symmetrize", "--balanced"}
SIGNIFICANT = 0.05
# A model that explains less of the variance is of no use.
NOTHING = 0.1


def train_view(run: Run, paper: Paper) -> View:
    """The page of ``legs train``."""
    figures: View = {}
    if len(run.history):
        losses = run.history.get("validation_loss", np.full(len(run.history), np.nan))
        best = int(run.results.get("best_epoch") or 0) or None
        epochs, train = run.history["epoch"].tolist(), run.history["train_loss"].tolist()
        figures["curves"] = plots.curves(epochs, train, list(losses), best)
    heads = {"test": "test", "guess": "baseline (test)", "validation": "validation"}
    heads = {p: h for p, h in {**heads, "train": "training"}.items() if run.scores(p)}
    settings, data = run.results["settings"], run.results["data"]
    training = settings.get("training", {})
    again = [
        ["seed", str(training.get("seed", ""))],
        ["data", f"{data['name']} (fingerprint {settings.get('data', '')})"],
        ["split", f"fingerprint {settings.get('split', '')}; the graphs are in split.json"],
        ["node features", words.joined([str(n) for n in data.get("features", [])], 8)],
        ["training", words.setting_words(training)],
        ["model options", ", ".join(f"{k}={v}" for k, v in settings["model_options"].items())],
    ]
    names, sure = [f"probability:{name}" for name in run.names], None
    if names and run.predictions is not None and set(names) <= set(run.predictions.columns):
        sure = run.predictions[names].to_numpy(dtype=np.float64).max(1)
    return {
        **train_words(run),
        **run_cards(run, figures),
        "template": "train.html",
        "figures": figures,
        "map": run_map(run),
        "calibration": _predictions(run, run.names, "prediction", "", sure, figures),
        "columns": [
            "",
            *(h + (f" ({n:,})" if (n := run.size(p)) else "") for p, h in heads.items()),
        ],
        "scores": [
            [words.SCORES.get(name, name), *(number(run.scores(part).get(name)) for part in heads)]
            for name in run.scores(next(iter(heads)))
            if ":" not in name
        ],
        "targets": _target_rows(run),
        "paper": paper(str(data["name"]), run.method),
        "scales": _run_scales(run, figures),
        "again": again + _origin(run.results, run.folder),
    }


def train_words(run: Run) -> View:
    """What the title and the summary of a trained model are made of."""
    test, base, names = run.scores("test"), run.scores("guess"), run.names
    single = names[0] if len(names) == 1 and test.get(f"mae:{names[0]}") is not None else ""
    accuracy, r2, size = test.get("accuracy") or 0.0, test.get("r2"), run.size("test")
    if run.classes:
        what = f"classes of {run.results['data']['name'] or 'your data'}"
    else:
        what = words.joined(names) if len(names) <= 3 else f"{len(names)} targets"
    return {
        "title": f"Predicting {what} with {method_name(run.method)}",
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "test": test,
        "base": base,
        "single": single,
        "standard_error": _standard_error(run.predictions, single),
        "accuracy_error": math.sqrt(max(accuracy * (1 - accuracy), 0) / size) if size else 0.0,
        "useless": r2 is not None and r2 < NOTHING and not words.loses(test, base),
    }


def _standard_error(table: pd.DataFrame | None, name: str) -> float:
    """The standard error of a mean absolute error."""
    if table is None or name not in table or f"truth:{name}" not in table:
        return math.nan
    error = (table[name].astype(float) - table[f"truth:{name}"].astype(float)).abs()
    return float(error.std() / math.sqrt(max(error.count(), 1)))


def _predictions(
    run: Run | CrossValidation,
    names: Sequence[str],
    column: str,
    prefix: str,
    sure: Floats | None,
    figures: View,
) -> float | None:
    """Adds plots of predicted classes in a column, or of targets in columns with a prefix.

    Returns the calibration error, if the predictions come with probabilities ``sure``.
    """
    table, targets = run.predictions, {}
    if table is None:
        return None
    for name in () if run.classes else names:
        pair = (f"truth:{name}", f"{prefix}{name}")
        if set(pair) <= set(table.columns):
            truth, predicted = (pd.to_numeric(table[each], errors="coerce") for each in pair)
            targets[name] = plots.residuals(truth, predicted, name)
    if targets:
        figures["residuals"] = plots.with_frames(targets)
    if not run.classes or not {"truth", column} <= set(table.columns):
        return None
    true, ours = table["truth"].astype(str), table[column].astype(str)
    every = list(dict.fromkeys([*names, *sorted({*true, *ours})]))
    figures["confusion"] = plots.confusion(true.tolist(), ours.tolist(), every)
    if sure is None:
        return None
    binned = plots.reliability(sure, (true == ours).to_numpy())
    figures["reliability"] = plots.reliability_plot(binned)
    return binned.error


def _run_scales(run: Run, figures: View) -> View | None:
    """Learned or fixed scales of a trained model; ``None`` if it has none."""
    fixed, scales = run.scales is None, run.scales or run.fixed_scales
    if scales is None:
        return {"old": True} if run.method in LEARNED else None
    # Epochs in the history of an ensemble are those of its head, trained afterwards.
    ensemble = run.method in ENSEMBLES
    best = scales.labels[-1] if ensemble else int(run.results.get("best_epoch") or 0)
    state = int(np.argmin(np.abs(np.array(scales.labels) - best)))
    return {
        **_slider(scales, "epoch", scales.labels[state], figures),
        "fixed": fixed,
        "ensemble": ensemble,
        "epoch": scales.labels[state],
        "first": _means(scales.means[0]),
        "last": _means(scales.means[state]),
        "change": float(np.abs(scales.means[state] - scales.means[0]).max()),
    }


def _slider(scales: Scales, label: str, best: int, figures: View) -> View:
    slides, labels = scale_figures(scales, best)
    figures |= slides
    return {"label": label, "labels": labels, "start": labels.index(best)}


def _means(means: Floats) -> str:
    return ", ".join(f"{value:.2f}" for value in means)


def _target_rows(run: Run) -> Table:
    """Errors of every target in its own units, beside the baseline's."""
    test, base, rows = run.scores("test"), run.scores("guess"), []
    for name in run.names if test and not run.classes else ():
        error, mean = test.get(f"rmse:{name}"), base.get(f"rmse:{name}")
        smaller = words.percent(1 - error / mean, 0) if error is not None and mean else ""
        rows.append([name, number(test.get(f"mae:{name}")), number(error), number(mean), smaller])
    return rows


def _origin(results: View, folder: Path) -> Table:
    """Versions, machine, date and folder."""
    return [
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", words.moment(str(results.get("date", "")))],
        ["folder", str(folder)],
    ]


def demo_view(folder: Path, runs: list[Run], paper: Paper) -> View:
    """The page of ``legs demo``: all models, and the first in detail."""
    run, names = runs[0], ("r2", "whitened_mse")
    base = [number(run.scores("guess").get(name)) for name in names]
    rows = [["mean of the training set", *base, "0", ""]]
    for one in runs:
        cells = [method_name(one.method), *(number(one.scores("test").get(n)) for n in names)]
        rows.append([*cells, f"{one.results['parameters']:,}", f"{one.results['seconds']:.0f} s"])
    ranked = sorted(runs, key=lambda one: float(one.scores("test").get("whitened_mse") or math.inf))
    seed = str(run.results["settings"]["training"].get("seed", ""))
    other = f"legs report {folder}/MODEL makes the page of any of them"
    return {
        **train_view(run, paper),
        "template": "demo.html",
        "title": "Demonstration: properties of molecules",
        "models": rows,
        "ranked": [method_name(one.method) for one in ranked],
        "best_r2": max(ranked[0].scores("test").get("r2") or 0.0, 0.0),
        "command": str(read_json(folder / DEMO).get("command") or "legs demo"),
        "again": [["seed", seed], ["other models", other], *_origin(run.results, folder)],
    }


def cv_view(run: CrossValidation, paper: Paper) -> View:
    """The page of ``legs cv``."""
    score = "accuracy, %" if run.classes else "mean squared error"
    names = {str(m["method"]): method_name(str(m["method"])) for m in run.methods}
    factor = 100 if run.classes else 1
    scores = {names[m["method"]]: [factor * s for s in m["scores"]] for m in run.methods}
    figures = {"folds": plots.folds(scores, score)}
    printed = {name: paper(str(run.results["data"]), name) for name in names}
    training = run.results["options"].get("training", {})
    settings = [str(setting) for setting in run.results["options"].get("grid", []) if setting]
    again = [
        ["seeds", f"{training.get('seed', '')} (partitions, weights, batches)"],
        ["protocol", protocol(run)],
        ["tuned over", "; ".join(settings)],
        ["node features", ", ".join(map(str, run.results.get("features", [])[:12]))],
        ["training", words.setting_words(training)],
    ]
    table = pd.DataFrame() if run.predictions is None else run.predictions
    targets = [str(c).removeprefix("truth:") for c in table if str(c).startswith("truth:")]
    classes = [str(name) for name in run.about.get("names", [])]
    prefix, sure = f"{run.lead}:", None
    if run.certainty.get("method") == run.lead and len(run.certainty["sure"]) == len(table):
        sure = np.array(run.certainty["sure"], dtype=np.float64)
    signed = "{:+.2f}".format if run.classes else "{:+.4f}".format
    return {
        **cv_words(run),
        **cv_graphs(run),
        "template": "cv.html",
        "figures": figures,
        "scores": _cv_scores(run, printed if any(printed.values()) else {}),
        "has_paper": any(printed.values()),
        "pairs": [
            [names[r["first"]], names[r["second"]], signed(r["difference"]), number(r["p"])]
            for r in run.results.get("comparisons", ())
        ],
        "calibration": _predictions(run, classes or targets, run.lead, prefix, sure, figures),
        "scales": _cv_scales(run, figures),
        "parts_of": _parts(run),
        "one": {} if run.one is None else run_cards(run.one, figures),
        "again": again + _origin(run.results, run.folder),
    }


def cv_words(run: CrossValidation) -> View:
    """What the title and the summary of a cross-validation are made of."""
    best, base = run.methods[0], np.array(run.results["guess"])
    sign = 1 if run.classes else -1
    tested = 0.0 if run.predictions is None else len(run.predictions) / max(len(base), 1)
    name = best["method"]
    pairs = [r for r in run.results.get("comparisons", ()) if name in (r["first"], r["second"])]
    p = {str(r["second"] if r["first"] == name else r["first"]): r["p"] for r in pairs}
    sure = [m for m, value in p.items() if value is not None and value < SIGNIFICANT]
    return {
        "title": f"Cross-validation on {run.results['data'] or 'your data'}",
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "best": method_name(str(name)),
        "score": _cv_score(run, best["mean"], best["std"]),
        "baseline": _cv_score(run, float(base.mean()), float(base.std())),
        "lost": bool(sign * best["mean"] <= sign * base.mean()),
        "few": words.few_words(tested, "a test set has about"),
        "protocol": protocol(run),
        "significant": [method_name(m) for m in sure],
        "insignificant": [method_name(m) for m in p if m not in sure],
        "level": SIGNIFICANT,
    }


def _cv_score(run: CrossValidation, mean: float, std: float) -> str:
    return f"{100 * mean:.2f} ± {100 * std:.2f}" if run.classes else f"{mean:.4f} ± {std:.4f}"


def protocol(run: CrossValidation) -> str:
    """How methods were tested."""
    options, sets = run.results["options"], len(run.results["guess"])
    if not run.classes:
        return f"{sets} random splits (80% training, 10% validation, 10% test)"
    most = options["folds"] - options["test_folds"]
    models = most if options.get("rotations") is None else min(options["rotations"], most)
    return f"{sets} test sets, {f'{models} models vote' if models > 1 else 'one model'} on each"


def _cv_scores(run: CrossValidation, paper: View) -> Table:
    """One row per method, the best first, then the baseline; the paper's scores if known."""
    rows = []
    for m in run.methods:
        text = words.paper_score(paper.get(m["method"]))
        cells = [f"{m['parameters']:,}", f"{m['models']:,}", words.duration(m["seconds"])]
        score = _cv_score(run, m["mean"], m["std"])
        rows.append([method_name(m["method"]), score, *([text] if paper else []), *cells])
    base = np.array(run.results["guess"])
    name = "most frequent class" if run.classes else "mean of the training set"
    score = _cv_score(run, float(base.mean()), float(base.std()))
    return [*rows, [name, score, *([""] if paper else []), "0", "0", ""]]


def _cv_scales(run: CrossValidation, figures: View) -> View | None:
    """Scales that the best method learned, or the first that learns any."""
    if not run.about:
        return {"old": True}
    if not run.scales:
        return None
    method = run.lead if run.lead in run.scales else next(iter(run.scales))
    scales = run.scales[method]
    slider = _slider(scales, "test set", 1, figures)
    return {**slider, "method": method_name(method), "deviation": _means(scales.means.std(0))}


def _parts(run: CrossValidation) -> View:
    """The network to explain, and the commands that train it where there is none."""
    networks = [str(m["method"]) for m in run.methods if m["method"] != "gs-svm"]
    if not networks:
        return {}
    method = run.lead if run.lead in networks else networks[0]
    folder = str(run.folder / ONE)
    command = str(run.results.get("command", ""))
    train = train_command(command, method, folder, usual_setting(run, method))
    train = train or f"legs train DATA --model {method} -o {shlex.quote(folder)}"
    commands = f"{train}\nlegs report {shlex.quote(str(run.folder))}"
    return {"method": method_name(method), "commands": commands}


def train_command(command: str, method: str, folder: str, setting: View | None = None) -> str:
    """The command that trains one model like those of a cross-validation; empty if unknown.

    >>> train_command("legs cv a.csv --folds 5 --target y -o cv", "gcn", "cv/m", {"lr": 0.01})
    'legs train a.csv --target y --model gcn --lr 0.01 -o cv/m'
    """
    parts = shlex.split(command)
    if parts[:2] != ["legs", "cv"]:
        return ""
    data, options, rest = "", [], iter(parts[2:])
    tuned = dict(setting or {})
    for word in rest:
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            data = data or word
        elif name in FLAGS:
            options.append(name)
        else:
            value = value if equals else next(rest, "")
            if name in SHARED and name.removeprefix("--") not in tuned:
                options += [name, value]
    options += ["--model", method]
    for name, value in tuned.items():
        text = value if isinstance(value, str) else json.dumps(value)
        options += ["--lr", text] if name == "lr" else ["--set", f"{name}={text}"]
    return shlex.join(["legs", "train", data, *options, "-o", folder]) if data else ""


def usual_setting(run: CrossValidation, method: str) -> View:
    """The setting of the tuning grid that was chosen most often for a method."""
    chosen = next(m for m in run.results["methods"] if m["method"] == method).get("chosen")
    grid = run.results["options"].get("grid") or [{}]
    return dict(grid[Counter(chosen).most_common(1)[0][0]]) if chosen else {}
