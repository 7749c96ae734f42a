"""Best and worst predictions, drawn, and which part of each graph mattered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legs.report.blocks import Block, Card, Cards, Missing, Plot, Spec, Words, numbers
from legs.report.folders import Run
from legs.report.map_charts import answer_lines, graph_drawing, size_words
from legs.report.scale_charts import OLD

SIZE = (300, 210)


def card_blocks(run: Run, names: Sequence[str], classes: bool) -> list[Block]:
    """Best and worst predictions of the test graphs, with what mattered where that is known."""
    shown = run.shown
    if shown is None:
        return [Missing(OLD.format("graphs to draw"))]
    if not shown.best + shown.worst:
        return [Missing("There are too few test graphs to tell best from worst.")]
    found = _explained(run)
    what = explained_words(found, classes)
    legend = (("plus", f"raises the {what}"), ("minus", "lowers it")) if found else ()
    groups = (
        ("Best predictions", range(shown.best)),
        ("Worst predictions", range(shown.best, shown.best + shown.worst)),
    )
    blocks: list[Block] = []
    for title, places in groups:
        cards = [_card(run, place, names, classes, found.get(place)) for place in places]
        blocks.append(Cards(title, cards, () if blocks else legend))
    return blocks


def part_blocks(run: Run, classes: bool) -> list[Block]:
    """What the dots mean, and which scattering paths mattered."""
    found = _explained(run)
    if run.shown is None:
        return [Missing(OLD.format("graphs to explain"))]
    if not found:
        return [
            Missing(
                "There is no explanation here: the method is not a network, the graphs are too "
                "large, or the page was made without its model."
            )
        ]
    what = explained_words(found, classes)
    if run.results["data"].get("molecules"):
        graph, node, features = "molecule", "atom", "kinds of atoms"
    else:
        graph, node, features = "graph", "node", "features of nodes"
    blocks: list[Block] = [
        Words(
            f"The dots on the drawings above show what each {node} added to the {what}: orange "
            f"raises it, blue lowers it, large dots much. The {graph} is compared with itself "
            f"after its {features} were dealt out at random, so a dot says how much it matters "
            f"that this {node} is where it is. It says what the model used, which need not be what "
            f"nature does. Method: integrated gradients; the dots of a {graph} add up to the "
            f"difference between the two predictions{' (as log-odds)' if classes else ''}."
        )
    ]
    paths = _mean_paths(list(found.values()))
    if not paths:
        return [*blocks, Words("This network has no scattering paths to attribute to.")]
    blocks.append(
        Words(
            "The same difference by scattering path, its mean size over the drawings above: Ψ0 "
            "compares neighbours, Ψ1, Ψ2, … ever wider surroundings; Ψ0 Ψ2 is Ψ2 of what Ψ0 found. "
            "The long bars are the distances that mattered."
        )
    )
    return [*blocks, path_plot(paths)]


def explained_words(found: dict[int, dict[str, Any]], classes: bool) -> str:
    """What it is that nodes raise or lower."""
    if classes:
        return "odds of the class that the model chose"
    return f"predicted {next(iter(found.values()))['target']}" if found else ""


def path_plot(paths: dict[str, float]) -> Plot:
    """Bars: how much each path matters."""
    spec: Spec = {
        "data": [
            {
                "type": "bar",
                "x": list(paths),
                "y": numbers(list(paths.values())),
                "marker": {"color": "@0"},
                "hovertemplate": "%{x}: %{y}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"title": "", "tickangle": -50, "type": "category"},
            "yaxis": {"title": "mean size of the share"},
        },
    }
    alt = "How much each scattering path adds to the predictions, on average."
    return Plot("paths", spec, alt, 340)


def _explained(run: Run) -> dict[int, dict[str, Any]]:
    if run.explained is None or run.shown is None:
        return {}
    found = {}
    for row in run.explained.get("graphs", ()):
        place, each = int(row["place"]), row["found"]
        if each and len(each[0]["nodes"]) == run.shown.graph(place)[1]:
            found[place] = each[0]
    return found


def error_lines(run: Run, place: int, names: Sequence[str]) -> list[str]:
    """How far all numbers of a graph are off, in standard deviations of the training set."""
    spread = run.model.get("task", {}).get("deviation")
    if run.shown is None or not spread or len(spread) != len(names):
        return []
    row = run.shown.table.iloc[place]
    truth, found = ([row.get(mark + name, np.nan) for name in names] for mark in ("truth:", ""))
    error = (np.array(found, dtype=float) - np.array(truth, dtype=float)) / np.array(spread)
    error = error[np.isfinite(error)]
    if not len(error):
        return []
    off = float(np.sqrt(np.mean(error**2)))
    return [f"all {len(names)} numbers: off by {off:.2f} standard deviations"]


def _card(
    run: Run, place: int, names: Sequence[str], classes: bool, found: dict[str, Any] | None
) -> Card:
    shown = run.shown
    assert shown is not None
    values = None if found is None else np.array(found["nodes"])
    svg = graph_drawing(shown, place, values, SIZE)
    told = list(names)
    if found is not None and not classes:  # the explained number first
        told = [found["target"], *(name for name in names if name != found["target"])]
    lines = answer_lines(shown.table, place, told[:1] if len(told) > 3 else told, classes)
    if not classes and len(told) > 3:
        lines += error_lines(run, place, names)
    note = ""
    if found is not None and not np.any(values):
        note = "All nodes have the same features: none matters more than another."
    elif not svg:
        note = "Too large to draw."
    return Card(svg, shown.name(place), [*lines, size_words(shown, place)], note)


def _mean_paths(found: list[dict[str, Any]]) -> dict[str, float]:
    names = list(found[0].get("paths", {}))
    sizes = {name: float(np.mean([abs(one["paths"][name]) for one in found])) for name in names}
    # The signal's own moments do not change when it is dealt out anew: they have no share.
    return {name: size for name, size in sizes.items() if size > 1e-9 * max(sizes.values())}
