"""Cells that workers do end in the same ledger as those that are done here."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from legs.data.errors import DataError
from legs.engine import LocalEngine, open_engine
from legs.experiments import spreading as module
from legs.experiments.catalogue import run
from legs.experiments.classification import plan
from legs.experiments.request import Request
from tests.data.tu_sets import write_zip
from tests.robustness.kills import _ledger as ledger
from tests.robustness.made import tu_parts


class Backwards(LocalEngine):
    """In this process, the last task first."""

    def run(self, work, shared, tasks, *, gpus=0):
        for number, task in reversed(list(enumerate(tasks))):
            yield number, work(shared, task)


@pytest.fixture
def request_(tmp_path, monkeypatch):
    write_zip(tmp_path / "data" / "tu" / "MUTAG.zip", tu_parts(40), name="MUTAG")
    monkeypatch.setenv("LEGS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("legs.training.cv_runner.choose_way", lambda *given, **more: "stacked")
    monkeypatch.setattr(module, "open_engine", lambda name, address, **more: Backwards(1))
    models = ("baseline", "gs-svm")
    return Request(tmp_path / "alone", quick=True, datasets=("MUTAG",), models=models, workers=1)


def test_the_same_ledger(request_, tmp_path):
    run("classification", request_)
    told = []
    spread = replace(request_, folder=tmp_path / "spread", engine="ray")
    run("classification", spread, told.append)
    assert ledger(tmp_path / "spread") == ledger(tmp_path / "alone")
    assert [facts.done for facts in told] == [0, 1, 2]
    run("classification", spread, told.append)
    assert len(told) == 3


def test_two_at_once(request_, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "open_engine", open_engine)
    run("classification", request_)
    run("classification", replace(request_, folder=tmp_path / "two", at_once=2))
    assert ledger(tmp_path / "two") == ledger(tmp_path / "alone")
    rows = json.loads((tmp_path / "two" / "results.json").read_text())["rows"]
    assert [row["device"].rpartition(", ")[2] for row in rows] == ["shared by 2"] * 2


def test_the_longest_first(request_, tmp_path, monkeypatch):
    begun = []

    class Noting(Backwards):
        def run(self, work, shared, tasks, *, gpus=0):
            tasks = list(tasks)
            begun.extend(cell.key for cell in tasks)
            return super().run(work, shared, tasks, gpus=gpus)

    monkeypatch.setattr(module, "open_engine", lambda name, address, **more: Noting(1))
    monkeypatch.setattr(module, "work_of", lambda cell: len(cell.method))
    spread = replace(request_, folder=tmp_path / "spread", engine="ray")
    run("classification", spread)
    assert begun == ["MUTAG-baseline", "MUTAG-gs-svm"]
    monkeypatch.setattr(module, "work_of", lambda cell: -len(cell.method))
    run("classification", replace(spread, folder=tmp_path / "other"))
    assert begun[2:] == ["MUTAG-gs-svm", "MUTAG-baseline"]
    assert ledger(tmp_path / "other") == ledger(tmp_path / "spread")  # in the order of the plan


@pytest.mark.parametrize(
    ("device", "at_once", "share"),
    [("cuda", 1, (0.9, None)), ("cuda:1", 4, (0.15, 1)), ("cuda", 10, (0.1, None))],
)
def test_the_memory_of_a_gpu_is_shared_out(request_, monkeypatch, device, at_once, share):
    given = []
    monkeypatch.setattr(
        module.torch.cuda, "set_per_process_memory_fraction", lambda *known: given.append(known)
    )
    properties = SimpleNamespace(total_memory=10 * module.OF_A_PROCESS)
    monkeypatch.setattr(module.torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(module, "run_cell", lambda *known: pytest.fail("needs a GPU", False))
    asked = replace(request_, device=device, at_once=at_once)
    asked.folder.mkdir()
    cell = plan(asked)[0]
    with pytest.raises(pytest.fail.Exception):
        module.make_row(module.Shared(asked, dict, dict, None), cell)
    assert given == [(pytest.approx(share[0]), share[1])]


def test_a_worker_begins_nothing_late(request_):
    """Engines hand out cells before workers are free, and that may take hours."""
    late = module.Shared(request_, dict, dict, until=time.time() - 1)
    assert module.make_row(late, plan(request_)[0]) == (None, module.NO_TIME)


def test_what_is_left_out_is_told(request_, tmp_path):
    spread = replace(request_, folder=tmp_path / "spread", engine="ray", minutes=0)
    run("classification", spread)
    found = ledger(tmp_path / "spread")
    assert found["rows"] == []
    assert found["left_out"]["MUTAG-gs-svm"] == module.NO_TIME
    (tmp_path / "data" / "tu" / "MUTAG.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match="MUTAG"):
        run("classification", replace(spread, minutes=None))


def test_a_cell_that_another_holds_is_waited_for(tmp_path, monkeypatch):
    held, slept = [True], []

    def one_writer(folder):
        if held:
            raise module.FileError(f"{folder} is being written")
        return real(folder)

    real = module.one_writer
    monkeypatch.setattr(module, "one_writer", one_writer)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: (slept.append(seconds), held.clear()))
    with module._patiently(tmp_path / "cell"):
        assert slept == [1]
    held.append(True)
    monkeypatch.setattr(module, "PATIENCE", -1.0)
    with pytest.raises(module.FileError, match="is being written"), module._patiently(tmp_path):
        pass
