"""Graphs of a cross-validation: on a map, and drawn where methods are right and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import Block, Card, Cards, Missing, Words
from legs.report.folders import Shown
from legs.report.map_charts import graph_drawing, map_block, size_words
from legs.report.scale_charts import OLD
from legs.report.words import method_name

KEYS = ("test_set", "graph", "id", "truth")
MOST_LINES = 6


def cv_map(shown: Shown | None, table: pd.DataFrame | None, classes: bool) -> list[Block]:
    """The map of graphs, by fixed scattering."""
    if shown is None:
        return [Missing(OLD.format("graphs to show"))]
    if table is None:
        return []
    rows = _rows(shown, table)
    colors: dict[str, Any] = {}
    if classes:
        colors["class"] = [str(row["truth"]) if row is not None else "unknown" for row in rows]
    else:
        for name in [c for c in table.columns if c.startswith("truth:")][:20]:
            values = [np.nan if row is None else float(row[name]) for row in rows]
            colors[name.removeprefix("truth:")] = values
    lines = [[*_told(row, classes), size_words(shown, place)] for place, row in enumerate(rows)]
    share = 100 * float(shown.share[:2].sum())
    noun = "molecule" if shown.smiles(0) else "graph"
    shade = "" if classes or len(colors) != 1 else f"Its colour is the true {next(iter(colors))}. "
    return [
        Words(
            f"Every dot is a {noun}, placed by the features of fixed scattering, which needs no "
            "training: they are near each other where their structure is alike. Point at a dot, "
            f"or tap it, to see the {noun}. {shade}t-SNE keeps neighbours together, and its long "
            "distances mean nothing; the PCA map keeps distances, but only "
            f"{share:.0f} % of the variation."
        ),
        map_block(shown, colors, lines),
    ]


def cv_cards(shown: Shown | None, table: pd.DataFrame | None, lead: str) -> list[Block]:
    """Graphs that the best method gets right and wrong."""
    if shown is None or table is None:
        return [Missing(OLD.format("graphs to draw"))]
    if not shown.best + shown.worst:
        return []
    classes = "truth" in table
    rows = _rows(shown, table)
    best, worst = range(shown.best), range(shown.best, shown.best + shown.worst)
    named = method_name(lead)
    return [
        Words(
            f"What {named} gets most right and most wrong, those first about which the other "
            "methods agree with it."
        ),
        *(
            Cards(title, [_card(shown, place, rows[place], classes) for place in places])
            for title, places in (("Right", best), ("Wrong", worst))
            if len(places)
        ),
    ]


def _card(shown: Shown, place: int, row: Any, classes: bool) -> Card:
    svg = graph_drawing(shown, place, None, (300, 210))
    lines = [*_told(row, classes), size_words(shown, place)]
    return Card(svg, shown.name(place), lines, "" if svg else "Too large to draw.")


def _rows(shown: Shown, table: pd.DataFrame) -> list[Any]:
    """The row of predictions of each graph; ``None`` where it was in no test set."""
    first = table.drop_duplicates("graph").set_index("graph", drop=False)
    return [first.loc[n] if n in first.index else None for n in shown.numbers.tolist()]


def _told(row: Any, classes: bool) -> list[str]:
    if row is None:
        return ["in no test set"]
    if not classes:
        names = [str(name) for name in row.index if str(name).startswith("truth:")]
        return [f"{name.removeprefix('truth:')}: {float(row[name]):.4g}" for name in names[:3]]
    truth = str(row["truth"])
    answers = {str(k): str(v) for k, v in row.items() if str(k) not in KEYS}
    right = [method_name(k) for k, v in answers.items() if v == truth]
    wrong = [f"{method_name(k)} says {v}" for k, v in answers.items() if v != truth]
    lines = [f"class {truth}"]
    if right:
        lines.append(f"right: {', '.join(right)}" if len(right) < 5 else f"right: {len(right)}")
    if len(wrong) > MOST_LINES:
        wrong = [*wrong[:MOST_LINES], f"and {len(wrong) - MOST_LINES} more"]
    return [*lines, *wrong]
