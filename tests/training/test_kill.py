"""Killed at random moments and started again, a run ends with the weights of an undisturbed one."""

import multiprocessing
import random
import signal
import time
from dataclasses import replace

import pytest

from legs.training import fit, loop
from tests.training.made import QUICK, made_data, made_split

KILLS = 5
EPOCHS = 40


def train(folder, name):
    """What the killed processes do. Checkpoints are frequent, so that some are torn as well."""
    loop.CHECKPOINT_SECONDS = 0.02
    options = replace(QUICK, max_epochs=EPOCHS, validate_every=3, patience=1000)
    given = {"model_options": {"dropout": 0.2}, "directory": folder}
    fit(made_data(), name, made_split(), options, **given)


@pytest.fixture(scope="module")
def processes():
    """Fresh processes without the seconds that importing takes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["legs.training"])
    return context


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("name", ["legs-fcn", "gcn-legs-fixed"])
def test_kill_dash_nine(name, tmp_path, processes):
    moments = random.Random(name)
    folder, log = tmp_path / "killed", tmp_path / "killed" / "metrics.jsonl"
    total = EPOCHS if name == "legs-fcn" else 3 * EPOCHS
    for _ in range(KILLS):
        process = processes.Process(target=train, args=(folder, name))
        seen = lines(log)
        process.start()
        # Within one of the next epochs, somewhere.
        wanted = seen + moments.randint(0, total // (2 * KILLS))
        while lines(log) < wanted and process.is_alive():
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert not (folder / "results.json").exists()
    last = processes.Process(target=train, args=(folder, name))
    last.start()
    last.join()
    assert last.exitcode == 0

    undisturbed = tmp_path / "undisturbed"
    train(undisturbed, name)
    for file in ("model/weights.safetensors", "metrics.csv", "test_predictions.csv", "split.json"):
        assert (folder / file).read_bytes() == (undisturbed / file).read_bytes()
