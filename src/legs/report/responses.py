"""Learned scales and the frequency responses of their filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from legs.functional.frame import filter_responses, frame_bounds
from legs.report.folders import Scales
from legs.report.plots import heatmap, new_plot, numbers, with_frames
from legs.report.static import to_matplotlib, to_panels
from legs.report.theme import Floats, ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def cumulative_scales(weights: Floats) -> torch.Tensor:
    """Cumulative sums of the selection matrix ``F``, from zero, as the wavelets take them."""
    rows = np.asarray(weights, dtype=np.float64)
    sums = np.cumsum(rows, axis=-1)[:, :-1]
    return torch.from_numpy(np.concatenate([np.zeros_like(rows[:, :1]), sums], axis=1))


def filter_bank(weights: Floats, laziness: float = 0.5, points: int = 101) -> Bank:
    """Responses and frame bounds of a selection of scales.

    Args:
        weights: ``F``, rows that sum to one, ``[scales, steps]``.
        laziness: of the walk (default ½).
        points: at which responses are computed, over the walk's spectrum.

    >>> bank = filter_bank(np.eye(2))
    >>> bank.names, round(bank.upper, 6)
    (['Ψ0', 'Ψ1', 'Φ'], 1.0)
    """
    cumulative = cumulative_scales(weights)
    # The spectrum of the lazy walk is [2 α - 1, 1].
    frequency = np.linspace(0, 2 - 2 * laziness, points)
    responses = filter_responses(cumulative, torch.from_numpy(1 - frequency))
    lower, upper = frame_bounds(cumulative, laziness)
    return Bank(frequency, np.asarray(responses.numpy(), dtype=np.float64), lower, upper)


def response_plot(bank: Bank, fixed: Bank | None = None) -> Any:
    """Frequency responses and the sum of their squares; those of another bank are dashed."""
    across = {"x0": 0, "dx": float(bank.frequency[1]), "mode": "lines"}
    data = [
        {**across, "y": numbers(response, 3), "name": name}
        for name, response in zip(bank.names, bank.responses, strict=True)
    ]
    total = {**across, "y": numbers(bank.energy, 3), "name": "Σ squares"}
    data.append({**total, "line": {"dash": "dot", "width": 1.5}})
    for k, response in enumerate(() if fixed is None else fixed.responses):
        dashed = {"meta": k, "line": {"dash": "dash", "width": 1}, "showlegend": False}
        data.append({**across, "y": numbers(response, 3), **dashed})
    bounds = f"between {bank.lower:.3f} and {bank.upper:.3f}: the frame bounds."
    return new_plot(
        data,
        xaxis_title="graph frequency 1 − λ",
        yaxis={"title": {"text": "response"}, "range": [0, 1.06]},
        height=300,
        meta=f"The sum of squares is {bounds}",  # the caption on a page
    )


def response_figure(
    weights: Floats,
    laziness: float = 0.5,
    fixed: Floats | None = None,
    theme: ThemeName = "light",
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
        figure.add_hline(bound, annotation_text=f"{name} frame bound {bound:.3f}")
    return to_matplotlib(figure, theme)


def response_panels(
    banks: Mapping[str, tuple[Floats, Floats]],
    fixed: tuple[Floats, Floats],
    theme: ThemeName = "light",
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


def scale_figures(scales: Scales, best: int) -> tuple[dict[str, Any], list[int]]:
    """Figures ``"weights"`` and ``"responses"``, one frame per state, and the states' labels.

    Of many states some are left out, but not the one labelled ``best``.
    """
    count = len(scales.labels)
    states = {round(k) for k in np.linspace(0, count - 1, min(count, STATES))}
    states |= {k for k, label in enumerate(scales.labels) if label == best}
    weights, responses, labels = {}, {}, []
    for k in sorted(states):
        labels.append(scales.labels[k])
        weights[str(labels[-1])] = _weights_plot(scales.weights[k])
        bank = filter_bank(scales.weights[k], float(scales.laziness[k]), FEWER)
        responses[str(labels[-1])] = response_plot(bank)
    return {"weights": with_frames(weights), "responses": with_frames(responses)}, labels


def _weights_plot(weights: Floats) -> Any:
    at = list(range(len(weights)))
    heat = heatmap(weights, list(range(1, weights.shape[1] + 1)), at, 1, 3)
    names = {"tickvals": at, "ticktext": [f"scale {k + 1}" for k in at]}
    across = {"title": {"text": "diffusion steps"}, "showgrid": False}
    up = {"autorange": "reversed", "showgrid": False, **names}
    return new_plot([heat], xaxis=across, yaxis=up, height=300)
