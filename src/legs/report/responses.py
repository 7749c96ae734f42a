"""Learned scales and the frequency responses of their filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from legs.functional.frame import filter_responses, frame_bounds
from legs.report.folders import Scales
from legs.report.plots import new_plot, numbers, page_figure
from legs.report.static import to_matplotlib, to_panels
from legs.report.theme import Theme, ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
POINTS = 101
# States of a slider, and points of a response in each.
STATES, FEWER = 80, 61


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
    """Names of the filters of a bank, the low-pass filter last.

    >>> filter_names(3)
    ['Ψ0', 'Ψ1', 'Φ']
    """
    return [*(f"Ψ{j}" for j in range(count - 1)), "Φ"]


def filter_bank(weights: Floats, laziness: float = 0.5, points: int = POINTS) -> Bank:
    """Responses and frame bounds of a selection of scales.

    Args:
        weights: ``F``, rows that sum to one, ``[scales, steps]``.
        laziness: of the walk (default ½).
        points: at which responses are computed, over the walk's spectrum.

    >>> bank = filter_bank(np.eye(2))
    >>> bank.names, round(bank.upper, 6)
    (['Ψ0', 'Ψ1', 'Φ'], 1.0)
    """
    rows = np.asarray(weights, dtype=np.float64)
    sums = np.cumsum(rows, axis=-1)[:, :-1]
    cumulative = torch.from_numpy(np.concatenate([np.zeros_like(rows[:, :1]), sums], axis=1))
    # The spectrum of the lazy walk is [2 α - 1, 1].
    frequency = np.linspace(0, 2 - 2 * laziness, points)
    responses = filter_responses(cumulative, torch.from_numpy(1 - frequency))
    lower, upper = frame_bounds(cumulative, laziness)
    return Bank(frequency, np.asarray(responses.numpy(), dtype=np.float64), lower, upper)


def response_plot(bank: Bank, fixed: Bank | None = None) -> Any:
    """Frequency responses and the sum of their squares; those of another bank are dashed."""
    step = float(bank.frequency[1])
    across = {"x0": 0, "dx": step, "mode": "lines"}
    data = [
        {**across, "y": numbers(response, 3), "name": name}
        for name, response in zip(bank.names, bank.responses, strict=True)
    ]
    total = {**across, "y": numbers(bank.energy, 3), "name": "Σ squares"}
    data.append({**total, "line": {"dash": "dot", "width": 1.5}})
    for k, response in enumerate(() if fixed is None else fixed.responses):
        dashed = {"meta": k, "line": {"dash": "dash", "width": 1}, "showlegend": False}
        data.append({**across, "y": numbers(response, 3), **dashed})
    return new_plot(
        data,
        xaxis_title="graph frequency 1 − λ",
        yaxis={"title": {"text": "response"}, "range": [0, 1.06]},
        height=300,
    )


def response_figure(
    weights: Floats,
    laziness: float = 0.5,
    fixed: Floats | None = None,
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Frequency responses of a filter bank, the sum of their squares, and the frame bounds.

    Args:
        weights: ``F``, ``[scales, steps]``.
        laziness: of the walk (default ½).
        fixed: another ``F`` to compare with, dashed (default: none).
        theme: ``"light"`` (default) or ``"dark"``.
    """
    bank = filter_bank(weights, laziness)
    figure = response_plot(bank, None if fixed is None else filter_bank(fixed, laziness))
    for bound, name in ((bank.upper, "upper"), (bank.lower, "lower")):
        figure.add_shape(type="line", x0=0, x1=1, xref="x domain", y0=bound, y1=bound)
        place = {"x": 1, "xref": "x domain", "xanchor": "right", "y": bound, "yanchor": "bottom"}
        figure.add_annotation(text=f"{name} frame bound {bound:.3f}", **place)
    return to_matplotlib(figure, theme, (6.4, 3.8))


def scale_figures(scales: Scales, label: str, best: int | None = None) -> dict[str, Any]:
    """Selection of scales, filters and mean diffusion times, one frame per state.

    Args:
        scales: over epochs or test sets.
        label: what a state is, such as ``"epoch"``.
        best: a state that is always included, by its label (default: none).

    Returns:
        Figures ``"weights"``, ``"responses"`` and ``"expected"`` of a page, and the ``labels`` of
        their frames.
    """
    chosen = _thinned(len(scales.labels))
    if best in scales.labels:
        chosen = sorted({*chosen, scales.labels.index(best)})
    labels = [scales.labels[k] for k in chosen]
    banks = [filter_bank(scales.weights[k], float(scales.laziness[k]), FEWER) for k in chosen]
    heatmaps = [_weights_plot(scales.weights[k]) for k in chosen]
    lines = [response_plot(bank) for bank in banks]
    captions = [
        f"The sum of squares is between {bank.lower:.3f} and {bank.upper:.3f}: the frame bounds."
        for bank in banks
    ]
    means = _means_plot(labels, scales.means[chosen], label)
    here = [{"type": "line", "y0": 0, "y1": 1, "yref": "paper", "x0": k, "x1": k} for k in labels]
    return {
        "labels": labels,
        "weights": page_figure(heatmaps[0], [{"data": f.to_dict()["data"]} for f in heatmaps]),
        "responses": page_figure(
            lines[0],
            [
                {"data": figure.to_dict()["data"], "caption": caption}
                for figure, caption in zip(lines, captions, strict=True)
            ],
        ),
        "expected": page_figure(means, [{"layout": {"shapes": [line]}} for line in here]),
    }


def _weights_plot(weights: Floats) -> Any:
    heat = {
        "type": "heatmap",
        "z": numbers(weights, 3),
        "x": list(range(1, weights.shape[1] + 1)),
        "y": [f"scale {k + 1}" for k in range(len(weights))],
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 3,
        "hovertemplate": "%{y}, %{x} steps: %{z}<extra></extra>",
    }
    across = {"title": {"text": "diffusion steps"}, "showgrid": False}
    return new_plot(
        [heat], xaxis=across, yaxis={"autorange": "reversed", "showgrid": False}, height=300
    )


def _means_plot(labels: Sequence[int], means: Floats, label: str) -> Any:
    size = 1 if len(labels) > 30 else 5
    data = [
        {"x": list(labels), "y": numbers(column), "name": f"scale {k + 1}",
         "mode": "lines+markers", "marker": {"size": size}}
        for k, column in enumerate(means.T)
    ]  # fmt: skip
    up = {"title": {"text": "diffusion steps"}, "rangemode": "tozero"}
    return new_plot(data, xaxis_title=label, yaxis=up, height=280)


def _thinned(count: int) -> list[int]:
    return sorted({round(k) for k in np.linspace(0, count - 1, min(count, STATES))})


def response_panels(
    banks: Mapping[str, tuple[Floats, Floats]],
    fixed: tuple[Floats, Floats],
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Frequency responses of several banks, one panel each, those of fixed scales dashed.

    Args:
        banks: by title: frequencies ``[points]`` and responses ``[filters, points]``.
        fixed: the same of fixed scales.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    dashed = Bank(*fixed, 0.0, 1.0)
    plots = {name: response_plot(Bank(*bank, 0.0, 1.0), dashed) for name, bank in banks.items()}
    return to_panels(plots, theme)
