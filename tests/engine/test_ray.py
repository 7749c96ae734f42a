"""The engine of a cluster, on a small one of one node; test_cluster has two, and kills one."""

from __future__ import annotations

import itertools
import sys

import pandas as pd
import pytest

from legs.data.errors import DataError
from legs.engine import EngineError, LocalEngine, open_engine
from legs.inference.embed import embed_folder, open_embedder
from tests.cli.molecules import rows, write
from tests.engine.work import add, die_once, place, refuse


@pytest.fixture(scope="module")
def engine():
    pytest.importorskip("ray", reason="the engine is Ray's")
    with open_engine("ray", num_cpus=2) as engine:
        yield engine


def test_every_task_once(engine):
    assert engine.workers == 2
    assert sorted(engine.run(add, 10, range(20))) == [(k, 10 + k) for k in range(20)]
    assert list(engine.run(add, 10, [])) == []


def test_tasks_are_taken_when_there_is_somebody_to_do_them(engine):
    taken = itertools.count()
    results = engine.run(add, 0, (next(taken) for _ in itertools.repeat(None, 100)))
    for _ in range(3):
        next(results)
    assert next(taken) <= 3 + 2 * engine.workers
    results.close()


def test_errors_are_those_of_the_task(engine):
    with pytest.raises(DataError, match=r"^row 3: refused$"):
        list(engine.run(refuse, 3, range(5)))


def test_runs_that_end_early_leave_this_process_alive(engine):
    # While tasks on their way were cancelled, two of three such series aborted it.
    for _ in range(30):
        results = engine.run(add, 0, itertools.count())
        assert next(results)
        results.close()


def test_what_a_killed_worker_did_is_done_again(engine, tmp_path):
    assert sorted(engine.run(die_once, str(tmp_path), range(2))) == [(0, 0), (1, 1)]
    assert len(list(tmp_path.iterdir())) == 2


def test_workers_know_where_data_are(engine, monkeypatch):
    monkeypatch.setenv("LEGS_DATA", "/somewhere/else")
    assert [found for _, found in engine.run(place, "LEGS_DATA", [0])] == ["/somewhere/else"]


def test_the_same_rows_as_on_one_machine(engine, tmp_path):
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    data = write(tmp_path / "data.csv", ("name", "smiles"), rows(40))
    data.write_text(data.read_text().replace("m17,", "m17,C1"))
    embedder = open_embedder("legs-fixed", features="atoms", options={"order": 1})
    found = []
    for name, some in (("local", LocalEngine(1)), ("ray", engine)):
        out = tmp_path / name
        # One part: every worker that has something to do imports torch, which takes seconds.
        done = embed_folder(embedder, data, out, engine=some, part=100, on_error="skip")
        assert (done.rows, done.skipped) == (40, 1)
        found.append(pd.read_parquet(out))
    pd.testing.assert_frame_equal(*found, check_exact=True)


def test_a_cluster_that_is_not_there_is_told_of_at_once(monkeypatch):
    ray = pytest.importorskip("ray", reason="the engine is Ray's")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(EngineError, match=r"no Ray cluster at 127\.0\.0\.1:1: .*ray start"):
        open_engine("ray", "127.0.0.1:1")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'torch-legs\[ray\]'"):
        open_engine("ray")
