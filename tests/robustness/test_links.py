"""Folders that come from others: links, pipes and devices where a file is expected."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from legs.cli import main
from legs.io import FileError, append, one_writer, write_atomically, writing
from legs.models import ModelError, create, load_network
from legs.report.folders import ReportError, read_train
from legs.training import fit
from legs.training.checkpoint import load_state
from legs.training.runs import Records
from tests.cli.molecules import told, train_classes
from tests.training.made import QUICK, made_data, made_split

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of Unix")


@pytest.fixture
def mine(tmp_path):
    """A file that nobody has asked us to write."""
    file = tmp_path / "mine"
    file.write_text("precious\n")
    yield file
    assert file.read_text() == "precious\n"


def test_the_note_of_a_writer_follows_no_link(mine, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock.owner").symlink_to(mine)
    with one_writer(tmp_path / "run"):
        assert f"process {os.getpid()} " in (tmp_path / "run" / ".lock.owner").read_text()


def test_locks_follow_no_link(mine, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(mine)
    with pytest.raises(OSError, match="a link or a pipe is there"), one_writer(tmp_path / "run"):
        pass


def test_logs_follow_no_link(mine, tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to(mine)
    records = Records(tmp_path, {})
    with pytest.raises(OSError, match=r"metrics\.jsonl: a link or a pipe is there in place"):
        records.add({"epoch": 1})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a link or a pipe"):
        append(tmp_path / "pipe", "x")


def test_results_replace_links(mine, tmp_path):
    (tmp_path / "out.csv").symlink_to(mine)
    write_atomically(tmp_path / "out.csv", b"ours")
    assert (tmp_path / "out.csv").read_text() == "ours"


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("what", ["pipe", "endless device"])
def test_models_that_never_end(name, what, tmp_path):
    create("baseline", 2, 3).save(tmp_path / "model")
    file = tmp_path / "model" / name
    file.unlink()
    os.mkfifo(file) if what == "pipe" else file.symlink_to("/dev/zero")
    with pytest.raises(ModelError, match=r"is not a file|is missing"):
        load_network(tmp_path / "model")


def test_checkpoints_that_never_end(tmp_path):
    (tmp_path / "checkpoint.bin").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="is not a file"):
        load_state(tmp_path / "checkpoint.bin", {})


def test_descriptions_that_are_mostly_holes(tmp_path):
    create("baseline", 2, 3).save(tmp_path)
    os.truncate(tmp_path / "model.json", 1 << 40)
    with pytest.raises(ModelError, match="1,099,511,627,776 bytes; more than"):
        load_network(tmp_path)


def test_weights_larger_than_memory(tmp_path, monkeypatch):
    create("baseline", 2, 3).save(tmp_path)
    whole = Path.read_bytes

    def read(path):
        if path.suffix == ".safetensors":
            raise MemoryError
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(ModelError, match="more than memory holds"):
        load_network(tmp_path)


def test_a_limit_on_the_size_of_files(tmp_path, capsys):
    """As ``ulimit -f`` or some disks set it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    run = train_classes(tmp_path)
    weights = (run / "model" / "weights.safetensors").read_bytes()
    capsys.readouterr()
    words = ["predict", str(run), str(tmp_path / "classes.csv"), "-o", str(tmp_path / "out.csv")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        code = main(words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 1
    assert "out.csv: a file would grow larger than is allowed there" in told(capsys)
    assert not (tmp_path / "out.csv").exists()
    assert (run / "model" / "weights.safetensors").read_bytes() == weights


def test_a_second_run_is_told_who_is_there(tmp_path):
    """The run of another process; ``legs train`` names it."""
    hold = (
        "import sys, time; from pathlib import Path; from legs.io import one_writer\n"
        "with one_writer(Path(sys.argv[1])): print(1, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", hold, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            from legs.training.runs import run_directory

            with (
                pytest.raises(FileError, match=f"by process {process.pid} "),
                run_directory(tmp_path / "run"),
            ):
                pass
        finally:
            process.kill()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=folder)
    return folder


@pytest.mark.parametrize(
    "name", ["results.json", "metrics.csv", "test_predictions.csv", "scales.jsonl", "shown.csv"]
)
def test_results_that_changed_are_not_shown(name, finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    read_train(folder)
    content = bytearray((folder / name).read_bytes())
    digits = [k for k, byte in enumerate(content) if chr(byte).isdigit()]
    place = digits[len(digits) // 2]
    content[place] = ord("1") if content[place] != ord("1") else ord("2")
    (folder / name).write_bytes(content)
    with pytest.raises(ReportError, match=rf"{name} is damaged: its checksum is wrong"):
        read_train(folder)
    # The same command mends it: the run itself is whole.
    fit(made_data(), "legs-fcn", made_split(), QUICK, directory=folder)
    read_train(folder)
    wanted = hashlib.sha256((finished / "metrics.csv").read_bytes()).digest()
    assert hashlib.sha256((folder / "metrics.csv").read_bytes()).digest() == wanted


def test_words_for_what_is_in_the_way(tmp_path):
    with pytest.raises(OSError, match="a link or a pipe"), writing(tmp_path / "a"):
        os.open(tmp_path / "a", os.O_WRONLY | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL)
        (tmp_path / "b").symlink_to(tmp_path / "a")
        os.open(tmp_path / "b", os.O_WRONLY | os.O_NOFOLLOW)
