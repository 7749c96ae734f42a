"""Many models at once are the same models as one after another."""

import copy

import numpy as np
import pytest
import torch

from legs.data.dataset import GraphDataset
from legs.data.splits import Split
from legs.models import available, create
from legs.training.cv.models import Job, Shared, prepared
from legs.training.inputs import Inputs, embed
from legs.training.options import TrainingOptions
from legs.training.stacked.trainer import Member, train_single, train_stack
from legs.training.task import Task
from tests.graphs import path_graph, random_graph, ring


def made_data(task="classification", graphs=40):
    """Random graphs, rings and paths; float64."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for k in range(graphs):
        size = 12 + k % 9
        graph = (ring, path_graph)[k % 2](size) if k % 3 else random_graph(size, generator)
        graph.x = torch.rand(size, 2, generator=generator)
        found.append(graph)
    data = GraphDataset.from_pyg(found, task=task, feature_names=("a", "b"))
    size = data.sizes.double()
    known = (
        {"y": (torch.arange(graphs) % 3), "class_names": ("r", "s", "t")}
        if task == "classification"
        else {
            "y": torch.stack([size, size.square() + torch.arange(graphs)], dim=1),
            "target_names": ("u", "v"),
        }
    )
    from dataclasses import replace

    return replace(data.with_x(data.x.double(), data.feature_names), **known)


def members(data, name, count=4, **options):
    if name.endswith("-deep"):
        options = {"dropout": 0.0, "hidden_channels": 16, **options}
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        order = rng.permutation(len(data))
        split = Split(np.sort(order[: 20 + 3 * k]), np.sort(order[32:36]), np.sort(order[36:]))
        task = Task.of(data, torch.as_tensor(split.train), balanced=k % 2 == 0 or count > 1)
        torch.manual_seed(k)
        network = create(name, data.in_channels, data.out_channels, **options).double()
        for module in network.modules():
            if hasattr(module, "validate"):
                module.validate = False
        training = data.subset(split.train)
        network.initialize(training.x, graphs=len(training))
        network.initialize(training.x, embed(network, training))
        found.append(Member(network, split, task, lr=(1e-4, 3e-4)[k % 2]))
    return found


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", available())
def test_stacked_is_single(name, task):
    """50 steps in float64 without dropout: parameters and averages equal to 1e-8."""
    data = made_data(task)
    options = TrainingOptions(
        batch_size=16, max_epochs=17, validate_every=4, patience=8, precision="float64"
    )
    together, alone = (members(data, name) for _ in range(2))
    inputs = Inputs(data, together[0].network, torch.device("cpu"))
    outcomes = train_stack(together, inputs, data.y, options)
    for a, b, outcome in zip(together, alone, outcomes, strict=True):
        single = train_single(b, Inputs(data, b.network, torch.device("cpu")), data.y, options)
        assert (outcome.best_epoch, outcome.epoch) == (single.best_epoch, single.epoch)
        assert outcome.best_loss == pytest.approx(single.best_loss, abs=1e-8)
        for key, value in a.network.state_dict().items():
            torch.testing.assert_close(value, b.network.state_dict()[key], rtol=0, atol=1e-8)


@pytest.mark.parametrize("scale_lr", [None, 0.01])
def test_optimizers_and_schedules_are_those_of_single_networks(scale_lr):
    data = made_data("classification")
    options = TrainingOptions(
        batch_size=16,
        max_epochs=9,
        validate_every=3,
        precision="float64",
        optimizer="adamw",
        weight_decay=0.1,
        schedule="cosine",
        warmup=2,
        scale_lr=scale_lr,
    )
    together, alone = (members(data, "legs-fcn") for _ in range(2))
    start = together[0].network.scattering.selection.theta.detach().clone()
    inputs = Inputs(data, together[0].network, torch.device("cpu"))
    train_stack(together, inputs, data.y, options)
    for a, b in zip(together, alone, strict=True):
        train_single(b, Inputs(data, b.network, torch.device("cpu")), data.y, options)
        for key, value in a.network.state_dict().items():
            torch.testing.assert_close(value, b.network.state_dict()[key], rtol=0, atol=1e-8)
    moved = (together[0].network.scattering.selection.theta - start).abs().max()
    assert (moved > 0.01) == (scale_lr is not None)


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("name", ["legs-fcn", "legs-rbf", "gin", "baseline"])
def test_nothing_leaks_from_validation_and_test(name, calibrate):
    """Other labels and features outside the training graphs leave the weights as they are."""
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=6, validate_every=6, precision="float64", calibrate=calibrate
    )
    given = members(data, name, count=1)[0]
    outside = torch.ones(len(data), dtype=torch.bool)
    outside[torch.as_tensor(given.split.train)] = False
    node_outside = torch.repeat_interleave(outside, data.sizes)
    x = torch.where(node_outside[:, None], torch.randn_like(data.x), data.x)
    y = torch.where(outside, (data.y + 1) % 3, data.y)
    from dataclasses import replace

    changed = replace(data, x=x, y=y)
    found = []
    for set_ in (data, changed):
        member = members(set_, name, count=1)[0]
        other = Member(copy.deepcopy(member.network), member.split, member.task, member.lr)
        inputs = Inputs(set_, member.network, torch.device("cpu"))
        train_stack([member, other], inputs, set_.y, options)
        found.append(member.network.state_dict())
    # Validation graphs have one say: how large the scores of the kept weights are.
    last, factors = f"{given.network.output_layer}.", []
    for key, value in found[0].items():
        other = found[1][key]
        if options.calibrate and key.startswith(last):
            factors.append((other / value).mean())
            other = other / factors[-1]
        torch.testing.assert_close(value, other, rtol=0, atol=1e-10)
    if options.calibrate:
        assert factors[0] > 0
        torch.testing.assert_close(factors[0], factors[1])


def test_models_that_stop_keep_their_best_weights():
    data = made_data()
    options = TrainingOptions(
        batch_size=16, max_epochs=200, validate_every=2, patience=4, lr=0.05, precision="float64"
    )
    given = members(data, "legs-fixed", count=6)
    inputs = Inputs(data, given[0].network, torch.device("cpu"))
    outcomes = train_stack(given, inputs, data.y, options)
    assert len({outcome.epoch for outcome in outcomes}) > 1
    for member, outcome in zip(given, outcomes, strict=True):
        assert outcome.epoch == outcome.best_epoch + 4
        index = torch.as_tensor(member.split.validation)
        with torch.no_grad():
            loss = member.task.loss(inputs(member.network, index), data.y[index])
        assert float(loss) == pytest.approx(outcome.best_loss, abs=1e-10)


def test_validation_looks_only_where_it_must(monkeypatch):
    """Graphs that no running model validates on are passed over, also when a cut has none."""
    data = made_data()
    options = TrainingOptions(batch_size=16, max_epochs=4, validate_every=2, precision="float64")
    given = members(data, "legs-fcn", count=1)[0]
    first = Split(given.split.train, np.array([1, 2]), given.split.test)
    member = Member(given.network, first, given.task, given.lr)
    monkeypatch.setattr("legs.training.stacked.mapped.ROWS_AT_ONCE", 100)
    inputs = Inputs(data, member.network, torch.device("cpu"))
    twin = Member(copy.deepcopy(member.network), first, given.task, given.lr)
    outcomes = train_stack([member, twin], inputs, data.y, options)
    with torch.no_grad():
        loss = member.task.loss(inputs(member.network, torch.tensor([1, 2])), data.y[1:3])
    assert float(loss) == pytest.approx(outcomes[0].best_loss, abs=1e-10)


def test_dropout_differs_between_models():
    data = made_data()
    options = TrainingOptions(batch_size=16, max_epochs=2, validate_every=2, precision="float64")
    first = members(data, "legs-fixed", count=1, dropout=0.5)[0]
    twin = Member(copy.deepcopy(first.network), first.split, first.task, first.lr)
    inputs = Inputs(data, first.network, torch.device("cpu"))
    train_stack([first, twin], inputs, data.y, options)
    weights = [m.network.head.out.weight for m in (first, twin)]
    assert not torch.equal(*weights)


def test_members_know_how_many_graphs_they_were_trained_on():
    data = made_data()
    split = Split(np.arange(26), np.arange(26, 30), np.arange(30, 40))
    jobs, shared = [Job(0, split, {})], Shared(data, TrainingOptions())
    (member,), _, _ = prepared("legs-fcn", jobs, shared)
    assert member.network.head.norm.reach == 5
