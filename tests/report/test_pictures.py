"""Every picture, light and dark: drawn, saved, not empty, in its colours."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="pip install torch-legs[report]")

from matplotlib.image import imread

from legs import Scattering, report
from legs.report import plots
from legs.report.plots import MOST_CLASSES, SYMBOLS
from legs.report.theme import MARKERS, THEMES, draw

RING = np.array([[k, (k + 1) % 9] for k in range(9)] + [[0, 9], [9, 10]])
SALMETEROL = "OCc1cc(ccc1O)C(O)CNCCCCCCOCCCCc1ccccc1"
NAMES = ["oxido", "trans", "hydro"]
RNG = np.random.default_rng(0)
LOSSES = pd.DataFrame(
    {"epoch": [1, 2, 3], "train_loss": [3.0, 2.0, 1.0], "validation_loss": [np.nan, 2.0, 1.5]}
)


def weights():
    """Rows that sum to one."""
    drawn = np.random.default_rng(1).random((3, 8)) ** 6
    return drawn / drawn.sum(-1, keepdims=True)


def answers():
    truth = RNG.choice(NAMES, 60)
    return truth.tolist(), np.where(RNG.random(60) < 0.7, truth, RNG.choice(NAMES, 60)).tolist()


FIGURES = {
    "responses": lambda t: report.response_figure(weights(), 0.6, weights(), t),
    "module": lambda t: report.response_figure(Scattering(1, operator="heat"), theme=t),
    "wavelets": lambda t: report.wavelet_figure(RING, 11, weights(), theme=t),
    "map of classes": lambda t: report.map_figure(RNG.normal(size=(30, 2)), NAMES * 10, "class", t),
    "map of numbers": lambda t: report.map_figure(
        RNG.normal(size=(30, 2)), RNG.normal(size=30), "heat", t
    ),
    "confusion": lambda t: draw(plots.confusion_plot(*answers(), NAMES), t),
    "reliability": lambda t: draw(plots.reliability_plot(RNG.random(80), RNG.random(80) < 0.5), t),
    "residuals": lambda t: report.residual_figure(
        np.r_[RNG.normal(size=40), np.nan], RNG.normal(size=41), "heat", t
    ),
    "curves": lambda t: draw(plots.curve_plot(LOSSES, 3), t),
    "nodes": lambda t: report.node_figure(RING, RNG.normal(size=11), "heat", theme=t),
    "paths": lambda t: draw(plots.path_plot({"x": 1.0, "Ψ0": -0.5}, "heat"), t),
}
DRAWINGS = {
    "atoms": lambda t: report.atom_drawing("CCO", np.array([0.5, -1.0, 0.0]), "heat", t),
    "large": lambda t: report.atom_drawing(SALMETEROL, np.linspace(-1, 1, 30), theme=t),
}


def check(files, theme):
    """PNG and SVG; the corner is the theme's paper, and something is drawn on it."""
    png, svg = sorted(files)
    assert (png.suffix, svg.suffix) == (".png", ".svg")
    pixels = imread(png)
    assert min(pixels.shape[:2]) > 150
    paper = THEMES[theme].paper
    expected = [int(paper[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    np.testing.assert_allclose(pixels[0, 0, :3], expected, atol=0.02)
    assert (np.abs(pixels[..., :3] - expected).max(-1) > 0.2).mean() > 0.001
    root = ElementTree.parse(svg).getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 10


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", FIGURES)
def test_figures(kind, theme, tmp_path):
    check(report.save(FIGURES[kind](theme), tmp_path / "deep" / "figure"), theme)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", DRAWINGS)
def test_drawings_of_molecules(kind, theme, tmp_path):
    pytest.importorskip("rdkit")
    check(DRAWINGS[kind](theme).save(tmp_path / "deep" / "drawing"), theme)


def test_the_same_results_make_the_same_file(tmp_path):
    for name in "ab":
        report.save(FIGURES["responses"]("light"), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_colours_can_be_told_apart():
    """In both themes, also by people who see no red or no green (Machado et al. 2009)."""
    deutan = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
    protan = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])
    for theme in THEMES.values():
        rgb = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in theme.series[:6]])
        paper = np.array([int(theme.paper[k : k + 2], 16) for k in (1, 3, 5)])
        for seen in (np.eye(3), deutan, protan):
            colors = rgb @ seen.T
            apart = np.linalg.norm(colors[:, None] - colors[None], axis=-1)
            assert apart[~np.eye(len(rgb), dtype=bool)].min() > 25
            assert np.linalg.norm(colors - paper @ seen.T, axis=1).min() > 100


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(ValueError, match="light"):
        draw(plots.curve_plot(LOSSES), "pink")
    pytest.importorskip("rdkit")
    with pytest.raises(ValueError, match="cannot read"):
        report.atom_drawing("C(", np.zeros(1))
    with pytest.raises(ValueError, match="2 values for a molecule of 3 atoms"):
        report.atom_drawing("CCO", np.zeros(2))


def test_numbers_behind_the_pictures():
    bank = report.filter_bank(weights(), laziness=0.75)
    np.testing.assert_allclose(bank.responses.sum(0), 1, atol=1e-12)
    assert bank.frequency[-1] == 0.5
    assert bank.lower - 1e-9 <= bank.energy.min()
    assert bank.energy.max() <= bank.upper + 1e-9
    sure = np.array([0.1, 0.96, 0.99, 1.0])
    right = np.array([True, True, True, False])
    plot = plots.reliability_plot(sure, right)
    np.testing.assert_allclose(plot.data[0].x, [0.1, 0.9833])
    np.testing.assert_allclose(plot.data[0].y, [1, 0.6667])
    sizes = plot.data[0].marker.size
    assert sizes[1] == 30 > sizes[0]  # one graph, and three
    assert plot.layout.meta.startswith("Expected calibration error: 0.46")


def test_ten_methods_look_different():
    colors = THEMES["light"]
    assert len({(SYMBOLS[k % len(SYMBOLS)], colors.color(k)) for k in range(10)}) == 10
    # In a color that repeats, a polygon looks like a circle.
    assert not {"hexagon", "octagon"} & {*SYMBOLS[8:10]}


def test_files_have_the_symbols_of_pages():
    assert set(SYMBOLS) <= set(MARKERS)
    assert len({MARKERS[name] for name in SYMBOLS}) == len(SYMBOLS)


def test_a_large_confusion_matrix_is_bounded():
    """Of 1,000 classes those with most errors are drawn."""
    names = [f"class {k}" for k in range(1000)]
    predicted = [*names[:990], *names[:10]]
    plot = plots.confusion_plot(names, predicted, names)
    assert np.shape(plot.data[0].z) == (MOST_CLASSES, MOST_CLASSES)
    ticks = plot.layout.xaxis.ticktext
    assert {f"class {k}" for k in (*range(10), *range(990, 1000))} <= set(ticks)


def test_names_are_text_in_files_too(tmp_path):
    """Neither HTML nor mathematics: names of classes may contain anything."""
    names = ["<b>a", "$\\frac$", "c & d"]
    figure = draw(plots.confusion_plot(names, names, names), "light")
    (_, svg) = report.save(figure, tmp_path / "figure")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == names
    assert svg.stat().st_size > 1000
