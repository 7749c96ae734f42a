"""Plots of a cross-validation, as data for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from legs.report.blocks import Plot, Spec, numbers
from legs.report.words import method_name

# More than the eight colours: the ninth has the first's colour, and must not have its shape.
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"]
SYMBOLS += ["hourglass", "pentagon", "bowtie"]


class Scaled(Protocol):
    """What tells how scores are shown."""

    @property
    def factor(self) -> int: ...
    @property
    def classes(self) -> bool: ...


def fold_plot(methods: Sequence[dict[str, Any]], run: Scaled) -> Plot:
    """Every test set's score, a row a method, with the mean."""
    shown = [*methods][::-1]  # the best at the top
    names = [method_name(str(method["method"])) for method in shown]
    score = "accuracy, %" if run.classes else "mean squared error"
    every: Spec = {
        "x": numbers([run.factor * s for m in shown for s in m["scores"]]),
        "y": [name for name, m in zip(names, shown, strict=True) for _ in m["scores"]],
        "text": [f"test set {k}" for m in shown for k in range(len(m["scores"]))],
        "mode": "markers",
        "name": "test sets",
        "marker": {"size": 8, "color": "@0", "opacity": 0.45},
        "hovertemplate": "%{y}, %{text}: %{x}<extra></extra>",
    }
    mean: Spec = {
        "x": numbers([run.factor * m["mean"] for m in shown]),
        "y": names,
        "mode": "markers",
        "name": "mean",
        "marker": {"size": 16, "color": "@1", "symbol": "line-ns-open", "line": {"width": 3}},
        "hovertemplate": "%{y}: mean %{x}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": score},
        "yaxis": {"title": "", "type": "category", "automargin": True},
    }
    alt = "Scores of every method on every test set, and their means."
    height = 150 + 34 * len(shown)
    return Plot("folds", {"data": [every, mean], "layout": layout}, alt, height)


def parameter_plot(methods: Sequence[dict[str, Any]], run: Scaled) -> Plot:
    """Scores against the number of learned parameters."""
    data: list[Spec] = [
        {
            "x": [max(int(method["parameters"]), 1)],
            "y": numbers([run.factor * method["mean"]]),
            "error_y": {"array": numbers([run.factor * method["std"]]), "thickness": 1.2},
            "name": method_name(str(method["method"])),
            "mode": "markers",
            "marker": {"size": 11, "color": f"@{k % 8}", "symbol": SYMBOLS[k % len(SYMBOLS)]},
            "hovertemplate": "%{fullData.name}: %{y} with %{x} parameters<extra></extra>",
        }
        for k, method in enumerate(methods)
    ]
    layout = {
        "xaxis": {"title": "learned parameters", "type": "log", "dtick": "D2"},
        "yaxis": {"title": "accuracy, %" if run.classes else "mean squared error"},
    }
    alt = "Scores of the methods against their numbers of parameters."
    return Plot("parameters", {"data": data, "layout": layout}, alt, 360)
