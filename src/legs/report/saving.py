"""All pictures of a run as files: PNG and SVG, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from legs.io import expand_user
from legs.report.drawings import Drawing
from legs.report.folders import (
    CrossValidation,
    Run,
    kind_of,
    ordered_runs,
    read_cv,
    read_train,
)
from legs.report.graphs import explanations
from legs.report.heatmaps import scale_map
from legs.report.maps import available_maps, map_figure, map_places
from legs.report.molecules import molecule_panels
from legs.report.plots import (
    confusion_figure,
    curve_figure,
    parameter_figure,
    path_figure,
    reliability_figure,
    residual_figure,
)
from legs.report.responses import response_figure
from legs.report.theme import THEMES, Theme, save
from legs.report.views import cv_points
from legs.report.wavelets import node_figure, wavelet_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "pictures"
Named = tuple[str, "Figure | Drawing"]


def write_pictures(run: str | Path) -> list[Path]:
    """Draws everything that a run has to show, into its folder ``pictures``.

    Args:
        run: folder of ``legs train``, ``legs cv`` or ``legs demo``.
    """
    folder = expand_user(run)
    kind = kind_of(folder)
    read = read_cv(folder) if kind == "cv" else None
    one = None if read else read_train(ordered_runs(folder)[0] if kind == "demo" else folder)
    files = []
    for name, theme in THEMES.items():
        for title, figure in _of_cv(read, theme) if read else _of_run(one, theme):
            path = folder / FOLDER / f"{title}-{name}"
            files += figure.save(path) if isinstance(figure, Drawing) else save(figure, path)
    return files


def _of_run(run: Run | None, theme: Theme) -> Iterator[Named]:
    assert run is not None
    best = int(run.results.get("best_epoch") or 0)
    if len(run.history):
        losses = run.history.get("validation_loss", np.full(len(run.history), np.nan))
        epochs, train = run.history["epoch"].tolist(), run.history["train_loss"].tolist()
        yield "curves", curve_figure(epochs, train, list(losses), best or None, theme)
    weights, laziness = run.fixed_scales, 0.5
    if run.scales is not None:
        yield "scales", scale_map(run.scales.weights, run.scales.labels, best or None, theme)
        state = run.scales.nearest(best)
        weights, laziness = run.scales.weights[state], float(run.scales.laziness[state])
    if weights is not None:
        yield "responses", response_figure(weights, laziness, theme=theme)
        if run.shown is not None and run.shown.best:
            edges, nodes = run.shown.graph(0)
            yield "wavelets", wavelet_figure(edges, nodes, weights, None, laziness, theme=theme)
    yield from _of_predictions(run, theme)
    yield from _of_graphs(run, theme)


def _of_predictions(run: Run, theme: Theme) -> Iterator[Named]:
    table, names = run.predictions, run.names
    if table is None:
        return
    if run.classes:
        truth, predicted = (table[name].astype(str).tolist() for name in ("truth", "prediction"))
        every = list(dict.fromkeys([*names, *truth, *predicted]))
        yield "confusion", confusion_figure(truth, predicted, every, theme)
        sure = table[[f"probability:{name}" for name in names]].to_numpy().max(1)
        right = np.array(truth) == np.array(predicted)
        yield "reliability", reliability_figure(sure, right, theme=theme)
        return
    for k, name in enumerate(names):
        true, ours = table[f"truth:{name}"].to_numpy(), table[name].to_numpy()
        yield f"residuals-{k}", residual_figure(true, ours, name, theme)


def _of_graphs(run: Run, theme: Theme) -> Iterator[Named]:
    shown = run.shown
    if shown is None:
        return
    label = "class" if run.classes else run.names[0]
    column = shown.table["truth" if run.classes else f"truth:{label}"]
    values = column.astype(str).tolist() if run.classes else column.tolist()
    for how in available_maps():
        yield f"map-{how}", map_figure(map_places(shown.features, how), values, label, theme)
    for index, attribution in explanations(run).items():
        shares, target = np.array(attribution["nodes"]), attribution["target"]
        if attribution["paths"]:
            yield f"paths-{index}", path_figure(attribution["paths"], target, theme)
        if shown.smiles(index) and shown.is_aligned(index):
            try:
                panels = molecule_panels(shown.smiles(index), shares[None], [target], theme)
                yield f"explained-{index}", panels
                continue
            except ValueError:  # hydrogens are nodes
                pass
        edges, _ = shown.graph(index)
        yield f"explained-{index}", node_figure(edges, shares, target, theme=theme)


def _of_cv(run: CrossValidation, theme: Theme) -> Iterator[Named]:
    score = "accuracy, %" if run.classes else "mean squared error"
    points = {str(run.results["data"]): cv_points(run)}
    yield "parameters", parameter_figure(points, score, theme)
    table, lead = run.predictions, run.lead
    if table is not None and run.classes:
        truth, predicted = table["truth"].astype(str).tolist(), table[lead].astype(str).tolist()
        names = list(dict.fromkeys([*run.about.get("names", []), *truth, *predicted]))
        yield "confusion", confusion_figure(truth, predicted, names, theme)
    for method, weights in run.scales.items():
        yield f"responses-{method}", response_figure(weights.mean(0), theme=theme)
