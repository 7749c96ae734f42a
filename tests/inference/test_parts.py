"""A part of a table has a row for every row of the input."""

from __future__ import annotations

import pyarrow as pa
import torch

from legs.inference.embed import part_table
from legs.inference.inputs import InputPart


def written(table):
    return pa.Table.from_pandas(table, preserve_index=False).to_pydict()


def test_a_row_for_every_row_of_the_input():
    ids, where = ["a", "b"], ["line 11", "line 12"]
    part = InputPart(ids, [], where, ["no molecule", ""], [1])
    assert written(part_table(part, torch.ones(1, 2), ["u", "v"], 10)) == {
        "row": [10, 11], "id": ["a", "b"], "u": [None, 1.0], "v": [None, 1.0]
    }  # fmt: skip
    part = InputPart(["c"], [], ["line 13"], [""], [0])
    assert written(part_table(part, torch.full((1, 2), 2.0), ["u", "v"], 12)) == {
        "row": [12], "id": ["c"], "u": [2.0], "v": [2.0]
    }  # fmt: skip
