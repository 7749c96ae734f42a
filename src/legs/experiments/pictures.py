"""Figures; matplotlib and pycirclize are needed for these alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
ENDINGS = (".png", ".svg")
_ADVICE = "figures need matplotlib and pycirclize: pip install torch-legs[report]"
_COLUMNS = 4


class NoPictures(ImportError):
    """What draws is not installed; the message says what to do."""


def draw_responses(
    path: Path, banks: Mapping[str, tuple[Floats, Floats]], fixed: tuple[Floats, Floats]
) -> list[Path]:
    """Frequency responses of learned filters, a panel a bank, those of fixed ones dashed.

    Args:
        path: without ending.
        banks: by title: frequencies ``[points]`` and responses ``[filters, points]``.
        fixed: the same of dyadic scales.
    """
    figure, axes = _panels(len(banks), "frequency 1 − λ", "response")
    for axis, (title, (frequency, found)) in zip(axes, banks.items(), strict=True):
        for number, response in enumerate(found):
            name = f"Ψ{number}" if number + 1 < len(found) else "Φ"
            (line,) = axis.plot(frequency, response, label=name)
            if number < len(fixed[1]):
                axis.plot(*(fixed[0], fixed[1][number]), "--", color=line.get_color(), lw=0.8)
        axis.set_title(title, fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return _save(figure, path)


def draw_parameters(
    path: Path, panels: Mapping[str, Sequence[tuple[str, int, float, float]]]
) -> list[Path]:
    """Accuracy against the number of parameters, a panel a data set.

    Args:
        path: without ending.
        panels: by data set: method, parameters, mean accuracy and its deviation.
    """
    from itertools import cycle

    figure, axes = _panels(len(panels), "learned parameters", "accuracy, %")
    methods = list(dict.fromkeys(point[0] for points in panels.values() for point in points))
    marks = dict(zip(methods, cycle("osD^v<>phX*P"), strict=False))
    drawn: dict[str, Any] = {}
    for axis, (title, points) in zip(axes, panels.items(), strict=True):
        for method, parameters, mean, std in points:
            color = f"C{methods.index(method) % 10}"
            drawn[method] = axis.errorbar(
                max(parameters, 1), mean, std, fmt=marks[method], color=color, lw=0.7, ms=5
            )
        axis.set_xscale("log")
        axis.set_title(title, fontsize=9)
    figure.legend(
        drawn.values(), drawn.keys(), loc="outside upper center", ncols=5, frameon=False, fontsize=8
    )
    return _save(figure, path)


def draw_chords(path: Path, preferences: Floats, names: Sequence[str]) -> list[Path]:
    """A chord diagram: the width of a ribbon is how often one class becomes another.

    Args:
        path: without ending.
        preferences: ``[classes, classes]``; the diagonal is left out.
        names: of the classes.
    """
    import pandas as pd

    try:
        from matplotlib import pyplot
        from pycirclize import Circos
    except ImportError as error:
        raise NoPictures(_ADVICE) from error
    size = np.array(preferences, dtype=np.float64)
    np.fill_diagonal(size, 0)
    table = pd.DataFrame(size / size.sum() * 1000, index=list(names), columns=list(names))
    circos = Circos.chord_diagram(
        table, space=4, cmap="tab10", label_kws={"size": 11}, link_kws={"direction": 1, "lw": 0.3}
    )
    figure = circos.plotfig()
    try:
        return _save(figure, path)
    finally:
        pyplot.close(figure)  # the library draws with pyplot, which would keep it


def _panels(count: int, across: str, up: str) -> tuple[Figure, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NoPictures(_ADVICE) from error
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    # Not pyplot: it keeps figures, and opens windows.
    figure = Figure(figsize=(3 * columns + 0.5, 2.4 * rows + 0.8), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).flat)
    for axis in axes[count:]:
        axis.remove()
    for axis in axes[:count]:
        axis.tick_params(labelsize=8)
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, axes[:count]


def _save(figure: Figure, path: Path) -> list[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for ending in ENDINGS:
        file = path.with_name(path.name + ending)
        # Without a date in it, the same results make the same file.
        more = {"metadata": {"Date": None}} if ending == ".svg" else {"dpi": 150}
        figure.savefig(file, **more)
        found.append(file)
    return found
