"""Plots of what was learned, and a page about a run."""

from legs.report.drawings import Drawing, atom_drawing, node_figure, wavelet_figure
from legs.report.page import write_page, write_pictures
from legs.report.plots import (
    filter_bank,
    map_figure,
    map_places,
    residual_figure,
    response_figure,
)
from legs.report.theme import NoPictures, save

__all__ = [
    "Drawing",
    "NoPictures",
    "atom_drawing",
    "filter_bank",
    "map_figure",
    "map_places",
    "node_figure",
    "residual_figure",
    "response_figure",
    "save",
    "wavelet_figure",
    "write_page",
    "write_pictures",
]
