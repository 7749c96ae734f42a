"""``legs demo`` on a few of its compounds."""

import pytest

pytest.importorskip("rdkit", reason="the demo reads the compounds inside RDKit's package")

from legs.cli import main


def test_demo_prints_a_row_for_each_property(capsys):
    from legs.experiments.demo import PROPERTIES

    assert main(["demo", "--limit", "120"]) == 0
    out = capsys.readouterr().out
    assert "compounds" in out
    assert "skipped" in out
    for name in PROPERTIES:
        assert name in out
