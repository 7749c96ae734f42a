"""Exchange preferences: a hand-made example, invariances, and the numbers Gao et al. print."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cosine
from sklearn.decomposition import PCA

from legs.data.errors import DataError
from reproduction.exchange import (
    class_distances,
    cosine_distance,
    distances_to,
    preferences,
    read_matrix,
)

# Class 0 lies along x near y = 0, class 1 along x near y = 3; one of class 1 strays to y = 1.
POINTS = np.array(
    [[-9.0, 0.5], [9.0, 0.5], [-9.0, -0.5], [9.0, -0.5],
     [-9.0, 4.0], [9.0, 4.0], [-9.0, 3.0], [9.0, 1.0]]
)  # fmt: skip
CLASSES = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def test_by_hand():
    """Class 0's line is y = 0; class 1's, through (0, 3), has a slope of its own."""
    distances, astray = class_distances(POINTS, CLASSES)
    assert distances[0, 0] == pytest.approx(0.5)
    assert distances[1, 0] == pytest.approx((4 + 4 + 3 + 1) / 4)
    members = POINTS[4:]
    line = PCA(1).fit(members)
    rest = POINTS - line.inverse_transform(line.transform(POINTS))
    away = np.linalg.norm(rest, axis=1)
    assert distances[:, 1] == pytest.approx([away[:4].mean(), away[4:].mean()])
    own = np.abs(POINTS[4:, 1])
    assert astray.tolist() == [0.0, float((own < away[4:]).mean())]
    found = preferences(distances, astray)
    (a, b), (c, d) = distances
    assert found[0, 1] == pytest.approx(astray[1] / min(b / a, c / d))
    assert (found[0, 0], found[1, 1], found[1, 0]) == (0, 0, 0)


@pytest.mark.parametrize("variance", [0.5, 0.9, 0.99])
def test_subspace_is_that_of_pca(variance):
    features = np.random.default_rng(0).normal(size=(30, 7)) * np.arange(1, 8) + 5
    other = PCA(variance, svd_solver="full").fit(features)
    points = np.random.default_rng(1).normal(size=(5, 7))
    rest = points - other.inverse_transform(other.transform(points))
    found = distances_to(features, points, variance)
    np.testing.assert_allclose(found, np.linalg.norm(rest, axis=1))


def test_nothing_depends_on_where_and_how_features_lie():
    """Shifts, rotations and the order of graphs change nothing; a common scale cancels."""
    rng = np.random.default_rng(2)
    features, classes = rng.normal(size=(40, 5)), np.arange(40) % 4
    features += classes[:, None]
    turned = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    order = rng.permutation(40)
    plain = preferences(*class_distances(features, classes))
    moved = preferences(*class_distances((3 * features @ turned + 7)[order], classes[order]))
    np.testing.assert_allclose(plain, moved, rtol=1e-9)


def test_members_that_are_alike():
    features = np.zeros((6, 3))
    np.testing.assert_allclose(distances_to(features, np.eye(3)), 1)
    found = preferences(*class_distances(features, np.arange(6) % 2))
    assert np.isnan(found[~np.eye(2, dtype=bool)]).all()
    assert np.isnan(cosine_distance(found, np.ones((2, 2))))


def test_cosine_distance_leaves_the_diagonal_out():
    rng = np.random.default_rng(3)
    a, b = rng.random((6, 6)), rng.random((6, 6))
    off = ~np.eye(6, dtype=bool)
    assert cosine_distance(a, b) == pytest.approx(cosine(a[off], b[off]))
    assert cosine_distance(a + 9 * np.eye(6), b) == cosine_distance(a, b)
    assert cosine_distance(a, 3 * a) == pytest.approx(0)
    assert np.isnan(cosine_distance(a, np.eye(6)))


def test_numbers_of_gao_and_others():
    named = os.environ.get("LEGS_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    file = folder / "enzymes" / "ec_exchange_gao2019.json"
    if not file.is_file():
        pytest.skip(f"no {file}")
    known = json.loads(file.read_text())
    found = preferences(np.array(known["D_mean_distance"]), np.array(known["w"]))
    np.testing.assert_allclose(found, known["pref_from_table_gao_formula"], atol=6e-5)


@pytest.mark.parametrize("names", ["", "abcdef", "123456"])
def test_matrices_of_the_user(names, tmp_path):
    matrix = np.arange(36.0).reshape(6, 6)
    lines = [",".join(map(str, row)) for row in matrix]
    if names:
        named = [f"{name},{line}" for name, line in zip(names, lines, strict=True)]
        lines = ["," + ",".join(names), *named]
    file = tmp_path / "observed.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(read_matrix(file), matrix)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3,4\n", "six rows of six numbers"),
        ("\n".join(["1,2,x,4,5,6"] * 6), "six rows of six numbers"),
        ("\n".join(["1,2,-3,4,5,6"] * 6), "six rows of six numbers"),
        ("\n".join(["0,0,0,0,0,0"] * 6), "not all zero"),
    ],
)
def test_wrong_matrices(text, words, tmp_path):
    file = tmp_path / "observed.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=words):
        read_matrix(file)
