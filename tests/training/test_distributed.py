"""Two processes on parts of a batch do what one does on all of it."""

from __future__ import annotations

import csv
import json
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from legs.cli import main
from legs.training import Group, distributed, fit
from legs.training.distributed import PeerError, launch, processes_to_start
from tests.cli.molecules import told, write
from tests.training import parallel
from tests.training.made import made_data, made_split

WITHIN = 120  # seconds; a busy machine takes its time, and without an end it would be 600


@pytest.fixture
def quick_start(monkeypatch):
    """Processes from a server that has imported everything: they are there at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["legs.training", "tests.training.parallel"])
    monkeypatch.setattr(distributed, "START", "forkserver")
    monkeypatch.setattr(distributed, "GRACE", 2.0)


def test_gradients_of_parts_are_those_of_the_whole(quick_start, tmp_path):
    launch(2, parallel.all_gradients, {"folder": tmp_path})
    for name in parallel.KINDS:
        found, wanted = (
            load_file(tmp_path / f"{name}.safetensors"),
            parallel.gradients(name, Group()),
        )
        assert found.keys() == wanted.keys()
        assert any(value.abs().max() > 1e-3 for key, value in wanted.items() if "0 " in key)
        for key in wanted:
            torch.testing.assert_close(
                found[key],
                wanted[key],
                rtol=1e-10,
                atol=1e-10,
                msg=lambda m, k=f"{name} {key}": f"{k}: {m}",
            )


def rows(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def test_a_run_whose_process_is_killed_goes_on(quick_start, tmp_path):
    together, alone = tmp_path / "together", tmp_path / "alone"
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="process 1 terminated with signal SIGKILL; it"):
        launch(2, parallel.trained, {"folder": together, "killed": 5})
    assert time.monotonic() - start < WITHIN
    assert (together / "checkpoint.bin").exists()
    assert not (together / "results.json").exists()
    seen = len((together / "metrics.jsonl").read_text().splitlines())
    assert 4 <= seen <= 6
    launch(2, parallel.trained, {"folder": together})
    fit(made_data(), "legs-fcn", made_split(), parallel.LONG, directory=alone)
    found, wanted = rows(together / "metrics.csv"), rows(alone / "metrics.csv")
    # The same early stop, and no other files than of one process.
    assert len(found) == len(wanted) < parallel.LONG.max_epochs
    for a, b in zip(found, wanted, strict=True):
        assert a == pytest.approx(b, rel=1e-6)
    results = [json.loads((place / "results.json").read_text()) for place in (together, alone)]
    assert results[0]["best_epoch"] == results[1]["best_epoch"]
    assert results[0]["settings"] == results[1]["settings"]
    files = [
        sorted(str(p.relative_to(place)) for p in place.rglob("*")) for place in (together, alone)
    ]
    assert files[0] == files[1]
    weights = [load_file(place / "model" / "weights.safetensors") for place in (together, alone)]
    for key in weights[0]:
        torch.testing.assert_close(weights[0][key], weights[1][key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("work", "error", "message"),
    [
        (parallel.one_raises, ValueError, "^row 7 is bad"),
        (parallel.others_data, ValueError, "process 1 has other settings or data than process 0"),
        (parallel.one_lives_on, PeerError, "another process of this training ended"),
    ],
)
def test_an_error_of_one_ends_all(work, error, message, quick_start):
    start = time.monotonic()
    with pytest.raises(error, match=message) as caught:
        launch(2, work, {})
    assert time.monotonic() - start < WITHIN
    if error is ValueError:
        assert "parallel.py" in caught.value.__notes__[0]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still wait for somebody to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    program = (
        "import sys; from pathlib import Path; from legs.training import distributed;"
        "from tests.training import parallel;"
        "distributed.launch(2, parallel.sleeps, {'folder': Path(sys.argv[1])})"
    )
    root = str(Path(__file__).parents[2])
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=root) as parent:
        until = time.monotonic() + 2 * WITHIN
        try:
            while len(found := [*tmp_path.glob("*.pid")]) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            pids = [int(path.stem) for path in found]
            assert len(pids) == 2
            assert all(map(alive, pids))
        finally:
            parent.kill()
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_devices_that_are_not_there(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="devices=2, but PyTorch finds 1 GPUs"):
        processes_to_start("cuda", 2)
    assert processes_to_start("cpu", 2) == 2
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x"}.items():
        monkeypatch.setenv(name, value)
    assert processes_to_start("cpu", 2) == 2
    monkeypatch.setenv("MASTER_PORT", "1")
    assert processes_to_start("cpu", 2) == processes_to_start("cpu", 1) == 1
    with pytest.raises(ValueError, match="2 processes were started, but devices=3"):
        processes_to_start("cpu", 3)
    with pytest.raises(ValueError, match="gs-svm is not trained in batches"):
        fit(made_data(), "gs-svm", made_split(), group=Group(size=2))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    pytest.importorskip("rdkit", reason="the table holds SMILES")
    return write(tmp_path_factory.mktemp("given") / "mols.csv", ("name", "smiles", "kind"))


def scores(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "results.json").read_text())["scores"]["test"]
    return found


def test_on_the_command_line(quick_start, table, tmp_path, capfd):
    words = ["train", str(table), "--target", "kind", "--epochs", "4", "--device", "cpu"]
    words += ["--model", "legs-fcn"]
    assert main([*words, "-o", str(tmp_path / "two"), "--devices", "2"]) == 0
    assert main([*words, "-o", str(tmp_path / "one")]) == 0
    assert scores(tmp_path / "two") == pytest.approx(scores(tmp_path / "one"), rel=1e-4)
    capfd.readouterr()
    # A mistake is told once, in one line, and nothing stays behind.
    assert main([*words[:3], "none", "-o", str(tmp_path / "bad"), "--devices", "2"]) == 1
    assert "none" in told(capfd)
    assert not (tmp_path / "bad").exists()


def test_under_torchrun(table, tmp_path):
    run = tmp_path / "run"
    words = ["legs", "train", str(table), "--target", "kind", "--epochs", "2", "-o", str(run)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    program = "import sys; from legs.cli import main; sys.exit(main())"
    command = [*launcher, "--no-python", sys.executable, "-c", program, *words[1:], "--device=cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("saved in") == 1
    assert scores(run)["accuracy"] >= 0
