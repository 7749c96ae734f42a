"""Graphs on a map, drawn when they are pointed at, as data for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from legs.report.blocks import Map, Spec, numbers, plot_text
from legs.report.drawings import graph_svg
from legs.report.folders import Shown
from legs.report.maps import FEWEST, HOW, How, available_maps, map_places
from legs.report.molecules import molecule_svg

PARTS = ("trained on", "validated on", "test")
SIZE = (240, 170)
# Larger graphs are told of, not drawn: thousands of dots are no picture.
LARGEST = 200


def drawings_of(shown: Shown) -> list[str]:
    """An SVG for each graph; empty where it is too large."""
    return [graph_drawing(shown, place, size=SIZE) for place in range(len(shown))]


def graph_drawing(
    shown: Shown, place: int, values: Any = None, size: tuple[int, int] = SIZE
) -> str:
    """A graph as SVG: by RDKit if it is a molecule, else laid out by distances.

    Args:
        shown: graphs of a run.
        place: of the graph.
        values: one a node, to be drawn as dots (default: none).
        size: width and height.
    """
    edges, nodes = shown.graph(place)
    smiles = shown.smiles(place)
    if smiles:
        aligned = place < len(shown.aligned) and shown.aligned[place]
        if values is None or aligned:
            svg = molecule_svg(smiles, values, size)
            if svg is None and values is not None:  # hydrogens may be nodes of their own
                svg = molecule_svg(smiles, values, size, hydrogens=True)
            if svg is not None:
                return svg
    if nodes > LARGEST or (nodes > 1 and not len(edges)):
        return ""
    return graph_svg(edges, nodes, values, size)


def map_block(
    shown: Shown, colors: dict[str, Sequence[str] | Sequence[float]], lines: list[list[str]]
) -> Map:
    """The map of a run's graphs.

    Args:
        shown: the graphs.
        colors: what dots can be coloured by: a class or a number for each graph.
        lines: what is said of each graph.
    """
    ways: list[How] = available_maps() if len(shown) >= FEWEST else ["pca"]
    data: Spec = {
        "places": {how: numbers(map_places(shown.places, how), 4) for how in ways},
        "drawings": drawings_of(shown),
        "lines": lines,
        "names": [shown.name(place) for place in range(len(shown))],
        "parts": shown.parts.tolist(),
        "colors": {name: _colored(values) for name, values in colors.items()},
    }
    return Map(data, {how: HOW[how] for how in ways}, list(colors))


def _colored(values: Sequence[str] | Sequence[float]) -> Spec:
    if any(isinstance(value, str) for value in values):
        words = [str(value) for value in values]
        names = sorted(dict.fromkeys(words))
        place = {name: k for k, name in enumerate(names)}
        return {
            "kind": "classes",
            "names": [plot_text(name if len(name) <= 28 else name[:27] + "…") for name in names],
            "values": [place[word] for word in words],
        }
    return {"kind": "numbers", "values": numbers(np.asarray(values, dtype=np.float64))}


def size_words(shown: Shown, place: int) -> str:
    """How large a graph is.

    Large graphs have no edges here, so none are counted.
    """
    edges, nodes = shown.graph(place)
    of, between = ("atoms", "bonds") if shown.smiles(place) else ("nodes", "edges")
    return f"{nodes:,} {of}, {len(edges):,} {between}" if len(edges) else f"{nodes:,} {of}"


def run_lines(shown: Shown, names: Sequence[str], classes: bool) -> list[list[str]]:
    """What is said of each graph of a trained model: truth, answer, part."""
    return [
        [*answer_lines(shown.table, place, names, classes), _part(shown, place)]
        for place in range(len(shown))
    ]


def _part(shown: Shown, place: int) -> str:
    return f"{PARTS[int(shown.parts[place])]}; {size_words(shown, place)}"


def answer_lines(
    table: pd.DataFrame, place: int, names: Sequence[str], classes: bool, most: int = 3
) -> list[str]:
    """Truth and answer for a graph, in words."""
    row = table.iloc[place]
    if classes:
        chance = row.get(f"probability:{row['prediction']}")
        sure = "" if chance is None else f", sure to {100 * float(chance):.0f} %"
        if str(row["truth"]) == str(row["prediction"]):
            return [f"class {row['truth']}: right{sure}"]
        return [f"class {row['truth']}, answered {row['prediction']}{sure}"]
    lines = []
    for name in list(names)[:most]:
        if name in row and f"truth:{name}" in row:
            truth = row[f"truth:{name}"]
            known = "unknown" if pd.isna(truth) else f"{float(truth):.4g}"
            lines.append(f"{name}: {known}, predicted {float(row[name]):.4g}")
    if len(names) > most:
        lines.append(f"and {len(names) - most} more")
    return lines
