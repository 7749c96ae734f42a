"""Full disks and places that cannot be written: one clear line, and what was there stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from legs.cli import main
from tests.cli.molecules import told, train_classes, write
from tests.data.tu_sets import write_zip
from tests.fuzz.target import listing
from tests.robustness.made import tu_parts

pytest.importorskip("rdkit", reason="the tables hold SMILES")
QUICK = ("--epochs", "2", "--model", "baseline")
FULL = "no space is left on the disk; make room, and run the same command again"


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A table, a trained model and a small data set."""
    folder = tmp_path_factory.mktemp("given")
    train_classes(folder)
    write(folder / "mols.csv", ("name", "smiles", "kind"))
    write_zip(folder / "SMALL.zip", tu_parts(), name="SMALL")
    write_zip(folder / "data" / "tu" / "MUTAG.zip", tu_parts(), name="MUTAG")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEGS_DATA", str(folder / "data"))
        yield folder


def commands(given: Path, place: Path) -> dict[str, list[str]]:
    """Every command that writes, with its output in ``place``."""
    run, table = str(given / "run"), str(given / "mols.csv")
    cv = ["--folds", "3", "--rotations", "1", "--strategy", "stacked"]
    return {
        "train": ["train", table, "--target", "kind", "-o", str(place / "train"), *QUICK],
        "cv": ["cv", str(given / "SMALL.zip"), "-o", str(place / "cv"), *QUICK, *cv],
        "predict": ["predict", run, table, "-o", str(place / "out.csv")],
        "embed": ["embed", "legs-fixed", table, "-o", str(place / "out.parquet")],
        "stats": ["reproduce", "dataset-stats", "--datasets", "MUTAG", "-o", str(place / "stats")],
    }


COMMANDS = tuple(commands(Path(), Path()))


def contents(folder: Path) -> dict[str, bytes]:
    """All files but locks."""
    return {n: (folder / n).read_bytes() for n in listing(folder) if ".lock" not in n}


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A disk of two megabytes in memory."""
    place = tmp_path_factory.mktemp("disk")
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only the administrator can mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes all space that is left."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return filler


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk(name, given, small_disk, capsys):
    words = commands(given, small_disk)[name]
    filler = fill(small_disk)
    try:
        assert main(words) == 1
        assert FULL in told(capsys)
        assert not [n for n in contents(small_disk) if n != "filler" and not n.endswith(".jsonl")]
    finally:
        filler.unlink()
    # Room was made: the same command, then the same with what it wrote in danger.
    assert main(words) == 0
    whole = contents(small_disk)
    capsys.readouterr()
    filler = fill(small_disk)
    try:
        code = main(words)
        assert code == 0 or FULL in told(capsys)
        found = contents(small_disk)
        del found["filler"]
        assert found.keys() == whole.keys()
        changed = {n for n in whole if found[n] != whole[n]}
        assert not changed or code == 0
    finally:
        filler.unlink()
        for path in small_disk.iterdir():
            subprocess.run(["rm", "-rf", str(path)], check=True)
        capsys.readouterr()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_that_cannot_be_written(name, given, tmp_path_factory, capsys):
    place = tmp_path_factory.mktemp("closed")
    words = commands(given, place)[name]
    if os.geteuid() == 0:  # to whom permissions are no hindrance
        try:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)],
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("a disk that cannot be written cannot be mounted here")
    else:
        place.chmod(0o555)
    try:
        assert main(words) == 1
        message = told(capsys)
        assert "no permission to write there" in message
        assert str(place) in message
        assert list(place.iterdir()) == []
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(place)], check=True)
        else:
            place.chmod(0o755)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_below_a_file(name, given, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(commands(given, tmp_path / "file")[name]) == 1
    assert str(tmp_path / "file") in told(capsys)
    assert (tmp_path / "file").read_text() == "mine"
