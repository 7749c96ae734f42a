"""Figures of the examples: those of pyplot, and those that are kept in a variable."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

DPI = 110


def scrape_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Saves every figure that an example made since the last block."""
    values = list(block_vars["example_globals"].values())
    figures = {id(value): value for value in values if isinstance(value, Figure)}
    figures |= {id(figure): figure for figure in map(plt.figure, plt.get_fignums())}
    saved = []
    for figure in figures.values():
        # The mark is on the figure: a variable outlives its block.
        if getattr(figure, "_is_scraped", False):
            continue
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=DPI, facecolor=figure.get_facecolor())
        figure._is_scraped = True
        saved.append(path)
    plt.close("all")
    return figure_rst(saved, gallery_conf["src_dir"])
