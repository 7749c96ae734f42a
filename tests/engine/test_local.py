"""The engine of one machine."""

from __future__ import annotations

import itertools

import pytest

from legs.data.errors import DataError
from legs.engine import EngineError, LocalEngine, open_engine
from tests.engine.work import add, die_once, refuse, wait


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_once(workers):
    with open_engine("local", workers=workers) as engine:
        assert engine.workers == workers
        assert sorted(engine.run(add, 10, range(20))) == [(k, 10 + k) for k in range(20)]
        assert list(engine.run(add, 10, [])) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_tasks_are_taken_when_there_is_somebody_to_do_them(workers):
    taken = itertools.count()
    tasks = (next(taken) for _ in itertools.repeat(None, 100))
    results = LocalEngine(workers).run(wait, 0.2, tasks)
    for _ in range(3):
        next(results)
    assert next(taken) <= 3 + 3 * workers
    results.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_are_those_of_the_task(workers):
    with pytest.raises(DataError, match="row 3: refused"):
        list(LocalEngine(workers).run(refuse, 3, range(5)))


def test_a_killed_worker_is_told_of(tmp_path):
    with pytest.raises(EngineError, match=r"a worker process was killed.*the same command goes on"):
        list(LocalEngine(2).run(die_once, str(tmp_path), range(3)))


def test_names_and_options():
    with pytest.raises(ValueError, match="no engine is called 'slurm'; there are local and ray"):
        open_engine("slurm")
    with pytest.raises(ValueError, match="add --engine ray"):
        open_engine("local", "1.2.3.4:5")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        LocalEngine(0)
