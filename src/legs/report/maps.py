"""Maps of graphs: similar graphs are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legs.report.plots import SYMBOLS, label, new_plot, numbers
from legs.report.static import to_matplotlib
from legs.report.theme import Floats, ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

How = Literal["pca", "tsne", "umap"]
HOW = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
# With fewer graphs every map is a PCA.
FEWEST = 12
# Classes in the legend; the rest is one color.
MOST_CLASSES = 20


def available_maps() -> list[How]:
    """Methods that are installed.

    >>> available_maps()[:2]
    ['tsne', 'pca']
    """
    return ["tsne", "pca", "umap"] if find_spec("umap") else ["tsne", "pca"]


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
    scores = (left * singular)[:, :2].astype(np.float32)
    # Without any spread in float32, scikit-learn's t-SNE divides by zero and crashes.
    if how == "pca" or len(features) < FEWEST or not 0 < scores[:, 0].std() < np.inf:
        scores = (left * singular)[:, :2]
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


def map_plot(values: Sequence[str] | Sequence[float] | Floats, name: str, train: Any = ()) -> Any:
    """Graphs by class (strings) or by value; ``customdata`` are indices, coordinates are added.

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
        if len(classes) > MOST_CLASSES:
            rare = classes[np.argsort(-counts, kind="stable")[MOST_CLASSES - 1 :]]
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
    return new_plot(data, xaxis=hidden, yaxis=hidden, showlegend=True, height=520)


def map_figure(
    places: Floats,
    values: Sequence[str] | Sequence[float] | Floats,
    label: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """A map of graphs, colored by class (strings) or target (numbers).

    Args:
        places: coordinates, as of :func:`map_places`, ``[graphs, 2]``.
        values: one per graph.
        label: name of the values.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    figure = map_plot(values, label)
    for trace in figure.data:
        inside = np.array(trace.customdata, dtype=int)
        trace.x, trace.y = numbers(places[inside, 0]), numbers(places[inside, 1])
    return to_matplotlib(figure, theme, (5.6, 4.4))
