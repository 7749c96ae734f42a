"""The directory of a run, and what is checked before one starts."""

from __future__ import annotations

import errno
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from legs.data import DataError, from_objects
from legs.data.splits import save_splits
from legs.inference.embed import open_embedder
from legs.io import FileError, digest_of, writing
from legs.models import ModelError
from legs.training import TrainingOptions, default_split, fit
from legs.training.methods import check_options, methods
from legs.training.predictor import load_predictor
from legs.training.runs import (
    choose_device,
    clear_failed_start,
    find_model,
    run_directory,
)
from tests.training.made import QUICK, made_data, made_split


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
        settings = dict.fromkeys(("model", "model_options", "training", "data", "split"))
        (run / "settings.json").write_text(json.dumps(settings))
        (run / "metrics.jsonl").touch()
        if kept is not None:
            (run / kept).write_text("")
        with run_directory(run):
            assert (run / "settings.json").exists()
            clear_failed_start(run)
            for name in ("settings.json", "metrics.jsonl"):
                assert (run / name).exists() == (kept is not None)


def test_files_of_others_are_not_cleared(tmp_path):
    (tmp_path / "settings.json").write_text('{"model": "mine"}')
    (tmp_path / "metrics.jsonl").touch()
    clear_failed_start(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", "metrics.jsonl"}


@pytest.mark.parametrize("removed", [(), ("settings.json",), ("settings.json", "model")])
def test_what_tells_a_run_from_other_folders(removed, tmp_path):
    """Earlier versions left the same files; some may have been removed, or damaged."""
    run = tmp_path / "run"
    fit(made_data(), "baseline", made_split(), TrainingOptions(max_epochs=1), directory=run)
    for name in removed:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with run_directory(run):
        pass
    (run / "checkpoint.bin").write_text("mine")
    if len(removed) == 2:
        with pytest.raises(FileError, match=r"holds files of others \(checkpoint.bin, metrics"):
            run_directory(run).__enter__()


def test_fit_keeps_other_writers_out(tmp_path):
    run = tmp_path / "run"
    held = []

    def other(row):
        def enter():
            with run_directory(run):
                pass

        with ThreadPoolExecutor() as pool:
            held.append(str(pool.submit(enter).exception()))

    options = TrainingOptions(max_epochs=1)
    fit(made_data(), "baseline", made_split(), options, directory=run, report=other)
    assert "is being written by another thread" in held[0]
    with run_directory(run):  # as the command does
        fit(made_data(), "baseline", made_split(), options, directory=run)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FileError, match=r"holds files of others \(mine\.txt, run\)"):
        fit(made_data(), "baseline", made_split(), options, directory=tmp_path)


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
    a, b = default_split(data, 0, kind="random"), default_split(data, 1, kind="random")
    assert a.test.tolist() != b.test.tolist()
    file = tmp_path / "split.json"
    save_splits(file, [made_split()])
    assert default_split(data, kind=str(file)).test.tolist() == made_split().test.tolist()
    save_splits(file, [made_split()] * 2)
    with pytest.raises(DataError, match="2 splits"):
        default_split(data, kind=str(file))
    with pytest.raises(DataError, match="molecules"):
        default_split(data, kind="scaffold")
    with pytest.raises(DataError, match="'thirds'"):
        default_split(data, kind="thirds")
    with pytest.raises(DataError, match="names graph"):
        save_splits(file, [made_split()])
        default_split(data[:20], kind=str(file))


def test_devices(monkeypatch):
    for there in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert choose_device("auto") == ("cuda" if there else "cpu")
        assert choose_device("cpu") == "cpu"
    assert choose_device("cuda") == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device='cpu'"):
        choose_device("cuda")


def test_scaffold_splits_have_every_class_and_a_seed():
    pytest.importorskip("rdkit")
    # Salts of one molecule, one of them with a ring in the counterion.
    rings = [f"C1{'C' * n}1" for n in range(2, 32)]
    smiles = [
        text + ring for ring in rings for text in ("C", "CC", "O", "Cl.N", "c1ccccc1.NCCCCCC")
    ]
    data = from_objects(smiles, y=["rare"] * 50 + ["usual"] * 100)
    tests = set()
    for seed in range(3):
        split = default_split(data, seed, kind="scaffold")
        assert [len(part) for part in split] == [120, 15, 15]
        assert [float(data.y[part].float().mean()) for part in split] == pytest.approx([2 / 3] * 3)
        tests.add(tuple(split.test))
        numbers = replace(data, task="regression", y=data.y[:, None].float())
        tests.add(tuple(default_split(numbers, seed, kind="scaffold").test))
    assert len(tests) == 6
    fitted = fit(data, "baseline", "scaffold", replace(QUICK, seed=1))
    assert all(map(np.array_equal, fitted.split, default_split(data, 1, kind="scaffold")))
    data = from_objects(smiles, y=["rare"] * 5 + ["usual"] * 145)
    with pytest.raises(DataError, match="the validation part has one class only, usual"):
        default_split(data, kind="scaffold")


@pytest.mark.parametrize(
    ("model", "option", "value"),
    [
        ("legs-fcn", "dropout", "abc"),
        ("legs-attn-fcn", "heads", 1.5),
        ("legs-attn-fcn", "token_channels", 2),
        ("snowball", "num_layers", -1),
        ("gcn-legs-fcn", "dropout", "abc"),
        ("gcn-legs-fcn", "hidden_channels", "abc"),
    ],
)
def test_values_that_no_network_can_be_built_with(model, option, value):
    """Told before anything is trained, with the option and its value."""
    with pytest.raises(ValueError, match=f"{model} cannot be built with {option}={value!r}"):
        check_options(model, {option: value})


def test_options_of_an_embedding_are_checked():
    with pytest.raises(ValueError, match="legs-fixed cannot be built with steps='abc'"):
        open_embedder("legs-fixed", options={"steps": "abc"})


def test_a_model_with_more_classes_than_outputs_is_refused(tmp_path):
    fit(made_data(), "baseline", made_split(), QUICK, directory=tmp_path)
    file = tmp_path / "model" / "model.json"
    known = json.loads(file.read_text())
    digests = known.pop("sha256")
    known["task"]["names"] = [f"class {k}" for k in range(1000)]
    known["task"]["class_weights"] = None
    digests["model.json"] = digest_of(known)
    file.write_text(json.dumps({**known, "sha256": digests}))
    with pytest.raises(ModelError, match=r"1,000 names.*outputs"):
        load_predictor(tmp_path / "model").predict(made_data())
