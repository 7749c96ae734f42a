"""Every plot once, as a Plotly figure without colors: pages and files add a theme.

With ``theme=None`` the public functions return that figure, else one of matplotlib.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.metrics import confusion_matrix, roc_curve

from legs.functional.frame import filter_responses, frame_bounds
from legs.functional.operators import operator_spectrum
from legs.report.theme import ADVICE, Floats, NoPictures, ThemeName, draw

Names = Sequence[str]
Values = Sequence[str] | Sequence[float] | Floats
Themed = ThemeName | None
How = Literal["pca", "tsne", "umap"]
HOW = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
# With fewer graphs every map is a PCA.
FEWEST = 12
# More symbols than colors, so that the ninth series differs from the first.
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"]
SYMBOLS += ["triangle-left", "pentagon", "triangle-right"]
MOST_POINTS = 2000
# A larger confusion matrix is neither readable nor small.
MOST_CLASSES = 60
# Classes in the legend of a map; the rest is one color.
MOST_COLORS = 20
# Of a frequency response.
POINTS = 61


def new_plot(data: Sequence[Any], across: str = "", up: str = "", **layout: Any) -> Any:
    """A Plotly figure of traces, titles of axes and a layout, all validated."""
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    titles = {"xaxis_title": across} if across else {}
    titles |= {"yaxis_title": up} if up else {}
    return Figure(list(data), {"template": "none", **layout, **titles})


def with_frames(figures: Mapping[str, Any]) -> Any:
    """The first of several figures, with all of them as frames: states of a slider or list."""
    specs = {name: figure.to_dict() for name, figure in figures.items()}
    frames = [{"name": n, "data": s["data"], "layout": s["layout"]} for n, s in specs.items()]
    return next(iter(figures.values())).update(frames=frames)


def label(text: Any, most: int = 24) -> str:
    """A name from a file as text of a plot: short, and escaped, since Plotly interprets tags."""
    text = str(text)
    return html.escape(text if len(text) <= most else text[: most - 1] + "…", quote=False)


def numbers(values: Any, digits: int = 4) -> Any:
    """An array as JSON: rounded to significant digits, ``None`` for NaN and infinity."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [numbers(each, digits) for each in array]
    value = float(array)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def curve_plot(history: pd.DataFrame, best: int = 0) -> Any:
    """Training and validation loss over the epochs; a line marks the ``best`` one, unless 0."""
    training = {"x": history["epoch"].tolist(), "y": numbers(history["train_loss"])}
    traces = [{**training, "name": "training"}]
    if len(known := history.reindex(columns=["epoch", "validation_loss"]).dropna()):
        points = {"x": known["epoch"].tolist(), "y": numbers(known["validation_loss"])}
        look = {"name": "validation", "mode": "lines+markers", "marker": {"size": 5}}
        traces.append({**points, **look})
    meta = f"The dotted line is the best epoch, {best}." if best else ""
    figure = new_plot(traces, "epoch", "loss", height=320, meta=meta)
    return figure.add_vline(best) if best else figure


def confusion_plot(truth: Names, predicted: Names, names: Names) -> Any:
    """The confusion matrix: rows are true classes, columns predictions, shades shares of the row.

    Of more than :data:`MOST_CLASSES`, those with most errors are drawn.
    """
    counts = confusion_matrix(truth, predicted, labels=names)
    errors = counts.sum(0) + counts.sum(1) - 2 * counts.diagonal()
    most = np.sort(np.argsort(-errors, kind="stable")[:MOST_CLASSES])
    total = np.maximum(counts.sum(1), 1)[most]
    counts = counts[np.ix_(most, most)]
    shown = [label(names[k], 14) for k in most]
    # Shortened names may be equal: classes are distinguished by their index.
    at = list(range(len(shown)))
    gap = 2 if len(at) <= 20 else 0.5
    heat = _heatmap(counts / total[:, None], at, at, gap, gap)
    heat |= {"showscale": False, "hoverinfo": "text"}
    heat["hovertext"] = [
        [f"{shown[i]} predicted as {shown[j]}: {counts[i, j]} of {total[i]}" for j in at]
        for i in at
    ]
    if len(at) <= 20:
        heat |= {"text": counts.astype(str).tolist(), "texttemplate": "%{text}"}
    ticks = {"tickvals": at, "ticktext": shown, "showgrid": False, "zeroline": False}
    across = ticks | ({"tickangle": -45} if max(map(len, shown), default=0) > 4 else {})
    look = {"xaxis": across, "yaxis": {"autorange": "reversed", **ticks}}
    return new_plot([heat], "predicted", "true", **look, height=min(300 + 16 * len(at), 640))


def count_plot(counts: Mapping[str, Any], target: str) -> Any:
    """Values of a target, or classes, by part of the data, on top of each other."""
    at, look = counts["at"], dict[str, Any](barmode="stack", bargap=0.06, height=300)
    if isinstance(at[0], str):
        names, at = [label(one, 14) for one in at], list(range(len(at)))
        look |= {"xaxis_tickvals": at, "xaxis_ticktext": names}
    bars = [
        {"type": "bar", "x": numbers(at), "y": counts[part], "name": name}
        for part, name in (("train", "training"), ("validation", "validation"), ("test", "test"))
        if part in counts
    ]
    return new_plot(bars, label(target), "count", **look)


def roc_plot(truths: Mapping[str, Any], probabilities: Mapping[str, Any]) -> Any:
    """Sensitivity against false positives of classes or labels, of which each has both kinds."""
    traces = []
    for name, truth in truths.items():
        wrong, right, _ = roc_curve(truth, probabilities[name])
        area = float(np.trapezoid(right, wrong))
        points = {"x": numbers(wrong), "y": numbers(right), "mode": "lines"}
        traces.append({**points, "name": f"{label(name, 18)} (area {area:.2f})"})
    look: Any = {"xaxis_range": [0, 1], "yaxis_range": [0, 1.02], "showlegend": True}
    names = ("share of others predicted", "share of the class found")
    return _diagonal(new_plot(traces, *names, **look, height=360))


def _diagonal(figure: Any, low: float = 0, high: float = 1) -> Any:
    return figure.add_shape(type="line", x0=low, x1=high, y0=low, y1=high)


def _heatmap(shares: Floats, x: list[int], y: list[int], xgap: float, ygap: float) -> Any:
    cells = {"x": x, "y": y, "z": numbers(shares, 3), "zmin": 0, "zmax": 1}
    return {"type": "heatmap", **cells, "xgap": xgap, "ygap": ygap}


def reliability_plot(probability: Floats, correct: npt.NDArray[np.bool_], bins: int = 10) -> Any:
    """Accuracy against confidence in bins of equal width; on the diagonal it is calibrated."""
    probability = np.asarray(probability, dtype=np.float64)
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    _, bin_of, count = np.unique(bin_of, return_inverse=True, return_counts=True)
    sure, share = (np.bincount(bin_of, values) / count for values in (probability, correct))
    error = float((count * np.abs(sure - share)).sum() / max(count.sum(), 1))
    size = 8 + 22 * np.sqrt(count / count.max(initial=1))
    points = {"x": numbers(sure), "y": numbers(share), "mode": "lines+markers"}
    points |= {"marker": {"size": numbers(size)}, "line": {"width": 1.5}}
    look = {"xaxis_range": [0, 1.04], "yaxis_range": [0, 1.08], "showlegend": False}
    meta = f"Expected calibration error: {error:.3f}."
    figure = new_plot([points], "confidence", "share correct", **look, height=360, meta=meta)
    return _diagonal(figure)


def residual_figure(
    truth: Floats,
    predicted: Floats,
    name: str = "",
    theme: Themed = "light",
    drawings: Sequence[int | None] | None = None,
) -> Any:
    """Predicted against true values, and the distribution of the errors.

    Args:
        truth: true values, NaN where unknown, ``[graphs]``.
        predicted: values, ``[graphs]``.
        name: of the target.
        theme: ``"light"`` (default) or ``"dark"``; ``None`` for a Plotly figure.
        drawings: on a page, the drawing of each graph, if it has one.

    >>> figure = residual_figure(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.9, 2.2]))
    >>> len(figure.axes)
    2
    """
    true, ours = (np.asarray(values, dtype=np.float64) for values in (truth, predicted))
    finite = np.isfinite(true) & np.isfinite(ours)
    true, ours = true[finite], ours[finite]
    some = np.random.default_rng(0).permutation(len(true))[:MOST_POINTS]
    points = {"x": numbers(true[some]), "y": numbers(ours[some]), "mode": "markers"}
    points["marker"] = {"size": 6, "opacity": 0.6}
    if drawings is not None:
        points["customdata"] = [drawings[k] for k in np.flatnonzero(finite)[some]]
    errors = {"type": "histogram", "x": numbers(ours - true), "nbinsx": 40}
    figure = new_plot(
        [points, {**errors, "xaxis": "x2", "yaxis": "y2"}],
        f"true {label(name)}".strip(),
        f"predicted {label(name)}".strip(),
        showlegend=False,
        grid={"rows": 1, "columns": 2, "pattern": "independent"},
        xaxis2={"title": {"text": "predicted − true"}},
        yaxis2={"title": {"text": "graphs"}},
        height=380,
    )
    if len(true):
        _diagonal(figure, min(true.min(), ours.min()), max(true.max(), ours.max()))
        mean, deviation = (ours - true).mean(), (ours - true).std()
        figure.update_layout(meta=f"mean {mean:+.3g}, standard deviation {deviation:.3g}")
    return draw(figure, theme, (8.0, 3.6))


def folds(scores: Mapping[str, Sequence[float]], score: str) -> Any:
    """Scores of every method on every test set, and their means; the first method at the top."""
    names = list(scores)[::-1]
    labels = [label(name) for name in names]
    every = {
        "x": numbers([value for name in names for value in scores[name]]),
        "y": [text for text, name in zip(labels, names, strict=True) for _ in scores[name]],
        "name": "test sets",
        "marker": {"size": 8, "opacity": 0.45},
    }
    mean = {"x": numbers([np.mean(scores[name]) for name in names]), "y": labels, "name": "mean"}
    mean["marker"] = {"size": 16, "symbol": "line-ns-open", "line": {"width": 3}}
    data = [{**trace, "mode": "markers"} for trace in (every, mean)]
    return new_plot(data, score, yaxis_type="category", height=150 + 34 * len(names))


def path_plot(paths: Mapping[str, float], label: str) -> Any:
    """The contribution of each scattering path, as bars."""
    bars = {"type": "bar", "x": list(paths), "y": numbers(list(paths.values()))}
    across = {"tickangle": -50, "type": "category"}
    return new_plot([bars], up=html.escape(label, False), xaxis=across, height=340)


def map_places(features: Floats, how: How = "pca", seed: int = 0) -> Floats:
    """Coordinates of graphs on a map, ``[graphs, 2]``.

    Args:
        features: ``[graphs, features]``; columns are not scaled.
        how: ``"pca"`` (default), ``"tsne"``, or ``"umap"`` where umap-learn is installed.
        seed: of t-SNE and UMAP.

    >>> map_places(np.eye(4)).shape
    (4, 2)
    """
    features = np.asarray(features, dtype=np.float64)
    model: Any
    if how not in HOW:
        raise ValueError(f'how must be "pca", "tsne" or "umap"; got {how!r}')
    left, singular, _ = np.linalg.svd(features - features.mean(0), full_matrices=False)
    scores = (left * singular)[:, :2]
    # Without any spread in float32, scikit-learn's t-SNE divides by zero and crashes.
    spread = scores[:, 0].astype(np.float32).std()
    if how == "pca" or len(features) < FEWEST or not 0 < spread < np.inf:
        return np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))
    if how == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(features) - 1) / 4)
        model = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
    else:
        try:
            from umap import UMAP  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError('how="umap" needs umap-learn: pip install umap-learn') from error
        neighbors = min(15, len(features) - 1)
        model = UMAP(n_neighbors=neighbors, random_state=seed, n_jobs=1)
    return np.asarray(model.fit_transform(features), dtype=np.float64)


def available_maps(graphs: int) -> list[How]:
    """How a map of so many graphs can be made, the best first."""
    if graphs < FEWEST:
        return ["pca"]
    return ["tsne", "pca", "umap"] if find_spec("umap") else ["tsne", "pca"]


def map_plot(values: Values, name: str, train: Any = ()) -> Any:
    """Graphs by class (strings) or by value; ``customdata`` are indices, see :func:`placed`.

    ``train`` says which graphs were trained on; these are hollow.
    """
    hollow = np.zeros(len(values), dtype=bool)
    hollow[: len(train)] = train
    continuous = not any(isinstance(value, str) for value in values)
    if continuous:
        finite = np.isfinite(amounts := np.asarray(values, dtype=np.float64))
        groups = {name: np.flatnonzero(finite), "unknown": np.flatnonzero(~finite)}
    else:
        words = np.array([str(value) for value in values])
        classes, counts = np.unique(words, return_counts=True)
        if len(classes) > MOST_COLORS:
            rare = classes[np.argsort(-counts, kind="stable")[MOST_COLORS - 1 :]]
            words = np.where(np.isin(words, rare), other := f"{len(rare)} other classes", words)
            classes = np.array([*np.setdiff1d(classes, rare), other])
        groups = {one: np.flatnonzero(words == one) for one in classes.tolist()}
    data: list[dict[str, Any]] = []
    for k, (one, inside) in enumerate(groups.items()):
        symbol = SYMBOLS[k % len(SYMBOLS)]
        marker: dict[str, Any] = {"size": 8, "opacity": 0.85}
        marker["symbol"] = [f"{symbol}-open" if h else symbol for h in hollow[inside]]
        if continuous and k == 0:
            marker |= {"color": numbers(amounts[inside]), "coloraxis": "coloraxis"}
        trace = {"name": label(one, 28), "marker": marker, "customdata": inside.tolist()}
        shown = {"mode": "markers", "hoverinfo": "none", "showlegend": "color" not in marker}
        data += [{**trace, **shown}] if len(inside) else []
    hidden = {"showticklabels": False, "zeroline": False, "showgrid": False}
    figure = new_plot(data, xaxis=hidden, yaxis=hidden, showlegend=True, height=520)
    if continuous and finite.any():  # a few outliers would take all the colors
        low, high = np.percentile(amounts[finite], [2, 98]).tolist()
        figure.update_layout(coloraxis={"cmin": low, "cmax": high if high > low else low + 1})
    return figure


def map_figure(places: Floats, values: Values, label: str = "", theme: Themed = "light") -> Any:
    """A map of graphs, colored by class (strings) or target (numbers).

    Args:
        places: coordinates, as of :func:`map_places`, ``[graphs, 2]``.
        values: one per graph.
        label: name of the values.
        theme: ``"light"`` (default) or ``"dark"``; ``None`` for a Plotly figure.
    """
    return placed(map_plot(values, label), places, theme)


def placed(figure: Any, places: Any, theme: Themed) -> Any:
    """A map with the coordinates of its graphs."""
    for trace in figure.data:
        trace.x, trace.y = np.asarray(numbers(places), dtype=object)[list(trace.customdata)].T
    return draw(figure, theme, (5.6, 4.4))


class Bank(NamedTuple):
    """A filter bank in the frequency domain.

    Args:
        frequency: 1 - λ, ``[points]``.
        responses: of Ψ0, …, and of Φ last, ``[scales + 1, points]``.
        lower: frame bound.
        upper: frame bound.
    """

    frequency: Floats
    responses: Floats
    lower: float
    upper: float

    @property
    def energy(self) -> Floats:
        """The sum of squared responses, between the frame bounds, ``[points]``."""
        return np.asarray((self.responses**2).sum(0), dtype=np.float64)

    @property
    def names(self) -> list[str]:
        """Names of the filters."""
        return filter_names(len(self.responses))


def filter_names(count: int) -> list[str]:
    """Names of the filters of a bank, the low-pass filter last."""
    return [*(f"Ψ{j}" for j in range(count - 1)), "Φ"]


def cumulative_scales(weights: Floats) -> torch.Tensor:
    """Cumulative sums of the selection matrix ``F``, from zero, as the wavelets take them."""
    sums = np.cumsum(np.asarray(weights, dtype=np.float64), axis=-1)
    return torch.from_numpy(np.pad(sums[:, :-1], ((0, 0), (1, 0))))


def filter_bank(weights: Any, laziness: float = 0.5, points: int = 101) -> Bank:
    """Responses and frame bounds of a selection of scales.

    Args:
        weights: ``F``, rows that sum to one, ``[scales, steps]``, or a
            :class:`~legs.nn.Scattering` module, whose laziness and operator count.
        laziness: of the walk (default ½).
        points: at which responses are computed, over the walk's spectrum.

    >>> bank = filter_bank(np.eye(2))
    >>> bank.names, round(bank.upper, 6)
    (['Ψ0', 'Ψ1', 'Φ'], 1.0)
    """
    operator: Any = "walk"
    if hasattr(weights, "scale_weights"):
        each = torch.as_tensor(weights.walk.laziness)
        weights, operator = weights.scale_weights(), weights.operator
        if weights.dim() > 2 or each.dim():
            raise ValueError("channels have their own scales or laziness; pass those of one")
        laziness = float(each)
    weights = np.asarray(torch.as_tensor(weights).detach().cpu(), dtype=np.float64)
    cumulative = cumulative_scales(weights)
    spectrum = operator_spectrum(operator, laziness)
    frequency = np.linspace(1 - spectrum[1], 1 - spectrum[0], points)
    responses = filter_responses(cumulative, torch.from_numpy(1 - frequency))
    lower, upper = frame_bounds(cumulative, spectrum=spectrum)
    return Bank(frequency, np.asarray(responses.numpy(), dtype=np.float64), lower, upper)


def response_figure(
    weights: Any, laziness: float = 0.5, fixed: Any = None, theme: Themed = "light"
) -> Any:
    """Frequency responses of a filter bank, the sum of their squares, and the frame bounds.

    Args:
        weights: a :class:`~legs.nn.Scattering` module, or ``F``, ``[scales, steps]``.
        laziness: of the walk (default ½); a module has its own.
        fixed: another module or ``F`` to compare with, dashed (default: none).
        theme: ``"light"`` (default) or ``"dark"``; ``None`` for a Plotly figure.
    """
    bank = filter_bank(weights, laziness, POINTS)
    first, second = bank.frequency[:2].tolist()
    looks: list[dict[str, Any]] = [{"name": name} for name in bank.names]
    looks.append({"name": "Σ squares", "line": {"dash": "dot", "width": 1.5}})
    curves = [*bank.responses, bank.energy]
    for k, other in enumerate(
        () if fixed is None else filter_bank(fixed, laziness, POINTS).responses
    ):
        looks.append({"meta": k, "line": {"dash": "dash", "width": 1}, "showlegend": False})
        curves.append(other)
    across = {"x0": first, "dx": second - first, "mode": "lines"}
    data = [{**across, "y": numbers(y, 3), **look} for y, look in zip(curves, looks, strict=True)]
    # The caption on a page.
    meta = f"The sum of squares is between {bank.lower:.3f} and {bank.upper:.3f}: the frame bounds."
    look = {"yaxis_range": [0, 1.06], "height": 300, "meta": meta}
    return draw(new_plot(data, "graph frequency 1 − λ", "response", **look), theme)


def selection_plot(weights: Floats) -> Any:
    """The selection matrix ``F``."""
    at = list(range(len(weights)))
    heat = _heatmap(weights, list(range(1, weights.shape[1] + 1)), at, 1, 3)
    names = {"tickvals": at, "ticktext": [f"scale {k + 1}" for k in at]}
    up = {"autorange": "reversed", "showgrid": False, **names}
    return new_plot([heat], "diffusion steps", xaxis_showgrid=False, yaxis=up, height=300)
