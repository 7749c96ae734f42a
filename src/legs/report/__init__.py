"""Plots of what was learned, and a page about a run."""

from legs.report.figures import (
    atom_drawing,
    coefficient_figure,
    node_figure,
    scale_map,
    wavelet_drawing,
    wavelet_figure,
)
from legs.report.maps import map_figure, map_places
from legs.report.molecules import Drawing
from legs.report.page import write_page, write_pictures
from legs.report.plots import (
    confusion_figure,
    curve_figure,
    parameter_figure,
    path_figure,
    reliability_figure,
    residual_figure,
)
from legs.report.responses import filter_bank, response_figure, response_panels
from legs.report.theme import NoPictures, save

__all__ = [
    "Drawing",
    "NoPictures",
    "atom_drawing",
    "coefficient_figure",
    "confusion_figure",
    "curve_figure",
    "filter_bank",
    "map_figure",
    "map_places",
    "node_figure",
    "parameter_figure",
    "path_figure",
    "reliability_figure",
    "residual_figure",
    "response_figure",
    "response_panels",
    "save",
    "scale_map",
    "wavelet_drawing",
    "wavelet_figure",
    "write_page",
    "write_pictures",
]
