"""Figures of experiments as files; how they are drawn is in :mod:`legs.report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from legs.report.chords import chord_figure
from legs.report.parameters import parameter_figure
from legs.report.responses import response_panels
from legs.report.theme import ADVICE as _ADVICE
from legs.report.theme import NoPictures, save

__all__ = ["_ADVICE", "NoPictures", "draw_chords", "draw_parameters", "draw_responses"]

Floats = npt.NDArray[np.float64]


def draw_responses(
    path: Path, banks: Mapping[str, tuple[Floats, Floats]], fixed: tuple[Floats, Floats]
) -> list[Path]:
    """Saves :func:`legs.report.response_panels`; ``path`` without ending."""
    return save(response_panels(banks, fixed), path)


def draw_parameters(
    path: Path, panels: Mapping[str, Sequence[tuple[str, int, float, float]]]
) -> list[Path]:
    """Saves :func:`legs.report.parameter_figure`; ``path`` without ending."""
    return save(parameter_figure(panels), path)


def draw_chords(path: Path, preferences: Floats, names: Sequence[str]) -> list[Path]:
    """Saves :func:`legs.report.chord_figure`; ``path`` without ending."""
    return save(chord_figure(preferences, names), path)
