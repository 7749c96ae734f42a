"""All pictures of a run as files: PNG and SVG, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from legs.report.attributions import node_figure, path_figure
from legs.report.classes import confusion_figure, reliability_figure
from legs.report.curves import curve_figure
from legs.report.cv_page import CrossValidation, read_cv
from legs.report.demo_page import detailed, read_demo
from legs.report.drawings import Drawing
from legs.report.folders import ReportError, Run, kind_of, read_train
from legs.report.maps import available_maps, map_figure, map_places
from legs.report.molecules import molecule_panels
from legs.report.parameters import parameter_figure
from legs.report.residuals import residual_figure
from legs.report.responses import response_figure
from legs.report.scale_charts import fixed_scales
from legs.report.scale_maps import scale_map
from legs.report.theme import THEMES, Theme, save
from legs.report.train_words import is_classes, names_of
from legs.report.wavelets import wavelet_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "pictures"
Named = tuple[str, "Figure | Drawing"]


def write_pictures(run: str | Path) -> list[Path]:
    """Draws everything that a run has to show, into its folder ``pictures``.

    Args:
        run: folder of ``legs train``, ``legs cv`` or ``legs demo``. ``legs reproduce`` writes its
            figures itself.
    """
    folder = Path(run).expanduser()
    kind = kind_of(folder)
    if kind == "reproduce":
        raise ReportError(f"{folder}: legs reproduce has written its figures already")
    found = []
    for name, theme in THEMES.items():
        if kind == "cv":
            figures = _of_cv(read_cv(folder), theme)
        else:
            one = detailed(read_demo(folder)) if kind == "demo" else read_train(folder)
            figures = _of_run(one, theme)
        for title, figure in figures:
            place = folder / FOLDER / f"{title}-{name}"
            found += figure.save(place) if isinstance(figure, Drawing) else save(figure, place)
    return found


def _of_run(run: Run, theme: Theme) -> Iterator[Named]:
    best = int(run.results.get("best_epoch") or 0)
    if len(run.history):
        losses = run.history.get("validation_loss", np.full(len(run.history), np.nan))
        epochs, train = run.history["epoch"].tolist(), run.history["train_loss"].tolist()
        yield "curves", curve_figure(epochs, train, list(losses), best or None, theme)
    weights, laziness = fixed_scales(run), 0.5
    if run.scales is not None:
        yield "scales", scale_map(run.scales.weights, run.scales.labels, best or None, theme)
        place = int(np.argmin(np.abs(np.array(run.scales.labels) - best)))
        weights, laziness = run.scales.weights[place], float(run.scales.laziness[place])
    if weights is not None:
        yield "responses", response_figure(weights, laziness, theme=theme)
        if run.shown is not None and run.shown.best:
            edges, nodes = run.shown.graph(0)
            yield "wavelets", wavelet_figure(edges, nodes, weights, None, laziness, theme=theme)
    yield from _of_predictions(run, theme)
    yield from _of_shown(run, theme)


def _of_predictions(run: Run, theme: Theme) -> Iterator[Named]:
    table, names = run.predictions, names_of(run)
    if table is None:
        return
    if is_classes(run):
        truth, found = table["truth"].astype(str).tolist(), table["prediction"].astype(str).tolist()
        known = list(dict.fromkeys([*names, *truth, *found]))
        yield "confusion", confusion_figure(truth, found, known, theme)
        sure = table[[f"probability:{name}" for name in names]].to_numpy().max(1)
        right = np.array(truth) == np.array(found)
        yield "reliability", reliability_figure(sure, right, theme=theme)
        return
    for number, name in enumerate(names):
        truth_of, found_of = table[f"truth:{name}"].to_numpy(), table[name].to_numpy()
        yield f"residuals-{number}", residual_figure(truth_of, found_of, name, theme)


def _of_shown(run: Run, theme: Theme) -> Iterator[Named]:
    shown, names = run.shown, names_of(run)
    if shown is None:
        return
    label = "class" if is_classes(run) else names[0]
    column = shown.table["truth" if is_classes(run) else f"truth:{label}"]
    values = column.astype(str).tolist() if is_classes(run) else column.tolist()
    for how in available_maps():
        yield f"map-{how}", map_figure(map_places(shown.places, how), values, label, theme)
    for row in (run.explained or {}).get("graphs", ()):
        place, found = int(row["place"]), row["found"][0]
        edges, nodes = shown.graph(place)
        shares = np.array(found["nodes"])
        if shown.smiles(place) and shown.aligned[place]:
            try:
                target = [found["target"]]
                drawn = molecule_panels(shown.smiles(place), shares[None], target, theme)
                yield f"explained-{place}", drawn
                continue
            except ValueError:  # hydrogens are nodes
                pass
        if len(shares) == nodes:
            yield f"explained-{place}", node_figure(edges, shares, found["target"], theme=theme)
        if found["paths"]:
            yield f"paths-{place}", path_figure(found["paths"], found["target"], theme)


def _of_cv(run: CrossValidation, theme: Theme) -> Iterator[Named]:
    points = [
        (str(m["method"]), int(m["parameters"]), run.factor * m["mean"], run.factor * m["std"])
        for m in run.methods
    ]
    score = "accuracy, %" if run.classes else "mean squared error"
    yield "parameters", parameter_figure({str(run.results["data"]): points}, score, theme)
    table, lead = run.predictions, str(run.methods[0]["method"])
    if table is not None and run.classes:
        truth, found = table["truth"].astype(str).tolist(), table[lead].astype(str).tolist()
        names = list(dict.fromkeys([*run.about.get("names", []), *truth, *found]))
        yield "confusion", confusion_figure(truth, found, names, theme)
    for method, weights in run.about.get("scales", {}).items():
        mean = np.array(weights, dtype=np.float64).mean(0)
        yield f"responses-{method}", response_figure(mean, theme=theme)
