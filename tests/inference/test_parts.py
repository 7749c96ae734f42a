"""Parts of a table know what they hold, and are there whole or not at all."""

from __future__ import annotations

import pyarrow
import pytest
import torch
from pyarrow import parquet

from legs.inference.inputs import InputPart
from legs.inference.shards import PartHeader, part_file, read_header, write_part
from legs.io import FileError

HEADER = PartHeader(10, 3, "input", "settings")


def blocks(rows=3):
    ids, where = ["a", "b"], ["line 11", "line 12"]
    yield InputPart(ids, [], where, ["no molecule", ""], [1]), torch.ones(1, 2)
    if rows > 2:
        yield InputPart(["c"], [], ["line 13"], [""], [0]), torch.full((1, 2), 2.0)


def test_a_row_for_every_row_of_the_input(tmp_path):
    file = part_file(tmp_path, 7)
    header = write_part(file, ["u", "v"], HEADER, blocks())
    assert header == PartHeader(10, 3, "input", "settings", ((10, "line 11", "no molecule"),))
    assert read_header(file) == header
    assert parquet.read_table(file, page_checksum_verification=True).to_pydict() == {
        "row": [10, 11, 12],
        "id": ["a", "b", "c"],
        "u": [None, 1.0, 2.0],
        "v": [None, 1.0, 2.0],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["part-000007.parquet"]


def test_nothing_is_left_of_a_part_that_is_not_whole(tmp_path):
    file = part_file(tmp_path, 0)
    assert read_header(file) is None
    with pytest.raises(AssertionError, match="2 rows, not 3"):
        write_part(file, ["u", "v"], HEADER, blocks(2))
    assert list(tmp_path.iterdir()) == []


def test_damaged_and_strange_files_are_named(tmp_path):
    file = part_file(tmp_path, 0)
    write_part(file, ["u", "v"], HEADER, blocks())
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(FileError, match=r"part-000000\.parquet is damaged.*delete it"):
        read_header(file)
    parquet.write_table(pyarrow.table({"a": [1]}), file)
    with pytest.raises(FileError, match="is damaged"):
        read_header(file)
    for text in ("1", "[]", '"a"', '{"bad": 1}'):
        table = pyarrow.table({"a": [1]}).replace_schema_metadata({"legs": text})
        parquet.write_table(table, file)
        with pytest.raises(FileError, match="is damaged"):
            read_header(file)
