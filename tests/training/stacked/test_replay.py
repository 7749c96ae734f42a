from __future__ import annotations

from types import SimpleNamespace

import torch

from legs.models import create
from legs.training.inputs import Inputs
from legs.training.stacked import replay
from legs.training.stacked.replay import FILLERS, FilledBatches
from tests.training.stacked.test_trainer import made_data


def test_holds_the_graphs_and_fillers_that_touch_nothing():
    data = made_data()
    filled = FilledBatches(data, graphs=8)
    generator = torch.Generator().manual_seed(0)
    for count in (8, 5, 1):
        chosen = torch.randperm(len(data), generator=generator)[:count]
        index, valid = torch.zeros(2, filled.slots, dtype=torch.long)
        index[:count], valid[:count] = chosen, 1
        found, plain = filled.gather(index, valid.bool()), data.batch(chosen)
        nodes, edges = len(plain.x), plain.edge_index.shape[1]
        assert found.x.shape[0] == filled.nodes > nodes
        assert found.edge_index.shape[1] == filled.edges >= edges
        torch.testing.assert_close(found.x[:nodes], plain.x)
        assert (found.x[nodes:] == 0).all()
        assert found.edge_index[:, :edges].equal(plain.edge_index)
        assert found.batch[:nodes].equal(plain.batch)
        assert (found.batch.diff() >= 0).all()
        assert found.batch[nodes:].min() >= 8
        assert found.batch.max() < found.batch_size == 8 + FILLERS
        idle = found.edge_index[:, edges:]
        assert idle[0].equal(idle[1])
        assert (idle >= nodes).all()


def test_grows_when_a_batch_does_not_fit():
    data = made_data()
    filled = FilledBatches(data, graphs=4)
    largest = data.sizes.argsort(descending=True)[:20]
    before = filled.nodes
    assert not filled.grow(largest[:1])
    assert filled.grow(largest)
    assert filled.nodes == int(data.sizes[largest].sum()) + 1  # multiples of 64 on GPUs only
    assert filled.nodes > before
    assert not filled.grow(largest)


def test_steps_that_would_have_much_to_fill_up_are_done_as_they_are(monkeypatch):
    data = made_data()
    steps = []
    stack = SimpleNamespace(
        y=data.y,
        options=SimpleNamespace(batch_size=8),
        version=0,
        running=torch.arange(5),
        step_on=steps.append,
    )
    one = replay.Replay(stack, Inputs(data, create("gcn", 2, 2), torch.device("cpu"), keep=False))
    assert one.filled.spare == one.filled.nodes - round(8 * float(data.sizes.double().mean()))
    monkeypatch.setattr(replay, "FILLED_AT_MOST", 5 * one.filled.spare - 1)
    index = torch.tensor([3, 1, 7])
    one(index)
    assert steps == [index]
