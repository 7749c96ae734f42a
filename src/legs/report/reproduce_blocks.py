"""Parts of an experiment's page: numbers beside the paper's, scales, sizes, figures."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from legs.report.blocks import (
    Block,
    Choice,
    Missing,
    Picture,
    Plot,
    Sliding,
    Spec,
    Table,
    Words,
    numbers,
    plot_text,
)
from legs.report.cv_charts import SYMBOLS
from legs.report.folders import Scales
from legs.report.scale_charts import scale_states
from legs.report.words import method_name, number

if TYPE_CHECKING:
    from legs.report.reproduce_page import Experiment

MOST_COLUMNS = 24
# Figures of which the page has a better form.
DRAWN = ("parameters", "responses")
LARGEST = 2_000_000


def beside_blocks(run: Experiment) -> list[Block]:
    """Our numbers against the paper's."""
    both = run.compared
    if both is None:
        return []
    methods = list(dict.fromkeys(both["method"]))
    low = float(min(both["mean"].min(), both["paper_mean"].min()))
    high = float(max(both["mean"].max(), both["paper_mean"].max()))
    # One cell that went wrong must not hide the others.
    kind = {"type": "log"} if low > 0 and high > 20 * low else {}
    margin = 0.05 * (high - low) or 1.0
    low, high = (low, high) if kind else (low - margin, high + margin)
    data: list[Spec] = [
        {
            "x": numbers([low, high]),
            "y": numbers([low, high]),
            "mode": "lines",
            "line": {"color": "@muted", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for k, method in enumerate(methods):
        some = both[both["method"] == method]
        labels = [
            plot_text(", ".join(filter(None, [str(row["data"]), _text(row.get("variant"))])))
            for row in some.to_dict("records")
        ]
        data.append(
            {
                "x": numbers(some["paper_mean"]),
                "y": numbers(some["mean"]),
                "text": labels,
                "name": plot_text(method_name(str(method))),
                "mode": "markers",
                "marker": {"size": 9, "color": f"@{k % 8}", "symbol": SYMBOLS[k % len(SYMBOLS)]},
                "hovertemplate": "%{text}: paper %{x}, here %{y}<extra>%{fullData.name}</extra>",
            }
        )
    layout = {"xaxis": {"title": "paper", **kind}, "yaxis": {"title": "here", **kind}}
    alt = "Our numbers against the paper's; on the line they agree."
    return [
        Words("Every dot is a method on a data set; on the dotted line both numbers agree."),
        Plot("beside", {"data": data, "layout": layout}, alt, 440),
    ]


def number_blocks(run: Experiment) -> list[Block]:
    """All numbers of the experiment."""
    if run.table is None:
        return [Missing("The folder has no results.csv.")]
    table = run.table
    if "status" in table:
        table = table[table["status"] == "run"]
    kept = [name for name in table.columns if name != "status" and table[name].notna().any()]
    kept = [name for name in kept if not _is_long(table[name])][:MOST_COLUMNS]
    rows = [[_cell(row[name]) for name in kept] for row in table.to_dict("records")]
    words = next((k for k, name in enumerate(kept) if _is_number(table[name])), len(kept))
    heads = [name.replace("_", " ") for name in kept]
    return [Table(heads, rows, words=max(words, 1))]


def scales_blocks(run: Experiment) -> list[Block]:
    """Learned scales, cell by cell."""
    with_scales = [row for row in run.rows if "scales" in row]
    if not with_scales:
        return []
    shown = with_scales[:80]
    shapes = {np.asarray(row["scales"]["weights"]).shape[1:] for row in shown}
    if len(shapes) > 1:
        return []
    weights = np.stack([np.asarray(row["scales"]["weights"]).mean(0) for row in shown])
    weights = weights / weights.sum(-1, keepdims=True)
    count = len(shown)
    scales = Scales(list(range(1, count + 1)), weights, np.full(count, 0.5))
    states = scale_states(scales)
    names = [
        ", ".join(filter(None, [str(row["data"]), method_name(str(row["method"])), row["variant"]]))
        for row in shown
    ]
    states["words"] = [names[k - 1] for k in states["labels"]]
    told = "Mean selection of scales over the models of a cell; the slider goes through the cells."
    return [Words(told), Sliding("cell", states, 0)]


def size_blocks(run: Experiment) -> list[Block]:
    """Scores against numbers of parameters."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in run.rows:
        if {"parameters", "mean", "std"} <= set(row):
            label = ", ".join(filter(None, [str(row["data"]), str(row.get("variant") or "")]))
            groups.setdefault(label, []).append(row)
    plots = {}
    for label, rows in groups.items():
        if len({row["method"] for row in rows}) < 2:
            continue
        plots[label] = {
            "data": [
                {
                    "x": [max(int(row["parameters"]), 1)],
                    "y": numbers([row["mean"]]),
                    "error_y": {"array": numbers([row["std"]]), "thickness": 1.2},
                    "name": plot_text(method_name(str(row["method"]))),
                    "mode": "markers",
                    "marker": {
                        "size": 11,
                        "color": f"@{k % 8}",
                        "symbol": SYMBOLS[k % len(SYMBOLS)],
                    },
                    "hovertemplate": "%{fullData.name}: %{y} with %{x} parameters<extra></extra>",
                }
                for k, row in enumerate(rows)
            ],
            "layout": {
                "xaxis": {"title": "learned parameters", "type": "log", "dtick": "D2"},
                "yaxis": {"title": "score"},
            },
        }
    if not plots:
        return []
    alt = "Scores of the methods against their numbers of parameters."
    return [Choice("sizes", "data set", plots, alt, 380)]


def picture_blocks(run: Experiment) -> list[Block]:
    """Figures that the experiment has written."""
    blocks: list[Block] = []
    for path in run.pictures:
        if path.stem in DRAWN or path.stat().st_size > LARGEST:
            continue
        # As an image, not as part of the page: whatever is in the file cannot run.
        code = base64.b64encode(path.read_bytes()).decode()
        blocks.append(Picture(f"data:image/svg+xml;base64,{code}", path.stem.replace("-", " ")))
    return blocks


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def _is_long(column: pd.Series[Any]) -> bool:
    """Lists and matrices are for programs."""
    return bool(column.astype(str).str.startswith("[").any())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value, 3 if abs(value) < 10 else 2) if np.isfinite(value) else ""
    return _text(value)


def _text(value: Any) -> str:
    return "" if value is None or value is pd.NA or value != value else str(value)
