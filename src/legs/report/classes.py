"""Pictures: which classes are taken for which, and whether probabilities can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def confusion(truth: Sequence[str], found: Sequence[str], names: Sequence[str]) -> Counts:
    """How often each class (row) is taken for each (column).

    >>> confusion(["a", "a", "b"], ["a", "b", "b"], ["a", "b"]).tolist()
    [[1, 1], [0, 1]]
    """
    place = {name: k for k, name in enumerate(names)}
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    for true, answer in zip(truth, found, strict=True):
        table[place[true], place[answer]] += 1
    return table


def confusion_figure(
    truth: Sequence[str],
    found: Sequence[str],
    names: Sequence[str],
    theme: ThemeName | Theme = "light",
) -> Figure:
    """The confusion matrix: rows are true classes, columns answers, shades shares of the row.

    Args:
        truth: true classes, one a graph.
        found: answers.
        names: of all classes.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    counts = confusion(truth, found, names)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    with drawing(theme) as colors:
        side = max(3.4, 0.5 * len(names) + 1.8)
        figure = new_figure(side + 0.9, side)
        axis = figure.subplots()
        image = axis.imshow(share, cmap=colors.colormap(), vmin=0, vmax=1)
        if len(names) <= 20:
            dark = "#ffffff" if colors.name == "light" else "#10141a"
            for row, column in np.ndindex(*counts.shape):
                ink = dark if share[row, column] > 0.55 else colors.ink
                text = str(counts[row, column])
                axis.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
        axis.set_xticks(range(len(names)), names)
        if max(map(len, names)) > 6:
            axis.tick_params(axis="x", labelrotation=45)
        axis.set_yticks(range(len(names)), names)
        axis.set(xlabel="answer", ylabel="truth")
        axis.grid(False)
        figure.colorbar(image, label="share of the true class", shrink=0.8)
    return figure


class Reliability(NamedTuple):
    """How sure answers are and how often they are right, bin by bin.

    Args:
        sure: mean probability of the answer, ``[bins]``.
        right: share of right answers, ``[bins]``.
        graphs: in each bin, ``[bins]``.
        error: expected calibration error: the mean difference of the first two.
    """

    sure: Floats
    right: Floats
    graphs: Counts
    error: float


def reliability(probability: Floats, right: npt.NDArray[np.bool_], bins: int = 10) -> Reliability:
    """Answers in bins of their probability; empty bins are left out.

    Args:
        probability: of the answered class, ``[graphs]``.
        right: whether the answer is right, ``[graphs]``.
        bins: of equal width between 0 and 1.

    >>> found = reliability(np.array([0.95, 0.95]), np.array([True, False]))
    >>> found.right.tolist(), round(found.error, 2)
    ([0.5], 0.45)
    """
    place = np.minimum((np.asarray(probability) * bins).astype(int), bins - 1)
    sure, share, count = [], [], []
    for number in np.unique(place):
        inside = place == number
        sure.append(float(np.mean(probability[inside])))
        share.append(float(np.mean(right[inside])))
        count.append(int(inside.sum()))
    weight = np.array(count) / max(sum(count), 1)
    error = float((weight * np.abs(np.array(sure) - np.array(share))).sum())
    return Reliability(np.array(sure), np.array(share), np.array(count), error)


def reliability_figure(
    probability: Floats,
    right: npt.NDArray[np.bool_],
    bins: int = 10,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """How often answers are right against how sure the model is; on the line it is as it says.

    Args:
        probability: of the answered class, ``[graphs]``.
        right: whether the answer is right, ``[graphs]``.
        bins: of equal width (default 10).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    found = reliability(np.asarray(probability), np.asarray(right), bins)
    with drawing(theme) as colors:
        figure = new_figure(4.4, 4.2)
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], ls="--", color=colors.muted, lw=1)
        size = 20 + 180 * found.graphs / max(found.graphs.max(), 1)
        axis.plot(found.sure, found.right, color=colors.series[0], lw=1.2)
        axis.scatter(found.sure, found.right, s=size, color=colors.series[0], zorder=3)
        axis.set(xlim=(0, 1.03), ylim=(0, 1.03), xlabel="how sure the model is")
        axis.set_ylabel("how often it is right")
        axis.set_title(f"expected calibration error {found.error:.3f}")
        axis.set_aspect("equal")
    return figure
