"""Picture: what the filters let through, and the frame bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from legs.functional.frame import filter_responses, frame_bounds
from legs.report.theme import Theme, ThemeName, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
POINTS = 101
COLUMNS = 4


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
        """The sum of squared responses, which the bounds enclose, ``[points]``."""
        return np.asarray((self.responses**2).sum(0), dtype=np.float64)

    @property
    def names(self) -> list[str]:
        """Names of the filters."""
        return [*(f"Ψ{j}" for j in range(len(self.responses) - 1)), "Φ"]


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
    found = filter_responses(cumulative, torch.from_numpy(1 - frequency))
    lower, upper = frame_bounds(cumulative, laziness)
    return Bank(frequency, np.asarray(found.numpy(), dtype=np.float64), lower, upper)


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
    with drawing(theme) as colors:
        figure = new_figure(6.4, 3.8)
        axis = figure.subplots()
        _draw(axis, bank, None if fixed is None else filter_bank(fixed, laziness), colors)
        axis.plot(bank.frequency, bank.energy, color=colors.ink, lw=1.2, label="Σ squares")
        for bound, name in ((bank.upper, "upper"), (bank.lower, "lower")):
            axis.axhline(bound, color=colors.muted, ls=":", lw=1.2)
            axis.annotate(
                f"{name} frame bound {bound:.3f}",
                (bank.frequency[-1], bound),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=7.5,
                color=colors.muted,
            )
        axis.set(xlabel="graph frequency 1 − λ", ylabel="response", ylim=(0, None))
        axis.set_xlim(0, bank.frequency[-1])
        figure.legend(loc="outside right upper")
    return figure


def response_panels(
    banks: Mapping[str, tuple[Floats, Floats]],
    fixed: tuple[Floats, Floats],
    theme: ThemeName | Theme = "light",
) -> Figure:
    """Frequency responses of several banks, a panel each, those of fixed scales dashed.

    Args:
        banks: by title: frequencies ``[points]`` and responses ``[filters, points]``.
        fixed: the same of fixed scales.
        theme: ``"light"`` (default) or ``"dark"``.
    """
    dashed = Bank(*fixed, 0.0, 1.0)
    with drawing(theme) as colors:
        figure, axes = panels(len(banks), "graph frequency 1 − λ", "response")
        for axis, (title, found) in zip(axes, banks.items(), strict=True):
            _draw(axis, Bank(*found, 0.0, 1.0), dashed, colors)
            axis.set_title(title, fontsize=9)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def panels(count: int, across: str, up: str) -> tuple[Figure, list[Any]]:
    """A figure of so many small panels, and their axes."""
    columns = min(count, COLUMNS)
    rows = math.ceil(count / columns)
    figure = new_figure(3 * columns + 0.5, 2.4 * rows + 0.8)
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).flat)
    for axis in axes[count:]:
        axis.remove()
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    return figure, axes[:count]


def _draw(axis: Any, bank: Bank, fixed: Bank | None, colors: Theme) -> None:
    for number, (name, response) in enumerate(zip(bank.names, bank.responses, strict=True)):
        axis.plot(bank.frequency, response, color=colors.color(number), label=name)
        if fixed is not None and number < len(fixed.responses):
            axis.plot(fixed.frequency, fixed.responses[number], "--", lw=0.9, alpha=0.8)
            axis.lines[-1].set_color(colors.color(number))
