"""``legs demo`` on a few of its compounds."""

import pytest

pytest.importorskip("rdkit", reason="the demo reads the compounds inside RDKit's package")

from legs.cli import main


def test_demo_trains_every_model_and_says_where_things_are(capsys, tmp_path):
    from legs.cli.demo import EPOCHS

    assert main(["demo", "--limit", "60", "-o", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    assert "compounds" in out
    assert "skipped" in out
    assert "mean predictor" in out
    for name in EPOCHS:
        assert name in out
        assert (tmp_path / "demo" / name / "model" / "model.json").is_file()
        assert (tmp_path / "demo" / name / "test_predictions.csv").is_file()
    assert "legs train" in out
    assert f"legs report {tmp_path / 'demo'}" in out.replace("\n", "")
    assert (tmp_path / "demo" / "demo.json").is_file()
