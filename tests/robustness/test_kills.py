"""Commands that are killed and started again end with the results of an undisturbed run."""

from __future__ import annotations

from random import Random

import pytest

from tests.robustness.kills import Forked, cases, disturb

pytest.importorskip("rdkit", reason="the tables hold SMILES")
NAMES = ("train", "cv", "embed", "reproduce")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    found = {case.name: case for case in cases(folder, epochs=20)}
    assert tuple(found) == NAMES
    return folder, found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost(name, made, tmp_path):
    folder, found = made
    counts = disturb(found[name], tmp_path, Forked, 2, 2, Random(name), folder / "data")
    assert counts.kills >= 2
    assert counts.lost == 0, counts.faults
    assert counts.faults == []
