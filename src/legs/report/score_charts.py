"""Plots of scores and predictions, as data for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import Block, Choice, Missing, Plot, Spec, Words, numbers, plot_text
from legs.report.classes import confusion, reliability
from legs.report.folders import Run
from legs.report.scale_charts import OLD
from legs.report.words import duration

MOST_POINTS = 2000
RESIDUALS = (
    "A dot is a {}; the nearer to the dotted line, the better it was predicted. The other plot "
    "counts how many predictions were too low (left of 0) or too high, and by how much."
)


def curve_blocks(run: Run) -> list[Block]:
    """Learning curves of a run."""
    history = run.history
    if not len(history):
        return [Words("This method is not trained epoch by epoch: there is no learning curve.")]
    epochs = history["epoch"]
    data: list[Spec] = [
        {
            "x": epochs.tolist(),
            "y": numbers(history["train_loss"]),
            "name": "training",
            "line": {"color": "@0", "width": 2},
        }
    ]
    if "validation_loss" in history:
        known = history["validation_loss"].notna()
        data.append(
            {
                "x": epochs[known].tolist(),
                "y": numbers(history["validation_loss"][known]),
                "name": "validation",
                "mode": "lines+markers",
                "marker": {"size": 5},
                "line": {"color": "@1", "width": 2},
            }
        )
    best = run.results.get("best_epoch")
    layout: Spec = {"xaxis": {"title": "epoch"}, "yaxis": {"title": "loss"}}
    if best:
        layout["shapes"] = [_line(best)]
        layout["annotations"] = [_note(best, f"kept: epoch {best}")]
    alt = "Losses on training and validation graphs over the epochs."
    took = (
        f"The model has {run.results['parameters']:,} parameters and was trained for "
        f"{len(history):,} epochs, each a look at every training graph, in "
        f"{duration(run.results['seconds'])}. The loss is what training makes small. "
    )
    kept = (
        f"Validation graphs only watch: the model was kept as it was at epoch {best}, where their "
        "loss was smallest."
        if best and "validation_loss" in history
        else ""
    )
    return [Words(took + kept), Plot("curves", {"data": data, "layout": layout}, alt, 320)]


def prediction_blocks(run: Run, names: Sequence[str], classes: bool) -> list[Block]:
    """Confusion matrix and reliability, or residuals, of the test graphs."""
    table = run.predictions
    if table is None:
        return [Missing("This run has no test graphs: nothing to compare predictions with.")]
    if classes:
        if "truth" not in table or "prediction" not in table:
            return [Missing(OLD.format("predictions beside the truth"))]
        truth, found = table["truth"].astype(str).tolist(), table["prediction"].astype(str).tolist()
        known = list(dict.fromkeys([*names, *truth, *found]))
        blocks: list[Block] = [confusion_plot(truth, found, known)]
        chances = [f"probability:{name}" for name in names if f"probability:{name}" in table]
        if chances:
            sure = table[chances].to_numpy(dtype=np.float64).max(1)
            right = np.array([a == b for a, b in zip(truth, found, strict=True)])
            blocks.append(reliability_plot(sure, right))
        return blocks
    plots = {}
    for name in names:
        if name in table and f"truth:{name}" in table:
            plots[name] = residual_spec(table[f"truth:{name}"], table[name], name)
    alt = "Predicted numbers against true ones for the test graphs; the line is perfection."
    told = Words(
        RESIDUALS.format("test molecule" if run.results["data"].get("molecules") else "test graph")
    )
    return [told, Choice("residuals", "target", plots, alt, 380)] if plots else []


def confusion_plot(truth: list[str], found: list[str], names: list[str]) -> Plot:
    """The confusion matrix."""
    counts = confusion(truth, found, names)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    # Long names would leave a phone no room for the matrix.
    shown = [plot_text(_short(name, 14)) for name in names]
    # Names may be equal once shortened: places tell the classes apart.
    at = list(range(len(names)))
    text = [[str(n) for n in row] for row in counts] if len(names) <= 20 else None
    data: Spec = {
        "type": "heatmap",
        "x": at,
        "y": at,
        "z": numbers(share, 3),
        "zmin": 0,
        "zmax": 1,
        "colorscale": "@sequential",
        "showscale": False,
        "hoverinfo": "text",
        "hovertext": [
            [f"{shown[i]} answered as {shown[j]}: {counts[i, j]} of {counts[i].sum()}" for j in at]
            for i in at
        ],
        "xgap": 2,
        "ygap": 2,
    }
    if text is not None:
        data |= {"text": text, "texttemplate": "%{text}"}
    ticks = {"tickvals": at, "ticktext": shown, "showgrid": False, "zeroline": False}
    turned = {"tickangle": -40} if max(map(len, shown)) > 4 else {}
    layout = {
        "xaxis": {"title": "answer", "type": "linear", **ticks, **turned},
        "yaxis": {"title": "truth", "type": "linear", "autorange": "reversed", **ticks},
    }
    alt = "How often each true class (rows) was answered as each class (columns)."
    height = min(300 + 16 * len(names), 640)
    caption = (
        "A row is a true class, a column what was answered; right answers are on the diagonal. "
        "Numbers are graphs, colours shares of the true class."
    )
    return Plot("confusion", {"data": [data], "layout": layout}, alt, height, caption, half=True)


def reliability_plot(sure: Any, right: Any) -> Plot:
    """How often answers are right against how sure the model is."""
    found = reliability(sure, right)
    size = 8 + 22 * np.sqrt(found.graphs / max(found.graphs.max(), 1))
    text = [
        f"{n} graphs: sure to {100 * a:.0f} %, right in {100 * b:.0f} %"
        for n, a, b in zip(found.graphs, found.sure, found.right, strict=True)
    ]
    data: list[Spec] = [
        {
            "x": [0, 1],
            "y": [0, 1],
            "mode": "lines",
            "line": {"color": "@muted", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {
            "x": numbers(found.sure),
            "y": numbers(found.right),
            "mode": "lines+markers",
            "marker": {"size": numbers(size), "color": "@0"},
            "line": {"color": "@0", "width": 1.5},
            "text": text,
            "hoverinfo": "text",
            "showlegend": False,
        },
    ]
    layout = {
        "xaxis": {"title": "how sure the model is", "range": [0, 1.04]},
        "yaxis": {"title": "how often it is right", "range": [0, 1.08]},
    }
    caption = (
        f"On the dotted line the model is right as often as it says. Mean distance from it "
        f"(expected calibration error): {found.error:.3f}."
    )
    alt = "Share of right answers against the probability the model gave them."
    return Plot("reliability", {"data": data, "layout": layout}, alt, 360, caption, half=True)


def residual_spec(truth: pd.Series[Any], found: pd.Series[Any], name: str) -> Spec:
    """Predictions against the truth, and a histogram of what is left over."""
    a = pd.to_numeric(truth, errors="coerce").to_numpy(dtype=np.float64)
    b = pd.to_numeric(found, errors="coerce").to_numpy(dtype=np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    ends = [float(min(a.min(), b.min())), float(max(a.max(), b.max()))] if len(a) else [0.0, 1.0]
    chosen = np.random.default_rng(0).permutation(len(a))[:MOST_POINTS]
    data: list[Spec] = [
        {
            "x": numbers(ends),
            "y": numbers(ends),
            "mode": "lines",
            "line": {"color": "@muted", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        },
        {
            "x": numbers(a[chosen]),
            "y": numbers(b[chosen]),
            "mode": "markers",
            "marker": {"size": 6, "color": "@0", "opacity": 0.6},
            "hovertemplate": "true %{x}<br>predicted %{y}<extra></extra>",
        },
        {
            "x": numbers(b - a),
            "type": "histogram",
            "nbinsx": 40,
            "marker": {"color": "@0"},
            "xaxis": "x2",
            "yaxis": "y2",
            "hovertemplate": "%{x}: %{y} graphs<extra></extra>",
        },
    ]
    shown = plot_text(_short(name))
    layout = {
        "showlegend": False,
        "grid": {"rows": 1, "columns": 2, "pattern": "independent"},
        "xaxis": {"title": f"true {shown}"},
        "yaxis": {"title": f"predicted {shown}"},
        "xaxis2": {"title": "predicted − true"},
        "yaxis2": {"title": "graphs"},
    }
    return {"data": data, "layout": layout, "stack": True}


def _line(epoch: int) -> Spec:
    style = {"color": "@muted", "dash": "dot", "width": 1.5}
    ends = {"x0": epoch, "x1": epoch, "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "line", **ends, "line": style}


def _note(epoch: int, text: str) -> Spec:
    # To the left: the best epoch is mostly near the end.
    place = {"x": epoch, "y": 1, "yref": "paper", "xanchor": "right", "yanchor": "top"}
    return {"text": text, **place, "showarrow": False, "font": {"size": 12, "color": "@muted"}}


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
