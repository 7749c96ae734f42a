"""The graphs of a run on its page: a map, drawings, predictions and explanations in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from legs.report.drawings import graph_svg
from legs.report.folders import CrossValidation, Run, Shown
from legs.report.maps import FEWEST, HOW, How, available_maps, map_places, map_plot
from legs.report.molecules import molecule_svg
from legs.report.plots import numbers, path_bars, with_frames
from legs.report.words import joined, method_name, number

View = dict[str, Any]
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
    """A graph as SVG: RDKit's drawing of a molecule, else a layout; empty if it is too large."""
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


def map_view(
    shown: Shown, colors: Mapping[str, Sequence[str] | Sequence[float]], lines: list[list[str]]
) -> View | None:
    """The map of a run's graphs, with lines about each; ``None`` if there are no colors for them.

    Colors are classes or numbers, one per graph, by name.
    """
    if not colors:
        return None
    hows: list[How] = available_maps() if len(shown) >= FEWEST else ["pca"]
    train, features = shown.arrays["parts"] == 0, shown.arrays["places"].astype(np.float64)
    return {
        "hows": {how: HOW[how] for how in hows},
        "share": float(shown.arrays["share"][:2].sum()),
        "hollow": bool(train.any()),
        "figure": with_frames({k: map_plot(values, k, train) for k, values in colors.items()}),
        "data": {
            "places": {how: numbers(map_places(features, how), 4) for how in hows},
            "drawings": [graph_drawing(shown, k, size=(240, 170)) for k in range(len(shown))],
            "names": shown.table["id"].astype(str).tolist(),
            "lines": lines,
        },
    }


def run_map(run: Run) -> View | None:
    """The map of a trained model; ``None`` if the run has kept no graphs."""
    if (shown := run.shown) is None:
        return None
    table = shown.table
    if run.classes:
        truth, predicted = table["truth"].astype(str), table["prediction"].astype(str)
        correct = np.where(truth == predicted, "correct", "wrong").tolist()
        colors: View = {"class": truth.tolist(), "correct or wrong": correct}
    else:
        columns = [name for name in run.names if f"truth:{name}" in table][:MOST_COLORS]
        colors = {name: table[f"truth:{name}"].tolist() for name in columns}
    lines = [
        [*_prediction(run, table.iloc[k], run.names), f"{PARTS[part]}; {_size(shown, k)}"]
        for k, part in enumerate(shown.arrays["parts"])
    ]
    return map_view(shown, colors, lines)


def run_cards(run: Run, figures: View) -> View:
    """Best and worst predictions of a trained model, and what was explained.

    Adds a plot of the mean contribution of each scattering path, where there are explanations.
    """
    if (shown := run.shown) is None:
        return {"cards": None, "explained": ""}
    attributions = explanations(run)
    target = next((one["target"] for one in attributions.values()), "")
    paths = pd.DataFrame([one.get("paths", {}) for one in attributions.values()]).abs().mean()
    # Moments of the signal itself do not change when it is shuffled.
    if sizes := {str(k): float(v) for k, v in paths.items() if v > 1e-9 * paths.max()}:
        figures["paths"] = path_bars(sizes, "mean size of the contribution")

    def card(k: int) -> View:
        row, names, nodes = shown.table.iloc[k], run.names, None
        if k in attributions:
            nodes = np.array(attributions[k]["nodes"])
            names = names if run.classes else list(dict.fromkeys([target, *names]))
        error = _error(run, row)
        lines = _prediction(run, row, names[:1] if error else names)
        return _card(shown, k, [*lines, *error], nodes)

    what = "log-odds of the predicted class" if run.classes else f"predicted {target}"
    best, worst = ([card(k) for k in group] for group in shown.drawn)
    cards = {"best": best, "worst": worst}
    return {"cards": cards, "explained": what if attributions else ""}


def cv_graphs(run: CrossValidation) -> View:
    """Map, and graphs that the best method predicts best and worst, of a cross-validation."""
    shown, table = run.shown, run.predictions
    if shown is None or table is None:
        return {"map": None, "cards": None}
    first = table.drop_duplicates("graph").set_index("graph", drop=False)
    numbers = shown.arrays["numbers"].tolist()
    rows = [first.loc[n] if n in first.index else None for n in numbers]
    lines = [_methods(row, run.classes) for row in rows]
    colors: View = {}
    if run.classes:
        colors["class"] = ["unknown" if row is None else str(row["truth"]) for row in rows]
    else:
        for name in [c for c in table.columns if c.startswith("truth:")][:MOST_COLORS]:
            values = [np.nan if row is None else float(row[name]) for row in rows]
            colors[name.removeprefix("truth:")] = values
    sized = [[*words, _size(shown, k)] for k, words in enumerate(lines)]
    best, worst = ([_card(shown, k, lines[k]) for k in group] for group in shown.drawn)
    return {"map": map_view(shown, colors, sized), "cards": {"best": best, "worst": worst}}


def _card(shown: Shown, index: int, lines: list[str], values: Any = None) -> View:
    svg = graph_drawing(shown, index, values)
    lines = [*lines, _size(shown, index), *([] if svg else ["Too large to draw."])]
    if values is not None and not np.any(values):
        lines.append("All nodes have the same features, so none contributes more than another.")
    return {"svg": svg, "title": str(shown.table["id"].iloc[index]), "lines": lines}


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


def _error(run: Run, row: Any) -> list[str]:
    """Of many targets, the error over all of them, in standard deviations of the training set."""
    deviation = run.model.get("task", {}).get("deviation")
    if run.classes or len(run.names) <= MOST_TARGETS or not deviation:
        return []
    error = [float(row[name]) - float(row[f"truth:{name}"]) for name in run.names]
    size = np.sqrt(np.nanmean((np.array(error) / np.array(deviation)) ** 2))
    return [f"all {len(run.names)} targets: error of {size:.2f} standard deviations"]


def _methods(row: Any, classes: bool) -> list[str]:
    """Truth and predictions of all methods for a graph of a cross-validation."""
    if row is None:
        return ["in no test set"]
    if not classes:
        names = [str(name) for name in row.index if str(name).startswith("truth:")]
        return [f"{n.removeprefix('truth:')}: {number(row[n])}" for n in names[:MOST_TARGETS]]
    truth = str(row["truth"])
    predicted = {str(k): str(v) for k, v in row.items() if str(k) not in NOT_METHODS}
    correct = [method_name(k) for k, v in predicted.items() if v == truth]
    wrong = [f"{method_name(k)} predicts {v}" for k, v in predicted.items() if v != truth]
    right = [f"correct: {joined(correct)}"] if correct else []
    return [f"class {truth}", *right, *wrong[:MOST_METHODS]]


def explanations(run: Run) -> dict[int, View]:
    """Attributions of the drawn graphs, by index."""
    if run.shown is None or run.explained is None:
        return {}
    first = {int(row["place"]): row["found"][0] for row in run.explained["graphs"] if row["found"]}
    return {k: one for k, one in first.items() if len(one["nodes"]) == run.shown.graph(k)[1]}
