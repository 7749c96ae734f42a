"""Some hundred inputs to every parser: a data set, a model, or an error for people; no trace left.

``python -m tests.fuzz`` tries as many as one likes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.target import listing
from tests.fuzz.targets import NAMES, all_targets

INPUTS = 200
COMMANDS, FEW = "legs ", 40  # what whole commands do takes longer
SLOWEST = 10.0  # seconds of processor time for one input


@pytest.fixture(scope="module")
def place():
    shared = Path("/dev/shm")
    found = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield found
    shutil.rmtree(found)


def target_of(name):
    for target in all_targets():
        if target.name == name:
            return target
    pytest.skip(f"{name}: a package is missing")


def test_names():
    made = [target.name for target in all_targets()]
    assert len(set(made)) == len(made)
    assert set(made) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_valid_files_are_accepted(name, place):
    target = target_of(name)
    for number, seed in enumerate(target.seeds):
        folder = place / f"{name} {number}".replace(" ", "_")
        folder.mkdir()
        assert target.try_one(folder, seed) == "accepted"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_read_or_refused(name, place):
    target = target_of(name)
    folder = place / name.replace(" ", "_")
    folder.mkdir()
    outcomes = Counter()
    inputs = FEW if name.startswith(COMMANDS) else INPUTS

    @settings(
        max_examples=inputs,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64 - 1))
    def tried(number):
        from random import Random

        files = target.input(Random(f"{name} {number}"))
        outcomes[target.try_one(folder, files)] += 1

    tried()
    # Inputs that are all refused at the first look would show nothing.
    assert outcomes["refused"] > inputs / 20
    assert listing(folder)
