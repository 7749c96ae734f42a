"""Tables that are written part by part, whole or not at all."""

from __future__ import annotations

import errno
import os

import pandas as pd
import pytest

from legs.data import DataError
from legs.inference import table_writer
from legs.inference.table_writer import TableWriter


def parts():
    strings = pd.array(["a", None], dtype="string")
    empty = pd.array([None], dtype="string")
    return [
        pd.DataFrame({"id": strings, "x": pd.Series([1.5, None], dtype="float32")}),
        pd.DataFrame({"id": empty, "x": pd.Series([2.5], dtype="float32")}),
    ]


@pytest.mark.parametrize("ending", table_writer.ENDINGS)
@pytest.mark.parametrize("group", [1, 10**9])
def test_parts_one_after_another(ending, group, tmp_path, monkeypatch):
    monkeypatch.setattr(table_writer, "GROUP_BYTES", group)
    file = tmp_path / f"table{ending}"
    with TableWriter(file) as writer:
        for part in parts():
            writer.add(part)
        assert not file.exists()
    assert writer.rows == 3
    readers = {".csv": pd.read_csv, ".tsv": lambda f: pd.read_csv(f, sep="\t")}
    table = readers.get(ending, pd.read_parquet)(file)
    assert [v if isinstance(v, str) else None for v in table["id"]] == ["a", None, None]
    assert table["x"].isna().tolist() == [False, True, False]
    assert table["x"].dropna().tolist() == [1.5, 2.5]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_others_may_read_it(tmp_path):
    mask = os.umask(0o022)
    try:
        with TableWriter(tmp_path / "a.csv") as writer:
            writer.add(parts()[0])
    finally:
        os.umask(mask)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("ending", table_writer.ENDINGS)
def test_after_an_error_the_old_file_is_there(ending, tmp_path):
    file = tmp_path / f"table{ending}"
    file.write_text("old")
    with pytest.raises(KeyError), TableWriter(file) as writer:
        writer.add(parts()[0])
        raise KeyError
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("ending", table_writer.ENDINGS)
def test_a_full_disk(ending, tmp_path, monkeypatch):
    file = tmp_path / f"table{ending}"
    writer = TableWriter(file)

    class Full:
        """A file on a full disk."""

        closed = False

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self):
            pass

        def close(self):
            self.closed = True

    with pytest.raises(OSError, match="no space is left"), writer:
        writer._file.close()
        writer._file = Full()
        for part in parts():
            writer.add(part)
    assert list(tmp_path.iterdir()) == []


def test_places(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, word in (
        ("out.xls", "ends in"),
        ("folder.csv", "is a folder"),
        ("none/out.csv", "not a folder"),
    ):
        with pytest.raises(DataError, match=word):
            TableWriter(tmp_path / name)
    TableWriter(tmp_path / "out.csv")
