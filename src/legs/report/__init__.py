"""Pictures of what was learned, and a page that shows a run."""

from legs.report.attributions import atom_drawing, node_figure, path_figure
from legs.report.chords import chord_figure
from legs.report.classes import confusion_figure, reliability_figure
from legs.report.coefficients import coefficient_figure
from legs.report.curves import curve_figure
from legs.report.drawings import Drawing
from legs.report.gdt import gdt_figure, gdt_panels
from legs.report.maps import map_figure, map_places
from legs.report.page import write_page
from legs.report.parameters import parameter_figure
from legs.report.residuals import residual_figure
from legs.report.responses import filter_bank, response_figure, response_panels
from legs.report.saving import write_pictures
from legs.report.scale_maps import scale_map
from legs.report.theme import NoPictures, save
from legs.report.wavelets import wavelet_drawing, wavelet_figure

__all__ = [
    "Drawing",
    "NoPictures",
    "atom_drawing",
    "chord_figure",
    "coefficient_figure",
    "confusion_figure",
    "curve_figure",
    "filter_bank",
    "gdt_figure",
    "gdt_panels",
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
