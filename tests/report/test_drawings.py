"""Drawings consist of shapes, whatever names and molecules are in them; layouts are true."""

from __future__ import annotations

from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

from legs.report.drawings import (
    _compact,
    graph_layout,
    graph_svg,
    molecule_svg,
    wavelets_around,
)

# Names from users' files are text, never code.
SHAPES = {"svg", "path", "circle"}
ATTRIBUTES = {"d", "cx", "cy", "r", "viewBox", "class"}


def harmless(svg):
    for element in ElementTree.fromstring(svg).iter():
        assert element.tag in SHAPES
        assert set(element.attrib) <= ATTRIBUTES
    return True


def test_nothing_but_coordinates_is_left():
    dirty = (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="f()"><!-- c --><script>f()</script>'
        '<foreignObject><img src="x" onerror="f()"/></foreignObject><a href="javascript:f()"/>'
        '<path d="M0,-1.5 &lt;b&gt;" onclick="f()" style="fill:url(http://x/y)"/>'
        '<text x="1">t</text>'
        '<image href="http://x/y.png"/><style>*{}</style></svg>'
    )
    clean = _compact(dirty, (2, 1))
    assert harmless(clean)
    lines = '<path class="line" d=""/>'
    assert clean == f'<svg viewBox="0 0 2 1" class="molecule">{lines}<path d="M 0 -1.5 b"/></svg>'


@pytest.mark.parametrize(
    "smiles",
    ["C", "OCc1cc(ccc1O)C(O)CNCCCC", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "CC* |$;;<img src=x>$|"],
)
def test_molecules(smiles):
    pytest.importorskip("rdkit")
    from rdkit import Chem

    atoms = Chem.MolFromSmiles(smiles).GetNumAtoms()
    assert harmless(molecule_svg(smiles))
    values = np.linspace(-1, 1, atoms) if atoms > 1 else np.ones(1)
    svg = molecule_svg(smiles, values)
    assert harmless(svg)
    dots = [e.get("class") for e in ElementTree.fromstring(svg).iter("circle")]
    assert dots.count("plus") == (values > 0.03).sum()
    assert dots.count("minus") == (values < -0.03).sum()
    assert "circle" not in molecule_svg(smiles, np.zeros(atoms))


def test_molecules_that_cannot_be_drawn():
    pytest.importorskip("rdkit")
    assert molecule_svg("C(") is None
    assert molecule_svg("CCO", [1.0]) is None
    assert molecule_svg("CO", np.ones(6), hydrogens=True) is not None


def test_graphs():
    edges = np.array([[0, 1], [1, 2], [2, 2]])
    svg = graph_svg(edges, 4, [1.0, -0.5, 0.0, 0.0])
    assert harmless(svg)
    circles = list(ElementTree.fromstring(svg).iter("circle"))
    size = [float(c.get("r")) for c in circles]
    assert size[0] > size[1] > size[2]
    assert circles[0].get("class") == "plus"
    for c in circles:
        assert 0 < float(c.get("cx")) < 260
        assert 0 < float(c.get("cy")) < 180
    assert graph_svg(np.zeros((0, 2), dtype=int), 1).count("<circle") == 1
    assert harmless(graph_svg(np.zeros((0, 2), dtype=int), 0))


@pytest.mark.parametrize(
    ("graph", "flat"),
    [
        (nx.path_graph(12), True),
        (nx.cycle_graph(10), True),
        (nx.star_graph(7), False),
        (nx.complete_graph(5), False),
    ],
    ids=["path", "ring", "star", "complete"],
)
def test_layouts_keep_distances(graph, flat):
    nodes = graph.number_of_nodes()
    places = graph_layout(np.array(graph.edges), nodes)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    true = np.array([[nx.shortest_path_length(graph, a, b) for b in graph] for a in graph])
    off = ~np.eye(nodes, dtype=bool)
    # Not every graph fits into a plane; neighbours stay neighbours in any case.
    assert not flat or np.corrcoef(apart[off], true[off])[0, 1] > 0.95
    lengths = apart[true == 1]
    assert lengths.min() > 0.5
    assert lengths.max() < 1.7
    assert apart[off].min() > 0.2
    assert np.ptp(places[:, 0]) >= np.ptp(places[:, 1]) - 0.5


def test_components_stand_side_by_side():
    places = graph_layout(np.array([[0, 1], [2, 3]]), 5)
    assert places[:2, 0].max() < places[2:4, 0].min()
    assert places[2:4, 0].max() < places[4, 0]
    assert graph_layout(np.zeros((0, 2), dtype=int), 0).shape == (0, 2)


def test_wavelets_around_a_node():
    edges = np.array(nx.path_graph(9).edges)
    scales = np.zeros((2, 4))
    scales[[0, 1], [0, 3]] = 1
    found = wavelets_around(edges, 9, scales)
    np.testing.assert_allclose(found.sum(0), np.eye(9)[4], atol=1e-12)
    walk = np.eye(9) / 2 + np.diag(np.ones(8), 1) / 2 + np.diag(np.ones(8), -1) / 2
    degree = np.r_[1, 2 * np.ones(7), 1]
    step = np.eye(9) / 2 + (walk - np.eye(9) / 2) / degree
    np.testing.assert_allclose(found[0], np.eye(9)[4] - step[:, 4], atol=1e-12)
