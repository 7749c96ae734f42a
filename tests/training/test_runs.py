"""The directory of a run, and what is checked before one starts."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from legs.data import DataError
from legs.data.splits import save_splits
from legs.files import FileError
from legs.models import ModelError
from legs.training.methods import methods
from legs.training.runs import (
    check_options,
    choose_device,
    choose_split,
    find_model,
    run_directory,
    writing,
)
from tests.training.made import made_data, made_split


def test_a_run_is_left_or_nothing_is(tmp_path):
    with pytest.raises(KeyError), run_directory(tmp_path / "a" / "run"):
        raise KeyError
    assert not (tmp_path / "a" / "run").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyError), run_directory(tmp_path / "mine"):
        raise KeyError
    assert (tmp_path / "mine").exists()
    with run_directory(tmp_path / "run") as folder:
        (folder / "model").mkdir()
    assert (tmp_path / "run" / "model").exists()


def test_one_writer(tmp_path):
    def second():
        with pytest.raises(FileError) as caught, run_directory(tmp_path / "run"):
            pass
        return str(caught.value)

    with run_directory(tmp_path / "run"), ThreadPoolExecutor() as pool:
        assert "is being written by another thread" in pool.submit(second).result()
        assert (tmp_path / "run").exists()
    with run_directory(tmp_path / "run"):
        pass


def test_what_a_failed_start_left_is_cleared(tmp_path):
    for kept in (None, "checkpoint.bin", "gcn-checkpoint.bin", "model"):
        run = tmp_path / f"run {kept}"
        run.mkdir()
        (run / "settings.json").write_text("{}")
        if kept is not None:
            (run / kept).write_text("")
        with run_directory(run):
            assert (run / "settings.json").exists() == (kept is not None)


def test_errors_of_the_disk(tmp_path):
    for number, word in (
        (errno.ENOSPC, "no space"),
        (errno.EACCES, "no permission"),
        (errno.ENOTDIR, "is a file"),
    ):
        with pytest.raises(OSError, match=word), writing(tmp_path / "x"):
            raise OSError(number, "?", str(tmp_path / "x" / "y"))
    # What is wrong elsewhere is not blamed on the output.
    for error in (PermissionError(errno.EACCES, "?", "/data/in.csv"), OSError("odd")):
        with pytest.raises(OSError, match=r"in\.csv|odd") as caught, writing(tmp_path / "x"):
            raise error
        assert caught.value is error


def test_where_the_model_is(tmp_path):
    with pytest.raises(ModelError, match="no such"):
        find_model(tmp_path / "none")
    with pytest.raises(ModelError, match="holds no model"):
        find_model(tmp_path)
    (tmp_path / "checkpoint.bin").touch()
    with pytest.raises(ModelError, match="not ended"):
        find_model(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").touch()
    assert find_model(tmp_path) == find_model(tmp_path / "model") == tmp_path / "model"


def test_options_of_methods():
    for name in methods():
        check_options(name, {})
        with pytest.raises(ValueError, match="no option 'colour'"):
            check_options(name, {"colour": 1})
    check_options("gcn-legs-fcn", {"dropout": 0.5})
    with pytest.raises(ValueError, match="num_scales='many'"):
        check_options("legs-fcn", {"num_scales": "many"})
    for options in ({"level": "node"}, {"aggr": None}):
        with pytest.raises(ValueError, match="for nodes"):
            check_options("legs-fcn", options)
    with pytest.raises(ValueError, match="did you mean 'gcn'"):
        check_options("gcnn", {})


def test_splits(tmp_path):
    data = made_data()
    a, b = choose_split(data, "random", 0), choose_split(data, "random", 1)
    assert a.test.tolist() != b.test.tolist()
    file = tmp_path / "split.json"
    save_splits(file, [made_split()])
    assert choose_split(data, str(file)).test.tolist() == made_split().test.tolist()
    save_splits(file, [made_split()] * 2)
    with pytest.raises(DataError, match="2 splits"):
        choose_split(data, str(file))
    with pytest.raises(DataError, match="molecules"):
        choose_split(data, "scaffold")
    with pytest.raises(DataError, match="'thirds'"):
        choose_split(data, "thirds")
    with pytest.raises(DataError, match="names graph"):
        save_splits(file, [made_split()])
        choose_split(data[:20], str(file))


def test_devices(monkeypatch):
    for there in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert choose_device("auto") == ("cuda" if there else "cpu")
        assert choose_device("cpu") == "cpu"
    assert choose_device("cuda") == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="--device cpu"):
        choose_device("cuda")
