"""The graphs of a run on its page: a map, drawings, predictions and explanations in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from legs.report.drawings import graph_svg
from legs.report.folders import Floats, Run, Shown
from legs.report.maps import FEWEST, HOW, How, available_maps, map_places, map_plot
from legs.report.molecules import molecule_svg
from legs.report.plots import numbers
from legs.report.responses import filter_names
from legs.report.wavelets import central_node, wavelets_around
from legs.report.words import method_name

PARTS = ("training", "validation", "test")
# Larger graphs are not drawn.
LARGEST = 200
# Of targets, a page describes only so many; of methods that are wrong, it names so many.
MOST_TARGETS, MOST_METHODS = 3, 6
MOST_COLORS = 20
NOT_METHODS = ("test_set", "graph", "id", "truth")


def graph_drawing(
    shown: Shown, index: int, values: Any = None, size: tuple[int, int] = (300, 210)
) -> str:
    """A graph as SVG: RDKit's drawing of a molecule, else a layout; empty if it is too large.

    Args:
        shown: graphs of a run.
        index: of the graph.
        values: one per node, drawn as dots (default: none).
        size: width and height.
    """
    edges, nodes = shown.graph(index)
    smiles = shown.smiles(index)
    if smiles and (values is None or shown.is_aligned(index)):
        svg = molecule_svg(smiles, values, size)
        if svg is None and values is not None:  # hydrogens may be nodes
            svg = molecule_svg(smiles, values, size, hydrogens=True)
        if svg is not None:
            return svg
    if nodes > LARGEST or (nodes > 1 and not len(edges)):
        return ""
    return graph_svg(edges, nodes, values, size)


def map_data(
    shown: Shown, colors: Mapping[str, Sequence[str] | Sequence[float]], lines: list[list[str]]
) -> dict[str, Any]:
    """The map of a run's graphs.

    Args:
        shown: the graphs.
        colors: what the graphs can be colored by: classes or numbers, one per graph.
        lines: description of each graph.
    """
    hows: list[How] = available_maps() if len(shown) >= FEWEST else ["pca"]
    train = shown.parts == 0
    plots = [map_plot(values, name, train).to_dict() for name, values in colors.items()]
    frames = [
        {"name": name, "data": plot["data"]} for name, plot in zip(colors, plots, strict=True)
    ]
    return {
        "hows": {how: HOW[how] for how in hows},
        "share": float(shown.share[:2].sum()),
        "hollow": bool(train.any()),
        "figure": {**plots[0], "frames": frames},
        "data": {
            "places": {how: numbers(map_places(shown.features, how), 4) for how in hows},
            "drawings": [graph_drawing(shown, k, size=(240, 170)) for k in range(len(shown))],
            "names": [shown.name(k) for k in range(len(shown))],
            "lines": lines,
        },
    }


def run_map(run: Run) -> dict[str, Any] | None:
    """The map of a trained model; ``None`` if the run has kept no graphs."""
    shown = run.shown
    if shown is None:
        return None
    table = shown.table
    if run.classes:
        truth, predicted = table["truth"].astype(str), table["prediction"].astype(str)
        correct = np.where(truth == predicted, "correct", "wrong").tolist()
        colors: dict[str, Any] = {"class": truth.tolist(), "correct or wrong": correct}
    else:
        columns = [name for name in run.names if f"truth:{name}" in table][:MOST_COLORS]
        colors = {name: table[f"truth:{name}"].tolist() for name in columns}
    lines = [
        [*prediction_lines(run, k, run.names), f"{PARTS[shown.parts[k]]}; {size_words(shown, k)}"]
        for k in range(len(shown))
    ]
    return map_data(shown, colors, lines) if colors else None


def size_words(shown: Shown, index: int) -> str:
    """The size of a graph. Edges of large graphs are not kept, and not counted."""
    edges, nodes = shown.graph(index)
    node, edge = ("atoms", "bonds") if shown.smiles(index) else ("nodes", "edges")
    return f"{nodes:,} {node}, {len(edges):,} {edge}" if len(edges) else f"{nodes:,} {node}"


def prediction_lines(run: Run, index: int, names: Sequence[str]) -> list[str]:
    """Truth and prediction for a graph."""
    assert run.shown is not None
    row = run.shown.table.iloc[index]
    if run.classes:
        probability = row.get(f"probability:{row['prediction']}")
        sure = "" if probability is None else f" (probability {float(probability):.2f})"
        if str(row["truth"]) == str(row["prediction"]):
            return [f"class {row['truth']}: correct{sure}"]
        return [f"class {row['truth']}, predicted {row['prediction']}{sure}"]
    lines = []
    for name in names[:MOST_TARGETS]:
        if name in row and f"truth:{name}" in row:
            truth = row[f"truth:{name}"]
            true = "unknown" if pd.isna(truth) else f"{float(truth):.4g}"
            lines.append(f"{name}: {true}, predicted {float(row[name]):.4g}")
    rest = len(names) - MOST_TARGETS
    return [*lines, f"and {rest} more"] if rest > 0 else lines


def explanations(run: Run) -> dict[int, dict[str, Any]]:
    """Attributions of the drawn graphs, by index."""
    if run.shown is None or run.explained is None:
        return {}
    first = {int(row["place"]): row["found"][0] for row in run.explained["graphs"] if row["found"]}
    sizes = {index: run.shown.graph(index)[1] for index in first}
    return {k: one for k, one in first.items() if len(one["nodes"]) == sizes[k]}


def run_cards(run: Run) -> dict[str, list[dict[str, Any]]] | None:
    """Best and worst predictions of a trained model; ``None`` if it has kept no graphs."""
    shown = run.shown
    if shown is None:
        return None
    attributions = explanations(run)
    cards = [_card(run, k, attributions.get(k)) for k in range(shown.best + shown.worst)]
    return {"best": cards[: shown.best], "worst": cards[shown.best :]}


def _card(run: Run, index: int, attribution: dict[str, Any] | None) -> dict[str, Any]:
    shown, names = run.shown, run.names
    assert shown is not None
    values = None if attribution is None else np.array(attribution["nodes"])
    if attribution is not None and not run.classes:  # the explained target first
        target = attribution["target"]
        names = [target, *(name for name in names if name != target)]
    many = not run.classes and len(names) > MOST_TARGETS
    lines = prediction_lines(run, index, names[:1] if many else names)
    if many:
        lines += _error_line(run, index)
    svg = graph_drawing(shown, index, values)
    note = "" if svg else "Too large to draw."
    if values is not None and not np.any(values):
        note = "All nodes have the same features, so none contributes more than another."
    return {
        "svg": svg,
        "title": shown.name(index),
        "lines": [*lines, size_words(shown, index)],
        "note": note,
    }


def _error_line(run: Run, index: int) -> list[str]:
    """The error over all targets, in standard deviations of the training set."""
    deviation = run.model.get("task", {}).get("deviation")
    if run.shown is None or not deviation or len(deviation) != len(run.names):
        return []
    row = run.shown.table.iloc[index]
    true, ours = ([row.get(mark + n, np.nan) for n in run.names] for mark in ("truth:", ""))
    error = (np.array(ours, dtype=float) - np.array(true, dtype=float)) / np.array(deviation)
    if not (error := error[np.isfinite(error)]).size:
        return []
    size = float(np.sqrt(np.mean(error**2)))
    return [f"all {len(run.names)} targets: error of {size:.2f} standard deviations"]


def mean_paths(run: Run) -> dict[str, float]:
    """The mean size of the contribution of each scattering path; empty without explanations."""
    attributions = list(explanations(run).values())
    names = list(attributions[0].get("paths", {})) if attributions else []
    sizes = {name: float(np.mean([abs(a["paths"][name]) for a in attributions])) for name in names}
    # Moments of the signal itself do not change when it is shuffled.
    return {name: size for name, size in sizes.items() if size > 1e-9 * max(sizes.values())}


def wavelet_cards(shown: Shown | None, weights: Floats, laziness: float) -> dict[str, Any] | None:
    """The filters on one of the graphs; ``None`` if there is none to draw them on."""
    fits = [] if shown is None else [
        k
        for k in range(len(shown))
        if 6 <= shown.graph(k)[1] <= 120
        and len(shown.graph(k)[0])
        and (not shown.smiles(k) or shown.is_aligned(k))
    ]  # fmt: skip
    if shown is None or not fits:
        return None
    # Typical, and large enough to show scales.
    index = min(fits, key=lambda k: abs(shown.graph(k)[1] - 22))
    edges, nodes = shown.graph(index)
    bands = wavelets_around(edges, nodes, weights, central_node(edges, nodes), laziness)
    times = [0.0, *(weights @ np.arange(1, weights.shape[-1] + 1))]
    spans = [f"{a:.0f} to {b:.0f} steps" for a, b in pairwise(times)]
    spans.append(f"after {times[-1]:.0f} steps")
    cards = []
    for name, span, values in zip(filter_names(len(bands)), spans, bands, strict=True):
        svg = graph_drawing(shown, index, values, (210, 150))
        cards.append({"svg": svg, "title": f"{name}: {span}"})
    return {"graph": shown.name(index), "cards": cards}


def cv_rows(shown: Shown, table: pd.DataFrame) -> list[Any]:
    """Predictions of a cross-validation for each graph; ``None`` if it was in no test set."""
    first = table.drop_duplicates("graph").set_index("graph", drop=False)
    return [first.loc[n] if n in first.index else None for n in shown.numbers.tolist()]


def cv_lines(row: Any, classes: bool) -> list[str]:
    """Truth and predictions of all methods for a graph."""
    if row is None:
        return ["in no test set"]
    if not classes:
        names = [str(name) for name in row.index if str(name).startswith("truth:")]
        return [f"{n.removeprefix('truth:')}: {float(row[n]):.4g}" for n in names[:MOST_TARGETS]]
    truth = str(row["truth"])
    predicted = {str(k): str(v) for k, v in row.items() if str(k) not in NOT_METHODS}
    correct = [method_name(k) for k, v in predicted.items() if v == truth]
    wrong = [f"{method_name(k)} predicts {v}" for k, v in predicted.items() if v != truth]
    lines = [f"class {truth}"]
    if correct:
        lines.append(f"correct: {', '.join(correct) if len(correct) < 5 else len(correct)}")
    if len(wrong) > MOST_METHODS:
        wrong = [*wrong[:MOST_METHODS], f"and {len(wrong) - MOST_METHODS} more"]
    return [*lines, *wrong]


def cv_graphs(shown: Shown | None, table: pd.DataFrame | None, classes: bool) -> dict[str, Any]:
    """Map, and graphs that the best method predicts best and worst, of a cross-validation."""
    if shown is None or table is None:
        return {"map": None, "cards": None}
    rows = cv_rows(shown, table)
    lines = [[*cv_lines(row, classes), size_words(shown, k)] for k, row in enumerate(rows)]
    colors: dict[str, Any] = {}
    if classes:
        colors["class"] = ["unknown" if row is None else str(row["truth"]) for row in rows]
    else:
        for name in [c for c in table.columns if c.startswith("truth:")][:MOST_COLORS]:
            values = [np.nan if row is None else float(row[name]) for row in rows]
            colors[name.removeprefix("truth:")] = values
    cards = []
    for k in range(shown.best + shown.worst):
        svg = graph_drawing(shown, k)
        note = "" if svg else "Too large to draw."
        cards.append({"svg": svg, "title": shown.name(k), "lines": lines[k], "note": note})
    groups = {"best": cards[: shown.best], "worst": cards[shown.best :]}
    return {"map": map_data(shown, colors, lines), "cards": groups}
