"""Maps of graphs: every way to make them, and the one that need not be installed."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from legs.report.plots import available_maps, map_figure, map_places


@pytest.fixture(scope="module")
def two_groups():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(0, 1, (20, 8)), rng.normal(12, 1, (20, 8))])


def apart(places):
    """Whether the two groups are farther from each other than they are wide."""
    first, second = places[:20], places[20:]
    distance = np.linalg.norm(first.mean(0) - second.mean(0))
    return distance > 2 * max(first.std(0).max(), second.std(0).max())


@pytest.mark.parametrize("how", ["pca", "tsne"])
def test_groups_stay_apart(two_groups, how):
    places = map_places(two_groups, how)
    assert apart(places)
    np.testing.assert_array_equal(places, map_places(two_groups, how))


def test_odd_input(two_groups):
    assert map_places(two_groups[:3], "tsne").shape == (3, 2)
    assert map_places(np.ones((4, 1))).shape == (4, 2)
    with pytest.raises(ValueError, match="how must be"):
        map_places(two_groups, "som")


def test_umap(two_groups):
    pytest.importorskip("umap", reason="pip install umap-learn")
    assert available_maps(40) == ["tsne", "pca", "umap"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of what we ask for
        places = map_places(two_groups, "umap")
    assert places.shape == (40, 2)
    assert places.dtype == np.float64
    assert apart(places)
    np.testing.assert_array_equal(places, map_places(two_groups, "umap"))
    assert map_places(two_groups[:13], "umap").shape == (13, 2)
    assert len(map_figure(places, ["a", "b"] * 20).axes[0].collections) == 2


def test_without_umap(two_groups, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match="pip install umap-learn"):
        map_places(two_groups, "umap")


def test_graphs_that_are_all_equal():
    """scikit-learn's t-SNE would end the process."""
    for value in (0.0, 1.0, 1e-30):
        places = map_places(np.full((40, 5), value), "tsne")
        assert places.shape == (40, 2)
        assert np.isfinite(places).all()
