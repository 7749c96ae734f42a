"""The engine of one machine."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

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
    with pytest.raises(EngineError, match=r"a worker process was killed.*the same command resumes"):
        list(LocalEngine(2).run(die_once, str(tmp_path), range(3)))


ORPHANS = """
import sys
from legs.engine import LocalEngine
from tests.engine.work import tell_and_wait
list(LocalEngine(2).run(tell_and_wait, sys.argv[1], [600.0, 600.0]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux who is running")
def test_workers_end_with_who_waits_for_them(tmp_path):
    def until(condition):
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)
        return condition()

    root = Path(__file__).parents[2]
    caller = subprocess.Popen([sys.executable, "-c", ORPHANS, str(tmp_path)], cwd=root)
    try:
        assert until(lambda: len(list(tmp_path.iterdir())) == 2)
    finally:
        caller.kill()
        caller.wait()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert until(lambda: not any(is_running(pid) for pid in workers))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_names_and_options():
    with pytest.raises(ValueError, match="no engine is called 'slurm'; there are local and ray"):
        open_engine("slurm")
    with pytest.raises(ValueError, match="for the engine 'ray' alone"):
        open_engine("local", "1.2.3.4:5")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        LocalEngine(0)
