"""Every plot once, as a Plotly figure without colors: pages and files add a theme."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from legs.report.static import to_matplotlib, to_panels
from legs.report.theme import ADVICE, Floats, NoPictures, ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Counts = npt.NDArray[np.int64]
# More symbols than colors, so that the ninth series differs from the first.
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"]
SYMBOLS += ["triangle-left", "pentagon", "triangle-right"]
MOST_POINTS = 2000
# A larger confusion matrix is neither readable nor small.
MOST_CLASSES = 60


def new_plot(data: Sequence[dict[str, Any]], **layout: Any) -> Any:
    """A Plotly figure of traces and a layout, both validated."""
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise NoPictures(ADVICE) from error
    return Figure(list(data), {"template": "none", **layout})


def with_frames(figures: Mapping[str, Any]) -> Any:
    """The first of several figures, with all of them as frames: states of a slider or list."""
    specs = {name: figure.to_dict() for name, figure in figures.items()}
    frames = [{"name": n, "data": s["data"], "layout": s["layout"]} for n, s in specs.items()]
    return next(iter(figures.values())).update(frames=frames)


def label(text: Any, most: int = 24) -> str:
    """A name from a file as text of a plot: short, and escaped, since Plotly interprets tags.

    >>> label("<b>x</b> & y")
    '&lt;b&gt;x&lt;/b&gt; &amp; y'
    """
    text = str(text)
    return html.escape(text if len(text) <= most else text[: most - 1] + "…", quote=False)


def numbers(values: Any, digits: int = 4) -> Any:
    """An array as JSON: rounded to significant digits, ``None`` for NaN and infinity.

    >>> numbers(np.array([[1 / 3, np.nan]]))
    [[0.3333, None]]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [numbers(each, digits) for each in array]
    value = float(array)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def curves(
    epochs: Sequence[float], train: Sequence[float], validation: Sequence[float], best: int | None
) -> Any:
    """Losses over the epochs; a line marks the epoch whose weights were kept."""
    at, losses = np.asarray(epochs), np.asarray(validation, dtype=np.float64)
    finite = np.isfinite(losses)
    data: list[dict[str, Any]] = [{"x": at.tolist(), "y": numbers(train), "name": "training"}]
    if finite.any():
        points = {"x": at[finite].tolist(), "y": numbers(losses[finite]), "name": "validation"}
        data.append({**points, "mode": "lines+markers", "marker": {"size": 5}})
    figure = new_plot(data, xaxis_title="epoch", yaxis_title="loss", height=320)
    if best is not None:  # the text is on the left: the best epoch is often the last
        text = f"best: epoch {best}"
        figure.add_vline(best, annotation_text=text, annotation_position="top left")
    return figure


def curve_figure(
    epochs: Sequence[float],
    train: Sequence[float],
    validation: Sequence[float],
    best: int | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Training and validation loss over the epochs.

    Args:
        epochs: their numbers.
        train: losses.
        validation: losses, NaN where there was no validation.
        best: the epoch whose weights were kept, marked by a line (default: none).
        theme: ``"light"`` (default) or ``"dark"``.

    >>> len(curve_figure([1, 2], [1.0, 0.5], [float("nan"), 0.7]).axes)
    1
    """
    return to_matplotlib(curves(epochs, train, validation, best), theme)


def confusion(truth: Sequence[str], predicted: Sequence[str], names: Sequence[str]) -> Any:
    """The confusion matrix; of many classes, those that are involved in most errors."""
    index = {name: k for k, name in enumerate(names)}
    counts: Counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, ([index[name] for name in truth], [index[name] for name in predicted]), 1)
    errors = counts.sum(0) + counts.sum(1) - 2 * counts.diagonal()
    most = np.sort(np.argsort(-errors, kind="stable")[:MOST_CLASSES])
    total = np.maximum(counts.sum(1), 1)[most]
    counts = counts[np.ix_(most, most)]
    shown = [label(names[k], 14) for k in most]
    # Shortened names may be equal: classes are distinguished by their index.
    at = list(range(len(shown)))
    gap = 2 if len(at) <= 20 else 0.5
    heat = heatmap(counts / total[:, None], at, at, gap, gap)
    heat |= {"showscale": False, "hoverinfo": "text"}
    heat["hovertext"] = [
        [f"{shown[i]} predicted as {shown[j]}: {counts[i, j]} of {total[i]}" for j in at]
        for i in at
    ]
    if len(at) <= 20:
        heat |= {"text": counts.astype(str).tolist(), "texttemplate": "%{text}"}
    ticks = {"tickvals": at, "ticktext": shown, "showgrid": False, "zeroline": False}
    turned = {"tickangle": -45} if max(map(len, shown), default=0) > 4 else {}
    across = {"title": {"text": "predicted"}, **ticks, **turned}
    up = {"title": {"text": "true"}, "autorange": "reversed", **ticks}
    return new_plot([heat], xaxis=across, yaxis=up, height=min(300 + 16 * len(at), 640))


def heatmap(shares: Floats, x: list[int], y: list[int], xgap: float, ygap: float) -> dict[str, Any]:
    """A trace of shares between 0 and 1, ``[y, x]``."""
    cells = {"x": x, "y": y, "z": numbers(shares, 3), "zmin": 0, "zmax": 1}
    return {"type": "heatmap", **cells, "xgap": xgap, "ygap": ygap}


def confusion_figure(
    truth: Sequence[str],
    found: Sequence[str],
    names: Sequence[str],
    theme: ThemeName = "light",
) -> Figure:
    """The confusion matrix: rows are true classes, columns predictions, shades shares of the row.

    Args:
        truth: true class of each graph.
        found: predicted class of each graph.
        names: of all classes. Of more than 60, those with most errors are drawn.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    side = max(3.4, 0.5 * min(len(names), 30) + 1.8)
    return to_matplotlib(confusion(truth, found, names), theme, (side + 0.9, side))


class Reliability(NamedTuple):
    """Confidence and accuracy by bin of confidence."""

    sure: Floats  # mean probability of the predicted class, [bins]
    right: Floats  # share of correct predictions, [bins]
    graphs: Counts  # in each bin, [bins]
    error: float  # expected calibration error: the mean difference of the first two


def reliability(probability: Floats, right: npt.NDArray[np.bool_], bins: int = 10) -> Reliability:
    """Predictions in bins of their probability; empty bins are left out.

    >>> binned = reliability(np.array([0.95, 0.95]), np.array([True, False]))
    >>> binned.right.tolist(), round(binned.error, 2)
    ([0.5], 0.45)
    """
    probability = np.asarray(probability, dtype=np.float64)
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    some = count > 0
    sure = np.bincount(bin_of, probability, bins)[some] / count[some]
    share = np.bincount(bin_of, np.asarray(right, dtype=np.float64), bins)[some] / count[some]
    error = float((count[some] * np.abs(sure - share)).sum() / max(count.sum(), 1))
    return Reliability(sure, share, count[some], error)


def reliability_plot(binned: Reliability) -> Any:
    """Accuracy against confidence."""
    size = 8 + 22 * np.sqrt(binned.graphs / max(binned.graphs.max(initial=0), 1))
    points = {"x": numbers(binned.sure), "y": numbers(binned.right), "mode": "lines+markers"}
    points |= {"marker": {"size": numbers(size)}, "line": {"width": 1.5}}
    across = {"title": {"text": "confidence"}, "range": [0, 1.04]}
    up = {"title": {"text": "share correct"}, "range": [0, 1.08]}
    figure = new_plot([points], showlegend=False, xaxis=across, yaxis=up, height=360)
    return figure.add_shape(type="line", x0=0, x1=1, y0=0, y1=1)


def reliability_figure(
    probability: Floats,
    right: npt.NDArray[np.bool_],
    bins: int = 10,
    theme: ThemeName = "light",
) -> Figure:
    """Accuracy against confidence; on the diagonal the model is calibrated.

    Args:
        probability: of the predicted class, ``[graphs]``.
        right: whether the prediction is correct, ``[graphs]``.
        bins: of equal width between 0 and 1 (default 10).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    binned = reliability(probability, right, bins)
    figure = to_matplotlib(reliability_plot(binned), theme, (4.4, 4.2))
    figure.axes[0].set_title(f"expected calibration error {binned.error:.3f}")
    return figure


def residuals(truth: Any, predicted: Any, name: str = "") -> Any:
    """Predicted against true values, and a histogram of the errors."""
    true, ours = (np.asarray(values, dtype=np.float64) for values in (truth, predicted))
    finite = np.isfinite(true) & np.isfinite(ours)
    true, ours = true[finite], ours[finite]
    some = np.random.default_rng(0).permutation(len(true))[:MOST_POINTS]
    points = {"x": numbers(true[some]), "y": numbers(ours[some]), "mode": "markers"}
    points["marker"] = {"size": 6, "opacity": 0.6}
    errors = {"type": "histogram", "x": numbers(ours - true), "nbinsx": 40}
    figure = new_plot(
        [points, {**errors, "xaxis": "x2", "yaxis": "y2"}],
        showlegend=False,
        grid={"rows": 1, "columns": 2, "pattern": "independent"},
        xaxis_title=f"true {label(name)}".strip(),
        yaxis_title=f"predicted {label(name)}".strip(),
        xaxis2={"title": {"text": "predicted − true"}},
        yaxis2={"title": {"text": "graphs"}},
        height=380,
    )
    if len(true):
        low, high = min(true.min(), ours.min()), max(true.max(), ours.max())
        figure.add_shape(type="line", x0=low, x1=high, y0=low, y1=high)
    return figure


def residual_figure(
    truth: Floats, found: Floats, name: str = "", theme: ThemeName = "light"
) -> Figure:
    """Predicted against true values, and the distribution of the errors.

    Args:
        truth: true values, NaN where unknown, ``[graphs]``.
        found: predictions, ``[graphs]``.
        name: of the target.
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = residual_figure(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.9, 2.2]))
    >>> len(figure.axes)
    2
    """
    figure = to_matplotlib(residuals(truth, found, name), theme, (8.0, 3.6))
    error = np.asarray(found, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
    if (error := error[np.isfinite(error)]).size:
        figure.axes[1].set_title(f"mean {error.mean():+.3g}, standard deviation {error.std():.3g}")
    return figure


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
    category = {"type": "category"}
    return new_plot(data, xaxis_title=score, yaxis=category, height=150 + 34 * len(names))


Point = tuple[str, int, float, float]


def parameter_figure(
    sets: Mapping[str, Sequence[Point]],
    score: str = "accuracy, %",
    theme: ThemeName = "light",
) -> Figure:
    """Scores against the number of parameters, one panel per data set.

    Args:
        sets: by data set: method, parameters, mean score and its standard deviation.
        score: name of the score (default: accuracy in percent).
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = parameter_figure({"MUTAG": [("gcn", 9000, 70.0, 5.0)]})
    >>> figure.axes[0].get_title(loc="left")
    'MUTAG'
    """
    methods = list(dict.fromkeys(point[0] for points in sets.values() for point in points))
    figures = {}
    for title, points in sets.items():
        data = []
        for name, count, mean, std in points:
            k = methods.index(name)
            point = {"x": [max(count, 1)], "y": [mean], "error_y": {"array": [std]}, "meta": k}
            marker = {"size": 11, "symbol": SYMBOLS[k % len(SYMBOLS)]}
            data.append({**point, "name": label(name), "mode": "markers", "marker": marker})
        across = {"title": {"text": "parameters"}, "type": "log"}
        figures[title] = new_plot(data, xaxis=across, yaxis_title=score)
    return to_panels(figures, theme)


def path_bars(paths: Mapping[str, float], name: str) -> Any:
    """Bars: the contribution of each scattering path."""
    bars = {"type": "bar", "x": list(paths), "y": numbers(list(paths.values()))}
    across = {"tickangle": -50, "type": "category"}
    return new_plot([bars], xaxis=across, yaxis_title=label(name, 40), height=340)


def path_figure(paths: Mapping[str, float], label: str = "", theme: ThemeName = "light") -> Figure:
    """The contribution of each scattering path, as bars.

    Args:
        paths: contributions by name, as in :class:`legs.explain.Attribution`.
        label: what the values are.
        theme: ``"light"`` (default) or ``"dark"``.

    >>> figure = path_figure({"x": 1.0, "Ψ0": -0.5})
    >>> len(figure.axes[0].patches)
    2
    """
    figure = path_bars(paths, label or "contribution")
    return to_matplotlib(figure, theme, (max(5.0, 0.26 * len(paths) + 1.2), 3.6))
