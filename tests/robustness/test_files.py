"""Whole or absent, one writer, known checksums: what everything on disk is written with."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from legs.io import (
    FileError,
    check_digest,
    check_files,
    file_digests,
    one_writer,
    open_temporary,
    parse_json,
    with_digest,
    write_atomically,
)
from legs.io import atomic as module
from legs.io.atomic import clear_leftovers

HOLD = """
import sys, time
from pathlib import Path
from legs.io import one_writer, open_temporary
with one_writer(Path(sys.argv[1])) as folder:
    open_temporary(folder / "half.bin").file.write(b"half")
    print("held", flush=True)
    time.sleep(600)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_many_writers_of_one_file(tmp_path):
    """Nobody takes the new file of another for a leftover, not even before it is locked."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: write_atomically(tmp_path / "a", b"%d" % k), range(1000)))
    assert names(tmp_path) == ["a"]


def test_the_order_of_things(tmp_path, monkeypatch):
    """Content on the disk, then the name, then the folder: else a crash may show half a file."""
    done = []
    sync, replace = os.fsync, os.replace

    def fsync(handle):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        sync(handle)

    def rename(a, b):
        done.append("rename")
        replace(a, b)

    monkeypatch.setattr(module.os, "fsync", fsync)
    monkeypatch.setattr(module.os, "replace", rename)
    write_atomically(tmp_path / "a", b"1")
    assert done == ["file", "rename", "folder"]
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_was_there_stays(call, number, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")

    def fail(*given, **more):
        raise OSError(number, os.strerror(number), str(tmp_path / "a"))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, fail)
        with pytest.raises(OSError, match=r"a: no (space is left|permission to write)") as caught:
            write_atomically(tmp_path / "a", b"new")
        assert str(caught.value).startswith(str(tmp_path / "a"))
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_others_may_read_it(tmp_path):
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_leftovers_of_the_dead_only(tmp_path):
    ours = open_temporary(tmp_path / "a")
    mine = [".a.txt", ".a.legs-12345678.tmpx", "a.legs-abcdefgh.tmp", ".a.abcdefgh.tmp"]
    for name in (".a.legs-abcdefgh.tmp", ".b.legs-abcdefgh.tmp", *mine):
        (tmp_path / name).write_text("")
    clear_leftovers(tmp_path, "a")
    assert names(tmp_path) == sorted([*mine, ".b.legs-abcdefgh.tmp", ours.path.name])
    clear_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*mine, ours.path.name])
    ours.drop()
    assert names(tmp_path) == sorted(mine)


@pytest.fixture
def holder(tmp_path):
    """Another process that writes a folder."""
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield folder, process
        process.kill()


def test_another_process_is_named_and_its_death_frees_the_folder(holder):
    folder, process = holder
    with pytest.raises(FileError) as caught, one_writer(folder):
        pass
    told = str(caught.value)
    assert (
        f"is being written by process {process.pid} (-c {folder}) on {platform.node()}, since 20"
        in told
    )
    assert told.endswith("wait for it, or choose another directory")
    assert [name for name in names(folder) if name.startswith(".half.bin.")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    with one_writer(folder):
        assert names(folder) == [".lock", ".lock.owner"]
    assert folder.is_dir()


def test_threads_of_one_process(tmp_path):
    told = []

    def second():
        try:
            with one_writer(tmp_path / "run"):
                told.append("got it")
        except FileError as error:
            told.append(str(error))

    with one_writer(tmp_path / "run") as folder:
        with one_writer(Path(os.path.relpath(folder))):  # the same by another name
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()
            assert "by another thread of this process" in told[0]
        (folder / "kept").touch()
    second()
    assert told[1:] == ["got it"]
    assert names(tmp_path / "run") == [".lock", "kept"]


def test_a_new_folder_without_content_goes(tmp_path):
    with pytest.raises(KeyError), one_writer(tmp_path / "a" / "run"):
        raise KeyError
    assert names(tmp_path / "a") == []
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="is a file"), one_writer(tmp_path / "file"):
        pass
    below = one_writer(tmp_path / "file" / "run")
    with pytest.raises(OSError, match="a part of this path is a file"), below:
        pass


def test_digests_of_values(tmp_path):
    known = {"b": (1, 2), "a": {"x": 0.1, "y": None}, "z": "ü"}
    sealed = with_digest(known)
    path = tmp_path / "some.json"
    assert check_digest(json.loads(json.dumps(sealed)), path) == {**known, "b": [1, 2]}
    assert check_digest({"a": 1}, path) == {"a": 1}  # of an older version
    for changed in ({**sealed, "b": [1, 3]}, {**sealed, "c": 1}, {**sealed, "sha256": "0"}):
        with pytest.raises(FileError, match=r"some\.json is damaged: its checksum is wrong; ask"):
            check_digest(changed, path, "ask")
    with pytest.raises(FileError, match="holds no table"):
        check_digest([], path)
    for text in (b"{", b"\xff", b"[" * 100_000, b"9" * 5_000):
        with pytest.raises(ValueError, match=r"."):
            parse_json(text)


def test_digests_of_files(tmp_path):
    (tmp_path / "a").write_text("1")
    found = file_digests(tmp_path, ["a", "none"])
    assert list(found) == ["a"]
    check_files(tmp_path, {**found, "gone": "0"})
    (tmp_path / "a").write_text("2")
    with pytest.raises(FileError, match=r"a is damaged"):
        check_files(tmp_path, found)
    with pytest.raises(FileError, match="list of checksums"):
        check_files(tmp_path, [])


def test_names_that_no_file_can_have(tmp_path):
    """In the list of checksums of a damaged file, for example."""
    (tmp_path / "a").write_bytes(b"1")
    assert list(file_digests(tmp_path, ["a", "x" * 5000, "a\0b", "none"])) == ["a"]
