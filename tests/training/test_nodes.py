"""Nodes of one graph: learned from structure, and from training nodes only."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from legs.data.errors import DataError
from legs.models import create
from legs.training import TrainingError, TrainingOptions, fit_nodes
from tests.training.made import assert_same

OPTIONS = TrainingOptions(max_epochs=60, validate_every=5, lr=1e-2)
SHORT = replace(OPTIONS, max_epochs=8, validate_every=4)
MODELS = ["legs-fixed", "legs-fcn", "legs-rbf", "legs-attn-fcn"]


def blocks(size=40, seed=0, weighted=False):
    """Three communities. Features say who a node is only in one node out of ten."""
    chances = [[0.3, 0.02, 0.02], [0.02, 0.3, 0.02], [0.02, 0.02, 0.3]]
    graph = nx.stochastic_block_model([size] * 3, chances, seed=seed)
    rng = np.random.default_rng(seed)
    y = torch.arange(3).repeat_interleave(size)
    told = torch.as_tensor(rng.random(3 * size) < 0.1)
    x = torch.nn.functional.one_hot(y, 3).float() * told[:, None]
    edges = from_networkx(graph).edge_index
    data = Data(x=x, edge_index=edges, y=y)
    if weighted:
        data.edge_weight = 1.0 + (edges.sum(0) % 2)
    part = torch.as_tensor(rng.permutation(3 * size)) % 4
    data.train_mask, data.val_mask, data.test_mask = part < 2, part == 2, part == 3
    return data


def weights(data, model="legs-fcn", options=SHORT, **given):
    return dict(fit_nodes(data, model, options, **given).network.state_dict())


@pytest.mark.parametrize("model", MODELS)
def test_structure_is_learned(model):
    data = blocks()
    scores = fit_nodes(data, model, OPTIONS).scores
    # Nine nodes in ten look alike: without the edges hardly more than a third can be right.
    alike = float((data.x.sum(1) == 0).float().mean())
    without = 1 - alike * 2 / 3
    assert scores["guess"]["accuracy"] < 0.5
    assert scores["test"]["accuracy"] > without + 0.2
    assert set(scores) == {"train", "validation", "test", "guess"}


@pytest.mark.parametrize("model", MODELS)
def test_labels_of_test_nodes_teach_nothing(model):
    data = blocks()
    other = data.clone()
    places = data.test_mask.nonzero().flatten()
    other.y[places] = data.y[places].flip(0)
    assert not torch.equal(other.y, data.y)
    assert_same(weights(data, model), weights(other, model))
    other = data.clone()
    places = data.train_mask.nonzero().flatten()
    other.y[places] = data.y[places].flip(0)
    with pytest.raises(AssertionError):
        assert_same(weights(data, model), weights(other, model))


def test_labels_of_validation_nodes_choose_the_epoch_only():
    data = blocks()
    other = data.clone()
    other.y[data.val_mask] = (data.y[data.val_mask] + 1) % 3
    once = replace(SHORT, validate_every=SHORT.max_epochs, calibrate=False)
    assert_same(weights(data, options=once), weights(other, options=once))


@pytest.mark.parametrize("model", ["legs-fixed", "legs-fcn"])
def test_batch_norm_sees_training_nodes_only(model):
    """After one step the running averages are those of the training nodes' features."""
    data = blocks()
    network = fit_nodes(data, model, replace(SHORT, max_epochs=1)).network
    fresh = create(model, 3, 3, level="node")
    with torch.no_grad():
        features = fresh.embed(data.x, data.edge_index)[data.train_mask]
    expected = 0.1 * features.mean(0)
    torch.testing.assert_close(network.head.norm.running_mean, expected, rtol=1e-4, atol=1e-6)
    expected = 0.9 + 0.1 * features.var(0)
    torch.testing.assert_close(network.head.norm.running_var, expected, rtol=1e-4, atol=1e-6)


def test_masked_batch_norm_is_the_same():
    """Leaving rows out of the head is what its mask does."""
    data = blocks()
    network = create("legs-fcn", 3, 3, level="node").double()
    index = data.train_mask.nonzero().flatten()
    x, edges = data.x.double(), data.edge_index
    found = network.predict_from(network.embed(x, edges)[index])
    masked = network(x, edges, mask=data.train_mask)[index]
    torch.testing.assert_close(found, masked, rtol=1e-8, atol=1e-9)


def test_a_seed_repeats_a_run():
    data = blocks(weighted=True)
    given = {"model_options": {"dropout": 0.5}}
    first = weights(data, **given)
    torch.rand(7)
    assert_same(first, weights(data, **given))
    other = weights(data, options=replace(SHORT, seed=1), **given)
    assert not torch.equal(first["head.hidden.weight"], other["head.hidden.weight"])


def test_epochs_are_single_steps_on_all_training_nodes(monkeypatch):
    steps = []
    plain = torch.optim.Adam.step

    def step(self, *args, **kwargs):
        steps.append(1)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    rows = []
    options = replace(SHORT, batch_size=3)
    fitted = fit_nodes(blocks(), "legs-fixed", options, report=rows.append)
    assert len(steps) == len(rows) == fitted.state.epoch == SHORT.max_epochs


def test_features_of_fixed_scattering_are_computed_once(monkeypatch):
    from legs.nn import Scattering

    calls = []
    plain = Scattering.forward

    def forward(self, *args, **kwargs):
        calls.append(1)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Scattering, "forward", forward)
    fit_nodes(blocks(), "legs-fixed", SHORT)
    assert len(calls) == 1


def test_predictions_scores_and_saving(tmp_path):
    from legs.models import load_network

    data = blocks()
    fitted = fit_nodes(data, "legs-fcn", OPTIONS)
    answers = fitted.predict(data)
    assert answers.shape == (120, 3)
    right = answers.argmax(-1) == data.y
    for name, mask in (("train", "train_mask"), ("test", "test_mask")):
        expected = float(right[data[mask]].float().mean())
        assert fitted.scores[name]["accuracy"] == pytest.approx(expected)
    fitted.network.save(tmp_path)
    with torch.no_grad():
        again = load_network(tmp_path)(data.x, data.edge_index)
    torch.testing.assert_close(again.softmax(-1), answers)
    order = torch.randperm(120)
    place = torch.argsort(order)
    moved = Data(x=data.x[order], edge_index=place[data.edge_index])
    torch.testing.assert_close(fitted.predict(moved), answers[order], rtol=0, atol=1e-3)


def test_early_stopping_and_balance():
    data = blocks()
    fitted = fit_nodes(data, "legs-fcn", replace(OPTIONS, max_epochs=500, patience=20, lr=0.1))
    assert fitted.state.epoch < 500
    assert fitted.state.epoch == fitted.state.best_epoch + 20
    plain, fair = (weights(data, options=replace(SHORT, balanced=b)) for b in (False, True))
    assert not torch.equal(plain["head.out.bias"], fair["head.out.bias"])


def broken(**changes):
    data = blocks(size=10)
    for name, value in changes.items():
        data[name] = value
    return data


MASK = torch.zeros(30, dtype=torch.bool)


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        (broken(), "gcn", "no network for nodes is called 'gcn'"),
        (broken(), "legs-fnc", "did you mean 'legs-fcn'"),
        (broken(y=None), "legs-fcn", "the graph has no y"),
        (broken(x=None), "legs-fcn", "the graph has no x"),
        (broken(val_mask=None), "legs-fcn", "the graph has no val_mask"),
        (broken(y=torch.rand(30)), "legs-fcn", "y must hold a class per node"),
        (broken(y=torch.zeros(7, dtype=torch.long)), "legs-fcn", "y must hold a class per node"),
        (broken(y=torch.zeros(30, dtype=torch.long)), "legs-fcn", "nodes are all of one class"),
        (broken(y=torch.full((30,), -1)), "legs-fcn", "train_mask has a negative class"),
        (broken(train_mask=MASK), "legs-fcn", "train_mask names no node"),
        (broken(train_mask=~MASK), "legs-fcn", "node .* is in train_mask and in val_mask"),
        (broken(train_mask=MASK.repeat(2, 1).T), "legs-fcn", "choose one of its columns"),
        (broken(test_mask=MASK.long()), "legs-fcn", "test_mask must be boolean"),
        (broken(x=torch.full((30, 3), torch.nan)), "legs-fcn", "not finite numbers"),
        (broken(edge_index=torch.tensor([[0], [1]])), "legs-fcn", "edge_index is directed"),
    ],
)
def test_bad_input(data, model, message):
    with pytest.raises((DataError, ValueError), match=message):
        fit_nodes(data, model, SHORT)


def test_test_nodes_are_optional():
    data = blocks()
    fitted = fit_nodes(broken(test_mask=None), "legs-fixed", SHORT)
    assert set(fitted.scores) == {"train", "validation"}
    data.y[data.test_mask] = -1
    data.test_mask = None  # labels of nodes outside of all masks may be missing
    assert set(fit_nodes(data, "legs-fixed", SHORT).scores) == {"train", "validation"}


def test_a_loss_that_is_not_finite():
    with pytest.raises(TrainingError, match="not a finite number in epoch 1"):
        fit_nodes(broken(x=torch.full((30, 3), 3e38)), "legs-fcn", SHORT)
