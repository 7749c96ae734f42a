"""What each kind of page shows: numbers, tables and figures; the text is in ``web/*.html``."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from legs.report import plots
from legs.report.folders import ONE, CrossValidation, Demo, Floats, Run, Scales
from legs.report.graphs import (
    cv_graphs,
    explanations,
    mean_paths,
    run_cards,
    run_map,
    wavelet_cards,
)
from legs.report.plots import page_figure
from legs.report.responses import scale_figures
from legs.report.words import (
    duration,
    few_words,
    listed,
    loses,
    method_name,
    moment,
    number,
    percent,
    score_name,
    setting_words,
)

View = dict[str, Any]
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


def train_view(run: Run, paper: Paper = lambda data, method: None) -> View:
    """The page of ``legs train``."""
    figures: View = {}
    if len(run.history):
        losses = run.history.get("validation_loss", np.full(len(run.history), np.nan))
        best = int(run.results.get("best_epoch") or 0) or None
        train = run.history["train_loss"].tolist()
        epochs = run.history["epoch"].tolist()
        figures["curves"] = page_figure(plots.curves(epochs, train, list(losses), best))
    calibration = _predictions(run, figures)
    parts = [p for p in ("test", "guess", "validation", "train") if p in run.results["scores"]]
    heads = {"guess": "baseline (test)", "train": "training"}
    return {
        **train_words(run),
        **_explained(run, figures),
        "template": "train.html",
        "figures": figures,
        "calibration": calibration,
        "scores": {
            "columns": ["", *(_head(heads.get(p, p), run.size(p)) for p in parts)],
            "rows": [
                [score_name(name), *(number(run.scores(p).get(name)) for p in parts)]
                for name in run.scores(parts[0])
                if ":" not in name
            ],
        },
        "targets": [] if run.classes else _target_rows(run),
        "paper": paper(str(run.results["data"]["name"]), run.method),
        "scales": _run_scales(run, figures),
        "map": run_map(run),
        "again": _again(run),
    }


def train_words(run: Run) -> View:
    """What the title, the summary and the facts of a trained model are made of."""
    test, base, names = run.scores("test"), run.scores("guess"), run.names
    single = names[0] if len(names) == 1 and test.get(f"mae:{names[0]}") is not None else ""
    accuracy, size = test.get("accuracy"), run.size("test")
    error = 0.0
    if accuracy is not None and size:
        error = math.sqrt(max(accuracy * (1 - accuracy), 0) / size)
    if run.classes:
        what = f"classes of {run.results['data']['name'] or 'your data'}"
    else:
        what = listed(names) if len(names) <= 3 else f"{len(names)} targets"
    return {
        "title": f"Predicting {what} with {method_name(run.method)}",
        "facts": _train_facts(run, single),
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "test": test,
        "base": base,
        "single": single,
        "standard_error": _standard_error(run.predictions, single),
        "accuracy_error": error,
        "useless": test.get("r2") is not None and test["r2"] < NOTHING and not loses(test, base),
        "extremes": _extremes(names, test, base),
    }


def _train_facts(run: Run, single: str) -> list[tuple[str, str]]:
    many = "molecules" if run.molecules else "graphs"
    test, base, facts = run.scores("test"), run.scores("guess"), []
    if "accuracy" in test:
        facts.append((percent(test["accuracy"]), f"accuracy on unseen {many}"))
        facts.append((percent(base["accuracy"]), "always predicting the most frequent class"))
    if single:
        facts.append((f"{test[f'mae:{single}']:.3g}", f"mean absolute error of {single}"))
        if (mean := base.get(f"mae:{single}")) is not None:
            facts.append((f"{mean:.3g}", "always predicting the mean"))
    if test.get("r2") is not None:
        facts.append((percent(max(test["r2"], 0), 0), "of the variance explained (R²)"))
    facts.append((f"{run.size('train') or run.results['data']['graphs']:,}", f"training {many}"))
    if run.size("test") and len(facts) < 4:
        facts.append((f"{run.size('test'):,}", f"test {many}"))
    return facts


def _standard_error(table: pd.DataFrame | None, name: str) -> float:
    """The standard error of a mean absolute error."""
    if table is None or not {name, f"truth:{name}"} <= set(table.columns):
        return math.nan
    error = np.abs(table[name].to_numpy(float) - table[f"truth:{name}"].to_numpy(float))
    error = error[np.isfinite(error)]
    return float(error.std(ddof=1) / math.sqrt(len(error))) if len(error) > 1 else math.nan


def _extremes(names: Sequence[str], test: View, base: View) -> View:
    """The targets that are predicted best and worst, with how much smaller their errors are."""
    smaller = {
        name: 1 - test[f"rmse:{name}"] / base[f"rmse:{name}"]
        for name in names
        if test.get(f"rmse:{name}") is not None and base.get(f"rmse:{name}")
    }
    if len(smaller) < 3:
        return {}
    best, worst = max(smaller, key=lambda n: smaller[n]), min(smaller, key=lambda n: smaller[n])
    return {"best": best, "gain": smaller[best], "worst": worst, "loss": smaller[worst]}


def _predictions(run: Run, figures: View) -> float | None:
    """Adds plots of the test predictions; returns the calibration error, if there is one."""
    table, names = run.predictions, run.names
    if table is None:
        return None
    if not run.classes:
        columns = {n: (f"truth:{n}", n) for n in names if {n, f"truth:{n}"} <= set(table.columns)}
        _residuals(table, columns, figures)
        return None
    if not {"truth", "prediction"} <= set(table.columns):
        return None
    truth, predicted = table["truth"].astype(str), table["prediction"].astype(str)
    columns_of = [f"probability:{n}" for n in names if f"probability:{n}" in table]
    sure = table[columns_of].to_numpy(dtype=np.float64).max(1) if columns_of else None
    return _classes(truth.tolist(), predicted.tolist(), names, sure, figures)


def _residuals(table: pd.DataFrame, columns: dict[str, tuple[str, str]], figures: View) -> None:
    frames = []
    for name, pair in columns.items():
        truth, predicted = (pd.to_numeric(table[column], errors="coerce") for column in pair)
        spec = page_figure(plots.residuals(truth, predicted, name))
        frames.append({"name": name, "data": spec["data"], "layout": spec["layout"]})
    if frames:
        figures["residuals"] = {**frames[0], "frames": frames}


def _classes(
    truth: list[str], predicted: list[str], names: Sequence[str], sure: Any, figures: View
) -> float | None:
    every = list(dict.fromkeys([*names, *sorted({*truth, *predicted})]))
    figures["confusion"] = page_figure(plots.confusion_plot(truth, predicted, every))
    if sure is None:
        return None
    binned = plots.reliability(sure, np.array(truth) == np.array(predicted))
    figures["reliability"] = page_figure(plots.reliability_plot(binned))
    return binned.error


def _explained(run: Run, figures: View) -> View:
    """Drawings of the best and worst predictions, with attributions where there are any."""
    attributions, sizes = explanations(run), mean_paths(run)
    if sizes:
        bars = plots.path_bars(sizes, "mean size of the contribution")
        figures["paths"] = page_figure(bars)
    target = next(iter(attributions.values()))["target"] if attributions else ""
    explained = "log-odds of the predicted class" if run.classes else f"predicted {target}"
    return {"cards": run_cards(run), "explained": explained if attributions else ""}


def _run_scales(run: Run, figures: View) -> View | None:
    """Learned or fixed scales of a trained model; ``None`` if it has none."""
    scales = run.scales
    if scales is None:
        weights = run.fixed_scales
        if weights is None:
            return {"old": True} if run.method in LEARNED else None
        slider = _scale_slider(Scales([0], weights[None], np.array([0.5])), "", 0, figures)
        return {**slider, "fixed": True, "wavelets": wavelet_cards(run.shown, weights, 0.5)}
    # Epochs in the history of an ensemble are those of its head, trained afterwards.
    ensemble = run.method in ENSEMBLES
    best = scales.labels[-1] if ensemble else int(run.results.get("best_epoch") or 0)
    state = scales.nearest(best)
    weights, laziness = scales.weights[state], float(scales.laziness[state])
    return {
        **_scale_slider(scales, "epoch", best, figures),
        "ensemble": ensemble,
        "epoch": scales.labels[state],
        "first": _means(scales.means[0]),
        "last": _means(scales.means[state]),
        "change": float(np.abs(scales.means[state] - scales.means[0]).max()),
        "wavelets": wavelet_cards(run.shown, weights, laziness),
    }


def _scale_slider(scales: Scales, label: str, best: int, figures: View) -> View:
    slides = scale_figures(scales, label, best)
    labels = slides.pop("labels")
    figures |= slides if len(labels) > 1 else {k: v for k, v in slides.items() if k != "expected"}
    start = min(range(len(labels)), key=lambda k: abs(labels[k] - best))
    return {"label": label, "labels": labels, "start": start}


def _means(means: Floats) -> str:
    return ", ".join(f"{value:.2f}" for value in means)


def _target_rows(run: Run) -> list[list[str]]:
    """Errors of every target in its own units, beside the baseline's."""
    test, base, rows = run.scores("test"), run.scores("guess"), []
    for name in run.names if test else ():
        error, mean = test.get(f"rmse:{name}"), base.get(f"rmse:{name}")
        smaller = percent(1 - error / mean, 0) if error is not None and mean else ""
        rows.append([name, number(test.get(f"mae:{name}")), number(error), number(mean), smaller])
    return rows


def _again(run: Run) -> list[tuple[str, str]]:
    results = run.results
    settings = results["settings"]
    training = settings.get("training", {})
    rows = [
        ("seed", str(training.get("seed", ""))),
        ("data", f"{results['data']['name']} (fingerprint {settings.get('data', '')})"),
        ("split", f"fingerprint {settings.get('split', '')}; the graphs are in split.json"),
        ("node features", listed([str(n) for n in results["data"].get("features", [])], 8)),
        ("training", setting_words(training)),
        ("model options", ", ".join(f"{k}={v}" for k, v in settings["model_options"].items())),
    ]
    return _with_origin(rows, results, run.folder)


def _with_origin(rows: list[tuple[str, str]], results: View, folder: Any) -> list[tuple[str, str]]:
    """Rows with versions, machine, date and folder; rows that say nothing are left out."""
    rows += [
        ("versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())),
        ("machine", str(results.get("machine", ""))),
        ("date", moment(str(results.get("date", "")))),
        ("folder", str(folder)),
    ]
    return [row for row in rows if row[1]]


def _head(name: str, count: int) -> str:
    return f"{name} ({count:,})" if count else name


def demo_view(demo: Demo, paper: Paper = lambda data, method: None) -> View:
    """The page of ``legs demo``: all models, and the first in detail."""
    run = demo.runs[0]
    view = train_view(run, paper)
    ranked = sorted(demo.runs, key=lambda one: _score(one, "whitened_mse"))
    points = [
        (method_name(one.method), one.results["parameters"], _score(one, "r2"), math.nan)
        for one in demo.runs
    ]
    view["figures"]["models"] = page_figure(plots.parameters(points, "R² on test molecules"))
    rows = [["mean of the training set", *_demo_cells(run.scores("guess")), "0", ""]]
    for one in demo.runs:
        cells = [method_name(one.method), *_demo_cells(one.scores("test"))]
        size, seconds = one.results["parameters"], one.results["seconds"]
        rows.append([*cells, f"{size:,}", f"{seconds:.0f} s"])
    r2 = percent(max(_score(run, "r2"), 0), 0)
    seconds = sum(float(one.results["seconds"]) for one in demo.runs)
    seed = str(run.results["settings"]["training"].get("seed", ""))
    other = f"legs report {demo.folder}/MODEL makes the page of any of them"
    return {
        **view,
        "template": "demo.html",
        "title": "Demonstration: properties of molecules",
        "facts": [
            (f"{run.results['data']['graphs']:,}", "molecules"),
            (f"{len(run.names)}", "properties of each"),
            (r2, f"of the variance explained by {method_name(run.method)} (R²)"),
            (duration(seconds), "for all models"),
        ],
        "models": rows,
        "ranked": [method_name(one.method) for one in ranked],
        "best_r2": max(_score(ranked[0], "r2"), 0),
        "command": demo.command,
        "again": _with_origin([("seed", seed), ("other models", other)], run.results, demo.folder),
    }


def _demo_cells(scores: View) -> list[str]:
    return [number(scores.get("r2")), number(scores.get("whitened_mse"))]


def _score(run: Run, name: str) -> float:
    value = run.scores("test").get(name)
    return math.nan if value is None else float(value)


def cv_view(run: CrossValidation, paper: Paper = lambda data, method: None) -> View:
    """The page of ``legs cv``."""
    figures: View = {}
    data = str(run.results["data"])
    score = "accuracy, %" if run.classes else "mean squared error"
    names = {str(m["method"]): method_name(str(m["method"])) for m in run.methods}
    scores = {names[m["method"]]: [run.factor * s for s in m["scores"]] for m in run.methods}
    figures["folds"] = page_figure(plots.folds(scores, score))
    if len(run.methods) > 1:
        figures["parameters"] = page_figure(plots.parameters(cv_points(run), score))
    one = {} if run.one is None else _explained(run.one, figures)
    training = run.results["options"].get("training", {})
    settings = [str(setting) for setting in run.results["options"].get("grid", []) if setting]
    again = [
        ("seeds", f"{training.get('seed', '')} (partitions, weights, batches)"),
        ("protocol", protocol(run)),
        ("tuned over", "; ".join(settings)),
        ("node features", ", ".join(map(str, run.results.get("features", [])[:12]))),
        ("training", setting_words(training)),
    ]
    return {
        **cv_words(run),
        **cv_graphs(run.shown, run.predictions, run.classes),
        "template": "cv.html",
        "figures": figures,
        "scores": _cv_scores(run, {name: paper(data, name) for name in names}),
        "pairs": [
            [
                names[row["first"]],
                names[row["second"]],
                f"{row['difference']:+.{2 if run.classes else 4}f}",
                number(row["p"]),
            ]
            for row in run.results.get("comparisons", ())
        ],
        "calibration": _cv_predictions(run, figures),
        "scales": _cv_scales(run, figures),
        "parts_of": _parts(run),
        "one": one,
        "again": _with_origin(again, run.results, run.folder),
    }


def cv_words(run: CrossValidation) -> View:
    """What the title, the summary and the facts of a cross-validation are made of."""
    best, base = run.methods[0], np.array(run.results["guess"])
    sign = 1 if run.classes else -1
    lost = bool(sign * best["mean"] <= sign * base.mean())
    digits, unit = (1, "%") if run.classes else (3, "")
    what = "accuracy of " if run.classes else "mean squared error of "
    caveat: list[str] = []
    if run.predictions is not None:
        caveat = few_words(len(run.predictions) / max(len(base), 1), "a test set has about")
    return {
        "title": f"Cross-validation on {run.results['data'] or 'your data'}",
        "facts": [
            (f"{run.factor * best['mean']:.{digits}f}{unit}", what + method_name(best["method"])),
            (
                f"{run.factor * base.mean():.{digits}f}{unit}",
                f"always predicting the {'most frequent class' if run.classes else 'mean'}",
            ),
            (f"{sum(m['models'] for m in run.methods):,}", "models trained"),
            (duration(sum(m["seconds"] for m in run.methods)), "of training"),
        ]
        if "models" in best
        else [],
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "best": method_name(str(best["method"])),
        "score": cv_score(run, best["mean"], best["std"]),
        "baseline": cv_score(run, float(base.mean()), float(base.std())),
        "lost": lost,
        "few": caveat,
        "protocol": protocol(run),
        **_lead(run),
    }


def cv_score(run: CrossValidation, mean: float, std: float) -> str:
    """A mean and a standard deviation."""
    digits = 2 if run.classes else 4
    return f"{run.factor * mean:.{digits}f} ± {run.factor * std:.{digits}f}"


def cv_points(run: CrossValidation) -> list[plots.Point]:
    """Methods with their numbers of parameters and scores."""
    return [
        (
            method_name(m["method"]),
            int(m["parameters"]),
            run.factor * m["mean"],
            run.factor * m["std"],
        )
        for m in run.methods
    ]


def protocol(run: CrossValidation) -> str:
    """How methods were tested."""
    options, sets = run.results["options"], len(run.results["guess"])
    if not run.classes:
        return f"{sets} random splits (80% training, 10% validation, 10% test)"
    most = options["folds"] - options["test_folds"]
    models = most if options.get("rotations") is None else min(options["rotations"], most)
    return f"{sets} test sets, {f'{models} models vote' if models > 1 else 'one model'} on each"


def _lead(run: CrossValidation) -> View:
    """The methods over which the lead of the best is significant, and the others."""
    name = run.methods[0]["method"]
    pairs = [r for r in run.results.get("comparisons", ()) if name in (r["first"], r["second"])]
    p = {str(r["second"] if r["first"] == name else r["first"]): r["p"] for r in pairs}
    sure = [m for m, value in p.items() if value is not None and value < SIGNIFICANT]
    return {
        "significant": [method_name(m) for m in sure],
        "insignificant": [method_name(m) for m in p if m not in sure],
        "level": SIGNIFICANT,
    }


def _cv_scores(run: CrossValidation, paper: View) -> View:
    """One row per method, the best first, then the baseline; the paper's scores if known."""
    has_paper = any(value is not None for value in paper.values())
    unit = "accuracy, %" if run.classes else "MSE of standardized targets"
    rows = []
    for m in run.methods:
        row = [method_name(m["method"]), cv_score(run, m["mean"], m["std"])]
        row += [_printed(paper[m["method"]])] if has_paper else []
        rows.append([*row, f"{m['parameters']:,}", f"{m['models']:,}", duration(m["seconds"])])
    base = np.array(run.results["guess"])
    row = ["most frequent class" if run.classes else "mean of the training set"]
    row += [cv_score(run, float(base.mean()), float(base.std())), *([""] if has_paper else [])]
    columns = ["method", unit, *(["paper"] if has_paper else []), "parameters", "models", "time"]
    return {"columns": columns, "rows": [*rows, [*row, "0", "0", ""]], "paper": has_paper}


def _printed(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.mean:g}" if value.std is None else f"{value.mean:.2f} ± {value.std:.2f}"


def _cv_predictions(run: CrossValidation, figures: View) -> float | None:
    table, lead = run.predictions, run.lead
    if table is None:
        return None
    if not run.classes:
        targets = [c.removeprefix("truth:") for c in table.columns if c.startswith("truth:")]
        columns = {n: (f"truth:{n}", f"{lead}:{n}") for n in targets if f"{lead}:{n}" in table}
        _residuals(table, columns, figures)
        return None
    if lead not in table:
        return None
    truth, predicted = table["truth"].astype(str).tolist(), table[lead].astype(str).tolist()
    sure = run.certainty.get("sure", ())
    valid = run.certainty.get("method") == lead and len(sure) == len(truth)
    names = [str(name) for name in run.about.get("names", [])]
    probability = np.array(sure, dtype=np.float64) if valid else None
    return _classes(truth, predicted, names, probability, figures)


def _cv_scales(run: CrossValidation, figures: View) -> View | None:
    """Scales that the best method learned, or the first that learns any."""
    if not run.about:
        return {"old": True}
    if not run.scales:
        return None
    method = run.lead if run.lead in run.scales else next(iter(run.scales))
    weights = run.scales[method]
    scales = Scales(list(range(1, len(weights) + 1)), weights, np.full(len(weights), 0.5))
    return {
        **_scale_slider(scales, "test set", 1, figures),
        "method": method_name(method),
        "deviation": _means(scales.means.std(0)),
        "wavelets": wavelet_cards(run.shown, weights.mean(0), 0.5),
    }


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

    Args:
        command: of the cross-validation.
        method: to train.
        folder: for the model.
        setting: of the tuning grid (default: none).

    >>> train_command("legs cv a.csv --folds 5 --target y -o cv", "gcn", "cv/m", {"lr": 0.01})
    'legs train a.csv --target y --model gcn --lr 0.01 -o cv/m'
    """
    words = shlex.split(command)
    if words[:2] != ["legs", "cv"]:
        return ""
    data, options, rest = "", [], iter(words[2:])
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
    if method == "gs-svm" or not chosen:
        return {}
    return dict(grid[Counter(chosen).most_common(1)[0][0]])
