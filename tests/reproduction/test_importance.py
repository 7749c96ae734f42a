"""Permutation importance against one computed graph by graph, and where it must be nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from legs.models import create
from legs.training.cv.models import Job, Shared, prepared
from legs.training.inputs import embed
from legs.training.options import TrainingOptions
from reproduction import importance
from reproduction.importance import (
    graph_features,
    importance_facts,
    path_importance,
    rises,
    scattering_of,
)
from tests.training.made import made_data, made_split

PATHS = 16


def network(features=2, targets=3):
    return create("legs-fcn", features, targets).eval()


@torch.no_grad()
def test_against_the_definition(monkeypatch):
    monkeypatch.setattr(importance, "REPEATS", 2)
    net = network()
    features, target = torch.randn(12, PATHS * 8), torch.randn(12, 3)
    found = rises(net, features, target, PATHS)
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(12, generator=generator) for _ in range(2)]
    usual = (net.predict_from(features) - target).square().mean(0)
    for path in range(PATHS):
        expected = torch.zeros(3)
        for order in orders:
            mixed = features.clone()
            for row, other in enumerate(order):
                for column in range(8 * path, 8 * path + 8):
                    mixed[row, column] = features[other, column]
            expected += ((net.predict_from(mixed) - target).square().mean(0) - usual) / 2
        np.testing.assert_allclose(found[path], expected, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_paths_that_say_nothing():
    """One that is the same for all graphs, and one that the head does not read."""
    net = network()
    features = torch.randn(20, PATHS * 8)
    features[:, 8 * 4 : 8 * 5] = 1.5
    net.head.hidden.weight[:, 8 * 9 : 8 * 10] = 0
    found = rises(net, features, torch.randn(20, 3), PATHS)
    assert found[4].abs().max() < 1e-12
    assert found[9].abs().max() < 1e-12
    assert (found[[0, 1, 2, 3]].abs() > 1e-6).all()


@pytest.mark.parametrize("name", ["legs-fcn", "legs-fixed", "legs-attn-fcn", "mp-legs-fcn"])
def test_features_are_those_of_the_network(name):
    data = made_data("regression")
    options = TrainingOptions()
    (member,), inputs, y = prepared(name, [Job(0, made_split(), {})], Shared(data, options))
    index = torch.tensor([5, 3, 40])
    found = graph_features(member.network, inputs, index)
    expected = embed(member.network, data.subset(index))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert path_importance(member, inputs, y).shape == (PATHS, 3)


def test_networks_without_paths():
    data = made_data("regression")
    shared = Shared(data, TrainingOptions())
    (member,), inputs, y = prepared("gin", [Job(0, made_split(), {})], shared)
    assert path_importance(member, inputs, y) is None
    mixed = create("legs-fcn", 2, 1, aggr="median")  # a column a path still
    assert scattering_of(mixed) is not None


def test_what_is_kept():
    measured = [torch.rand(1, PATHS, 2), torch.rand(1, PATHS, 2)]
    known = importance_facts("legs-fcn", 3, measured)
    assert known["paths"][:3] == ["x", "ψ₀", "ψ₁"]
    together = torch.cat(measured).double().numpy()
    np.testing.assert_allclose(known["rise"], together.mean(2), atol=1e-5)
    np.testing.assert_allclose(known["by_target"], together.mean(0), atol=1e-5)
