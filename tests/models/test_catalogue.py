"""Every network by name: shapes, gradients, permutation invariance, saving and loading."""

import json

import pytest
import torch

from legs import models
from legs.models import Ensemble, ModelError, create, load_network
from tests.nn.test_scattering import example

NAMES = models.available()


def forward(network, data, **changes):
    given = {"edge_weight": None, "batch": data.batch, "batch_size": data.num_graphs, **changes}
    x, edge_index = given.pop("x", data.x), given.pop("edge_index", data.edge_index)
    return network(x, edge_index, **given)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_gradients(name):
    data, network = example(), create(name, 2, 3)
    network.initialize(data.x, network.embed(data.x, data.edge_index, None, data.batch, 3))
    out = forward(network, data)
    assert out.shape == (3, 3)
    out.square().sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
    single = example().to_data_list()[0]
    assert network.eval()(single.x, single.edge_index).shape == (1, 3)


@pytest.mark.parametrize("name", NAMES)
def test_renumbering_changes_nothing(name):
    data, network = example(dtype=torch.float64), create(name, 2, 3).double().eval()
    order = torch.cat([torch.randperm(9), 9 + torch.randperm(6), torch.tensor([15])])
    place = torch.argsort(order)
    moved = forward(network, data, x=data.x[order], edge_index=place[data.edge_index])
    torch.testing.assert_close(moved, forward(network, data), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_saved_networks_predict_the_same(name, tmp_path):
    data, network = example(), create(name, 2, 3, dropout=0.1) if name != "legs-rbf" else None
    network = network or create(name, 2, 3, gamma=0.3)
    network.initialize(data.x, network.embed(data.x, data.edge_index, None, data.batch, 3))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    network.eval().save(tmp_path / "saved")
    again = load_network(tmp_path / "saved")
    assert type(again) is type(network)
    assert torch.equal(forward(again, data), forward(network, data))
    assert {p.name for p in (tmp_path / "saved").iterdir()} == {"model.json", "weights.safetensors"}


def test_ensemble_saves_and_freezes(tmp_path):
    data = example()
    first, second = create("gcn", 2, 3).eval(), create("legs-fcn", 2, 3).eval()
    ensemble = Ensemble(first, second, 64 + 128, 3).train()
    assert ensemble.embedding_is_fixed
    assert not ensemble.second.head.norm.training
    forward(ensemble, data).sum().backward()
    assert first.head.weight.grad is None
    ensemble.eval().save(tmp_path)
    assert torch.equal(forward(load_network(tmp_path), data), forward(ensemble, data))


def test_which_embeddings_are_fixed():
    fixed = {name for name in NAMES if create(name, 2, 3).embedding_is_fixed}
    assert fixed == {"legs-fixed", "baseline"}


def test_node_level_prediction():
    network = create("legs-fcn", 2, 4, level="node").eval()
    data = example()
    assert forward(network, data).shape == (16, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create("legs-fnc", 2, 3), "no network is called 'legs-fnc'; did you mean 'legs-f"),
        (lambda: create("legs-fcn", 2, 3, widht=3), "legs-fcn has no option 'widht'"),
        (lambda: create("gcn", 2, 3, num_scales=3), "gcn has no option 'num_scales'"),
        (lambda: create("legs-fixed", 2, 3, scales=[1]), "legs-fixed has no option 'scales'"),
    ],
)
def test_bad_names(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_damaged_directories(tmp_path):
    with pytest.raises(ModelError, match="holds no model"):
        load_network(tmp_path)
    create("baseline", 2, 3).save(tmp_path)
    weights, description = tmp_path / "weights.safetensors", tmp_path / "model.json"
    good = weights.read_bytes()
    for broken in (good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:], b""):
        weights.write_bytes(broken)
        with pytest.raises(ModelError, match="checksum is wrong"):
            load_network(tmp_path)
    weights.unlink()
    with pytest.raises(ModelError, match=r"weights\.safetensors is missing"):
        load_network(tmp_path)
    weights.write_bytes(good)
    known = json.loads(description.read_text())
    description.write_text(json.dumps({**known, "format": 99}))
    with pytest.raises(ModelError, match="is in format 99"):
        load_network(tmp_path)
    for text in ("{", "[]", json.dumps({**known, "network": {"kind": "Nothing"}})):
        description.write_text(text)
        with pytest.raises(ModelError):
            load_network(tmp_path)
