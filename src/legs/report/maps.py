"""Picture: graphs on a map, near each other where a model finds them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from legs.report.theme import MARKS, Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
How = Literal["pca", "tsne", "umap"]
HOW = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
SEED = 0
# Fewer points have no neighbourhoods to speak of.
FEWEST = 12


def available_maps() -> list[How]:
    """Ways to make a map that are installed.

    >>> available_maps()[:2]
    ['tsne', 'pca']
    """
    from importlib.util import find_spec

    return ["tsne", "pca", "umap"] if find_spec("umap") else ["tsne", "pca"]


def map_places(features: Floats, how: How = "pca", seed: int = SEED) -> Floats:
    """Places of graphs on a map, ``[graphs, 2]``.

    Args:
        features: ``[graphs, features]``; columns are taken as they are.
        how: ``"pca"`` (default), ``"tsne"``, or ``"umap"`` where umap-learn is installed.
        seed: of the last two.

    >>> map_places(np.eye(4)).shape
    (4, 2)
    """
    features = np.asarray(features, dtype=np.float64)
    if how not in HOW:
        raise ValueError(f'a map is made by "pca", "tsne" or "umap"; got {how!r}')
    if how == "pca" or len(features) < FEWEST:
        return _pca(features)
    if how == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(features) - 1) / 4)
        model = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
        return np.asarray(model.fit_transform(features), dtype=np.float64)
    try:
        from umap import UMAP  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError('how="umap" needs umap-learn: pip install umap-learn') from error
    neighbours = min(15, len(features) - 1)
    found = UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1).fit_transform(features)
    return np.asarray(found, dtype=np.float64)


def _pca(features: Floats) -> Floats:
    centred = features - features.mean(0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    places = (left * singular)[:, :2]
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def map_figure(
    places: Floats,
    values: Sequence[str] | Sequence[float] | Floats,
    label: str = "",
    theme: ThemeName | Theme = "light",
) -> Figure:
    """A map of graphs, coloured by class (words) or target (numbers).

    Args:
        places: of :func:`map_places`, ``[graphs, 2]``.
        values: one a graph.
        label: what the values are.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    words = any(isinstance(value, str) for value in values)
    with drawing(theme) as colors:
        figure = new_figure(5.6, 4.4)
        axis = figure.subplots()
        if words:
            each = np.asarray(values)
            for number, name in enumerate(dict.fromkeys(values)):
                axis.scatter(
                    places[each == name, 0],
                    places[each == name, 1],
                    s=18,
                    marker=MARKS[number % len(MARKS)],
                    color=colors.color(number),
                    label=str(name),
                    alpha=0.85,
                    linewidths=0,
                )
            figure.legend(title=label, loc="outside right upper")
        else:
            numbers = np.asarray(values, dtype=np.float64)
            shade = colors.colormap("points")
            dots = axis.scatter(
                places[:, 0], places[:, 1], s=18, c=numbers, cmap=shade, linewidths=0
            )
            figure.colorbar(dots, label=label)
        axis.set(xlabel="first coordinate", ylabel="second coordinate")
        axis.set_xticks([])
        axis.set_yticks([])
    return figure
