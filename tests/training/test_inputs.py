"""What is computed once gives what computing it every time gives."""

from dataclasses import replace

import pytest
import torch

from legs.models import Ensemble, available, create
from legs.nn import Scattering
from legs.training import fit, inputs
from legs.training.inputs import Inputs, embed, predict, unchecked
from legs.training.stacked.replay import FilledBatches
from tests.backends import prefer
from tests.training.made import QUICK, made_data, made_split, renumbered, weights_of

CPU = torch.device("cpu")
SCATTERING = ("legs-fcn", "legs-rbf", "legs-attn-fcn")
DEEP = ("legs-deep", "gcn-deep", "sage-deep", "gat-deep", "gin-deep")
PASSING = ("gcn", "graphsage", "gat", "gin", "snowball")
ODD = torch.tensor([7, 0, 31, 7, 59, 12])


def network_for(name, data, **options):
    network = create(name, data.in_channels, 2, **options).eval()
    network.initialize(data.x)
    return network.to(data.x.dtype)


def precise(**given):
    data = made_data(**given)
    return data.with_x(data.x.double(), data.feature_names)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", available())
def test_kept_and_plain_agree(name, weighted):
    data = precise(weighted=weighted)
    network = network_for(name, data)
    with torch.no_grad():
        expected = network(*data.batch(ODD)[:5])
        for keep in (True, False):
            found = Inputs(data, network, CPU, keep=keep)(network, ODD)
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": 0},
        {"order": 1, "lowpass": True},
        {"learn_laziness": "channel"},
        {"laziness": 0.7, "steps": 9, "num_scales": 3},
        {"scales": [1, 3], "learn_laziness": True},
        {"aggr": "max", "path_policy": "all"},
    ],
)
def test_kept_powers_agree_whatever_is_learned(options):
    data = precise(weighted=True)
    network = network_for("legs-fcn", data, **options)
    reader = Inputs(data, network, CPU)
    assert reader.features is None
    assert reader.steps == network.scattering.selection.steps
    gradients = []
    for call in (lambda: reader(network, ODD), lambda: network(*data.batch(ODD)[:5])):
        network.zero_grad()
        call().square().sum().backward()
        gradients.append({k: p.grad for k, p in network.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        expected = gradients[1][name]
        assert (gradient - expected).norm() <= 1e-6 * expected.norm()


def test_what_is_kept():
    data = made_data()
    kept = {name: Inputs(data, network_for(name, data), CPU) for name in available()}
    fixed = {name for name, reader in kept.items() if reader.features is not None}
    powers = {name for name, reader in kept.items() if reader.steps is not None}
    assert fixed == {"legs-fixed", "baseline"}
    assert powers == {"legs-fcn", "legs-rbf", "legs-attn-fcn"}


@pytest.fixture
def merging(monkeypatch):
    """Nodes that are alike are merged, whether it pays or not."""
    monkeypatch.setattr(inputs, "MERGED_FROM", 1.0)


def alike_data():
    """Nodes of a degree have the same features: many are alike."""
    data = made_data()
    return data.with_x(data.x * torch.tensor([1.0, 0.0]) + 0.5)


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("name", [*SCATTERING, *PASSING, *DEEP])
def test_merged_nodes(name):
    data = alike_data()
    data = data.with_x(data.x.double())
    network = network_for(name, data, **{"dropout": 0} if name in DEEP else {})
    gradients = []
    with prefer("reference" if name in SCATTERING else "fused"):
        reader = Inputs(data, network, CPU)
        assert reader.merged
        assert reader.data.num_nodes < 0.8 * data.num_nodes
        for call in (lambda: reader(network, ODD), lambda: network(*data.batch(ODD)[:5])):
            network.zero_grad()
            out = call()
            out.square().sum().backward()
            gradients.append([out, *(p.grad for p in network.parameters() if p.grad is not None)])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.usefixtures("merging")
def test_merged_nodes_in_a_filled_batch():
    data = alike_data()
    network = network_for("legs-fcn", data)
    reader = Inputs(data, network, CPU)
    filled = FilledBatches(reader.data, len(ODD) + 2)
    index = torch.cat([ODD, ODD.new_zeros(filled.slots - len(ODD))])
    graphs, known = reader.split(filled.gather(index, torch.arange(filled.slots) < len(ODD)))
    with torch.no_grad(), prefer("reference"):
        found = network(*graphs[:5], **known)
        expected = network(*data.batch(ODD)[:5])
    assert found.isfinite().all()
    torch.testing.assert_close(found[: len(ODD)], expected, rtol=1e-4, atol=1e-4)


def test_what_is_merged(merging, monkeypatch):
    data = alike_data()
    found = {name for name in available() if Inputs(data, network_for(name, data), CPU).merged}
    assert found == {*SCATTERING, *PASSING, *DEEP}
    for name, option in (("gcn", "dropout"), ("legs-deep", "layer_dropout")):
        dropping = network_for(name, data, **{option: 0.1})
        assert not Inputs(data, dropping, CPU).merged  # would drop all nodes of a class, or none
    assert not Inputs(data, network_for("legs-deep", data, operator="walk"), CPU).merged
    other = network_for("legs-fcn", data, aggr="max")
    assert not Inputs(data, other, CPU).merged  # only moments know how often a node counts
    weighted = replace(data, edge_weight=torch.ones(len(data.col)))
    assert not Inputs(weighted, network_for("legs-fcn", data), CPU).merged
    monkeypatch.setattr(inputs, "MERGED_FROM", 1e9)
    assert not Inputs(data, network_for("legs-fcn", data), CPU).merged


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("name", PASSING)
def test_merged_nodes_whatever_is_chosen_later(name):
    data = precise().with_x(alike_data().x.double())
    network = network_for(name, data)
    reader = Inputs(data, network, CPU)
    assert reader.merged
    with torch.no_grad():
        expected = reader(network, ODD)
        with prefer("reference"):
            torch.testing.assert_close(reader(network, ODD), expected, rtol=0, atol=1e-10)
        assert reader(network, ODD[:0]).shape == (0, 2)


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("name", PASSING)
def test_merged_nodes_under_autocast(name):
    data = alike_data()
    network = network_for(name, data)
    reader = Inputs(data, network, CPU)
    assert reader.merged
    expected = reader(network, ODD)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = reader(network, ODD)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)  # the head's rounding


@pytest.mark.parametrize("name", ["legs-fcn", "gin"])
def test_training_on_merged_nodes(monkeypatch, name):
    options = replace(QUICK, precision="float64")
    found = []
    for least in (1e9, 1.0):
        monkeypatch.setattr(inputs, "MERGED_FROM", least)
        with prefer("fused" if name == "gin" else "reference"):
            found.append(weights_of(fit(alike_data(), name, made_split(), options)))
    for name, weight in found[0].items():
        torch.testing.assert_close(found[1][name], weight, rtol=1e-4, atol=1e-6)


def test_too_large_to_keep(monkeypatch):
    data = precise()
    network = network_for("legs-fcn", data)
    kept = Inputs(data, network, CPU)
    size = data.x.numel() * 16 * 8
    assert kept.steps == 16
    monkeypatch.setattr(inputs, "POWERS_AT_MOST", size)
    assert Inputs(data, network, CPU).steps == 16
    monkeypatch.setattr(inputs, "POWERS_AT_MOST", size - 1)
    without = Inputs(data, network, CPU)
    assert without.steps is None
    with torch.no_grad():
        torch.testing.assert_close(without(network, ODD), kept(network, ODD), rtol=1e-9, atol=1e-9)


def test_training_without_kept_powers(monkeypatch):
    kept = fit(made_data(), "legs-fcn", made_split(), replace(QUICK, precision="float64"))
    monkeypatch.setattr(inputs, "POWERS_AT_MOST", 0)
    plain = fit(made_data(), "legs-fcn", made_split(), replace(QUICK, precision="float64"))
    for name, weight in weights_of(kept).items():
        torch.testing.assert_close(weights_of(plain)[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["legs-fixed", "legs-fcn"])
@pytest.mark.parametrize("nodes", [1, 10, 37])
def test_chunks_change_nothing(name, nodes, monkeypatch):
    data = precise(weighted=True)
    network = network_for(name, data)
    expected, whole = Inputs(data, network, CPU), embed(network, data)
    monkeypatch.setattr(inputs, "CHUNK_NODES", nodes)
    parts = inputs._chunks(data)
    assert torch.cat(parts).tolist() == list(range(len(data)))
    assert len(parts) > 5
    torch.testing.assert_close(embed(network, data), whole, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        found = Inputs(data, network, CPU)(network, ODD)
        torch.testing.assert_close(found, expected(network, ODD), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["legs-fcn", "legs-fixed", "gat"])
def test_predict_in_batches(name):
    data = precise()
    network = network_for(name, data, dropout=0.5).train()
    reader = Inputs(data, network, CPU)
    whole = predict(reader, network, ODD, 100)
    assert network.training
    torch.testing.assert_close(predict(reader, network, ODD, 4), whole, rtol=1e-9, atol=1e-12)
    assert not whole.requires_grad


def test_ensembles_are_embedded_once_in_evaluation():
    """Frozen parts keep their dropout and batch norm out of it, even while the head trains."""
    data = precise()
    first = network_for("gcn", data, dropout=0.5)
    ensemble = Ensemble(first, network_for("legs-fcn", data), 64 + 128, 2).double().train()
    reader = Inputs(data, ensemble, CPU)
    expected = torch.cat([embed(part, data) for part in (ensemble.first, ensemble.second)], dim=1)
    torch.testing.assert_close(reader.features, expected, rtol=1e-9, atol=1e-12)


def test_unchecked_is_undone():
    data = made_data()
    network = network_for("mp-legs-fcn", data)
    layer = next(m for m in network.modules() if isinstance(m, Scattering))
    with pytest.raises(KeyError), unchecked(network):
        assert not layer.validate
        raise KeyError
    assert layer.validate
    layer.validate = False
    with unchecked(network):
        pass
    assert not layer.validate  # the user's choice stands


def test_renumbering_gives_the_same_embedding():
    data = precise(weighted=True)
    network = network_for("legs-fixed", data)
    found = embed(network, renumbered(data))
    torch.testing.assert_close(found, embed(network, data), rtol=1e-6, atol=1e-9)


def test_fixed_embeddings_train_to_the_same_weights(monkeypatch):
    options = replace(QUICK, precision="float64")
    kept = fit(made_data(), "legs-fixed", made_split(), options)
    plain = Inputs.__init__

    def never_keep(self, data, network, device, keep=True):
        plain(self, data, network, device, keep=False)

    monkeypatch.setattr(Inputs, "__init__", never_keep)
    again = fit(made_data(), "legs-fixed", made_split(), options)
    for name, weight in weights_of(kept).items():
        torch.testing.assert_close(weights_of(again)[name], weight, rtol=1e-4, atol=1e-6)
