"""Shares of a prediction: they add up, follow the nodes, and are of the right thing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from legs.explain import attribute
from legs.explain.attributing import integrate
from legs.models import Ensemble, create
from legs.training import TrainingOptions, fit
from tests.training.made import made_data, made_split

QUICK = TrainingOptions(max_epochs=6, validate_every=2, batch_size=16, lr=1e-2)


def molecule(weighted=False, seed=0):
    """A ring with a tail, signals on two channels."""
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [2, 5], [5, 6]])
    edges = torch.cat([pairs, pairs.flip(1)]).T
    generator = torch.Generator().manual_seed(seed)
    graph = Data(x=torch.rand(7, 2, generator=generator), edge_index=edges)
    if weighted:
        graph.edge_weight = 1 + torch.rand(7, generator=generator).repeat(2)
    return graph


def network(name, **options):
    torch.manual_seed(1)
    made = create(name, 2, 3, **options)
    made.initialize(torch.rand(50, 2))
    return made.eval()


# Few scales: every absolute value is a kink to be integrated over.
SMALL = {"num_scales": 3, "steps": 4}
NETWORKS = {
    "legs-fcn": SMALL,
    "legs-fixed": {"num_scales": 3},
    "legs-rbf": SMALL,
    "legs-attn-fcn": SMALL,
    "mp-legs-fcn": {**SMALL, "state_channels": 5, "num_layers": 1},
    "gcn": {},
    "gin": {},
}


@pytest.mark.parametrize("baseline", ["shuffled", "mean", "zero"])
@pytest.mark.parametrize("name", NETWORKS)
def test_shares_add_up(name, baseline):
    model, graph = network(name, **NETWORKS[name]), molecule()
    # Message passing in front of scattering multiplies the kinks.
    steps = 80_000 if name == "mp-legs-fcn" else 20_000
    found = attribute(model, graph, 1, baseline=baseline, draws=2, most=steps)
    difference = found.value - found.baseline
    assert abs(difference) > 1e-5
    assert abs(found.nodes.sum() - difference) <= 1e-3 * abs(difference)
    np.testing.assert_allclose(found.channels.sum(1), found.nodes)
    assert found.gap == pytest.approx(difference - found.nodes.sum(), abs=1e-12)
    out = model(graph.x, graph.edge_index)[0, 1].detach()
    assert found.value == pytest.approx(float(out), abs=1e-4)
    if name in ("gcn", "gin"):
        assert found.paths == {}
        return
    assert abs(sum(found.paths.values()) - difference) <= 1e-3 * abs(difference)
    assert sum(found.moments.values()) == pytest.approx(sum(found.paths.values()))
    assert list(found.paths) == ["x", "Ψ0", "Ψ1", "Ψ2", "Ψ0 Ψ1", "Ψ0 Ψ2", "Ψ1 Ψ2"]
    assert set(found.moments) == {"mean", "variance", "skewness", "kurtosis"}


def test_weights_and_own_baselines_count():
    model, graph = network("legs-fcn", **SMALL), molecule(weighted=True)
    own = torch.zeros(7, 2)
    own[3] = 1.0
    found = attribute(model, graph, 0, baseline=own, most=20_000)
    start = model(own, graph.edge_index, graph.edge_weight)[0, 0]
    assert found.baseline == pytest.approx(float(start.detach()), abs=1e-4)
    assert abs(found.gap) <= 1e-3 * abs(found.value - found.baseline)
    plain = attribute(model, molecule(), 0, baseline=own)
    assert plain.value != found.value


def test_a_node_that_says_the_same_gets_nothing():
    model, graph = network("legs-fcn"), molecule()
    own = graph.x.clone()
    own[:3] += 0.5
    found = attribute(model, graph, 0, baseline=own)
    np.testing.assert_array_equal(found.nodes[3:], 0)
    assert (found.nodes[:3] != 0).all()


def test_nodes_can_be_renumbered():
    model, graph = network("legs-fcn"), molecule()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    place = torch.argsort(order)
    other = Data(x=graph.x[order], edge_index=place[graph.edge_index])
    one = attribute(model, graph, 2, baseline="mean")
    two = attribute(model, other, 2, baseline="mean")
    np.testing.assert_allclose(two.nodes, one.nodes[order], atol=1e-3 * abs(one.nodes).max())


def test_alike_nodes_have_no_shares():
    graph = molecule()
    graph.x = torch.ones(7, 2)
    found = attribute(network("legs-fcn"), graph)
    np.testing.assert_array_equal(found.nodes, 0)
    assert found.value == found.baseline


def test_the_ensemble_names_its_other_half():
    first, second = network("gcn"), network("legs-fcn", **SMALL)
    width = 64 + second.scattering.out_channels
    model = Ensemble(first, second, width, 3).eval()
    found = attribute(model, molecule(), 0, baseline="mean", most=20_000)
    assert list(found.paths)[:2] == ["other network", "x"]
    difference = found.value - found.baseline
    assert abs(sum(found.paths.values()) - difference) <= 1e-3 * abs(difference)


def test_the_model_stays_as_it_is():
    model = network("legs-fcn")
    before, training = copy.deepcopy(model.state_dict()), model.training
    attribute(model, molecule(), 0)
    assert model.training == training
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name])
    assert all(p.requires_grad for p in model.parameters())
    assert model.scattering.validate


@pytest.fixture(scope="module", params=["classification", "regression"])
def fitted(request):
    return fit(made_data(request.param), "legs-fcn", made_split(), QUICK)


def test_what_is_explained(fitted):
    """Of classes the log-odds of the answer; of numbers the prediction in its own units."""
    predictor, task = fitted.predictor, fitted.predictor.task
    data = made_data(task.kind)
    answers = predictor.predict(data)
    found = attribute(predictor, data[0], draws=1, most=60)
    if task.kind == "classification":
        best = int(answers[0].argmax())
        assert found.target == task.names[best]
        odds = answers[0, best].double().log() - answers[0, 1 - best].double().log()
        assert found.value == pytest.approx(float(odds), rel=1e-2)
        other = attribute(predictor, data[0], task.names[1 - best], draws=1, most=60)
        np.testing.assert_allclose(other.nodes, -found.nodes, atol=1e-6)
    else:
        assert found.target == "nodes"
        heat = attribute(predictor, data[0], "heat", draws=1, most=60)
        for one, column in ((found, 0), (heat, 2)):
            assert one.value == pytest.approx(float(answers[0, column]), rel=1e-4)


def test_errors_are_for_people(fitted):
    predictor, graph = fitted.predictor, made_data()[0]
    with pytest.raises(ValueError, match="no target is called 'cold'; there are"):
        attribute(predictor, graph, "cold")
    with pytest.raises(ValueError, match="target 9 of"):
        attribute(predictor, graph, 9)
    with pytest.raises(ValueError, match="shuffled"):
        attribute(predictor, graph, baseline="black")
    with pytest.raises(ValueError, match="the baseline has shape"):
        attribute(predictor, graph, baseline=torch.zeros(1, 1))
    with pytest.raises(ValueError, match="draws must be at least 1"):
        attribute(predictor, graph, draws=0)
    with pytest.raises(ValueError, match="no node features"):
        attribute(predictor, Data(edge_index=graph.edge_index, num_nodes=3))


def test_a_method_that_is_no_network():
    svm = fit(made_data(), "gs-svm", made_split(), QUICK)
    with pytest.raises(ValueError, match="gs-svm is not a network"):
        attribute(svm.predictor, made_data()[0])


def test_kinks_and_cliffs_are_found():
    """A step of width 1e-12 at the start: the panels go where the function changes."""

    def cliff(a):
        height = torch.tanh(a * 1e12)
        slope = 1e12 * (1 - height**2)
        return height + a.abs(), torch.stack([slope, torch.ones_like(a)], dim=1)

    found = integrate(cliff, tolerance=1e-4)
    np.testing.assert_allclose(found.shares, [1, 1], atol=1e-4)
    assert abs(found.gap) < 1e-4
    rough = integrate(cliff, tolerance=1e-4, most=10)
    assert abs(rough.gap) > 0.5  # what was not done is told


def test_reference_path_whatever_was_chosen():
    model = network("legs-fcn")
    model.scattering.backend = "fused"
    found = attribute(model, molecule(), 0, baseline="mean")
    assert model.scattering.backend == "fused"
    assert (found.nodes != 0).any()
