"""The lowest versions that ``make test-lowest`` installs."""

import re

import pytest

from tests.lowest import PROJECT, constraints, lower_bounds


def test_every_package_has_a_bound():
    text = PROJECT.read_text(encoding="utf-8")
    found = lower_bounds(text)
    assert {"torch", "torch_geometric", "numpy", "scipy", "rdkit", "biotite", "ray"} <= set(found)
    listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)[1]
    assert set(re.findall(r'"([\w-]+)', listed)) <= set(found)


def test_bounds_can_be_replaced_but_not_invented():
    text = PROJECT.read_text(encoding="utf-8")
    assert "torch==9.9" in constraints(text, ["torch==9.9"])
    with pytest.raises(SystemExit, match="tensorflow is none of the packages"):
        constraints(text, ["tensorflow==1"])
