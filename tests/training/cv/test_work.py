"""A cross-validation cut into units for workers has the results of one in a single process."""

from __future__ import annotations

import pytest
import torch

from legs.data import load
from legs.engine import LocalEngine
from legs.training import CVOptions, TrainingOptions, cross_validate
from legs.training.cv import cross_validation as module
from tests.data.tu_sets import write_zip
from tests.robustness.made import tu_parts

METHODS = ["baseline", "legs-fixed", "gs-svm", "gcn-legs-fixed"]
OPTIONS = CVOptions(
    folds=3,
    rotations=1,
    training=TrainingOptions(max_epochs=10),
    grid=({"lr": 0.01}, {"lr": 0.001}),
)


class Three(LocalEngine):
    """Cuts as for three workers, and works in this process."""

    def __init__(self):
        super().__init__(1)
        self.done = []

    @property
    def workers(self):
        return 3

    def run(self, work, shared, tasks, *, gpus=0):
        # The last first: results come in any order.
        for number, task in reversed(list(enumerate(tasks))):
            self.done.append(task)
            yield number, work(shared, task)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "SMALL.zip"
    write_zip(file, tu_parts(24), name="SMALL")
    return load(file)


@pytest.fixture(scope="module")
def alone(data):
    strategies = ("stacked", "sequential")
    return {
        strategy: cross_validate(data, METHODS, OPTIONS, strategy=strategy, workers=1)
        for strategy in strategies
    }


def names(unit):
    return [job.name for job in unit.jobs]


def same(one, other):
    for a, b in zip(one.methods, other.methods, strict=True):
        assert (a.scores, a.chosen, a.losses) == (b.scores, b.chosen, b.losses)
        assert all(map(torch.equal, a.predictions, b.predictions))


@pytest.mark.parametrize("strategy", ["stacked", "sequential"])
def test_the_same_numbers(data, alone, tmp_path, strategy):
    engine, told = Three(), []
    found = cross_validate(
        data,
        METHODS,
        OPTIONS,
        strategy=strategy,
        directory=tmp_path,
        engine=engine,
        progress=told.append,
    )
    same(found, alone[strategy])
    models = {"baseline": 6, "legs-fixed": 6, "gs-svm": 3, "gcn-legs-fixed": 6}
    assert {m: sum(len(u.jobs) for u in engine.done if u.method == m) for m in METHODS} == models
    assert sum(u.method == "baseline" for u in engine.done) == (3 if strategy == "stacked" else 6)
    assert [facts.done for facts in told] == sorted(facts.done for facts in told)
    assert told[-1].done == told[-1].models == 21


def test_what_is_done_is_not_done_again(data, alone, tmp_path, monkeypatch):
    engine = Three()

    def once(shared, unit):
        if len(engine.done) > 4:
            raise KeyboardInterrupt
        return train(shared, unit)

    train = module.train_unit
    monkeypatch.setattr(module, "train_unit", once)
    more = {"strategy": "sequential", "directory": tmp_path, "workers": 1}
    with pytest.raises(KeyboardInterrupt):
        cross_validate(data, METHODS, OPTIONS, engine=engine, **more)
    kept = {name for unit in engine.done[:4] for name in names(unit)}
    monkeypatch.setattr(module, "train_unit", train)
    again = Three()
    again.__class__ = type("Two", (Three,), {"workers": property(lambda self: 2)})
    same(cross_validate(data, METHODS, OPTIONS, engine=again, **more), alone["sequential"])
    assert kept.isdisjoint(name for unit in again.done for name in names(unit))
    # And without an engine, where all is there.
    same(cross_validate(data, METHODS, OPTIONS, **more), alone["sequential"])


def test_what_is_stacked(data):
    engine = Three()
    cross_validate(data, ["baseline"], OPTIONS, engine=engine)
    assert [unit.strategy for unit in engine.done] == ["stacked"] * 3
    assert module.default_strategy("legs-fcn", "cpu") == "stacked"
    strategies = [module.default_strategy("gcn", device) for device in ("cpu", "cuda:0")]
    assert strategies == ["sequential", "stacked"]


def test_without_a_directory(data, alone):
    same(
        cross_validate(data, METHODS, OPTIONS, strategy="stacked", engine=Three()),
        alone["stacked"],
    )


def test_stacks_are_halved_until_they_fit_into_memory(data, alone, tmp_path, monkeypatch):
    sizes = []

    def small(shared, unit, **more):
        sizes.append(len(unit.jobs))
        if len(unit.jobs) > 2:
            raise torch.OutOfMemoryError
        return train(shared, unit, **more)

    train = module.train_unit
    monkeypatch.setattr(module, "train_unit", small)
    result = cross_validate(
        data, METHODS[:1], OPTIONS, strategy="stacked", directory=tmp_path, workers=1
    )
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1]
    assert result.methods[0].scores == alone["stacked"].methods[0].scores

    def never(shared, unit, **more):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(module, "train_unit", never)
    with pytest.raises(torch.OutOfMemoryError):
        cross_validate(data, METHODS[:1], OPTIONS, strategy="stacked", workers=1)


def test_the_old_name_of_strategy_warns(data):
    with pytest.warns(DeprecationWarning, match="way= is now strategy="):
        result = cross_validate(data, ["baseline"], OPTIONS, way="single", workers=1)
    assert result.methods[0].strategy == "sequential"
    with pytest.raises(ValueError, match="strategy is 'auto', 'stacked' or 'sequential'; got 'x'"):
        cross_validate(data, ["baseline"], OPTIONS, strategy="x")
