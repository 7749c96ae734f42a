from __future__ import annotations

import pytest
import torch

from legs.training import stack as training
from legs.training.filled import FILLERS, FilledBatches
from legs.training.inputs import Inputs
from legs.training.options import TrainingOptions
from legs.training.replay import Replay
from tests.training.test_stack import made_data, members


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
    assert not filled.choose(largest[:1])
    assert filled.choose(largest)
    assert filled.nodes % 64 == 0
    assert 0 < filled.nodes - int(data.sizes[largest].sum()) <= 64
    assert filled.nodes > before
    assert not filled.choose(largest)


def test_the_smallest_room_that_fits():
    data = made_data()
    filled = FilledBatches(data, graphs=8, rooms=(3.0, -2.0, 0.0))
    sizes = [room.nodes for room in filled.rooms]
    assert sizes == sorted(sizes)
    assert filled.number == 2
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for count in (8, 8, 8, 4, 1):
        chosen = torch.randperm(len(data), generator=generator)[:count]
        plain = data.batch(chosen)
        needed = (len(plain.x) + 1, plain.edge_index.shape[1])  # and a node to fill up with
        assert not filled.choose(chosen)
        seen.add(filled.number)
        fits = [all(a <= b for a, b in zip(needed, room, strict=True)) for room in filled.rooms]
        assert filled.number == fits.index(True)
        index, valid = torch.zeros(2, filled.slots, dtype=torch.long)
        index[:count], valid[:count] = chosen, 1
        found = filled.gather(index, valid.bool())
        assert (len(found.x), found.edge_index.shape[1]) == filled.rooms[filled.number]
        torch.testing.assert_close(found.x[: len(plain.x)], plain.x)
    assert len(seen) > 1


class Recorded(Replay):
    """Recordings that run here: what is asked of a GPU is noted."""

    log: list[tuple[int, int]]

    def _outside(self):
        self.compiled = getattr(self, "compiled", set()) | {self.filled.rooms[self.filled.number]}
        self._step()

    def _record(self):
        replay, number = self, self.filled.number
        assert self.filled.rooms[number] in self.compiled  # nothing can be while it is recorded
        self.log.append((self.version, number))

        class Recording:
            room = self.filled.rooms[number]

            def replay(self):
                assert replay.filled.rooms[number] == self.room  # else it has another shape
                replay.filled.number = number
                replay._step()

        return Recording()


@pytest.mark.parametrize("rooms", [(3.0,), (-1.0, 0.3, 3.0), (-4.0, -3.0)])
@pytest.mark.parametrize("name", ["gin", "legs-fcn"])
def test_replayed_in_rooms_is_trained_as_ever(name, rooms, monkeypatch):
    data = made_data()
    options = TrainingOptions(
        batch_size=8, max_epochs=12, validate_every=2, patience=4, precision="float64"
    )
    found = []
    for replayed in (False, True):
        given = members(data, name, count=3)
        inputs = Inputs(data, given[0].network, torch.device("cpu"))
        log: list[tuple[int, int]] = []
        with monkeypatch.context() as patch:
            patch.setattr("legs.training.filled.ROOMS", rooms)
            patch.setattr(training, "Replay", type("Noted", (Recorded,), {"log": log}))
            patch.setattr(training, "replayable", lambda *known, found=replayed: found)
            outcomes = training.train_stack(given, inputs, data.y, options)
        found.append([dict(member.network.state_dict()) for member in given])
        assert bool(log) == replayed
    for a, b in zip(*found, strict=True):
        for key, value in a.items():
            torch.testing.assert_close(value, b[key], rtol=0, atol=1e-9)
    versions = [version for version, _ in log]
    assert len(set(versions)) > 1 or len({outcome.epochs for outcome in outcomes}) == 1
    for version in set(versions):
        numbers = [number for each, number in log if each == version]
        assert numbers[0] == len(rooms) - 1  # the largest first
        assert set(numbers) <= set(range(len(rooms)))
    if min(rooms) > -2 and len(rooms) > 1:
        assert len(log) == len(set(log)) > len(set(versions))  # several rooms, each once


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", ["gin", "gcn", "legs-fcn"])
def test_recorded_on_a_gpu_in_several_rooms(name, monkeypatch):
    data = made_data()
    options = TrainingOptions(
        batch_size=8, max_epochs=30, validate_every=2, patience=8, precision="float64"
    )
    found = []
    for device, rooms in (("cpu", (3.0,)), ("cuda", (3.0,)), ("cuda", (-0.7, 0.25, 1.3, 3.0))):
        monkeypatch.setattr("legs.training.filled.ROOMS", rooms)
        given = members(data, name, count=3)
        inputs = Inputs(data, given[0].network, torch.device(device))
        training.train_stack(given, inputs, data.y.to(device), options)
        found.append([member.network.state_dict() for member in given])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            for key, value in a.items():
                torch.testing.assert_close(value, b[key].cpu(), rtol=0, atol=1e-7)
