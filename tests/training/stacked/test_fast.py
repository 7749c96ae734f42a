"""Stacks of message-passing networks and ensembles train to the weights of single models."""

import contextlib
from dataclasses import replace

import pytest
import torch

from legs.data.dataset import GraphDataset
from legs.models import Ensemble, create
from legs.training import inputs as reading
from legs.training.inputs import Inputs, embed
from legs.training.options import TrainingOptions
from legs.training.stacked.replay import FilledBatches, replayable
from legs.training.stacked.trainer import Member, train_single, train_stack
from tests.backends import prefer
from tests.kernels import emulation
from tests.training.stacked.test_trainer import made_data, members
from tests.training.stacked.together import predict_stacked

CPU = torch.device("cpu")
NAMES = ["gcn", "graphsage", "gat", "gin", "snowball"]
DEEP = ["legs-deep", "gcn-deep", "sage-deep", "gat-deep", "gin-deep"]


@pytest.mark.parametrize("name", NAMES)
def test_stacked_is_single(name):
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=17, validate_every=4, patience=8, precision="float64"
    )
    together, alone = (members(data, name, count=2) for _ in range(2))
    outcomes = train_stack(together, Inputs(data, together[0].network, CPU), data.y, options)
    for a, b, outcome in zip(together, alone, outcomes, strict=True):
        single = train_single(b, Inputs(data, b.network, CPU), data.y, options)
        assert outcome.best_loss == pytest.approx(single.best_loss, abs=1e-8)
        for key, value in a.network.state_dict().items():
            torch.testing.assert_close(value, b.network.state_dict()[key], rtol=0, atol=1e-8)


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels themselves are tested there")
@pytest.mark.parametrize("name", ["gcn", "legs-fcn", "legs-rbf", "gin-deep", "gat-deep"])
def test_emulated_kernels_train_to_the_same_weights(name, monkeypatch, tmp_path_factory):
    """A whole stack: batch norm, messages, Adam; models that stop; predictions in the end."""
    if not emulation.available():
        pytest.skip("no C++ compiler")
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=6, validate_every=2, patience=2, precision="float64"
    )
    found = []
    for choice in ("reference", "fused"):
        with contextlib.ExitStack() as stack:
            stack.enter_context(prefer(choice))
            if choice == "fused":
                folder = tmp_path_factory.getbasetemp()
                stack.enter_context(emulation.emulated(monkeypatch, folder))
            given = members(data, name, count=3)
            reader = Inputs(data, given[0].network, CPU)
            train_stack(given, reader, data.y, options)
            networks = [member.network for member in given]
            outs = predict_stacked(networks, reader, [member.split.test for member in given])
            found.append([*(dict(n.state_dict()) for n in networks), dict(enumerate(outs))])
    for a, b in zip(*found, strict=True):
        for key, value in a.items():
            torch.testing.assert_close(value, b[key], rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", [*NAMES, *DEEP])
def test_filled_batches_change_nothing(name):
    data = made_data()
    network = create(name, 2, 3).double().eval()
    network.initialize(data.x)
    filled = FilledBatches(data, graphs=8)
    chosen = torch.tensor([5, 0, 17, 30, 2])
    index, valid = torch.zeros(2, filled.slots, dtype=torch.long)
    index[:5], valid[:5] = chosen, 1
    expected = network(*data.batch(chosen)[:5])
    given = filled.gather(index, valid.bool())
    assert (given.edge_index[1].diff() >= 0).all()
    found = network(*given[:5])
    torch.testing.assert_close(found[:5], expected, rtol=0, atol=1e-10)
    assert found.isfinite().all()


@pytest.mark.parametrize("merged_from", [1e9, 0.0])
@pytest.mark.parametrize("name", NAMES)
def test_loops_count_as_pyg_has_it(name, merged_from, monkeypatch):
    monkeypatch.setattr(reading, "MERGED_FROM", merged_from)
    data = made_data()
    looped = []
    for number, graph in enumerate(data.to_pyg()):
        own = torch.arange(0, graph.num_nodes, 1 + number % 3)
        graph.edge_index = torch.cat([graph.edge_index, own.expand(2, -1)], dim=1)
        graph.x = (graph.x > 0.5).double()  # so that some are alike
        looped.append(graph)
    data = GraphDataset.from_pyg(looped)
    network = create(name, 2, 3).double().eval()
    index = torch.tensor([4, 0, 7])
    expected = network(*data.batch(index)[:5])
    reader = Inputs(data, network, CPU)
    assert reader.merged == (merged_from == 0)
    found = reader(network, index)
    assert not found.equal(expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="steps are recorded on GPUs")
@pytest.mark.parametrize("name", [*NAMES, *DEEP])
def test_recorded_steps_on_a_gpu(name):
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=8, validate_every=4, patience=8, precision="float64"
    )
    found = []
    for choice in ("auto", "reference"):
        with prefer(choice):
            given = members(data, name, count=2)
            reader = Inputs(data, given[0].network, torch.device("cuda"))
            train_stack(given, reader, data.y.cuda(), options)
            found.append(given)
            if choice == "auto":
                assert replayable(reader)
    for a, b in zip(*found, strict=True):
        for key, value in a.network.state_dict().items():
            torch.testing.assert_close(value, b.network.state_dict()[key], rtol=0, atol=1e-8)


def ensembles(data, count=3):
    found = []
    for k, member in enumerate(members(data, "gcn", count=count)):
        torch.manual_seed(k)
        second = create("legs-fcn", 2, 3).double().eval()
        second.initialize(data.x)
        network = Ensemble(member.network.eval(), second, 64 + 128, 3, dropout=0.0).double()
        found.append(Member(network, member.split, member.task, 1e-3))
    return found


def test_features_of_every_ensemble_are_kept(monkeypatch):
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=12, validate_every=2, patience=4, precision="float64"
    )
    found = []
    for room in (2**30, 0):
        monkeypatch.setitem(reading.FEATURES_AT_MOST, "cpu", room)
        given = ensembles(data)
        reader = Inputs(data, given[0].network, CPU, keep=False)
        reader.keep_own_features([m.network for m in given])
        assert (reader.features is not None) == bool(room)
        if room:
            assert reader.features.shape == (3, len(data), 192)
            expected = embed(given[1].network, data)
            torch.testing.assert_close(reader.features[1], expected)
        outcomes = train_stack(given, reader, data.y, replace(options, lr=1e-2))
        found.append((given, outcomes))
    assert len({outcome.epoch for outcome in found[0][1]}) > 1  # one stops before another
    for a, b in zip(found[0][0], found[1][0], strict=True):
        for key, value in a.network.state_dict().items():
            torch.testing.assert_close(value, b.network.state_dict()[key], rtol=0, atol=1e-8)
