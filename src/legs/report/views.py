"""What each kind of page shows: numbers, tables and figures; the text is in ``web/*.html``."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legs.report import plots, words
from legs.report.drawings import graph_svg, molecule_svg
from legs.report.folders import DEMO, PREDICTIONS, CrossValidation, Run, Scales, Shown, read_json
from legs.report.theme import Floats
from legs.report.words import joined, method_name, number

View = dict[str, Any]
Table = list[list[str]]
ENSEMBLES = ("gcn-legs-fixed", "gcn-legs-fcn")
PARTS = ("training", "validation", "test")
SIGNIFICANT = 0.05
# Larger graphs are not drawn.
LARGEST = 200
# Of targets, a page describes only so many; of methods that are wrong, it names so many.
MOST_TARGETS, MOST_METHODS, MOST_COLORS = 3, 6, 20
EQUAL = "All nodes have the same features, so none contributes more than another."
MOST_CURVES, LARGEST_FILE = 8, 1_000_000
# States of a slider.
STATES = 80


def train_view(run: Run) -> View:
    """The page of ``legs train``."""
    figures: View = {}
    if run.history is not None and len(run.history):
        figures["curves"] = plots.curve_plot(run.history, run.best_epoch)
    settings, data, names = run.results["settings"], run.results["data"], run.names
    what = joined(names) if len(names) <= MOST_TARGETS else f"{len(names)} targets"
    if run.classes:
        what = f"classes of {data['name'] or 'your data'}"
    blend = "candidates" in run.results  # which scores training graphs out of fold
    end = ", out of fold" if blend else ""
    heads = {"test": "test", "guess": "baseline (test)"}
    heads |= {"validation": f"validation{end}", "train": f"training{end}"}
    parts = {part: run.scores(part) for part in heads if run.scores(part)}
    sizes = {part: f" ({size:,})" if (size := run.size(part)) else "" for part in parts}
    training, options = settings.get("training", {}), settings.get("model_options", {})
    test, base = run.scores("test"), run.scores("guess")
    single = names[0] if len(names) == 1 and test.get(f"mae:{names[0]}") is not None else ""
    _predictions(run.predictions, names, figures, run.shown)
    if counts := data.get("targets"):
        plotted = {name: plots.count_plot(each, name) for name, each in counts.items()}
        figures["counts"] = plots.with_frames(plotted)
    return {
        "template": "train.html",
        "models": [],  # to compare with
        "blend": blend,
        "candidates": words.candidate_rows(run.results.get("candidates", ())),
        "table": _prediction_rows(run),
        "file": _encoded(run.folder / PREDICTIONS),
        "title": f"Predicting {what} with {method_name(run.method)}",
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "test": test,
        "base": base,
        "single": single,
        "standard_error": _standard_error(run.predictions, single),
        "columns": ["", *(heads[part] + sizes[part] for part in parts)],
        "scores": [
            [words.score_name(name), *(number(part.get(name)) for part in parts.values())]
            for name in next(iter(parts.values()), {})
            if ":" not in name or name.startswith("recall:")
        ],
        "targets": _target_rows(run) if test and not (run.classes or run.labels) else [],
        "scales": _run_scales(run, figures),
        **run_graphs(run, figures),
        "figures": figures,
        "again": [
            ["seed", str(training.get("seed", ""))],
            ["data", f"{data['name']} (fingerprint {settings.get('data', '')})"],
            ["split", f"fingerprint {settings.get('split', '')}; the graphs are in split.json"],
            ["node features", joined([str(n) for n in data.get("features", [])], 8)],
            ["training", words.setting_words(training)],
            ["model options", ", ".join(f"{k}={v}" for k, v in options.items())],
            *_origin(run.results, run.folder),
        ],
    }


def _standard_error(table: pd.DataFrame | None, name: str) -> float:
    """The standard error of a mean absolute error; NaN if unknown."""
    if table is None or not {name, f"truth:{name}"} <= set(table.columns):
        return math.nan
    error: Any = table[name].astype(float) - table[f"truth:{name}"].astype(float)
    return float(error.abs().sem())


def _prediction_rows(run: Run) -> View | None:
    """Test predictions that have a drawing: rows of cells, and the numbers of their drawings."""
    if (shown := run.shown) is None or run.predictions is None:
        return None
    table, tested = shown.table, np.flatnonzero(shown.arrays["parts"] == PARTS.index("test"))
    tested = tested[np.argsort(shown.arrays["numbers"][tested])]
    columns: dict[str, Any] = {"id": table["id"].astype(str)}
    if run.classes:
        columns |= {"measured": table["truth"], "predicted": table["prediction"]}
        sure = table.filter(regex="^probability:").astype(float).max(axis=1)
        columns["probability"] = sure.map("{:.2f}".format)
    for name in () if run.classes else run.names[:MOST_TARGETS]:
        ours = name if name in table else f"probability:{name}"
        if {ours, f"truth:{name}"} <= set(table):
            truth, predicted = (table[c].astype(float) for c in (f"truth:{name}", ours))
            columns[f"measured {name}"] = truth.map(number)
            columns[f"predicted {name}"] = predicted.map(number)
            if name in table:
                columns[f"error {name}"] = (predicted - truth).map(number)
    cells = [*zip(*(map(str, column) for column in columns.values()), strict=True)]
    drawings = tested.tolist()
    return {"columns": [*columns], "rows": [cells[k] for k in drawings], "drawings": drawings}


def _encoded(path: Path) -> str:
    """A file of at most a megabyte in base64, for a link; else empty."""
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        return ""
    return base64.b64encode(path.read_bytes()).decode()


def _curves(table: pd.DataFrame, names: Sequence[str], figures: View) -> None:
    """Adds ROC curves of classes or labels that have test graphs of both kinds."""
    truths, chances, classes = {}, {}, "truth" in table
    known = [name for name in names if f"probability:{name}" in table]
    for name in known[1:] if len(names) == 2 and classes else known[:MOST_CURVES]:
        truth = table["truth"].astype(str) == name if classes else table[f"truth:{name}"]
        present = truth.notna()
        if truth[present].nunique() == 2:
            truths[name] = truth[present].astype(int)
            chances[name] = table[f"probability:{name}"][present]
    if truths:
        figures["roc"] = plots.roc_plot(truths, chances)


def _predictions(
    table: pd.DataFrame | None, names: list[str], figures: View, shown: Shown | None = None
) -> None:
    """Adds plots of predicted classes or targets beside the truth."""
    if table is None:
        return
    if {"truth", *(f"probability:{name}" for name in names)} & set(table):
        _curves(table, names, figures)
    if {"truth", "prediction"} <= set(table):
        true, predicted = table["truth"].astype(str), table["prediction"].astype(str)
        names = list(dict.fromkeys([*names, *sorted({*true, *predicted})]))
        figures["confusion"] = plots.confusion_plot([*true], [*predicted], names)
        sure = table.filter(regex="^probability:").astype(float).max(axis=1)
        if sure.notna().any():
            right = (true == predicted).to_numpy()
            figures["reliability"] = plots.reliability_plot(sure.to_numpy(), right)
    targets, drawings = {}, None
    if shown is not None and table["id"].is_unique:
        place = {one: k for k, one in enumerate(shown.table["id"].astype(str))}
        drawings = [place.get(one) for one in table["id"].astype(str)]
    for name in names:
        if {name, f"truth:{name}"} <= set(table):
            pair = (table[f"truth:{name}"], table[name])
            truth, ours = (pd.to_numeric(c, errors="coerce").to_numpy() for c in pair)
            targets[name] = plots.residual_figure(truth, ours, name, None, drawings)
    if targets:
        figures["residuals"] = plots.with_frames(targets)


def _run_scales(run: Run, figures: View) -> View | None:
    """Learned or fixed scales of a trained model; ``None`` if it has none."""
    scales = run.scales or run.fixed_scales
    if scales is None:
        return None
    # Epochs in the history of an ensemble are those of its head, trained afterwards.
    ensemble = run.method in ENSEMBLES
    best = scales.labels[-1] if ensemble else run.best_epoch
    state = int(np.argmin(np.abs(np.array(scales.labels) - best)))
    return {
        **_slider(scales, "epoch", state, figures),
        "fixed": run.scales is None,
        "ensemble": ensemble,
        "epoch": scales.labels[state],
        "first": _means(scales.means[0]),
        "last": _means(scales.means[state]),
        "change": float(np.abs(scales.means[state] - scales.means[0]).max()),
    }


def _slider(scales: Scales, label: str, best: int, figures: View) -> View:
    """Adds plots of the scales and of their responses, one frame per state.

    Of many states some are left out, but not the one with the index ``best``.
    """
    count = len(scales.labels)
    states = sorted({best, *(round(k) for k in np.linspace(0, count - 1, min(count, STATES)))})
    selections, responses = {}, {}
    for k in states:
        name, weights = str(scales.labels[k]), scales.weights[k]
        selections[name] = plots.selection_plot(weights)
        responses[name] = plots.response_figure(weights, float(scales.laziness[k]), theme=None)
    figures["weights"] = plots.with_frames(selections)
    figures["responses"] = plots.with_frames(responses)
    return {"label": label, "labels": list(selections), "start": states.index(best)}


def _means(means: Floats) -> str:
    return ", ".join(f"{value:.2f}" for value in means)


def _target_rows(run: Run) -> Table:
    """Errors of every target in its own units, beside the baseline's."""
    test, base, rows = run.scores("test"), run.scores("guess"), []
    for name in run.names:
        error, mean = test.get(f"rmse:{name}"), base.get(f"rmse:{name}")
        smaller = words.percent(1 - error / mean, 0) if error is not None and mean else ""
        rows.append([name, number(test.get(f"mae:{name}")), number(error), number(mean), smaller])
    return rows


def _origin(results: View, folder: Path) -> Table:
    return [
        ["versions", ", ".join(f"{k} {v}" for k, v in results.get("versions", {}).items())],
        ["machine", str(results.get("machine", ""))],
        ["date", words.moment(str(results.get("date", "")))],
        ["folder", str(folder)],
    ]


def demo_view(folder: Path, runs: list[Run]) -> View:
    """The page of ``legs demo``: all models, the best first, and one in detail."""
    run, names = runs[0], ("r2", "whitened_mse")
    rows = []
    for one in sorted(runs, key=lambda one: float(one.scores("test").get(names[1]) or math.inf)):
        cells = [method_name(one.method), *(number(one.scores("test").get(n)) for n in names)]
        rows.append([*cells, f"{one.results['parameters']:,}", f"{one.results['seconds']:.0f} s"])
    base = [number(run.scores("guess").get(name)) for name in names]
    run.results["command"] = str(read_json(folder / DEMO).get("command") or "legs demo")
    view = train_view(run)
    other = f"legs report {folder}/MODEL makes the page of any of them"
    return {
        **view,
        "title": "Demonstration: properties of molecules",
        "models": [*rows, ["mean of the training set", *base, "0", ""]],
        "again": [view["again"][0], ["other models", other], *_origin(run.results, folder)],
    }


def cv_view(run: CrossValidation) -> View:
    """The page of ``legs cv``."""
    results, options = run.results, run.results["options"]
    training, names = options.get("training", {}), [str(m["method"]) for m in run.methods]
    factor, sign, digits = (100, 1, 2) if run.classes else (1, -1, 4)
    means = {method_name(m["method"]): [factor * s for s in m["scores"]] for m in run.methods}
    score = "accuracy, %" if run.classes else "mean squared error"
    figures = {"folds": plots.folds(means, score)}
    _predictions(run.answers, run.names, figures)

    def score_of(mean: float, std: float) -> str:
        return f"{factor * mean:.{digits}f} ± {factor * std:.{digits}f}"

    best, base = run.methods[0], np.array(results["guess"])
    tested = 0 if run.predictions is None else len(run.predictions)
    baseline = score_of(float(base.mean()), float(base.std()))
    rows = []
    for name, m in zip(names, run.methods, strict=True):
        cells = [f"{m['parameters']:,}", f"{m['models']:,}", words.duration(m["seconds"])]
        rows.append([method_name(name), score_of(m["mean"], m["std"]), *cells])
    guess = "most frequent class" if run.classes else "mean of the training set"
    rows.append([guess, baseline, "0", "0", ""])
    pairs = results.get("comparisons", ())
    of_best = [r for r in pairs if names[0] in (r["first"], r["second"])]
    p = {str(r["second"] if r["first"] == names[0] else r["first"]): r["p"] for r in of_best}
    sure_of = [m for m, value in p.items() if value is not None and value < SIGNIFICANT]
    return {
        "template": "cv.html",
        "title": f"Cross-validation on {results['data'] or 'your data'}",
        "run": run,
        "noun": "molecule" if run.molecules else "graph",
        "best": method_name(names[0]),
        "score": score_of(best["mean"], best["std"]),
        "baseline": baseline,
        "lost": bool(sign * best["mean"] <= sign * base.mean()),
        "few": words.few_words(tested / max(len(base), 1), "a test set has about"),
        "protocol": protocol(run),
        "significant": [method_name(m) for m in sure_of],
        "insignificant": [method_name(m) for m in p if m not in sure_of],
        "level": SIGNIFICANT,
        "scores": rows,
        "pairs": [
            [
                *(method_name(r[name]) for name in ("first", "second")),
                f"{r['difference']:+.{digits}f}",
                number(r["p"]),
            ]
            for r in pairs
        ],
        "scales": _cv_scales(run, figures),
        "to_explain": next((n for n in [run.lead, *names] if n != "gs-svm"), ""),
        **_cv_graphs(run, figures),
        "one": {} if run.one is None else run_graphs(run.one, figures, with_map=False),
        "figures": figures,
        "again": [
            ["seeds", f"{training.get('seed', '')} (partitions, weights, batches)"],
            ["protocol", protocol(run)],
            ["tuned over", "; ".join(str(one) for one in options.get("grid", []) if one)],
            ["node features", ", ".join(map(str, results.get("features", [])[:12]))],
            ["training", words.setting_words(training)],
            *_origin(results, run.folder),
        ],
    }


def protocol(run: CrossValidation) -> str:
    """How methods were tested."""
    options, sets = run.results["options"], len(run.results["guess"])
    if not run.classes:
        return f"{sets} random splits (80% training, 10% validation, 10% test)"
    most = options["folds"] - options["test_folds"]
    models = most if options.get("rotations") is None else min(options["rotations"], most)
    return f"{sets} test sets, {f'{models} models vote' if models > 1 else 'one model'} on each"


def _cv_scales(run: CrossValidation, figures: View) -> View | None:
    """Scales that the best method learned, or the first that learns any."""
    if not run.scales:
        return None
    method = run.lead if run.lead in run.scales else next(iter(run.scales))
    scales = run.scales[method]
    slider = _slider(scales, "test set", 0, figures)
    return {**slider, "method": method_name(method), "deviation": _means(scales.means.std(0))}


def graph_drawing(
    shown: Shown, index: int, values: Any = None, size: tuple[int, int] = (300, 210)
) -> str:
    """A graph as SVG: RDKit's drawing of a molecule, else a layout; empty if it is too large."""
    edges, nodes = shown.graph(index)
    smiles = shown.smiles(index)
    if smiles and (values is None or shown.is_aligned(index)):
        for hydrogens in (False, True):  # they may be nodes
            if svg := molecule_svg(smiles, values, size, hydrogens):
                return svg
    if nodes > LARGEST or (nodes > 1 and not len(edges)):
        return ""
    return graph_svg(edges, nodes, values, size)


def _graphs(
    shown: Shown, figures: View, colors: View, lines: list[list[str]], values: dict[int, Any]
) -> View:
    """Best and worst predictions, with values at their nodes if known, and a map of all graphs.

    Colors of the map are classes or numbers, one per graph, by name; without any there is no map.
    """
    sizes = [_size(shown, k) for k in range(len(shown))]
    names = shown.table["id"].astype(str).tolist()
    cards: dict[str, list[View]] = {"best": [], "worst": []}
    for group, inside in shown.drawn.items():
        for k in inside:
            nodes = values.get(k)
            svg = graph_drawing(shown, k, nodes)
            text = [*lines[k], sizes[k], *([] if svg else ["Too large to draw."])]
            if nodes is not None and not np.any(nodes):
                text.append(EQUAL)
            cards[group].append({"svg": svg, "title": names[k], "lines": text})
    if not colors:
        return {"cards": cards, "map": None}
    parts, features = shown.arrays["parts"], shown.arrays["places"].astype(np.float64)
    if np.ptp(parts):
        sizes = [f"{PARTS[part]}; {size}" for part, size in zip(parts, sizes, strict=True)]
    hows = plots.available_maps(len(shown))
    maps = {name: plots.map_plot(color, name, parts == 0) for name, color in colors.items()}
    data = {
        "places": {how: plots.numbers(plots.map_places(features, how)) for how in hows},
        "drawings": [graph_drawing(shown, k, size=(240, 170)) for k in range(len(shown))],
        "names": names,
        "lines": [[*text, size] for text, size in zip(lines, sizes, strict=True)],
    }
    figures["map"] = plots.with_frames(maps)
    view = {"hows": {how: plots.HOW[how] for how in hows}, "data": data}
    view |= {"share": float(shown.arrays["share"][:2].sum()), "hollow": bool((parts == 0).any())}
    return {"cards": cards, "map": view}


def run_graphs(run: Run, figures: View, with_map: bool = True) -> View:
    """Graphs of a trained model, and what was explained.

    Adds a plot of the mean contribution of each scattering path, where there are explanations.
    """
    if (shown := run.shown) is None:
        return {"cards": None, "map": None, "explained": ""}
    shares = run.explanations.values()
    target = next((one["target"] for one in shares), "")
    paths = pd.DataFrame([one.get("paths", {}) for one in shares]).abs().mean()
    # Moments of the signal itself do not change when it is shuffled.
    if sizes := {str(k): float(v) for k, v in paths.items() if v > 1e-9 * paths.max()}:
        figures["paths"] = plots.path_plot(sizes, "mean size of the contribution")
    table, what = shown.table, "log-odds of the predicted class" if run.classes else target
    # The explained target comes first.
    names = run.names if run.classes else sorted(run.names, key=lambda name: name != target)
    colors: View = {}
    if with_map and run.classes:
        truth, predicted = table["truth"].astype(str), table["prediction"].astype(str)
        colors["class"] = truth.tolist()
        colors["correct or wrong"] = np.where(truth == predicted, "correct", "wrong").tolist()
    elif with_map:
        columns = [name for name in run.names if f"truth:{name}" in table][:MOST_COLORS]
        colors = {name: table[f"truth:{name}"].tolist() for name in columns}
    lines = [_prediction(run, table.iloc[k], names) for k in range(len(table))]
    values = {k: np.array(one["nodes"]) for k, one in run.explanations.items()}
    explained = f"{'' if run.classes else 'predicted '}{what}" if values else ""
    weight = run.model.get("blend", {}).get("weights", {}).get("legs-deep")
    if explained and weight is not None:
        explained += f" by the networks of the blend (legs-deep, weight {weight:.2f})"
    return {**_graphs(shown, figures, colors, lines, values), "explained": explained}


def _cv_graphs(run: CrossValidation, figures: View) -> View:
    """Graphs of a cross-validation; the best method predicts the first ones best and worst."""
    shown, table = run.shown, run.predictions
    if shown is None or table is None:
        return {"cards": None, "map": None}
    rows = table.drop_duplicates("graph").set_index("graph").reindex(shown.arrays["numbers"])
    if run.classes:
        colors: View = {"class": rows["truth"].astype("string").fillna("unknown").tolist()}
    else:
        names = [name for name in run.names if f"truth:{name}" in table][:MOST_COLORS]
        colors = {name: rows[f"truth:{name}"].astype(float).tolist() for name in names}
    lines = [_methods(run, row) for _, row in rows.iterrows()]
    return _graphs(shown, figures, colors, lines, {})


def _size(shown: Shown, index: int) -> str:
    """The size of a graph. Edges of large graphs are not kept, and not counted."""
    edges, nodes = shown.graph(index)
    node, edge = ("atoms", "bonds") if shown.smiles(index) else ("nodes", "edges")
    return f"{nodes:,} {node}, {len(edges):,} {edge}" if len(edges) else f"{nodes:,} {node}"


def _prediction(run: Run, row: Any, names: Sequence[str]) -> list[str]:
    """Truth and prediction for a graph."""
    if run.classes:
        probability = row.get(f"probability:{row['prediction']}")
        sure = "" if probability is None else f" (probability {float(probability):.2f})"
        if str(row["truth"]) == str(row["prediction"]):
            return [f"class {row['truth']}: correct{sure}"]
        return [f"class {row['truth']}, predicted {row['prediction']}{sure}"]
    return [
        f"{name}: {number(row[f'truth:{name}']) or 'unknown'}, predicted {number(row[name])}"
        for name in names[:MOST_TARGETS]
        if name in row and f"truth:{name}" in row
    ]


def _methods(run: CrossValidation, row: Any) -> list[str]:
    """Truth and predictions of all methods for a graph of a cross-validation."""
    if pd.isna(row["test_set"]):
        return ["in no test set"]
    if not run.classes:
        return [f"{name}: {number(row[f'truth:{name}'])}" for name in run.names[:MOST_TARGETS]]
    truth = str(row["truth"])
    predicted = {m["method"]: str(row[m["method"]]) for m in run.methods}
    correct = [method_name(k) for k, v in predicted.items() if v == truth]
    wrong = [f"{method_name(k)} predicts {v}" for k, v in predicted.items() if v != truth]
    right = [f"correct: {joined(correct)}"] if correct else []
    return [f"class {truth}", *right, *wrong[:MOST_METHODS]]
