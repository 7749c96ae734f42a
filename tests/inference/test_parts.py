"""A part of a table has a row for every row of the input."""

from __future__ import annotations

import torch

from legs.inference.embed import part_table
from legs.inference.inputs import InputPart


def test_a_row_for_every_row_of_the_input():
    ids, where = ["a", "b"], ["line 11", "line 12"]
    part = InputPart(ids, [], where, ["no molecule", ""], [1])
    assert part_table(part, torch.ones(1, 2), ["u", "v"], 10).to_pydict() == {
        "row": [10, 11], "id": ["a", "b"], "u": [None, 1.0], "v": [None, 1.0]
    }  # fmt: skip
    part = InputPart(["c"], [], ["line 13"], [""], [0])
    assert part_table(part, torch.full((1, 2), 2.0), ["u", "v"], 12).to_pydict() == {
        "row": [12], "id": ["c"], "u": [2.0], "v": [2.0]
    }  # fmt: skip
